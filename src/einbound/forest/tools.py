"""What the planning of a forest is given by the layers above: trees, meter readings, rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from einbound.expr.network import Network
from einbound.forest.blocks import ForestPlan
from einbound.forest.forest import Forest, Production
from einbound.plan.ledger import Metered
from einbound.plan.rules import Rules
from einbound.plan.tree import Tree


@dataclass(frozen=True, slots=True)
class Grown:
    """The plan of one production, and what it takes.

    Attributes:
        tree: Its order and its own loops.
        workspace_bytes: Peak of what it needs beside its operands and its value.
        macs: Multiply-adds.
        fits: Whether it keeps the room it was given; else it is the one that passes it least.
    """

    tree: Tree
    workspace_bytes: int
    macs: int
    fits: bool


@dataclass(frozen=True, slots=True)
class Tools:
    """What the planning of forests cannot know itself.

    Attributes:
        grow: The best plan of a production within some bytes beside operands and value, or
            within any (None). The network is the production's, with indices as wide as one trip
            of the loops around it.
        rough: The same with little effort, to compare with; also for rooms that are nearly these.
        meter: Counts of a forest's plan under a bound of each buffer of a step.
        rules: What a production keeps to; only its grid and `persistent_only` are asked.
        itemsize: Bytes per element of every value.
        buffers: Bounds of a step's buffers to choose from, largest first.
    """

    grow: Callable[[Forest, Production, Network, int | None], Grown]
    rough: Callable[[Forest, Production, Network, int | None], Grown]
    meter: Callable[[ForestPlan, int], Metered]
    rules: Callable[[Forest, Production], Rules]
    itemsize: int
    buffers: tuple[int, ...]

    def sketching(self) -> Tools:
        """The same, but for what is only compared."""
        return replace(self, grow=self.rough)
