"""A forest within a limit: where its values live, in which loops and in which order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from einbound.forest.drafts import Draft, Drafts, Placements
from einbound.forest.forest import Forest
from einbound.forest.placement import Decision, Site
from einbound.forest.tools import Tools
from einbound.plan.policy import BatchScheduler
from einbound.plan.price import Limit
from einbound.space.limit import Limit as Leaves
from einbound.space.search import search
from einbound.space.stats import SearchStats
from einbound.space.tree import Path

#: Drafts of a search of placements at most, and productions in all of them together.
_N_DRAFTS, _N_PRODUCTIONS = 256, 1024
#: Sweeps of the greedy search over all values.
_N_SWEEPS = 3


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned forest.

    Attributes:
        draft: The plan: the best that fits, or the one of the smallest peak.
        path: What was decided of each shared value.
        fits: Whether the limit is kept.
        proven: No other placement in the tree gives fewer multiply-adds.
        least_macs: Multiply-adds that no plan is below.
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
    if n_drafts is None:
        n_drafts = min(_N_DRAFTS, _N_PRODUCTIONS // max(len(forest.productions), 1))
    site = Site(forest, limit, tools, False, iterations)
    best = _searched(site, drafts, None, n_drafts)
    if scheduler is BatchScheduler.ORDERED:
        site = replace(site, has_loops=True)
        if not best.fits or best.draft.macs > best.least_macs:
            best = _searched(site, drafts, best.draft, n_drafts)
    if not best.fits:
        best = _lowest(site, drafts, best)
    return replace(best, draft=drafts.enlarged(best.draft))


def _searched(site: Site, drafts: Drafts, known: Draft | None, n_drafts: int) -> Planned:
    """The best draft of a greedy search, or of branch and bound below it."""
    draft = _descended(site, drafts, known)
    fits = draft.over_bytes == 0
    if fits and draft.macs <= site.least_macs:
        return _planned(site, draft, SearchStats(), proven=True)

    def score(placements: Placements) -> float | None:
        made = drafts.draft(placements)
        return None if made is None or made.over_bytes > 0 else made.macs

    result = search(
        site.tree(),
        score,
        site.bound,
        draft.macs if fits else None,
        limit=Leaves(leaves=n_drafts),
        trace=False,
    )
    better = None if result.best is None else drafts.draft(result.best)
    return _planned(site, better or draft, result.stats, proven=result.proven)


def _planned(site: Site, draft: Draft, stats: SearchStats, *, proven: bool) -> Planned:
    path = site.path(draft.placements)
    return Planned(draft, path, draft.over_bytes == 0, proven, site.least_macs, stats)


def _descended(site: Site, drafts: Drafts, known: Draft | None) -> Draft:
    """The draft that placing one value anew at a time leads to, from everything whole."""
    starts = [drafts.draft(Placements(kept=kept)) for kept in (site.frontier, frozenset[int]())]
    best = min((draft for draft in (*starts, known) if draft), key=lambda draft: draft.key)
    largest_first = sorted(site.shared, key=lambda value: (-site.n_bytes(value), value))
    for _ in range(_N_SWEEPS):
        before = best
        for value in largest_first:
            if best.over_bytes == 0 and best.macs <= site.least_macs:
                return best
            made = [drafts.draft(each) for each in site.others(value, best.placements)]
            best = min((best, *filter(None, made)), key=lambda draft: draft.key[:2])
        if best is before:
            break
    return best


def _lowest(site: Site, drafts: Drafts, best: Planned) -> Planned:
    """The draft of the smallest peak: the same search, without any room."""
    limits = site.limit.peak_bytes, site.limit.workspace_bytes
    nothing = Limit(*(None if given is None else 0 for given in limits))
    tight = replace(drafts, limit=nothing, made={})
    found = _descended(replace(site, limit=Limit(None, None)), tight, None)
    chosen = min(best.draft, drafts.judged(found), key=lambda draft: draft.key)
    return _planned(site, chosen, best.stats, proven=False)
