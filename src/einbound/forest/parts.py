"""What products and their parts cost: the multiply-adds of best orders, and elements read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from einbound.expr.network import Access, Network
from einbound.forest.algebra import Algebra
from einbound.forest.products import Body, Product, Sum
from einbound.forest.registry import Registry
from einbound.plan.masks import Sizes, Steps, Terms, carried_masks, mask_of, subsets_made
from einbound.plan.order import first_order
from einbound.plan.subsets import fewest_outside, tabulate

#: Factors up to which all connected parts of a product are looked at; of longer products those
#: that a good order makes.
N_ALL_PARTS = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """Multiply-adds of products, and elements read by sums and copies of one tensor."""

    macs: int = 0
    reads: int = 0

    @property
    def total(self) -> int:
        """Both together."""
        return self.macs + self.reads

    def __add__(self, other: Cost) -> Cost:
        """The cost of both."""
        return Cost(self.macs + other.macs, self.reads + other.reads)

    def times(self, n: int) -> Cost:
        """The cost of doing it n times."""
        return Cost(n * self.macs, n * self.reads)


@dataclass(frozen=True, slots=True)
class Part:
    """Some factors of a product that hang together.

    Attributes:
        mask: Their positions.
        own: What it costs to make them a value.
        rest: What the product costs where that value is there.
    """

    mask: int
    own: int
    rest: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A product's best cost, and its parts.

    Attributes:
        cost: Without a coefficient.
        parts: All connected factors, single ones and the whole product among them.
        own: What it costs to make a value of any factors, where all were looked at.
    """

    cost: Cost
    parts: tuple[Part, ...]
    own: tuple[int, ...] = ()


@dataclass
class Prices:
    """Costs of everything that has been asked for.

    Attributes:
        registry: The values.
        iterations: How often volatile values are made.
    """

    registry: Registry
    iterations: int = 1
    _parts: dict[Body, Parts] = field(default_factory=dict)

    def weight(self, value: int) -> int:
        """How often a value is made."""
        return self.iterations if self.registry.values[value].volatile else 1

    def parts(self, body: Body) -> Parts:
        """The parts of a product."""
        known = self._parts.get(body)
        if known is None:
            known = self._parts[body] = _parts(body, self.registry.sizes(body))
        return known

    def cost(self, total: Sum) -> Cost:
        """What it costs to make a sum once."""
        cost = Cost()
        for product in total:
            cost += self._cost(product)
        return cost

    def of(self, algebra: Algebra) -> Cost:
        """What all evaluations of a forest cost."""
        cost = Cost()
        for value, total in algebra.sums.items():
            cost += self.cost(total).times(self.weight(value))
        return cost

    def _cost(self, product: Product) -> Cost:
        body, cost = product.body, self.parts(product.body).cost
        if len(body.factors) != 1 or product.coefficient == 1:
            return cost
        # A number times one tensor is a product of two operands, made when its sums are done.
        sizes = self.registry.sizes(body)
        return Cost(prod(sizes[i] for i in body.output), 0 if body.is_renamed else cost.reads)


def network(body: Body, sizes: Mapping[int, int]) -> Network:
    """A product as a contraction whose labels are its index numbers."""
    inputs = tuple(tuple(dict.fromkeys(indices)) for _, indices in body.factors)
    accesses = tuple(
        Access(tuple(tuple(k for k, x in enumerate(indices) if x == i) for i in own))
        for (_, indices), own in zip(body.factors, inputs, strict=True)
    )
    n_indices = len(sizes)
    extents = tuple(sizes[i] for i in range(n_indices))
    return Network(tuple(range(n_indices)), extents, inputs, body.output, accesses)


def _parts(body: Body, sizes: dict[int, int]) -> Parts:
    n = len(body.factors)
    keep = mask_of(body.output)
    inputs = [mask_of(indices) for _, indices in body.factors]
    masks = [own & (keep | _others(inputs, k)) for k, own in enumerate(inputs)]
    terms = Terms(tuple(masks), keep, Sizes(sizes[i] for i in range(len(sizes))))
    whole = [terms.sizes[mask] for mask in inputs]
    if n < 2:
        return Parts(Cost(0, sum(whole)), ())
    # What one factor alone carries is summed before any product.
    summed = [size if a != b else 0 for size, a, b in zip(whole, inputs, masks, strict=True)]
    if n <= N_ALL_PARTS:
        return _all(terms, whole, summed)
    return _some(terms, first_order(network(body, sizes)), whole, summed)


def _all(terms: Terms, whole: list[int], summed: list[int]) -> Parts:
    n = len(whole)
    full = (1 << n) - 1
    table = tabulate(terms)
    outside = fewest_outside(table, terms)
    reads = [sum(s for k, s in enumerate(summed) if subset >> k & 1) for subset in range(full + 1)]
    own = [(macs or 0) + read for macs, read in zip(table.macs, reads, strict=True)]
    rest = [(macs or 0) + reads[full ^ subset] for subset, macs in enumerate(outside)]
    cost = Cost(own[full] - reads[full], reads[full])
    for k, size in enumerate(whole):
        own[1 << k], rest[1 << k] = size, cost.total - summed[k]
    rest[full] = terms.sizes[terms.keep]
    found = [Part(s, own[s], rest[s]) for s in range(1, full + 1) if _hangs(terms.masks, s)]
    return Parts(cost, tuple(found), tuple(own))


def _some(terms: Terms, steps: Steps, whole: list[int], summed: list[int]) -> Parts:
    n = len(whole)
    carried = carried_masks(terms, steps)
    macs = [0] * n
    for left, right in steps:
        macs.append(macs[left] + macs[right] + terms.sizes[carried[left] | carried[right]])
    cost = Cost(macs[-1], sum(summed))
    found = [Part(1 << k, size, cost.total - summed[k]) for k, size in enumerate(whole)]
    for value, subset in enumerate(subsets_made(n, steps), n):
        own = macs[value] + sum(s for k, s in enumerate(summed) if subset >> k & 1)
        if _hangs(terms.masks, subset):
            found.append(Part(subset, own, max(cost.total - own, terms.sizes[carried[value]])))
    return Parts(cost, tuple(found))


def _hangs(masks: Sequence[int], subset: int) -> bool:
    """Whether some operands are connected by indices."""
    left = [mask for k, mask in enumerate(masks) if subset >> k & 1]
    reached = left.pop()
    while left:
        near = [mask for mask in left if mask & reached]
        if not near:
            return False
        left = [mask for mask in left if not mask & reached]
        for mask in near:
            reached |= mask
    return True


def _others(masks: Sequence[int], k: int) -> int:
    found = 0
    for n, mask in enumerate(masks):
        if n != k:
            found |= mask
    return found
