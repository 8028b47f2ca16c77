"""A forest while it is rewritten: sums of products of values, and nothing else.

Coefficients are exact where the text's are. How forests become this and come back is in
`translation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from math import isfinite, prod
from typing import TypeAlias

from einbound.expr.equations import Coefficient
from einbound.forest.canonical import Atom, Canonical, Key, canonical
from einbound.forest.forest import Kind, Value

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


@dataclass(frozen=True, slots=True)
class Form:
    """What a sum is, whatever its axes are called and in which order they are.

    The sum is `scale` times the tensor that the key names, and axis `order[n]` of the sum is axis
    n of that tensor.

    Attributes:
        key: Equal for two sums if and only if one is a multiple of the other, axes permuted.
        scale: The factor that the key leaves out.
        order: The axes of the sum in the order of the key.
        symmetric: All such orders.
    """

    key: Key
    scale: Coefficient
    order: tuple[int, ...]
    symmetric: tuple[tuple[int, ...], ...]


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
        self._forms: dict[Sum, Form] = {}
        self._normal: dict[Body, Normal] = {}
        self._names: dict[Key, str] = {}

    def atoms(self, factors: Iterable[Factor]) -> list[Atom]:
        """Factors as canonical forms take them."""
        return [(self.ids[value], indices) for value, indices in factors]

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
            at = {self.ids[value]: value for value, _ in body.factors}
            factors = tuple((at[name], indices) for name, indices in atoms)
            first = len(marks) - len(body.output)
            like = Body(factors, tuple(range(first, len(marks))))
            indices = tuple(found.orders[0][place] for place in like.indices)
            known = self._normal[body] = Normal(found.key, like.numbered(), indices)
        return known

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
            atoms += [
                (self.ids[value], (*(at[i] for i in indices), term))
                for value, indices in product.body.factors
            ]
        found = canonical(atoms, marks)
        orders = dict.fromkeys(tuple(i for i in o if i < n_axes) for o in found.orders)
        return Form(found.key, scale, next(iter(orders)), tuple(orders))


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

    @cached_property
    def known(self) -> dict[Key, tuple[int, Form]]:
        """The values that are made, by what they are."""
        found: dict[Key, tuple[int, Form]] = {}
        for value in sorted(self.sums, key=lambda value: self.registry.ids[value]):
            form = self.registry.form(self.sums[value])
            if form.scale:
                found.setdefault(form.key, (value, form))
        return found


@dataclass(frozen=True, slots=True)
class Entered:
    """A sum as a value of a forest.

    Attributes:
        algebra: The forest with the value.
        value: The value's number.
        scale: The sum is this times the value.
        readings: For each axis of the value, the axis of the sum; several where the sum is
            symmetric.
    """

    algebra: Algebra
    value: int
    scale: Coefficient
    readings: tuple[tuple[int, ...], ...]

    def read(self, body: Body, mask: int, frame: tuple[int, ...]) -> Body:
        """A product with the value in the place of some factors.

        Args:
            body: The product.
            mask: The factors whose place it takes.
            frame: The product's index of each axis of the sum.
        """
        made = [
            body.replaced(mask, (self.value, tuple(frame[axis] for axis in reading)))
            for reading in self.readings
        ]
        if len(made) == 1:
            return made[0]
        # A symmetric value is read in one way, so that what else is equal stays so.
        return min(made, key=lambda each: self.algebra.registry.fixed(each).key)


def value_of(algebra: Algebra, total: Sum) -> int | None:
    """The value that a sum is a multiple of, if there is one."""
    registry = algebra.registry
    form = registry.form(total)
    made = registry.number(form)
    if made in algebra.sums:
        return made
    known = algebra.known.get(form.key)
    return known[0] if known else None


def entered(algebra: Algebra, total: Sum) -> Entered:
    """A sum as a value: one that is there already, or a new one."""
    registry = algebra.registry
    form = registry.form(total)
    made = registry.number(form)
    known = algebra.known.get(form.key)
    if made not in algebra.sums and known:
        value, theirs = known
        at = {axis: n for n, axis in enumerate(theirs.order)}
        readings = tuple(
            tuple(order[at[axis]] for axis in range(len(order))) for order in form.symmetric
        )
        return Entered(algebra, value, form.scale / theirs.scale, readings)
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
    return Entered(algebra, value, form.scale, form.symmetric)


def exact(number: Coefficient) -> Coefficient:
    """A real number as a fraction, so that quotients and sums of coefficients are exact."""
    if isinstance(number, complex) or not isfinite(number):
        return number
    return Fraction(number)
