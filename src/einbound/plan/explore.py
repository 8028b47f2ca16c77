"""The search for loops of one order: loops are added one by one, the promising nests first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einbound.plan.frame import Frame
from einbound.plan.masks import Steps, bits
from einbound.plan.nests import Hoist, Nests
from einbound.plan.tree import Cut
from einbound.plan.widths import Candidate, Task, widened


@dataclass(frozen=True, slots=True)
class Effort:
    """Bounds of a search.

    Attributes:
        n_deep: Loops and level changes of one plan, at most.
        beam: Nests that are extended at every depth.
        n_priced: Nests priced for one order, at most.
    """

    n_deep: int
    beam: int
    n_priced: int


@dataclass(frozen=True, slots=True)
class _Node:
    nests: Nests
    excess: float
    least_macs: int

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(c.index for opens in self.nests.opens for c in opens)


#: Plans kept of one search.
_N_KEPT = 24


class Pool:
    """The plans found so far, best first.

    Attributes:
        candidates: What was found; only the best are kept.
        nearest: The plan that passes the limit by the fewest bytes, while none fits.
        macs: Plans with more multiply-adds than this are of no use, except to start from.
        leaders: The best plan of each order, by the order.
    """

    def __init__(self, macs: int | None = None) -> None:
        self.candidates: list[Candidate] = []
        self.nearest: Candidate | None = None
        self.macs = macs
        self.leaders: dict[Steps, Candidate] = {}
        self._known: set[object] = set()

    def add(self, candidate: Candidate) -> None:
        """Keeps a plan if it is among the best."""
        steps = candidate.frame.steps
        leader = self.leaders.get(steps)
        if leader is None or candidate.price.key < leader.price.key:
            self.leaders[steps] = candidate
        # The same loops in another order at one price are the same plan.
        nests = candidate.nests
        opens = tuple(frozenset(cuts) for cuts in nests.opens)
        key = (steps, opens, nests.hoists, candidate.price.key)
        if key in self._known or (self.macs is not None and candidate.price.macs > self.macs):
            return
        self._known.add(key)
        self.candidates.append(candidate)
        self.candidates.sort(key=lambda c: c.price.key)
        del self.candidates[_N_KEPT:]
        self.macs = self.candidates[0].price.macs

    def note(self, candidate: Candidate, task: Task) -> None:
        """Remembers a plan that does not fit if it is the nearest to fitting."""
        if self.nearest is None or _distance(candidate, task) < _distance(self.nearest, task):
            self.nearest = candidate


def _distance(candidate: Candidate, task: Task) -> tuple[int, int]:
    return candidate.price.space.over_bytes(task.limit), candidate.price.macs


def explore(frame: Frame, task: Task, pool: Pool, effort: Effort) -> None:
    """Adds to the pool the plans of one order that keep to the task."""
    plain = Nests.none(len(frame.steps))
    price = task.price(frame, plain)
    if price.space.fits(task.limit):
        pool.add(Candidate(frame, plain, price))
        return
    beam = [_Node(plain, price.excess(task.limit), frame.plain_macs)]
    seen = {plain}
    stop = task.tally.n_priced + effort.n_priced
    for _ in range(effort.n_deep):
        grown: list[_Node] = []
        for node in beam:
            grown += _extended(frame, node, task, pool, seen, stop)
        beam = _promising(grown, effort.beam)
        if not beam or task.tally.n_priced >= stop:
            return


def _extended(
    frame: Frame, node: _Node, task: Task, pool: Pool, seen: set[Nests], stop: int
) -> Iterator[_Node]:
    for nests in moves(frame, node.nests):
        if nests in seen or task.tally.n_priced >= stop:
            continue
        seen.add(nests)
        least = frame.least_macs(nests)
        if pool.macs is not None and least > pool.macs:
            continue
        price = task.price(frame, nests)
        excess = price.excess(task.limit)
        if price.space.fits(task.limit):
            found = widened(frame, nests, task, thorough=False)
            assert found is not None, "the finest widths fit"
            pool.add(found)
        elif not pool.candidates:
            pool.note(Candidate(frame, nests, price), task)
        yield _Node(nests, excess, least)


def _promising(grown: list[_Node], beam: int) -> list[_Node]:
    """Those that are nearest to fitting, and those that repeat least work."""
    by_excess = sorted(grown, key=lambda n: (n.excess, n.least_macs, n.order))
    by_macs = sorted(grown, key=lambda n: (n.least_macs, n.excess, n.order))
    kept: dict[Nests, _Node] = {}
    for pair in zip(by_excess, by_macs, strict=True):
        for node in pair:
            if len(kept) < beam:
                kept[node.nests] = node
    return list(kept.values())


def moves(frame: Frame, nests: Nests) -> Iterator[Nests]:
    """The nests with one loop or one change of level more; new loops have one element a trip."""
    for step in range(len(frame.steps)):
        for index in bits(frame.useful[step]):
            if frame.extents[index] > 1 and not cut_along(frame, nests, step, index):
                yield from inserted(nests, step, index)
    inside, levels = frame.place(nests)
    for step in range(len(frame.steps) - 1):
        value = frame.n + step
        around = inside[frame.parents[value]]
        if levels[value] < len(around) and nests.hoists[step] is Hoist.FREE:
            yield nests.with_hoist(step, Hoist.INSIDE)
        if nests.hoists[step] is Hoist.FREE:
            full = nests.with_hoist(step, Hoist.FULL)
            if frame.place(full)[1][value] != levels[value]:
                yield full


def inserted(nests: Nests, step: int, index: int) -> Iterator[Nests]:
    """The nests with a loop more at one step, in every position."""
    opens = nests.opens[step]
    for position in range(len(opens) + 1):
        yield nests.with_opens(step, (*opens[:position], Cut(index, 1), *opens[position:]))


def cut_along(frame: Frame, nests: Nests, step: int, index: int) -> bool:
    """Whether a loop over `index` is open at a step, above it or below it."""
    value = frame.n + step
    while value >= 0:
        if any(cut.index == index for cut in nests.opens[value - frame.n]):
            return True
        value = frame.parents[value]
    stack = [child for child in frame.steps[step] if child >= frame.n]
    while stack:
        below = stack.pop() - frame.n
        if any(cut.index == index for cut in nests.opens[below]):
            return True
        stack += [child for child in frame.steps[below] if child >= frame.n]
    return False


def sliced_at_root(frame: Frame, task: Task, pool: Pool) -> None:
    """Adds the plans that cut every index at the last step: they fit whenever little fits."""
    n_steps = len(frame.steps)
    cuts = tuple(Cut(i, 1) for i in bits(frame.useful[-1]) if frame.extents[i] > 1)
    nests = Nests.none(n_steps).with_opens(n_steps - 1, cuts)
    for hoist in (Hoist.FREE, Hoist.INSIDE):
        tried = Nests(nests.opens, (hoist,) * n_steps)
        found = widened(frame, tried, task, thorough=False)
        if found is None:
            pool.note(Candidate(frame, tried, task.price(frame, tried)), task)
        else:
            pool.add(found)


def polished(candidate: Candidate, task: Task, pool: Pool, n_priced: int) -> Candidate:
    """The plan after local changes: loops added, removed, moved, swapped; levels changed."""
    stop = task.tally.n_priced + n_priced
    best = widened(candidate.frame, candidate.nests, task, thorough=True) or candidate
    if candidate.price.key < best.price.key:
        best = candidate
    better: Candidate | None = best
    while better is not None:
        best = better
        pool.add(best)
        better = _best_change(best, task, stop)
    return best


def _best_change(best: Candidate, task: Task, stop: int) -> Candidate | None:
    frame, found = best.frame, None
    for nests in changes(frame, best.nests):
        if task.tally.n_priced >= stop:
            break
        if frame.least_macs(nests) > best.price.macs:
            continue
        changed = widened(frame, nests, task, thorough=False)
        if changed is not None and changed.price.key < (found or best).price.key:
            found = changed
            if found.price.macs < best.price.macs:
                return found
    return found


def changes(frame: Frame, nests: Nests) -> Iterator[Nests]:
    """Nests one local change away."""
    for place in nests.places():
        step, position = place
        bare = nests.without(place)
        yield bare
        index = nests.opens[step][position].index
        for other in range(len(frame.steps)):
            if frame.useful[other] >> index & 1 and not cut_along(frame, bare, other, index):
                yield from (n for n in inserted(bare, other, index) if n != nests)
    yield from moves(frame, nests)
    for step, hoist in enumerate(nests.hoists):
        if hoist is not Hoist.FREE:
            yield nests.with_hoist(step, Hoist.FREE)
