"""Sums of products with equal factors as products of sums.

Every product of a sum is split into two in all ways. Products whose splits have one half in common
become one product with a sum; those that hold every pair of some left and some right halves, with
numbers that are products, too, become one product of two sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from typing import TypeAlias

from einbound.expr.equations import Coefficient
from einbound.forest.algebra import Algebra, entered
from einbound.forest.canonical import Key
from einbound.forest.parts import Part, Prices
from einbound.forest.products import Body, Product, Sum
from einbound.forest.registry import MOST_WAYS

#: Open axes of the left half, of the right half, and how many indices both have that are summed.
Signature: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]


@dataclass(frozen=True, slots=True)
class Split:
    """A product as two halves.

    Attributes:
        part: The left half, whose factors hang together.
        other: The factors of the right half.
        signature: Only halves of equal signatures can be added.
        left: What the left half is, given the order of the indices that both have.
        right: What the right half is, up to this order.
        both: These indices, in the order of the right half's form.
    """

    part: Part
    other: int
    signature: Signature
    left: Key
    right: Key
    both: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A product of a sum by its position, in one of its splits."""

    position: int
    split: Split


#: For each right half with its signature, the products by their left half.
Columns: TypeAlias = dict[tuple[Signature, Key], dict[Key, Edge]]


@dataclass(frozen=True)
class Fold:
    """Products of one sum to become one product of sums.

    Attributes:
        saving: Of all evaluations, by estimate.
        name: The value, the left halves and the right halves.
        value: What the products are added into.
        edges: For each right half the products with it, left halves in the same order.
    """

    saving: int
    name: tuple[str, tuple[Key, ...], tuple[Key, ...]]
    value: int
    edges: tuple[tuple[Edge, ...], ...]

    @property
    def order(self) -> tuple[str, tuple[Key, ...]]:
        """What decides between candidates that save the same."""
        return self.name[0], (*self.name[1], *self.name[2])

    @property
    def n_products(self) -> int:
        """How many products become one."""
        return len(self.edges) * len(self.edges[0])

    @property
    def sizes(self) -> tuple[int, int]:
        """How many left and right halves are added."""
        return len(self.edges[0]), len(self.edges)

    def applied(self, algebra: Algebra) -> Algebra:
        """The forest with the sums, and one product that reads them."""
        total = algebra.sums[self.value]
        corner = self.edges[0][0]
        number, body = total[corner.position].coefficient, total[corner.position].body
        mask = corner.split.part.mask
        made = entered(algebra, self._sum(total, self.edges[0], _left))
        number, body = number * made.scale, made.read(body, mask, _left(body, corner.split).output)
        if len(self.edges) > 1:
            column = [edges[0] for edges in self.edges]
            frame = _right(total[corner.position].body, corner.split).output
            made = entered(made.algebra, self._sum(total, column, _right))
            rest = (1 << len(body.factors) - 1) - 1
            number, body = number * made.scale, made.read(body, rest, frame)
        gone = {edge.position for edges in self.edges for edge in edges}
        kept = [product for n, product in enumerate(total) if n not in gone]
        folded = (*kept, Product(number, body.numbered()))
        return made.algebra.changed({self.value: folded})

    def _sum(self, total: Sum, edges: Iterable[Edge], half: Callable[[Body, Split], Body]) -> Sum:
        """One half of all products of a row or column, as numbers times that of the corner."""
        number = total[self.edges[0][0].position].coefficient
        return tuple(
            Product(
                total[edge.position].coefficient / number,
                half(total[edge.position].body, edge.split).numbered(),
            )
            for edge in edges
        )


@dataclass
class Folding:
    """Folds of forests, with what is known of their products."""

    prices: Prices
    _seen: dict[Body, tuple[Split, ...]] = field(default_factory=dict)

    def folds(self, algebra: Algebra) -> Iterator[Fold]:
        """Everything that is worth being folded by itself."""
        for value, total in algebra.sums.items():
            if len(total) > 1:
                columns = self._columns(algebra, total)
                yield from self._stars(algebra, value, columns)
                yield from self._rectangles(algebra, value, columns)

    def splits(self, algebra: Algebra, body: Body) -> tuple[Split, ...]:
        """All ways to see a product as a product of two, the left one connected."""
        known = self._seen.get(body)
        if known is None:
            full = (1 << len(body.factors)) - 1
            parts = (part for part in self.prices.parts(body).parts if part.mask != full)
            known = tuple(_split(algebra, body, part, full ^ part.mask) for part in parts)
            self._seen[body] = known
        return known

    def _columns(self, algebra: Algebra, total: Sum) -> Columns:
        columns: Columns = {}
        for position, product in enumerate(total):
            if product.coefficient:
                for split in self.splits(algebra, product.body):
                    column = columns.setdefault((split.signature, split.right), {})
                    column.setdefault(split.left, Edge(position, split))
        return {name: column for name, column in columns.items() if len(column) > 1}

    def _stars(self, algebra: Algebra, value: int, columns: Columns) -> Iterator[Fold]:
        """Sums of left halves with one right half."""
        for (_, right), column in columns.items():
            # A product may have the right half in several ways; it is taken once.
            once = {column[row].position: row for row in sorted(column, reverse=True)}
            rows = sorted(once.values())
            steady = [row for row in rows if not self._is_volatile(algebra, value, column[row])]
            for chosen in [rows, steady] if 1 < len(steady) < len(rows) else [rows]:
                fold = self._star(algebra, value, right, {row: column[row] for row in chosen})
                if fold is not None:
                    yield fold

    def _star(
        self, algebra: Algebra, value: int, right: Key, column: Mapping[Key, Edge]
    ) -> Fold | None:
        """The best of the sums of left halves, those left out that cost more than they save."""
        often = self.prices.weight(value)
        volatile = any(self._is_volatile(algebra, value, edge) for edge in column.values())
        weight = self.prices.iterations if volatile else 1
        total = algebra.sums[value]
        saving = -often * max(edge.split.part.rest for edge in column.values())
        rows = []
        for row, edge in column.items():
            cost = self.prices.parts(total[edge.position].body).cost.total
            gain = often * cost - weight * edge.split.part.own
            if gain > 0:
                rows.append(row)
                saving += gain
        if saving <= 0 or len(rows) < 2:
            return None
        name = (algebra.registry.ids[value], tuple(rows), (right,))
        return Fold(saving, name, value, (tuple(column[row] for row in rows),))

    def _is_volatile(self, algebra: Algebra, value: int, edge: Edge) -> bool:
        uses = algebra.sums[value][edge.position].body.uses(edge.split.part.mask)
        return any(algebra.registry.values[v].volatile for v, _ in uses)

    def _rectangles(self, algebra: Algebra, value: int, columns: Columns) -> Iterator[Fold]:
        """Products of sums of left halves and sums of right halves."""
        total = algebra.sums[value]
        found: set[tuple[Signature, tuple[Key, ...], tuple[Key, ...]]] = set()
        for signature, rows, names in _corners(total, columns):
            at = [columns[signature, name] for name in names]
            edges = tuple(tuple(column[row] for row in rows) for column in at)
            key = (signature, rows, names)
            if key not in found and self._is_clean(total, edges):
                found.add(key)
                saving = self._saving(algebra, value, edges)
                if saving > 0:
                    name = (algebra.registry.ids[value], rows, names)
                    yield Fold(saving, name, value, edges)

    def _is_clean(self, total: Sum, edges: Sequence[Sequence[Edge]]) -> bool:
        """Whether each product is taken once, and it is known what its halves cost."""
        taken = [edge.position for column in edges for edge in column]
        known = (self.prices.parts(total[position].body).own for position in taken)
        return len(set(taken)) == len(taken) and all(known)

    def _saving(self, algebra: Algebra, value: int, edges: tuple[tuple[Edge, ...], ...]) -> int:
        total = algebra.sums[value]
        often = self.prices.weight(value)
        saving = 0
        for edge in (edge for column in edges for edge in column):
            saving += often * self.prices.parts(total[edge.position].body).cost.total
        corner = edges[0][0]
        body, sizes = total[corner.position].body, algebra.registry.sizes
        top = {*_left(body, corner.split).output, *_right(body, corner.split).output}
        saving -= often * prod(sizes(body)[i] for i in top)
        saving -= self._added(total, edges[0], is_left=True)
        saving -= self._added(total, [column[0] for column in edges], is_left=False)
        return saving

    def _added(self, total: Sum, edges: Iterable[Edge], *, is_left: bool) -> int:
        """What a sum of halves costs."""
        cost, weight = 0, 1
        for edge in edges:
            body = total[edge.position].body
            mask = edge.split.part.mask if is_left else edge.split.other
            cost += self.prices.parts(body).own[mask]
            weight = max([weight, *(self.prices.weight(v) for v, _ in body.uses(mask))])
        return cost * weight


def _split(algebra: Algebra, body: Body, part: Part, other: int) -> Split:
    inside, outside = body.open(part.mask), body.open(other)
    both = tuple(i for i in inside if i in outside and i not in body.output)
    axes = tuple(a for a, i in enumerate(body.output) if i in inside)
    others = tuple(a for a, i in enumerate(body.output) if i in outside)
    signature = (axes, others, len(both))
    registry = algebra.registry
    found = registry.fixed(_half(body, other, others, both), both)
    left, order = min(
        (registry.fixed(_half(body, part.mask, axes, order)).key, order)
        for order in found.orders(both, MOST_WAYS)
    )
    return Split(part, other, signature, left, found.key, order)


def _half(body: Body, mask: int, axes: Iterable[int], both: tuple[int, ...]) -> Body:
    return Body(body.uses(mask), (*(body.output[axis] for axis in axes), *both))


def _left(body: Body, split: Split) -> Body:
    return _half(body, split.part.mask, split.signature[0], split.both)


def _right(body: Body, split: Split) -> Body:
    return _half(body, split.other, split.signature[1], split.both)


def _corners(
    total: Sum, columns: Columns
) -> Iterator[tuple[Signature, tuple[Key, ...], tuple[Key, ...]]]:
    """Rows and columns, as many as go together, around each pair of columns."""
    rows: dict[tuple[Signature, Key], list[Key]] = {}
    for signature, right in sorted(columns):
        for left in columns[signature, right]:
            rows.setdefault((signature, left), []).append(right)
    pairs: set[tuple[Signature, Key, Key]] = set()
    for (signature, _), names in rows.items():
        pairs.update((signature, *pair) for pair in combinations(names, 2))
    for signature, one, two in sorted(pairs):
        corner = columns[signature, one]
        for lefts in _proportional(total, corner, columns[signature, two]):
            names = [
                right
                for right in rows[signature, lefts[0]]
                if _goes_with(total, corner, columns[signature, right], lefts)
            ]
            yield signature, lefts, tuple(names)


def _proportional(
    total: Sum, one: Mapping[Key, Edge], two: Mapping[Key, Edge]
) -> Iterator[tuple[Key, ...]]:
    """The rows of two columns, those together whose numbers have one ratio."""
    classes: dict[Coefficient, list[Key]] = {}
    for row in sorted(one.keys() & two.keys()):
        ratio = total[two[row].position].coefficient / total[one[row].position].coefficient
        classes.setdefault(ratio, []).append(row)
    return (tuple(each) for each in classes.values() if len(each) > 1)


def _goes_with(
    total: Sum, one: Mapping[Key, Edge], other: Mapping[Key, Edge], rows: Sequence[Key]
) -> bool:
    if not all(row in other for row in rows):
        return False
    mine = {row: one[row] for row in rows}
    theirs = {row: other[row] for row in rows}
    return any(len(each) == len(rows) for each in _proportional(total, mine, theirs))
