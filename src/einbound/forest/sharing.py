"""Products that occur more than once, made once.

All connected parts of all products are compared up to the names of their indices. One is worth a
value if what its readers save, each with its then best order, is more than the value costs. Work
on persistent tensors inside of volatile products is worth one even with a single reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from einbound.forest.algebra import Algebra, entered, value_of
from einbound.forest.canonical import Key
from einbound.forest.parts import Part, Prices
from einbound.forest.products import Body, Product, Sum
from einbound.forest.registry import Form


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A part of a product, and what it is as a value.

    Attributes:
        part: The factors.
        total: They as a sum of one product.
        form: What that is.
    """

    part: Part
    total: Sum
    form: Form


@dataclass(frozen=True, slots=True)
class Reader:
    """A product that reads a shared value.

    Attributes:
        value: What the product is added into.
        position: The product's position there.
        masks: The factors whose place the value takes, once for each time.
        saving: What one making of `value` saves, the shared value not counted.
    """

    value: int
    position: int
    masks: tuple[int, ...]
    saving: int


@dataclass(frozen=True)
class Share:
    """Factors to be made a value of their own.

    Attributes:
        saving: Of all evaluations, by estimate.
        name: What the value is.
        readers: What reads the value then.
    """

    saving: int
    name: Key
    readers: tuple[Reader, ...]

    @property
    def order(self) -> tuple[str, tuple[Key, ...]]:
        """What decides between candidates that save the same."""
        return "", (self.name,)

    @property
    def n_products(self) -> int:
        """How many products read the value."""
        return len(self.readers)

    def applied(self, algebra: Algebra) -> Algebra:
        """The forest with the value and its readers."""
        changes: dict[int, list[Product]] = {}
        for reader in self.readers:
            total = changes.setdefault(reader.value, list(algebra.sums[reader.value]))
            product = total[reader.position]
            algebra, total[reader.position] = _read(algebra, product, reader.masks)
        return algebra.changed({value: tuple(total) for value, total in changes.items()})


def _read(algebra: Algebra, product: Product, masks: Sequence[int]) -> tuple[Algebra, Product]:
    """A product that reads values in the place of some of its factors."""
    number, body = product.coefficient, product.body
    left = list(masks)
    while left:
        mask = left.pop()
        frame = body.open(mask)
        made = entered(algebra, (Product(Fraction(1), body.part(mask, frame)),))
        algebra, number = made.algebra, number * made.scale
        body = made.read(body, mask, frame)
        left = [_without(other, mask) for other in left]
    return algebra, Product(number, body.numbered())


def _without(mask: int, gone: int) -> int:
    """The positions of a mask when those of another one, disjoint, are no longer there."""
    kept, place, position = 0, 0, 0
    while mask >> position:
        if not gone >> position & 1:
            kept |= (mask >> position & 1) << place
            place += 1
        position += 1
    return kept


@dataclass
class Sharing:
    """Shares of forests, with what is known of their products."""

    prices: Prices
    _seen: dict[Body, tuple[Occurrence, ...]] = field(default_factory=dict)

    def shares(self, algebra: Algebra) -> Iterator[Share]:
        """Everything that is worth a value by itself."""
        found: dict[Key, dict[tuple[int, int], list[Occurrence]]] = {}
        for value, total in algebra.sums.items():
            for position, product in enumerate(total):
                for each in self.occurrences(algebra, product.body):
                    places = found.setdefault(each.form.key, {})
                    places.setdefault((value, position), []).append(each)
        for key, places in found.items():
            share = self._share(algebra, key, places)
            if share.saving > 0:
                yield share

    def occurrences(self, algebra: Algebra, body: Body) -> tuple[Occurrence, ...]:
        """The parts of a product of at least two factors, itself included."""
        known = self._seen.get(body)
        if known is None:
            made = []
            for part in self.prices.parts(body).parts:
                if part.mask & (part.mask - 1):
                    total = (Product(Fraction(1), body.part(part.mask, body.open(part.mask))),)
                    made.append(Occurrence(part, total, algebra.registry.form(total)))
            known = self._seen[body] = tuple(made)
        return known

    def _share(
        self,
        algebra: Algebra,
        key: Key,
        places: Mapping[tuple[int, int], list[Occurrence]],
    ) -> Share:
        """A value for one key, with all readers that save by it."""
        first = next(iter(places.values()))[0]
        known = value_of(algebra, first.total)
        readers = []
        for (value, position), found in places.items():
            if value != known:
                body = algebra.sums[value][position].body
                reader = self._reader(algebra, body, value, position, found)
                if reader.saving > 0:
                    readers.append(reader)
        saving = sum(r.saving * self.prices.weight(r.value) for r in readers)
        if known is None:
            saving -= first.part.own * self._weight(first.total)
        return Share(saving, key, tuple(readers))

    def _reader(
        self, algebra: Algebra, body: Body, value: int, position: int, found: list[Occurrence]
    ) -> Reader:
        cost = self.prices.parts(body).cost.total
        if len(found) == 1:
            (only,) = found
            return Reader(value, position, (only.part.mask,), cost - only.part.rest)
        options = []
        for first in found:
            masks, used = [first.part.mask], first.part.mask
            for other in found:
                if not other.part.mask & used:
                    masks.append(other.part.mask)
                    used |= other.part.mask
            _, after = _read(algebra, Product(Fraction(1), body), masks)
            rest = self.prices.parts(after.body).cost.total
            options.append((rest, algebra.registry.normal(after.body).key, tuple(masks)))
        rest, _, chosen = min(options)
        return Reader(value, position, chosen, cost - rest)

    def _weight(self, total: Sum) -> int:
        """How often a new value is made."""
        reads = {value for product in total for value, _ in product.body.factors}
        return max(self.prices.weight(value) for value in reads)
