"""Widths of the loops of a fixed nest: the fewest trips that stay within a limit.

Bytes never grow when a slice gets narrower, so every loop's trips are found by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from einbound.plan.frame import Frame
from einbound.plan.nests import Nests
from einbound.plan.price import Limit, Price
from einbound.plan.tree import Cut

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One order with nests that stay within a limit.

    Attributes:
        frame: The order.
        nests: Its loops.
        price: Its counts.
    """

    frame: Frame
    nests: Nests
    price: Price

    def fits(self, task: Task) -> bool:
        """Whether the nests keep to the limit."""
        return self.over_bytes(task) <= 0

    def over_bytes(self, task: Task) -> int:
        """Bytes by which the nests pass the limit; 0 if they keep it."""
        return self.price.space.over_bytes(task.limit)


@dataclass(slots=True)
class Tally:
    """How many nests were priced so far."""

    n_priced: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """What a plan must keep to.

    Attributes:
        limit: The bytes it may use.
        buffer_bytes: What an accumulation may use at a time.
        tally: Counts every nest that is priced.
    """

    limit: Limit
    buffer_bytes: int
    tally: Tally

    def price(self, frame: Frame, nests: Nests) -> Price:
        """Counts of the nests under this task's buffer."""
        self.tally.n_priced += 1
        return frame.price(nests, self.buffer_bytes)

    def fits(self, frame: Frame, nests: Nests) -> bool:
        """Whether the nests keep to the limit."""
        self.tally.n_priced += 1
        return frame.space(nests, self.buffer_bytes).fits(self.limit)


def finest(frame: Frame, nests: Nests) -> Nests:
    """The same loops with one element per trip."""
    return Nests(
        tuple(tuple(frame.finest[cut.index] for cut in opens) for opens in nests.opens),
        nests.hoists,
    )


def widened(frame: Frame, nests: Nests, task: Task, *, thorough: bool) -> Candidate | None:
    """The loops with the widest slices that fit, or None if even the finest do not.

    Loops compete for the same bytes: several ways of sharing them are tried, and the fewest
    multiply-adds win.

    Args:
        frame: The order.
        nests: The loops; their widths do not matter.
        task: The limit to keep.
        thorough: Try every order of widening up to three loops, and even widening of all.
    """
    start = finest(frame, nests)
    if not task.fits(frame, start):
        return None
    best: Candidate | None = None
    for first, order in _ways(frame, start, task, thorough=thorough):
        found = _widen(frame, first, order, task)
        if best is None or found.price.key < best.price.key:
            best = found
    return best


def traded(found: Candidate, task: Task, n_priced: int) -> Candidate:
    """The same loops after one got narrower and the others as wide as fits, if that is faster.

    Args:
        found: A plan that fits.
        task: The limit to keep.
        n_priced: Nests to price, about.
    """
    stop = task.tally.n_priced + n_priced
    better: Candidate | None = found
    while better is not None and len(found.nests.places()) > 1:
        found, better = better, None
        for tried in _trades(found, task):
            if task.tally.n_priced >= stop:
                break
            if tried.price.key < (better or found).price.key:
                better = tried
    return found


def _trades(found: Candidate, task: Task) -> Iterator[Candidate]:
    frame = found.frame
    start = finest(frame, found.nests)
    by_gain = _by_gain(frame, start)
    for place in found.nests.places():
        step, position = place
        cut = found.nests.opens[step][position]
        extent, n_trips = frame.extents[cut.index], frame.trips(cut)
        others = tuple(p for p in by_gain if p != place)
        for factor in (2, 4):
            finer = frame.rules.grid.cut(cut.index, min(factor * n_trips, extent))
            narrow = start.with_cut(place, finer)
            if task.fits(frame, narrow):
                yield _widen(frame, narrow, (*others, place), task)
                yield _widen(frame, narrow, (*reversed(others), place), task)


def _ways(
    frame: Frame, start: Nests, task: Task, *, thorough: bool
) -> list[tuple[Nests, tuple[Place, ...]]]:
    by_gain = _by_gain(frame, start)
    if len(by_gain) < 2:
        return [(start, by_gain)]
    even = _evenly(frame, start, task)
    if not thorough:
        return [(start, by_gain), (even, by_gain)]
    orders = (
        list(permutations(by_gain)) if len(by_gain) <= 3 else [by_gain, tuple(reversed(by_gain))]
    )
    return [(first, order) for order in orders for first in (start, even)]


def _by_gain(frame: Frame, start: Nests) -> tuple[Place, ...]:
    """The loops, those first that repeat most work, then the innermost."""

    def macs_without(place: Place) -> int:
        return frame.macs(_whole(frame, start, place))

    return tuple(sorted(start.places(), key=lambda p: (macs_without(p), p[0], -p[1])))


def _evenly(frame: Frame, start: Nests, task: Task) -> Nests:
    """All slices widened by the same power of their extents, as far as it fits."""
    n_powers = 8
    low, high = 0, n_powers
    best = start
    while high - low > 1:
        power = (low + high) // 2
        nests = start
        for step, position in start.places():
            index = start.opens[step][position].index
            n_trips = max(2, round(frame.extents[index] ** (1 - power / n_powers)))
            nests = nests.with_cut((step, position), frame.rules.grid.cut(index, n_trips))
        if not task.fits(frame, nests):
            high = power
        else:
            low, best = power, nests
    return best


def _whole(frame: Frame, nests: Nests, place: Place) -> Nests:
    """The nests with one loop of a single trip."""
    index = nests.opens[place[0]][place[1]].index
    return nests.with_cut(place, Cut(index, frame.extents[index]))


def _widen(frame: Frame, nests: Nests, order: tuple[Place, ...], task: Task) -> Candidate:
    for place in order:
        without = _whole(frame, nests, place)
        if task.fits(frame, _stripped(frame, without)):
            nests = without
        else:
            nests = _bisect(frame, nests, place, task)
    bare = _stripped(frame, nests)
    # A loop of a single trip still decides when values are made; where that matters it stays.
    kept = bare if task.fits(frame, bare) else nests
    return Candidate(frame, kept, task.price(frame, kept))


def _stripped(frame: Frame, nests: Nests) -> Nests:
    """The nests without loops of a single trip."""
    opens = tuple(
        tuple(cut for cut in opens if cut.width < frame.extents[cut.index]) for opens in nests.opens
    )
    return Nests(opens, nests.hoists)


def _bisect(frame: Frame, nests: Nests, place: Place, task: Task) -> Nests:
    """The nests with the fewest trips of one loop, at least two, that fit."""
    step, position = place
    cut = nests.opens[step][position]
    low, high = 1, frame.trips(cut)
    best = nests
    while high - low > 1:
        middle = (low + high) // 2
        tried = nests.with_cut(place, frame.rules.grid.cut(cut.index, middle))
        if not task.fits(frame, tried):
            low = middle
        else:
            high, best = min(middle, frame.trips(tried.opens[step][position])), tried
    return best
