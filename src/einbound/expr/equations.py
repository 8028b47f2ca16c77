"""A system of equations: targets, and the sums of products that make them.

Records only; text and other forms are read elsewhere, values are shared in `forest`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

#: An exact number where the text gives one, else a float or a complex number.
Coefficient: TypeAlias = Fraction | float | complex
#: Where something stands in a text, as (start, stop).
Span: TypeAlias = tuple[int, int]


class Access(Enum):
    """How a tensor of a system comes by its values."""

    GIVEN = "given"
    STREAMED = "streamed"
    COMPUTED = "computed"


@dataclass(frozen=True, slots=True)
class Factor:
    """A tensor with the index of each of its axes; without axes it is a scalar.

    Attributes:
        name: The tensor.
        indices: The label of each axis; a label that occurs twice is a diagonal.
        span: Where it stands in the text of its system; None if it came otherwise.
    """

    name: str
    indices: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}[{','.join(self.indices)}]" if self.indices else self.name


@dataclass(frozen=True, slots=True)
class Term:
    """A number times a product of tensors, summed over every index that the target lacks."""

    coefficient: Coefficient
    factors: tuple[Factor, ...]

    @property
    def indices(self) -> tuple[str, ...]:
        """Its labels, each once, in the order in which they first occur."""
        return tuple(dict.fromkeys(label for each in self.factors for label in each.indices))

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where its factors stand in the text."""
        return tuple(each.span for each in self.factors if each.span is not None)

    def __str__(self) -> str:
        return " ".join(map(str, self.factors)) or str(self.coefficient)


@dataclass(frozen=True, slots=True)
class Equation:
    """A target and the terms whose sum it is.

    Attributes:
        target: The tensor that is made; no label occurs twice.
        terms: At least one. Permutation operators are written out.
        line: Line of the text that it begins on, from 1; None if it came otherwise.
    """

    target: Factor
    terms: tuple[Term, ...]
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Space:
    """What all indices of one kind have in common.

    Attributes:
        name: As users write it.
        labels: The labels that belong to it. With a letter, its labels with digits belong to it
            too, unless another space lists them.
        extent: Number of elements; None where the arrays tell.
        tiles: Width of its tiles, their boundaries, or None.
        span: Where its name stands in the text of its system; None if it came otherwise.
    """

    name: str
    labels: tuple[str, ...]
    extent: int | None = None
    tiles: int | tuple[int, ...] | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Declared:
    """What is said of one tensor besides its indices.

    Attributes:
        name: The tensor.
        is_volatile: Whether it changes with every evaluation.
        access: Whether it is an array, read block by block, or computed on demand.
        span: Where this is said in the text of its system; None if it came otherwise.
    """

    name: str
    is_volatile: bool = False
    access: Access = Access.GIVEN
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class System:
    """Equations in an order in which they can be evaluated, each target made once.

    Attributes:
        equations: A target may be read by later equations; then it is a named intermediate, and
            it is returned only if `targets` names it.
        targets: What is returned, in the order of the equations.
        spaces: Kinds of indices.
        declared: What is said of tensors.
        text: What the caller wrote, if it was text; the records' spans are places in it.
    """

    equations: tuple[Equation, ...]
    targets: tuple[str, ...]
    spaces: tuple[Space, ...] = ()
    declared: tuple[Declared, ...] = ()
    text: str | None = field(default=None, compare=False)

    def space_of(self, label: str) -> Space | None:
        """The space that a label belongs to; None if it belongs to none.

        Example:
            >>> occupied = Space("occ", ("i", "j"), extent=4)
            >>> System((), (), (occupied,)).space_of("i1").name
            'occ'
        """
        return self._owners.get(label) or self._owners.get(label[:1])

    def extent_of(self, label: str) -> int | None:
        """The extent that the label's space gives it; None where arrays tell."""
        space = self.space_of(label)
        return None if space is None else space.extent

    @cached_property
    def leaves(self) -> tuple[str, ...]:
        """The tensors that no equation makes, in the order in which they are first read."""
        made = {equation.target.name for equation in self.equations}
        read = (factor.name for factor in self.factors)
        return tuple(name for name in dict.fromkeys(read) if name not in made)

    @property
    def factors(self) -> Iterator[Factor]:
        """Every factor of every term, in order."""
        for equation in self.equations:
            for term in equation.terms:
                yield from term.factors

    @cached_property
    def _owners(self) -> dict[str, Space]:
        return {label: space for space in self.spaces for label in space.labels}


def unread(equations: tuple[Equation, ...]) -> tuple[str, ...]:
    """The targets that no equation reads, in order: these are returned in any case."""
    read = {each.name for equation in equations for t in equation.terms for each in t.factors}
    return tuple(each.target.name for each in equations if each.target.name not in read)
