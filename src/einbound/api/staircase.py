"""The plans behind a curve of budgets: found, metered and thinned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log

from einbound.api.planning import Made, compiled
from einbound.api.setting import Setting
from einbound.backends.sizes import Metered
from einbound.plan.contribution import Contribution
from einbound.plan.curve import Frontier, frontier_of, workspace_bytes
from einbound.plan.effort import Effort
from einbound.plan.grid import Grid, Mode
from einbound.plan.model import Count
from einbound.plan.problem import Temporary
from einbound.plan.rules import Rules
from einbound.plan.search import Budget, search
from einbound.plan.splits import N_OPERANDS
from einbound.plan.tree import Cut, Tree
from einbound.step.pricing import DEFAULT_BUFFER_BYTES

#: Buffers with which plans are metered, and the part of the least peak that larger ones may add:
#: those of a few elements save next to nothing and make steps a thousand times slower.
BUFFERS = (1 << 6, 1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, DEFAULT_BUFFER_BYTES)
BUFFER_SHARE = 64
#: Limits for which plans are searched where the staircase is not known to be complete.
N_LIMITS = 12


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """What one plan takes.

    Attributes:
        peak_bytes: Most bytes of arrays alive at once: operands, intermediates, result.
        workspace_bytes: Most bytes alive at once of what is neither operand nor result.
        macs: Multiply-adds over all trips.
        seconds: Rough estimate of the run time.
    """

    peak_bytes: int
    workspace_bytes: int
    macs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Stair:
    """A point with its plan.

    Attributes:
        point: What the plan takes.
        tree: The plan.
        buffer_bytes: Bound of each buffer of its steps.
    """

    point: BudgetPoint
    tree: Tree
    buffer_bytes: int


@dataclass(frozen=True, slots=True)
class Quest:
    """One staircase to find.

    Attributes:
        setting: What is contracted, and where its operands lie.
        options: The loops to choose from.
        is_fixed: No other loops may be used; else the planner may choose widths of its own where
            the staircase is not known to be complete.
        temporaries: Whether what steps take besides values counts.
        effort: How hard to try.
    """

    setting: Setting
    options: tuple[Cut, ...]
    is_fixed: bool
    temporaries: bool
    effort: Effort

    def stairs(self) -> tuple[tuple[Stair, ...], bool]:
        """The staircase, and whether it is known that nothing lies below."""
        trees, complete = self._exact()
        if not complete:
            trees += self._searched()
        stairs = _thinned(map(self._stair, dict.fromkeys(trees)))
        if not (complete and self.temporaries):
            return stairs, complete
        # Steps only add to what values take: a metered staircase that is no higher is exact.
        counted = [self._counts(tree) for tree in trees]
        return stairs, all(
            any(s.point.peak_bytes <= peak and s.point.macs <= macs for s in stairs)
            for peak, macs in counted
        )

    def _exact(self) -> tuple[list[Tree], bool]:
        """Trees of the staircase of values, and whether it is complete."""
        if len(self.setting.network().inputs) > N_OPERANDS:
            return [], False
        found = self._frontier(None)
        trees = [point.tree for point in found.points]
        if self.temporaries and found.exhausted:
            extents = self.setting.network().extents
            price = Contribution(extents, self._itemsize(), BUFFERS[0])
            trees += [point.tree for point in self._frontier(price).points]
        return trees, found.exhausted

    def _frontier(self, price: Temporary | None) -> Frontier:
        """The staircase of values, and of what products need beside them if that has a price."""
        return frontier_of(
            self.setting.network(),
            self._itemsize(),
            self.options,
            n_deep=self.effort.depth,
            connected_only=not self.effort.outer_products,
            effort=self.effort.states,
            temporary=price,
        )

    def _itemsize(self) -> int:
        return self.setting.dtypes().work.itemsize

    def _counts(self, tree: Tree) -> tuple[int, int]:
        """Peak and multiply-adds of a tree whose steps take nothing but values."""
        count = Count(tree, self._itemsize())
        return self.setting.operand_bytes + count.peak_bytes, count.macs

    def _stair(self, tree: Tree) -> Stair:
        """A tree with what it takes."""
        # Ideal steps are timed with all the buffers that they like.
        made = confirmed(self.setting, tree, BUFFERS if self.temporaries else BUFFERS[-1:])
        ready = made.executable
        peak, workspace, macs = made.peak_bytes, ready.metered.workspace_bytes, ready.metered.macs
        if not self.temporaries:
            peak, macs = self._counts(tree)
            workspace = workspace_bytes(tree, self._itemsize())
        point = BudgetPoint(peak, workspace, macs, ready.metered.seconds)
        return Stair(point, tree, ready.buffer_bytes)

    def _searched(self) -> list[Tree]:
        """Plans of the planner for limits between the least workspace that it finds and enough."""
        (most, high), (least, low) = self._within(None), self._within(0)
        ratio = max(high, 1) / max(low, 1)
        limits = [int(max(low, 1) * ratio ** (k / N_LIMITS)) for k in range(1, N_LIMITS)]
        found = [most, least, *(self._within(n)[0] for n in limits if low < n < high)]
        admitted = set(self.options)
        return [
            tree
            for tree in found
            if not self.is_fixed or all(admitted.issuperset(cuts) for cuts in tree.opens)
        ]

    def _within(self, workspace: int | None) -> tuple[Tree, int]:
        """The planner's plan within a workspace in bytes, and the workspace that it takes."""

        def meter(tree: Tree, buffer_bytes: int) -> Metered:
            return compiled(self.setting, tree, buffer_bytes).executable.metered

        network = self.setting.network()
        widths = {cut.index: cut.width for cut in self.options}
        modes = tuple(
            Mode(extent, (), i in widths, widths.get(i) if self.is_fixed else None)
            for i, extent in enumerate(network.extents)
        )
        found = search(
            network,
            self._itemsize(),
            Budget(None, workspace),
            meter,
            rules=Rules(Grid(modes)),
            effort=self.effort,
            operand_bytes=self.setting.operand_bytes,
            default_buffer_bytes=DEFAULT_BUFFER_BYTES,
        )
        return found.tree, found.metered.workspace_bytes


def confirmed(setting: Setting, tree: Tree, buffers: Iterable[int]) -> Made:
    """The fastest plan of a tree whose peak is about the least.

    Args:
        setting: What is contracted.
        tree: In which order, inside which loops.
        buffers: Bounds of each buffer of a step to choose from, in bytes.
    """
    made = [compiled(setting, tree, n_bytes) for n_bytes in buffers]
    least = min(one.peak_bytes for one in made)
    low = [one for one in made if one.peak_bytes <= least + least // BUFFER_SHARE]
    return min(low, key=lambda one: (one.executable.metered.seconds, one.peak_bytes))


def spread(stairs: tuple[Stair, ...], n_most: int | None) -> tuple[Stair, ...]:
    """At most so many of the stairs, spread evenly in the logarithm of the peak, with both ends."""
    if n_most is None or len(stairs) <= n_most:
        return stairs
    places = [log(max(stair.point.peak_bytes, 1)) for stair in stairs]
    step = (places[-1] - places[0]) / (n_most - 1)
    chosen = [0]
    for number in range(1, n_most - 1):
        # As many must be left to the right as are still to be chosen.
        free = range(chosen[-1] + 1, len(stairs) - (n_most - 1 - number))
        wanted = places[0] + number * step
        chosen.append(min(free, key=lambda k: abs(places[k] - wanted)))
    return tuple(stairs[k] for k in (*chosen, len(stairs) - 1))


def _thinned(stairs: Iterable[Stair]) -> tuple[Stair, ...]:
    """The stairs that no other one beats in peak and multiply-adds, by rising peak."""
    kept: list[Stair] = []
    for stair in sorted(stairs, key=lambda s: (s.point.peak_bytes, s.point.macs, s.point.seconds)):
        if not kept or stair.point.macs < kept[-1].point.macs:
            kept.append(stair)
    return tuple(kept)
