"""A forest while it is rewritten: sums of products by the value that they make.

How forests become this and come back is in `translation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from einbound.expr.equations import Coefficient
from einbound.forest.canonical import Key
from einbound.forest.products import Body, Product, Sum
from einbound.forest.registry import Form, Registry


@dataclass(frozen=True)
class Algebra:
    """Sums by the number of the value that they make.

    Attributes:
        registry: What the numbers mean.
        sums: At least one product each.
        targets: Values that are returned.
    """

    registry: Registry
    sums: Mapping[int, Sum]
    targets: tuple[int, ...]

    def changed(self, changes: Mapping[int, Sum]) -> Algebra:
        """The same with other sums; an empty one takes its value away."""
        sums = {**self.sums, **changes}
        return replace(self, sums={value: total for value, total in sums.items() if total})

    @cached_property
    def reads(self) -> dict[int, list[tuple[int, int]]]:
        """For each value, the products that read it, as (value made, position), once per factor."""
        found: dict[int, list[tuple[int, int]]] = {}
        for made, total in self.sums.items():
            for n, product in enumerate(total):
                for value, _ in product.body.factors:
                    found.setdefault(value, []).append((made, n))
        return found

    @property
    def is_integral(self) -> bool:
        """Whether all numbers are integers."""
        numbers = (product.coefficient for total in self.sums.values() for product in total)
        return all(isinstance(n, Fraction) and n.denominator == 1 for n in numbers)

    @cached_property
    def known(self) -> dict[Key, tuple[int, Form]]:
        """The values that are made, by what they are."""
        found: dict[Key, tuple[int, Form]] = {}
        for value in sorted(self.sums, key=lambda value: self.registry.ids[value]):
            form = self.registry.form(self.sums[value])
            found.setdefault(form.key, (value, form))
        return found


@dataclass(frozen=True, slots=True)
class Entered:
    """A sum as a value of a forest.

    Attributes:
        algebra: The forest with the value.
        value: The value's number.
        scale: The sum is this times the value.
        axes: For each axis of the value, the axis of the sum.
    """

    algebra: Algebra
    value: int
    scale: Coefficient
    axes: tuple[int, ...]

    def read(self, body: Body, mask: int, frame: tuple[int, ...]) -> Body:
        """A product with the value in the place of some factors.

        Args:
            body: The product.
            mask: The factors whose place it takes.
            frame: The product's index of each axis of the sum.
        """
        return body.replaced(mask, (self.value, tuple(frame[axis] for axis in self.axes)))


def value_of(algebra: Algebra, total: Sum) -> int | None:
    """The value that a sum is a multiple of, if there is one."""
    form = algebra.registry.form(total)
    made = algebra.registry.number(form)
    if made in algebra.sums:
        return made
    known = algebra.known.get(form.key)
    return known[0] if known else None


def entered(algebra: Algebra, total: Sum) -> Entered:
    """A sum as a value: one that is there already, or a new one."""
    registry = algebra.registry
    form = registry.form(total)
    if registry.number(form) not in algebra.sums and form.key in algebra.known:
        value, theirs = algebra.known[form.key]
        axes = tuple(form.order[theirs.order.index(axis)] for axis in range(len(form.order)))
        return Entered(algebra, value, form.scale / theirs.scale, axes)
    value = registry.made_of(form, total)
    if value not in algebra.sums:
        ordered = tuple(
            Product(
                each.coefficient / form.scale,
                Body(each.body.factors, tuple(each.body.output[a] for a in form.order)).numbered(),
            )
            for each in total
        )
        algebra = algebra.changed({value: ordered})
    return Entered(algebra, value, form.scale, form.order)
