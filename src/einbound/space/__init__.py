"""A lazy tree of decisions with four verdicts, searched by branch and bound."""

from __future__ import annotations

from einbound.space.admissible import verify_bound
from einbound.space.events import (
    Event,
    Fathomed,
    Left,
    Met,
    Order,
    Outcome,
    Scored,
    Trace,
    Verdict,
)
from einbound.space.lift import lift_excluded, lift_where
from einbound.space.limit import Limit
from einbound.space.placement import Inline, LoopId, Materialize, Placement, StageAt
from einbound.space.search import SearchResult, search
from einbound.space.stats import SearchStats
from einbound.space.trace import verify_trace
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
from einbound.space.verification import Verification
from einbound.space.witness import Witness

__all__ = [
    "Child",
    "Choice",
    "Event",
    "Excluded",
    "Fathomed",
    "Inline",
    "Judged",
    "Leaf",
    "Left",
    "Limit",
    "LoopId",
    "Materialize",
    "Met",
    "Order",
    "Outcome",
    "Path",
    "Placement",
    "Reason",
    "Refuted",
    "Scored",
    "SearchResult",
    "SearchStats",
    "StageAt",
    "Trace",
    "Tree",
    "Unknown",
    "Verdict",
    "Verification",
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
    "verify_bound",
    "verify_trace",
]
