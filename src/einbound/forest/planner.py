"""A forest within a limit: where its values live, in which loops and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from einbound.forest.drafts import Draft, Drafts, Placements, Sketch
from einbound.forest.forest import Forest
from einbound.forest.placement import Decision, Site
from einbound.forest.tools import Tools
from einbound.plan.policy import BatchScheduler
from einbound.plan.price import Limit
from einbound.space.limit import Limit as Leaves
from einbound.space.search import search
from einbound.space.stats import SearchStats
from einbound.space.tree import Path

#: Drafts of a search of placements at most.
_N_DRAFTS = 256
#: Values up to which a forest is small: branch and bound places them all.
_N_SMALL = 6
#: Of larger forests it places this many, the largest ones, and looks at so many drafts.
_N_OPEN, _N_DRAFTS_OPEN = 4, 64
#: Sweeps of the greedy search over all values.
_N_SWEEPS = 3
#: Times the multiply-adds without loops that tell of a tight limit.
_TIGHT = 4
#: Parts of the room of a plan with which it is searched again: where less room forces loops, values
#: that are whole are put into them, which a search with more room may never try. In small forests
#: single elements count.
_LESS_ROOM = (Fraction(2, 3), Fraction(4, 5))
_LITTLE_LESS_ROOM = (Fraction(31, 32), Fraction(15, 16), Fraction(7, 8))
#: Steps on the way to the smallest peak of a large forest.
_N_LOWERED = 4
#: Sketches of one search that are metered, the best ones.
_N_METERED = 4


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned forest.

    Attributes:
        draft: The plan: the best that fits, or the one of the smallest peak.
        path: What was decided of each shared value.
        fits: Whether the limit is kept.
        proven: No other placement in the tree gives fewer multiply-adds.
        least_macs: Multiply-adds that need no search to better them: those that no plan of a
            small forest is below, and those of a larger one as it is, without loops.
        stats: What the search of placements looked at.
    """

    draft: Draft
    path: Path[Decision]
    fits: bool
    proven: bool
    least_macs: int
    stats: SearchStats


def plan_forest(
    forest: Forest,
    limit: Limit,
    tools: Tools,
    *,
    scheduler: BatchScheduler = BatchScheduler.ORDERED,
    iterations: int = 1,
    n_drafts: int | None = None,
) -> Planned:
    """The plan of a forest with the fewest multiply-adds found within a limit.

    Args:
        forest: What is computed. Names of its values are distinct.
        limit: Bytes beside the leaves.
        tools: Plans of single products, meter and rules.
        scheduler: Whether loops may be common to several products.
        iterations: Evaluations in all: what never changes is made once if it is kept.
        n_drafts: Drafts of the search of placements at most; None: the planner's choice.

    Returns:
        A plan with `fits` True, or, only if none was found, the one with the smallest peak.

    Laws: common loops never cost multiply-adds against trees one at a time; equal arguments give
    equal plans (tests/test_forest_plan.py).
    """
    drafts = Drafts(forest, limit, tools, iterations)
    site = Site(forest, limit, tools, False, iterations)
    is_ordered, is_small = scheduler is BatchScheduler.ORDERED, len(site.all_shared) <= _N_SMALL
    if site.is_hopeless:
        return _lowest(replace(site, has_loops=is_ordered), drafts)
    best = _searched(site, drafts, None, n_drafts or _N_DRAFTS)
    if is_ordered and (not best.fits or best.draft.macs > best.least_macs):
        site = replace(site, has_loops=True)
        if not is_small and best.fits and best.draft.macs > _TIGHT * site.plain_macs:
            # What fits a smaller limit is better here than what one more search finds.
            other = _lowest(site, drafts)
            best = other if other.draft.key < best.draft.key else best
        elif is_small or best.fits:
            best = _searched(site, drafts, best.draft, n_drafts or _N_DRAFTS)
    if not best.fits:
        best = _lowest(site, drafts)
        if not best.fits:
            # What comes nearest was finished on the way.
            return best
    elif best.draft.macs > best.least_macs:
        best = _relaxed(site, drafts, best)
    draft = drafts.finished(best.draft)
    return replace(best, draft=draft, fits=draft.over_bytes == 0)


def _searched(site: Site, drafts: Drafts, known: Draft | None, n_drafts: int) -> Planned:
    """The best draft of a greedy search, or of branch and bound below it."""
    is_small = len(site.all_shared) <= _N_SMALL
    draft = _descended(site, drafts, known)
    fits = draft.over_bytes == 0
    # What a large forest computes is not questioned where nothing forces it.
    enough = site.least_macs if is_small else site.plain_macs
    if fits and draft.macs <= enough:
        stats = SearchStats()
        return Planned(draft, site.path(draft.placements), True, is_small, enough, stats)
    open_site = site
    if not is_small:
        if not fits:
            # Few of many values are no way out, where all of them were none.
            return Planned(draft, site.path(draft.placements), False, False, enough, SearchStats())
        n_drafts = min(n_drafts, _N_DRAFTS_OPEN)
        open_site = replace(site, given=draft.placements, n_open=_N_OPEN)

    def score(placements: Placements) -> float | None:
        sketch = drafts.sketch(placements, 0)
        if sketch is None or sketch.over_bytes > 0:
            return None
        if not is_small and sketch.macs >= draft.macs:
            return None
        made = drafts.draft(placements)
        return None if made is None or made.over_bytes > 0 else made.macs

    result = search(
        open_site.tree(),
        score,
        open_site.bound,
        draft.macs if fits else None,
        limit=Leaves(leaves=n_drafts),
        trace=False,
    )
    better = None if result.best is None else drafts.draft(result.best)
    chosen = better or draft
    path = site.path(chosen.placements)
    proven = result.proven and is_small
    return Planned(chosen, path, chosen.over_bytes == 0, proven, enough, result.stats)


def _descended(site: Site, drafts: Drafts, known: Draft | None) -> Draft:
    """The best draft on the way that placing one value anew at a time leads down.

    The way starts where everything is whole, or at a known draft, and follows sketches; the best
    of these are metered.
    """
    starts = [Placements(kept=kept) for kept in (site.frontier, frozenset[int]())]
    starts += [] if known is None else [known.placements]
    seen = {each: sketch for each in starts if (sketch := drafts.sketch(each)) is not None}
    at = min(seen, key=lambda each: seen[each].rank)
    for _ in range(_N_SWEEPS):
        before = at
        for value in site.largest_first:
            if seen[at].rank <= (0, site.plain_macs):
                break
            if not _matters(site, value, at, seen[at]):
                continue
            for each in site.others(value, at):
                best = seen[at]
                if best.excess_bytes == 0 and site.floor(each) >= best.macs:
                    continue
                sketch = drafts.sketch(each, best.excess_bytes)
                if sketch is not None:
                    seen[each] = sketch
                    at = min(at, each, key=lambda one: seen[one].rank)
        if at == before:
            break
    return _metered(drafts, seen, known)


def _matters(site: Site, value: int, at: Placements, sketch: Sketch) -> bool:
    """Whether a value takes room where it lacks, or costs multiply-adds where it lives."""
    is_whole = value not in at.inline and all(each.value != value for each in at.staged)
    return not is_whole or value in site.frontier or site.forest.values[value].name in sketch.blamed


def _metered(drafts: Drafts, seen: Mapping[Placements, Sketch], known: Draft | None) -> Draft:
    """The best of some drafts by the meter: it is asked for those of the best sketches."""
    best, n_tried = known, 0
    for each in sorted(seen, key=lambda one: seen[one].rank):
        if best is not None and best.over_bytes == 0 and seen[each].macs >= best.macs:
            break
        made = drafts.draft(each)
        if made is not None:
            n_tried += 1
            best = made if best is None or made.key < best.key else best
        if n_tried == _N_METERED:
            break
    assert best is not None, "a forest can run with every value whole"
    return best


def _relaxed(site: Site, drafts: Drafts, best: Planned) -> Planned:
    """The best of a plan and of those that searches with less room lead to."""
    is_small = len(site.all_shared) <= _N_SMALL
    for share in _LITTLE_LESS_ROOM if is_small else _LESS_ROOM:
        tight = drafts.within(site.target(int(share * best.draft.space_bytes)))
        low = drafts.judged(_descended(replace(site, limit=tight.limit), tight, None))
        for draft in (low, _descended(site, drafts, low)):
            if draft.over_bytes == 0 and draft.macs < best.draft.macs:
                best = replace(best, draft=draft, path=site.path(draft.placements), proven=False)
    return best


def _lowest(site: Site, drafts: Drafts) -> Planned:
    """The best plan that fits on the way to the smallest peak, or the one of that peak.

    The way does not depend on the limit, so that a peak that it finds is found again, and kept,
    where it is the limit.
    """
    is_small = len(site.all_shared) <= _N_SMALL
    way = _without_room(site, drafts) if is_small else _halving(site, drafts)
    judged = [drafts.judged(draft) for draft in way]
    chosen = min(judged, key=lambda draft: draft.key)
    path, fits = site.path(chosen.placements), chosen.over_bytes == 0
    return Planned(chosen, path, fits, False, site.plain_macs, SearchStats())


def _without_room(site: Site, drafts: Drafts) -> Iterator[Draft]:
    """The drafts of searches without any room.

    A site without a limit asks for whole values and few loops, one without room for slices and
    more loops.
    """
    tight = drafts.within(site.target(0))
    for limit in (Limit(None, None), tight.limit):
        yield tight.finished(_descended(replace(site, limit=limit), tight, None))


def _halving(site: Site, drafts: Drafts) -> Iterator[Draft]:
    """The drafts on a way that halves what lies between the smallest peak and the results."""
    least_bytes, lowest = site.result_bytes, None
    target_bytes = 2 * least_bytes
    for _ in range(_N_LOWERED):
        tight = drafts.within(site.target(target_bytes))
        known = None if lowest is None else tight.judged(lowest)
        found = _descended(replace(site, limit=tight.limit), tight, known)
        yield found
        if lowest is None or found.space_bytes < lowest.space_bytes:
            lowest = found
        if found.over_bytes > 0:
            least_bytes = target_bytes
        target_bytes = (least_bytes + lowest.space_bytes) // 2
    assert lowest is not None, "there is a first step"
    nearest = drafts.within(site.target(lowest.space_bytes))
    yield nearest.finished(nearest.judged(lowest))
