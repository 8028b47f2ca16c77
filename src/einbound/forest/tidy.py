"""Sums brought to their simplest form: like terms together, no value that only renames.

Nothing here weighs costs; every change takes work away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from einbound.expr.equations import Coefficient
from einbound.forest.algebra import Algebra, entered
from einbound.forest.canonical import Key
from einbound.forest.parts import N_ALL_PARTS
from einbound.forest.products import Body, Product, Sum

#: The ways in which a sum reads a value: for each time the axes, relative to the first time, and
#: the number, relative to that one, as text.
Pattern: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]


def tidied(algebra: Algebra) -> Algebra:
    """The same forest with like terms added up and values gone that nobody needs."""
    while True:
        before = algebra.sums
        algebra = _merged(_inlined(_read_only(_collected(algebra))))
        if algebra.sums == before:
            return algebra


def _collected(algebra: Algebra) -> Algebra:
    """Products that are equal are added up, those that cancel are gone.

    What is left is written in canonical forms and order, so that nothing after this depends on
    the order in which terms and factors came.
    """
    sums = {value: _added(algebra, total) for value, total in algebra.sums.items()}
    return algebra.changed(sums)


def _added(algebra: Algebra, total: Sum) -> Sum:
    like: dict[Key, Product] = {}
    for product in total:
        normal = algebra.registry.normal(product.body)
        known = like.get(normal.key)
        number = product.coefficient + (known.coefficient if known else 0)
        like[normal.key] = Product(number, normal.body)
    ordered = tuple(like[key] for key in sorted(like))
    # A value without any product would have no shape.
    return tuple(each for each in ordered if each.coefficient) or ordered[:1]


def _read_only(algebra: Algebra) -> Algebra:
    """Values that no target needs are gone."""
    needed: set[int] = set()
    stack = list(algebra.targets)
    while stack:
        value = stack.pop()
        if value in algebra.sums and value not in needed:
            needed.add(value)
            stack += [v for product in algebra.sums[value] for v, _ in product.body.factors]
    return algebra.changed({value: () for value in algebra.sums if value not in needed})


def _inlined(algebra: Algebra) -> Algebra:
    """Values that rename others are gone, and those that were made for one reader only."""
    for value in [value for value in algebra.sums if value not in algebra.targets]:
        if _is_alias(algebra.sums[value]) or _has_one_reader(algebra, value):
            algebra = _without(algebra, value)
    return algebra


def _is_alias(total: Sum) -> bool:
    return len(total) == 1 and total[0].body.is_renamed


def _has_one_reader(algebra: Algebra, value: int) -> bool:
    """Whether a made-up value is read once, where its products can stand as well."""
    values, reads = algebra.registry.values, algebra.reads.get(value, [])
    if not values[value].name.startswith("#") or len(reads) != 1:
        return False
    ((reader, position),) = reads
    if values[reader].volatile != values[value].volatile:
        return False
    body, total = algebra.sums[reader][position].body, algebra.sums[value]
    if body.is_renamed:
        return True
    n_factors = len(body.factors) - 1 + len(total[0].body.factors)
    return len(total) == 1 and len(total[0].body.factors) > 1 and n_factors <= N_ALL_PARTS


def _without(algebra: Algebra, value: int) -> Algebra:
    """The forest where the products of a value stand in the place of it."""
    inner = algebra.sums[value]
    changes: dict[int, Sum] = {value: ()}
    for reader in dict.fromkeys(made for made, _ in algebra.reads.get(value, [])):
        changes[reader] = tuple(
            each for product in algebra.sums[reader] for each in _expanded(product, value, inner)
        )
    return algebra.changed(changes)


def _expanded(product: Product, value: int, inner: Sum) -> Iterator[Product]:
    for k, (read, indices) in enumerate(product.body.factors):
        if read == value:
            for each in inner:
                put = _put(product, k, indices, each)
                yield from _expanded(put, value, inner)
            return
    yield Product(product.coefficient, product.body.numbered())


def _put(product: Product, k: int, indices: tuple[int, ...], inner: Product) -> Product:
    """A product with another one in the place of its k-th factor."""
    body = product.body
    fresh = 1 + max(body.indices, default=-1)
    at = dict(zip(inner.body.output, indices, strict=True))
    for i in inner.body.indices:
        if i not in at:
            at[i] = fresh
            fresh += 1
    put = tuple((v, tuple(at[i] for i in own)) for v, own in inner.body.factors)
    factors = (*body.factors[:k], *put, *body.factors[k + 1 :])
    return Product(product.coefficient * inner.coefficient, Body(factors, body.output))


def _merged(algebra: Algebra) -> Algebra:
    """Values that one sum reads in the same ways, and nobody else, are one."""
    volatile = [value.volatile for value in algebra.registry.values]
    for value in list(algebra.sums):
        groups: dict[tuple[Pattern, bool], list[_Reading]] = {}
        for read in sorted(_only_here(algebra, value), key=lambda v: algebra.registry.ids[v]):
            reading = _reading(algebra, value, read)
            groups.setdefault((reading.pattern, volatile[read]), []).append(reading)
        for group in groups.values():
            if len(group) > 1:
                # What else is read in equal ways may be other values from here on.
                return _merged(_together(algebra, value, group))
    return algebra


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a sum reads a value that nobody else reads.

    Attributes:
        value: What is read.
        pattern: The ways.
        numbers: The numbers of these, relative to the first.
        content: What is read the first time, in the axes of the sum.
    """

    value: int
    pattern: Pattern
    numbers: tuple[Coefficient, ...]
    content: Sum


def _only_here(algebra: Algebra, value: int) -> set[int]:
    """The made-up values that only one sum reads, each time as a product of their own."""
    values, total = algebra.registry.values, algebra.sums[value]
    return {
        read
        for read in {v for product in total for v, _ in product.body.factors}
        if read in algebra.sums
        and values[read].name.startswith("#")
        and all(
            reader == value and total[n].body.is_renamed and total[n].coefficient
            for reader, n in algebra.reads[read]
        )
    }


def _reading(algebra: Algebra, value: int, read: int) -> _Reading:
    """The reading whose first time is chosen by what is read, so that equal ones look equal."""
    times = [algebra.sums[value][n] for _, n in algebra.reads[read]]
    options = []
    for n, first in enumerate(times):
        axes = _axes(first.body)
        ways = sorted(
            (tuple(axes.index(axis) for axis in _axes(each.body)), f"{number}", k)
            for k, each in enumerate(times)
            for number in [each.coefficient / first.coefficient]
        )
        pattern = tuple((way, text) for way, text, _ in ways)
        numbers = tuple(times[k].coefficient / first.coefficient for *_, k in ways)
        content = tuple(
            Product(
                each.coefficient * first.coefficient,
                Body(each.body.factors, tuple(each.body.output[axis] for axis in axes)).numbered(),
            )
            for each in algebra.sums[read]
        )
        name = sorted(algebra.registry.fixed(each.body).key for each in content)
        options.append((pattern, name, n, _Reading(read, pattern, numbers, content)))
    return min(options, key=lambda option: option[:3])[3]


def _axes(body: Body) -> tuple[int, ...]:
    """For each axis of a sum, the axis of the one value that is read."""
    return tuple(body.factors[0][1].index(i) for i in body.output)


def _together(algebra: Algebra, value: int, group: Sequence[_Reading]) -> Algebra:
    """The forest where one value stands for a group that is read in the same ways."""
    gone = {reading.value for reading in group}
    made = entered(algebra, tuple(each for reading in group for each in reading.content))
    total = [p for p in algebra.sums[value] if p.body.factors and p.body.factors[0][0] not in gone]
    first = group[0]
    for (way, _), number in zip(first.pattern, first.numbers, strict=True):
        frame = tuple(way.index(axis) for axis in range(len(way)))
        body = made.read(Body((), tuple(range(len(way)))), 0, frame)
        total.append(Product(number * made.scale, body.numbered()))
    changes = {value: tuple(total), **{each: () for each in gone}}
    return made.algebra.changed(changes)
