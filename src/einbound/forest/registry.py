"""The values of a forest that is rewritten, and what sums of their products are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import prod
from typing import TypeAlias

from einbound.expr.equations import Coefficient
from einbound.forest.canonical import Atom, Canonical, Key, canonical
from einbound.forest.forest import Kind, Value
from einbound.forest.products import Body, Factor, Sum

#: An order of axes.
Order: TypeAlias = tuple[int, ...]

#: Orders of the same axes that mean the same; where there are more, one of them is used.
MOST_WAYS = 24


@dataclass(frozen=True, slots=True)
class Form:
    """What a sum is, whatever its axes are called and in which order they are.

    The sum is `scale` times the tensor that the key names, and axis `order[n]` of the sum is axis
    n of that tensor.

    Attributes:
        key: Equal for two sums if and only if one is a multiple of the other, axes permuted.
        scale: The factor that the key leaves out.
        order: The axes of the sum in the order of the key.
        ways: The orders in which the tensor's own axes can be read and it stays the same.
    """

    key: Key
    scale: Coefficient
    order: Order
    ways: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Normal:
    """A product as all products are written that are equal to it.

    Attributes:
        key: What it is.
        body: How it is written.
        indices: For each index of `body` that of the product as it came.
    """

    key: Key
    body: Body
    indices: tuple[int, ...]


#: Marks of indices in keys: terms of a sum, summed indices, open ones, from there on fixed ones.
TERM, SUMMED, OPEN, FIXED = -1, 0, 1, 2


class Registry:
    """The values of a forest by number; those that rewriting makes are entered once, by content."""

    def __init__(self, values: Iterable[Value]) -> None:
        self.values = list(values)
        self.ids = [value.name for value in self.values]
        self.made: dict[str, int] = {}
        self.ways: list[tuple[Order, ...]] = [(tuple(range(len(v.shape))),) for v in self.values]
        self._forms: dict[Sum, Form] = {}
        self._normal: dict[Body, Normal] = {}
        self._names: dict[Key, str] = {}

    def atoms(self, factors: Iterable[Factor]) -> list[Atom]:
        """Factors as canonical forms take them: a symmetric one in all its ways at once."""
        return [(self.ids[v], image) for v, indices in factors for image in self.images(v, indices)]

    def images(self, value: int, indices: tuple[int, ...]) -> list[tuple[int, ...]]:
        """All ways to write the indices of a value that mean the same."""
        return sorted({tuple(indices[axis] for axis in way) for way in self.ways[value]})

    def learn(self, value: int, total: Sum) -> None:
        """Take note of the symmetries that a value has by what it is made from."""
        form = self.form(total)
        # Those of the form, from the order of its axes to that of the value's.
        at = [form.order.index(axis) for axis in range(len(form.order))]
        self.ways[value] = tuple(tuple(form.order[way[n]] for n in at) for way in form.ways)

    def form(self, total: Sum) -> Form:
        """The canonical form of a sum."""
        known = self._forms.get(total)
        if known is None:
            scales = dict.fromkeys(product.coefficient for product in total if product.coefficient)
            forms = [self._form(total, scale) for scale in scales or (Fraction(1),)]
            best = min(forms, key=lambda form: (self._scaled(total, form.scale), form.key))
            known = self._forms[total] = best
        return known

    def fixed(self, body: Body, open_: tuple[int, ...] = ()) -> Canonical:
        """The canonical form of a product whose output has fixed axes.

        Args:
            body: The product.
            open_: Indices of the output that may be exchanged nevertheless.
        """
        marks = {i: SUMMED for _, indices in body.factors for i in indices}
        marks.update((i, FIXED + axis) for axis, i in enumerate(body.output))
        marks.update(dict.fromkeys(open_, OPEN))
        return canonical(self.atoms(body.factors), marks)

    def normal(self, body: Body) -> Normal:
        """A product with fixed output as all products are written that are equal to it."""
        known = self._normal.get(body)
        if known is None:
            found = self.fixed(body)
            marks, atoms = found.key
            first = len(marks) - len(body.output)
            like = Body(self._factors(body, atoms), tuple(range(first, len(marks))))
            indices = tuple(found.order[place] for place in like.indices)
            known = self._normal[body] = Normal(found.key, like.numbered(), indices)
        return known

    def _factors(self, body: Body, atoms: Iterable[Atom]) -> tuple[Factor, ...]:
        """The factors that the atoms of a product's key stand for."""
        at = {self.ids[value]: value for value, _ in body.factors}
        left, factors = list(atoms), []
        while left:
            name, indices = left[0]
            factors.append((at[name], indices))
            for image in self.images(at[name], indices):
                left.remove((name, image))
        return tuple(factors)

    def number(self, form: Form) -> int | None:
        """The number of the value that a form names, if there ever was one."""
        return self.made.get(self._name(form.key))

    def made_of(self, form: Form, total: Sum) -> int:
        """The number of the value that a sum's form names; its axes are in the key's order."""
        name = self._name(form.key)
        if name not in self.made:
            extents, labels = self._axes(total[0].body, form.order)
            reads = {value for product in total for value, _ in product.body.factors}
            volatile = any(self.values[value].volatile for value in reads)
            number = len(self.values)
            self.values.append(Value(number, name, Kind.SHARED, extents, labels, volatile))
            self.ids.append(name)
            self.ways.append(form.ways)
            self.made[name] = number
        return self.made[name]

    def sizes(self, body: Body) -> dict[int, int]:
        """The extent of each index."""
        return {
            i: extent
            for value, indices in body.factors
            for i, extent in zip(indices, self.values[value].shape, strict=True)
        }

    def _scaled(self, total: Sum, scale: Coefficient) -> int:
        """Elements that are multiplied by a number, which is free for products only."""
        return sum(
            prod(self.sizes(product.body)[i] for i in product.body.output)
            for product in total
            if len(product.body.factors) == 1 and product.coefficient != scale
        )

    def _name(self, key: Key) -> str:
        """A name that no tensor of a caller has."""
        if key not in self._names:
            self._names[key] = "#" + sha256(repr(key).encode()).hexdigest()[:32]
        return self._names[key]

    def _axes(self, body: Body, order: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        sizes = self.sizes(body)
        label = {
            i: name
            for value, indices in reversed(body.factors)
            for i, name in zip(indices, self.values[value].labels, strict=True)
        }
        axes = [body.output[axis] for axis in order]
        return tuple(sizes[i] for i in axes), tuple(label[i] for i in axes)

    def _form(self, total: Sum, scale: Coefficient) -> Form:
        n_axes = len(total[0].body.output)
        atoms: list[Atom] = []
        marks = dict.fromkeys(range(n_axes), OPEN)
        for product in total:
            term = len(marks)
            marks[term] = TERM
            at = {index: axis for axis, index in enumerate(product.body.output)}
            for _, indices in product.body.factors:
                for i in indices:
                    if i not in at:
                        at[i] = len(marks)
                        marks[at[i]] = SUMMED
            atoms.append((f"* {product.coefficient / scale}", (term,)))
            factors = [(v, tuple(at[i] for i in own)) for v, own in product.body.factors]
            atoms += [(name, (*indices, term)) for name, indices in self.atoms(factors)]
        found = canonical(atoms, marks)
        orders = found.orders(range(n_axes), MOST_WAYS)
        first = orders[0]
        ways = tuple(tuple(first.index(axis) for axis in order) for order in orders)
        return Form(found.key, scale, first, ways)
