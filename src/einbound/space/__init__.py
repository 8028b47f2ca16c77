"""A lazy tree of decisions with four verdicts, searched by branch and bound."""

from __future__ import annotations

from einbound.space.lift import lift_excluded, lift_where
from einbound.space.placement import Inline, LoopId, Materialize, Placement, StageAt
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
from einbound.space.tree import Child, Choice, Excluded, Leaf, Refuted, Unknown
from einbound.space.witness import Witness

__all__ = [
    "Child",
    "Choice",
    "Excluded",
    "Inline",
    "Leaf",
    "LoopId",
    "Materialize",
    "Placement",
    "Refuted",
    "SearchStats",
    "StageAt",
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
    "unknowns",
]
