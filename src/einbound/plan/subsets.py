"""Exact contraction orders by dynamic programming over subsets of operands.

Subsets are bit masks of operand positions. All products are admitted, outer ones too,
unless only connected subsets are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from einbound.plan.masks import Steps, Terms

Nested = int | tuple["Nested", "Nested"]


@dataclass(frozen=True, slots=True)
class Ranked:
    """One order of a subset.

    Attributes:
        macs: Multiply-adds of all its products.
        peak: Most elements of intermediates alive at once, without loops.
        nested: The order as nested pairs of operand positions.
    """

    macs: int
    peak: int
    nested: Nested

    @property
    def key(self) -> tuple[int, int]:
        """What orders are compared by."""
        return self.macs, self.peak


@dataclass(frozen=True, slots=True)
class Table:
    """Every subset's indices and the fewest multiply-adds that make it.

    Attributes:
        carried: The indices of the value of each subset.
        macs: Fewest multiply-adds of each subset; None where a subset is not connected and
            only connected ones were asked for.
        split: One half of a best split of each subset.
    """

    carried: list[int]
    macs: list[int | None]
    split: list[int]


def tabulate(terms: Terms, *, connected: bool = False) -> Table:
    """The table of all subsets of at most a dozen operands."""
    n = len(terms.masks)
    carried = _carried(terms)
    macs: list[int | None] = [None] * (1 << n)
    split = [0] * (1 << n)
    for k in range(n):
        macs[1 << k] = 0
    for subset in range(3, 1 << n):
        if subset & (subset - 1):
            macs[subset], split[subset] = _best_split(
                subset, carried, macs, terms, connected=connected
            )
    return Table(carried, macs, split)


def fewest(terms: Terms, *, connected: bool = False) -> Nested:
    """An order with the fewest multiply-adds, as nested operand positions."""
    table = tabulate(terms, connected=connected)
    full = (1 << len(terms.masks)) - 1
    if table.macs[full] is None:
        table = tabulate(terms)
    return _unfold(full, table.split)


def least_peak(terms: Terms) -> Nested:
    """An order with the least peak without loops, as nested operand positions.

    The peak of a product is monotone in the peaks of its parts and their sizes depend on the
    subset alone, so one label per subset is exact. Ties go to fewer multiply-adds.
    """
    n, carried, sizes = len(terms.masks), _carried(terms), terms.sizes
    peak: list[tuple[int, int]] = [(0, 0)] * (1 << n)
    split = [0] * (1 << n)
    held = [0 if not s & (s - 1) else sizes[carried[s]] for s in range(1 << n)]
    for subset in range(3, 1 << n):
        if not subset & (subset - 1):
            continue
        best = None
        for left, right in _splits(subset):
            top = joined_peak(
                (peak[left][0], held[left]), (peak[right][0], held[right]), held[subset]
            )
            if best is not None and top > best[0]:
                continue
            macs = peak[left][1] + peak[right][1] + sizes[carried[left] | carried[right]]
            if best is None or (top, macs) < best:
                best, split[subset] = (top, macs), left
        assert best is not None, "a subset of two or more has a split"
        peak[subset] = best
    return _unfold((1 << n) - 1, split)


def joined_peak(left: tuple[int, int], right: tuple[int, int], own: int) -> int:
    """Peak of a product from (peak, size) of its parts, made in the better order."""
    (p1, h1), (p2, h2) = left, right
    return max(min(max(p1, h1 + p2), max(p2, h2 + p1)), h1 + h2 + own)


def best_orders(terms: Terms, n_best: int, slack: int) -> tuple[Ranked, ...]:
    """The orders with the fewest multiply-adds, and those that trade them for a lower peak.

    Args:
        terms: At most a dozen operands.
        n_best: How many orders to keep for each subset; a few more with a lower peak are kept.
        slack: Orders above `slack` times the fewest multiply-adds are left out.
    """
    n = len(terms.masks)
    table = tabulate(terms)
    full = (1 << n) - 1
    fewest_macs = table.macs[full]
    assert fewest_macs is not None, "all subsets were admitted"
    limit = slack * max(fewest_macs, 1)
    rest = fewest_outside(table, terms, limit)
    ranked: list[tuple[Ranked, ...]] = [()] * (1 << n)
    for k in range(n):
        ranked[1 << k] = (Ranked(0, 0, k),)
    for subset in range(3, 1 << n):
        own, outside = table.macs[subset], rest[subset]
        if not subset & (subset - 1) or own is None or outside is None:
            continue
        if own + outside <= limit:
            ranked[subset] = _rank(subset, table, terms, ranked, limit - outside, n_best)
    return ranked[full]


def _carried(terms: Terms) -> list[int]:
    n = len(terms.masks)
    below = [0] * (1 << n)
    for subset in range(1, 1 << n):
        low = subset & -subset
        below[subset] = below[subset ^ low] | terms.masks[low.bit_length() - 1]
    full = (1 << n) - 1
    carried = [below[s] & (terms.keep | below[full ^ s]) for s in range(1 << n)]
    for k in range(n):
        carried[1 << k] = terms.masks[k]
    return carried


def _splits(subset: int) -> list[tuple[int, int]]:
    low = subset & -subset
    rest = subset ^ low
    pairs, part = [], (rest - 1) & rest
    while True:
        pairs.append((low | part, rest ^ part))
        if not part:
            return pairs
        part = (part - 1) & rest


def _best_split(
    subset: int, carried: list[int], macs: list[int | None], terms: Terms, *, connected: bool
) -> tuple[int | None, int]:
    sizes = terms.sizes
    best: int | None = None
    split = 0
    for left, right in _splits(subset):
        a, b = macs[left], macs[right]
        if a is None or b is None or (connected and not carried[left] & carried[right]):
            continue
        if best is not None and a + b >= best:
            continue
        total = a + b + sizes[carried[left] | carried[right]]
        if best is None or total < best:
            best, split = total, left
    return best, split


def fewest_outside(table: Table, terms: Terms, limit: int | None = None) -> list[int | None]:
    """The fewest multiply-adds of everything else, given that a subset is made.

    Args:
        table: All subsets of `terms`, unconnected ones too.
        terms: What is multiplied.
        limit: Where making the subset and everything else takes more, there is None.
    """
    size = len(table.macs)
    rest: list[int | None] = [None] * size
    rest[size - 1] = 0
    for subset in range(size - 1, 2, -1):
        outside = rest[subset]
        if outside is None or not subset & (subset - 1):
            continue
        for left, right in _splits(subset):
            a, b = table.macs[left], table.macs[right]
            assert a is not None, "all subsets were admitted"
            assert b is not None, "all subsets were admitted"
            base = outside + terms.sizes[table.carried[left] | table.carried[right]]
            if limit is not None and base + a + b > limit:
                continue
            for half, other in ((left, b), (right, a)):
                known = rest[half]
                if known is None or base + other < known:
                    rest[half] = base + other
    return rest


def _rank(
    subset: int,
    table: Table,
    terms: Terms,
    ranked: list[tuple[Ranked, ...]],
    limit: int,
    n_best: int,
) -> tuple[Ranked, ...]:
    carried, sizes = table.carried, terms.sizes
    own = sizes[carried[subset]]
    found: list[tuple[int, int, int, Ranked, Ranked]] = []
    serial = count()
    for left, right in _splits(subset):
        if not ranked[left] or not ranked[right]:
            continue
        cost = sizes[carried[left] | carried[right]]
        held_left = sizes[carried[left]] if left & (left - 1) else 0
        held_right = sizes[carried[right]] if right & (right - 1) else 0
        for i, a in enumerate(ranked[left]):
            for j, b in enumerate(ranked[right]):
                macs = a.macs + b.macs + cost
                if macs > limit or (i + 1) * (j + 1) > 2 * n_best:
                    break
                peak = joined_peak((a.peak, held_left), (b.peak, held_right), own)
                found.append((macs, peak, next(serial), a, b))
    found.sort()
    return tuple(Ranked(m, p, (a.nested, b.nested)) for m, p, _, a, b in _select(found, n_best))


def _select(
    found: list[tuple[int, int, int, Ranked, Ranked]], n_best: int
) -> list[tuple[int, int, int, Ranked, Ranked]]:
    kept = found[:n_best]
    lowest = min((entry[1] for entry in kept), default=0)
    for entry in found[n_best:]:
        if entry[1] < lowest and len(kept) < n_best + max(2, n_best // 2):
            kept.append(entry)
            lowest = entry[1]
    return kept


def _unfold(subset: int, split: list[int]) -> Nested:
    if not subset & (subset - 1):
        return subset.bit_length() - 1
    left = split[subset]
    return _unfold(left, split), _unfold(subset ^ left, split)


def steps_of(nested: Nested, n_operands: int) -> Steps:
    """The steps of a nested order, parts before the products that read them."""
    steps: list[tuple[int, int]] = []
    made: list[int] = []
    stack: list[Nested | None] = [nested]
    while stack:
        entry = stack.pop()
        if entry is None:
            right, left = made.pop(), made.pop()
            steps.append((left, right) if left < right else (right, left))
            made.append(n_operands + len(steps) - 1)
        elif isinstance(entry, int):
            made.append(entry)
        else:
            stack += [None, entry[1], entry[0]]
    return tuple(steps)
