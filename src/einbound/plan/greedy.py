"""Orders of many operands by repeated choice of the pair that shrinks the data most.

A first order only; `reconfigure` improves it.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import combinations
from math import log
from typing import TYPE_CHECKING

from einbound.plan.masks import Steps, Terms, bits

if TYPE_CHECKING:
    from random import Random


class _Pool:
    """The values still to be multiplied while an order grows."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.n = len(terms.masks)
        self.alive: dict[int, int] = dict(enumerate(terms.masks))
        self.readers: dict[int, set[int]] = {}
        for value, mask in self.alive.items():
            for i in bits(mask):
                self.readers.setdefault(i, set()).add(value)
        self.steps: list[tuple[int, int]] = []

    def joined(self, left: int, right: int) -> int:
        """The indices that the product of two values would have."""
        a, b = self.alive[left], self.alive[right]
        mask, shared = a | b, a & b & ~self.terms.keep
        for i in bits(shared):
            if len(self.readers[i]) == 2:
                mask ^= 1 << i
        return mask

    def join(self, left: int, right: int) -> int:
        """The number of the product of two values, which it replaces."""
        mask = self.joined(left, right)
        made = self.n + len(self.steps)
        for value in (left, right):
            for i in bits(self.alive.pop(value)):
                self.readers[i].discard(value)
        self.steps.append((min(left, right), max(left, right)))
        self.alive[made] = mask
        for i in bits(mask):
            self.readers[i].add(made)
        return made

    def neighbours(self, value: int) -> set[int]:
        """The values that share an index with `value`."""
        found: set[int] = set()
        for i in bits(self.alive[value]):
            found |= self.readers[i]
        found.discard(value)
        return found


def greedy_steps(terms: Terms, *, weight: float, temperature: float, random: Random) -> Steps:
    """One greedy order.

    Args:
        terms: The operands.
        weight: How much the sizes of the two parts count against the size of their product.
        temperature: Strength of the random change of every score; 0: none.
        random: Source of the changes.
    """
    pool = _Pool(terms)
    _merge_equal(pool)

    def score(left: int, right: int) -> float:
        sizes = terms.sizes
        parts = sizes[pool.alive[left]] + sizes[pool.alive[right]]
        gain = sizes[pool.joined(left, right)] - weight * parts
        bent = log(1 + gain) if gain >= 0 else -log(1 - gain)
        if temperature:
            bent -= temperature * log(-log(1.0 - random.random() + 1e-300) + 1e-300)
        return bent

    pairs: set[tuple[int, int]] = set()
    for readers in pool.readers.values():
        pairs.update(combinations(sorted(readers), 2))
    heap = [(score(a, b), a, b) for a, b in sorted(pairs)]
    heapify(heap)
    while heap:
        _, left, right = heappop(heap)
        if left in pool.alive and right in pool.alive:
            made = pool.join(left, right)
            for other in sorted(pool.neighbours(made)):
                heappush(heap, (score(other, made), other, made))
    _join_rest(pool)
    return tuple(pool.steps)


def linear_steps(terms: Terms, first: int | None = None) -> Steps:
    """An order that multiplies one operand after another into a single growing product.

    It may have more multiply-adds than a balanced one, but holds two values at a time, and loops
    over what the first operand leaves on the result repeat little.

    Args:
        terms: The network.
        first: The operand to begin with; None: the best one.
    """
    if first is not None:
        return _grown(terms, first)[1]
    sizes, masks = terms.sizes, terms.masks

    def preference(value: int) -> tuple[int, int, int]:
        return -sizes[masks[value] & terms.keep], masks[value].bit_count(), value

    starts = sorted(range(len(masks)), key=preference)[:_N_STARTS]
    return min((_grown(terms, start) for start in starts), key=lambda grown: grown[0])[1]


#: Operands that a linear order is begun with, to choose the best.
_N_STARTS = 12


def _grown(terms: Terms, start: int) -> tuple[int, Steps]:
    """The multiply-adds and the steps of the linear order that begins with one operand."""
    pool, sizes = _Pool(terms), terms.sizes
    product, macs = start, 0
    while len(pool.alive) > 1:
        near = pool.neighbours(product) or set(pool.alive) - {product}
        other = min(near, key=lambda value: (sizes[pool.joined(product, value)], value))
        macs += sizes[pool.alive[product] | pool.alive[other]]
        product = pool.join(product, other)
    return macs, tuple(pool.steps)


def _merge_equal(pool: _Pool) -> None:
    """Multiplies values with the same indices first: their product is no larger than either."""
    first: dict[int, int] = {}
    waiting = sorted(pool.alive, reverse=True)
    while waiting:
        value = waiting.pop()
        mask = pool.alive[value]
        other = first.pop(mask, None)
        if other is None:
            first[mask] = value
        else:
            waiting.append(pool.join(other, value))


def _join_rest(pool: _Pool) -> None:
    """Multiplies what shares no index, smallest first."""
    sizes = pool.terms.sizes
    heap = [(sizes[mask], value) for value, mask in pool.alive.items()]
    heapify(heap)
    while len(heap) > 1:
        left, right = heappop(heap)[1], heappop(heap)[1]
        made = pool.join(left, right)
        heappush(heap, (sizes[pool.alive[made]], made))
