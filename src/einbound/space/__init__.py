"""A lazy tree of decisions with four verdicts, searched by branch and bound."""

from __future__ import annotations

from einbound.space.lift import lift_excluded, lift_where
from einbound.space.limit import Limit
from einbound.space.placement import Inline, LoopId, Materialize, Placement, StageAt
from einbound.space.search import SearchResult, search
from einbound.space.stats import SearchStats
from einbound.space.traversal import (
    count_choices,
    depth,
    enumerate_leaves,
    exclusions,
    leaves,
    refutations,
    render_path,
    unknowns,
)
from einbound.space.tree import (
    Child,
    Choice,
    Excluded,
    Judged,
    Leaf,
    Path,
    Reason,
    Refuted,
    Tree,
    Unknown,
)
from einbound.space.witness import Witness

__all__ = [
    "Child",
    "Choice",
    "Excluded",
    "Inline",
    "Judged",
    "Leaf",
    "Limit",
    "LoopId",
    "Materialize",
    "Path",
    "Placement",
    "Reason",
    "Refuted",
    "SearchResult",
    "SearchStats",
    "StageAt",
    "Tree",
    "Unknown",
    "Witness",
    "count_choices",
    "depth",
    "enumerate_leaves",
    "exclusions",
    "leaves",
    "lift_excluded",
    "lift_where",
    "refutations",
    "render_path",
    "search",
    "unknowns",
]
