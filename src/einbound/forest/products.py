"""Sums of products of values, while a forest is rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import TypeAlias

from einbound.expr.equations import Coefficient

#: A value with the index of each of its axes; an index that occurs twice is a diagonal.
Factor: TypeAlias = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Body:
    """A contraction. Index numbers are its own.

    Attributes:
        factors: What is multiplied; all indices that `output` lacks are summed.
        output: The index of each axis of what it is added into.
    """

    factors: tuple[Factor, ...]
    output: tuple[int, ...]

    def uses(self, mask: int) -> tuple[Factor, ...]:
        """The factors whose positions are in a mask."""
        return tuple(f for k, f in enumerate(self.factors) if mask >> k & 1)

    def open(self, mask: int) -> tuple[int, ...]:
        """The indices of some factors that others or the output have, too, rising."""
        inside = {i for _, indices in self.uses(mask) for i in indices}
        outside = {i for _, indices in self.uses(~mask) for i in indices}
        return tuple(sorted(inside & outside.union(self.output)))

    def part(self, mask: int, output: tuple[int, ...]) -> Body:
        """Some of the factors, as a contraction of their own."""
        return Body(self.uses(mask), output).numbered()

    def replaced(self, mask: int, factor: Factor) -> Body:
        """The same with one factor, the last, in the place of some."""
        return Body((*self.uses(~mask), factor), self.output)

    def numbered(self) -> Body:
        """The same with indices numbered as they occur."""
        new = {index: n for n, index in enumerate(self.indices)}
        factors = tuple((v, tuple(new[i] for i in indices)) for v, indices in self.factors)
        return Body(factors, tuple(new[i] for i in self.output))

    @property
    def indices(self) -> tuple[int, ...]:
        """All indices, as they occur."""
        inside = (i for _, indices in self.factors for i in indices)
        return tuple(dict.fromkeys((*self.output, *inside)))

    @property
    def is_renamed(self) -> bool:
        """Whether it is one value with its axes permuted."""
        if len(self.factors) != 1:
            return False
        indices = self.factors[0][1]
        return len(set(indices)) == len(indices) == len(self.output)


@dataclass(frozen=True, slots=True)
class Product:
    """A number times a contraction."""

    coefficient: Coefficient
    body: Body


Sum: TypeAlias = tuple[Product, ...]


def exact(number: Coefficient) -> Coefficient:
    """A real number as a fraction, so that quotients and sums of coefficients are exact."""
    if isinstance(number, complex) or not isfinite(number):
        return number
    return Fraction(number)
