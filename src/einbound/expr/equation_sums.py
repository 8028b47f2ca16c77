"""Sums of products before they are equations: expanded, permuted, renamed.

Nothing here knows where they came from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, count, permutations
from math import comb, factorial, isfinite
from numbers import Complex, Rational, Real
from typing import Any, TypeAlias

from einbound.expr.equations import Coefficient, Term

Sum: TypeAlias = tuple[Term, ...]

#: A letter of any script, digits behind it or behind an underscore.
LABEL = re.compile(r"[^\W\d_](?:_?\d+)?")
#: What a tensor may be called.
NAME = re.compile(r"[^\W\d]\w*")
UNIT = Term(Fraction(1), ())
#: Arithmetic takes coefficients as floats.
LARGEST = Fraction(sys.float_info.max)


def number(value: Any) -> Coefficient | None:
    """A number as coefficients are kept: exact if it is rational, real if it can be.

    None for what is no finite number.

    Example:
        >>> number(2), number(0.5), number(1 + 0j), number("2")
        (Fraction(2, 1), 0.5, 1.0, None)
    """
    match value:
        case bool():
            return None
        case Rational():
            made = Fraction(int(value.numerator), int(value.denominator))
            return made if abs(made) <= LARGEST else None
        case Real():
            return float(value) if isfinite(value) else None
        case Complex():
            real, imaginary = float(value.real), float(value.imag)
            if not (isfinite(real) and isfinite(imaginary)):
                return None
            return complex(real, imaginary) if imaginary else real
    return None


def scaled(what: Sum, by: Coefficient) -> Sum:
    """Every term times a number."""
    return tuple(replace(term, coefficient=_product(term.coefficient, by)) for term in what)


def product(left: Sum, right: Sum) -> Sum:
    """All products of a term of each; a label means the same on both sides."""
    return tuple(
        Term(_product(a.coefficient, b.coefficient), (*a.factors, *b.factors))
        for a in left
        for b in right
    )


def gathered(what: Sum) -> Sum:
    """The same with all pure numbers as one, which `(1 + 2j)` is."""
    numbers = [term.coefficient for term in what if not term.factors]
    if len(numbers) < 2:
        return what
    total: Coefficient = Fraction(0)
    for each in numbers:
        total = _finite(number(total + each))
    return (Term(total, ()), *(term for term in what if term.factors))


def _product(left: Coefficient, right: Coefficient) -> Coefficient:
    return _finite(number(left * right))


def _finite(value: Coefficient | None) -> Coefficient:
    if value is None:
        raise OverflowError("a coefficient is not finite")
    return value


def renamed(term: Term, names: Mapping[str, str]) -> Term:
    """A term under other labels; those that `names` lacks stay."""
    return replace(
        term,
        factors=tuple(
            replace(each, indices=tuple(names.get(label, label) for label in each.indices))
            for each in term.factors
        ),
    )


def aligned(term: Term, output: tuple[str, ...], target: tuple[str, ...]) -> Term:
    """A term whose result has the labels `output`, brought to those of its target.

    Summed labels that would then be confused with the target's get fresh names.

    Example:
        >>> from einbound.expr.equations import Factor
        >>> str(aligned(Term(1.0, (Factor("A", ("p", "i")),)), ("p",), ("i",)))
        'A[i,i1]'
    """
    names = dict(zip(output, target, strict=True))
    taken = {*term.indices, *target}
    for label in term.indices:
        if label not in names and label in target:
            names[label] = fresh(label, taken)
            taken.add(names[label])
    return renamed(term, names)


def fresh(label: str, taken: Collection[str]) -> str:
    """A label of the same letter, and so of the same space, that is not yet taken."""
    return next(name for n in count(1) if (name := f"{label[0]}{n}") not in taken)


@dataclass(frozen=True, slots=True)
class Permutation:
    """A permutation operator: a signed sum over exchanges of groups of labels.

    Attributes:
        groups: What is exchanged, all of one length. Of `P(i,j)`, ("i",) and ("j",).
        first: How many of them stand before a slash: only exchanges of these with the others are
            summed over. None without a slash: all permutations are.
        antisymmetric: Whether odd permutations count negative.
    """

    groups: tuple[tuple[str, ...], ...]
    first: int | None = None
    antisymmetric: bool = True

    @property
    def n_terms(self) -> int:
        """Terms that it makes of one."""
        if self.first is None:
            return factorial(len(self.groups))
        return comb(len(self.groups), self.first)

    def __call__(self, what: Sum) -> Sum:
        """What the operator makes of a sum."""
        return tuple(
            renamed(replace(term, coefficient=_product(term.coefficient, sign)), names)
            for term in what
            for sign, names in self._images()
        )

    def _images(self) -> list[tuple[Fraction, dict[str, str]]]:
        orders = self._shuffles() if self.first is not None else self._all()
        return [
            (
                Fraction(sign if self.antisymmetric else 1),
                {
                    old: new
                    for group, at in zip(self.groups, order, strict=True)
                    for old, new in zip(group, self.groups[at], strict=True)
                },
            )
            for sign, order in orders
        ]

    def _all(self) -> list[tuple[int, tuple[int, ...]]]:
        return [(_sign(order), order) for order in permutations(range(len(self.groups)))]

    def _shuffles(self) -> list[tuple[int, tuple[int, ...]]]:
        """Each choice of some groups before the slash, exchanged with as many behind it."""
        left, right = range(self.first or 0), range(self.first or 0, len(self.groups))
        made = []
        for n in range(min(len(left), len(right)) + 1):
            for ours in combinations(left, n):
                for theirs in combinations(right, n):
                    order = list(range(len(self.groups)))
                    for a, b in zip(ours, theirs, strict=True):
                        order[a], order[b] = b, a
                    made.append((-1 if n % 2 else 1, tuple(order)))
        return made


def _sign(order: tuple[int, ...]) -> int:
    return -1 if sum(a > b for a, b in combinations(order, 2)) % 2 else 1
