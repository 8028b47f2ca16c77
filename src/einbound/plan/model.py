"""Multiply-adds and bytes of a tree, counted without layouts, copies or buffers.

The cheap count that planners search with. What a plan really needs, workspace of every step
included, is metered on its schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from einbound.plan.tree import Cut, Tree, trips


@dataclass(frozen=True, slots=True)
class Item:
    """A value that waits in a slot: bytes while it is made, bytes it then holds."""

    value: int
    peak_bytes: int
    held_bytes: int


@dataclass(frozen=True)
class Count:
    """Counts of one tree.

    Attributes:
        tree: The tree.
        itemsize: Bytes per element.
    """

    tree: Tree
    itemsize: int

    def size_bytes(self, value: int, cuts: tuple[Cut, ...]) -> int:
        """Bytes of the slice of `value` that one trip of the loops `cuts` sees."""
        widths = {cut.index: cut.width for cut in cuts}
        extents = self.tree.network.extents
        return self.itemsize * prod(widths.get(i, extents[i]) for i in self.tree.carried[value])

    def step_macs(self, step: int) -> int:
        """Multiply-adds of one step over all its trips."""
        tree = self.tree
        left, right = tree.steps[step]
        union = {*tree.carried[left], *tree.carried[right]}
        repeats = prod(
            trips(cut, tree.network)
            for cut in tree.inside[tree.n_operands + step]
            if cut.index not in union
        )
        return tree.network.size(frozenset(union)) * repeats

    def step_calls(self, step: int) -> int:
        """How often one step runs."""
        tree = self.tree
        return prod(trips(cut, tree.network) for cut in tree.inside[tree.n_operands + step])

    @cached_property
    def macs(self) -> int:
        """Multiply-adds of all pairwise steps over all trips."""
        return sum(self.step_macs(step) for step in range(len(self.tree.steps)))

    @cached_property
    def calls(self) -> int:
        """Number of pairwise products that run."""
        return sum(self.step_calls(step) for step in range(len(self.tree.steps)))

    @cached_property
    def peak_bytes(self) -> int:
        """Most bytes of intermediates and result alive at once; operands count nothing."""
        return self._walk[0]

    @cached_property
    def slots(self) -> dict[tuple[int, int], tuple[Item, ...]]:
        """For (step, number of open loops): the values made there, in the order to make them.

        The values named at the deepest number are the ones made right before the product.
        """
        return self._walk[1]

    @cached_property
    def _walk(self) -> tuple[int, dict[tuple[int, int], tuple[Item, ...]]]:
        tree = self.tree
        slots: dict[tuple[int, int], tuple[Item, ...]] = {}
        peaks: dict[int, int] = {}
        escapes: dict[int, dict[int, list[Item]]] = {}
        for value in range(tree.n_operands):
            peaks[value] = self.size_bytes(value, tree.inside[value]) if tree.stored[value] else 0
            escapes[value] = {}
        for step in range(len(tree.steps)):
            value = tree.n_operands + step
            peaks[value] = self._produce(step, slots, peaks, escapes)
        return peaks[tree.root], slots

    def _produce(
        self,
        step: int,
        slots: dict[tuple[int, int], tuple[Item, ...]],
        peaks: dict[int, int],
        escapes: dict[int, dict[int, list[Item]]],
    ) -> int:
        tree = self.tree
        value = tree.n_operands + step
        inside, outer = tree.inside[value], len(tree.around(value))
        waiting: dict[int, list[Item]] = {}
        for child in tree.steps[step]:
            if child >= tree.n_operands or tree.stored[child]:
                level = tree.level(child)
                held = self.size_bytes(child, inside[:level])
                waiting.setdefault(level, []).append(Item(child, peaks[child], held))
            for level, items in escapes[child].items():
                waiting.setdefault(level, []).extend(items)
        escapes[value] = {j: items for j, items in waiting.items() if j < outer}
        own = self.size_bytes(value, inside[:outer])
        held = peak = 0
        for depth in range(outer, len(inside) + 1):
            items = sorted(
                waiting.get(depth, []), key=lambda x: (x.held_bytes - x.peak_bytes, x.value)
            )
            slots[step, depth] = tuple(items)
            for item in items:
                peak = max(peak, held + item.peak_bytes)
                held += item.held_bytes
            if depth == outer:
                held += own
        return max(peak, held)
