"""A forest made ready to run on leaves of one layout: schedule, meter reading, kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.backends.numpy_ import Kernel
from einbound.backends.numpy_ops import NumpyOps
from einbound.backends.sizes import CallKey, Metered
from einbound.forest.blocks import ForestPlan
from einbound.forest.lower import Lowered, lower_forest
from einbound.run.allocator import Allocator
from einbound.run.executable import compiled_ways, quiet
from einbound.run.meter import meter
from einbound.run.walk import Progress, walk
from einbound.schedule.cells import Cell, Place
from einbound.schedule.validate import validate
from einbound.step.view import View

Array = NDArray[Any]


@dataclass(frozen=True)
class ForestExecutable:
    """The schedule of a forest with all that running it needs.

    Attributes:
        plan: What it was made from.
        leaves: The layout of each leaf, whose indices are the numbers of its axes.
        work: Element type in which values are computed, stored and returned.
        lowered: The valid schedule, and what its numbers mean.
        results: The layout of each result, by its cell.
        metered: What a run takes.
    """

    plan: ForestPlan
    leaves: tuple[View, ...]
    work: np.dtype
    lowered: Lowered
    results: Mapping[int, View]
    metered: Metered

    @cached_property
    def kernels(self) -> Mapping[CallKey, Kernel]:
        """The compiled way of every call that occurs in a run."""
        return compiled_ways(self.lowered.schedule, self.metered)

    @cached_property
    def hidden(self) -> Mapping[CallKey, int]:
        """Bytes that NumPy takes beside the workspace in some of the calls."""
        ways = self.metered.ways
        return {key: way.hidden_bytes for key, way in ways.items() if way.hidden_bytes}

    def run(self, leaves: Sequence[Array], progress: Progress | None = None) -> tuple[Array, ...]:
        """The targets in order, then the other kept values.

        Args:
            leaves: One array per leaf, of exactly the layouts that it was compiled for.
            progress: Called with (trips done, trips in all) of the outermost loops.
        """
        return quiet().copy().run(self._walk, leaves, progress)

    def _walk(self, leaves: Sequence[Array], progress: Progress | None) -> tuple[Array, ...]:
        allocator = Allocator(self.metered.workspace_bytes)
        made_bytes = 0

        def make(cell: Cell) -> Array:
            nonlocal made_bytes
            view = self.results[cell.number]
            made_bytes += view.nbytes
            allocator.limit(self.metered.space_bytes - made_bytes)
            return np.empty(view.extents, self.work)

        ops = NumpyOps(self.kernels, self.work, allocator.take, allocator.give, make)
        if self.hidden:
            ops.hidden, ops.make_room = self.hidden, allocator.make_room
        return walk(self.lowered.schedule, ops, leaves, progress)


def compile_forest(
    plan: ForestPlan, leaves: Sequence[View], work: np.dtype, buffer_bytes: int
) -> ForestExecutable:
    """The executable of a planned forest.

    Args:
        plan: What to run.
        leaves: The layout of each leaf, whose indices are the numbers of its axes.
        work: Element type of stored values and of results.
        buffer_bytes: Bound of each buffer of a step.
    """
    lowered = lower_forest(plan, leaves, work, buffer_bytes)
    schedule = validate(lowered.schedule)
    results = {
        cell.number: View.contiguous(
            cell.indices, tuple(schedule.extents[i] for i in cell.indices), work
        )
        for cell in schedule.cells
        if cell.place is Place.RESULT
    }
    operands = tuple(
        View(cell.indices, leaf.extents, leaf.strides, leaf.dtype, leaf.aligned)
        for cell, leaf in zip(schedule.cells, leaves, strict=False)
    )
    metered = meter(schedule, operands, results, work, buffer_bytes, False)
    return ForestExecutable(plan, tuple(leaves), work, lowered, results, metered)
