"""A forest made ready to run on leaves of one layout: schedule, meter reading, kernels."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.backends.numpy_ import Kernel
from einbound.backends.numpy_ops import NumpyOps
from einbound.backends.reads import Call, Window, call_here
from einbound.backends.sizes import CallKey, Metered
from einbound.forest.blocks import ForestPlan
from einbound.forest.lower import Lowered, lower_forest
from einbound.run.allocator import Allocator
from einbound.run.executable import compiled_ways, quiet
from einbound.run.guards import Guard, Guards, summing_loops
from einbound.run.meter import meter
from einbound.run.walk import Progress, walk
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Read, Schedule, See, flat
from einbound.schedule.validate import validate
from einbound.step.pricing import DEFAULT_BUFFER_BYTES
from einbound.step.reading import Intake
from einbound.step.view import View
from einbound.step.way import PairWays

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
        intakes: How leaves that are not in memory are read, by the cell that is written.
        buffer_bytes: Bound of each buffer of a step.
    """

    plan: ForestPlan
    leaves: tuple[View, ...]
    work: np.dtype
    lowered: Lowered
    results: Mapping[int, View]
    metered: Metered
    intakes: Mapping[int, Intake] = field(default_factory=dict)
    buffer_bytes: int = DEFAULT_BUFFER_BYTES

    def choosing(self, pair_ways: Mapping[int, PairWays]) -> ForestExecutable:
        """The same schedule with ways of its products that something else chooses, by step."""
        schedule, work, size = self.lowered.schedule, self.work, self.buffer_bytes
        operands = _operands(schedule, self.leaves)
        metered = meter(
            schedule,
            operands,
            self.results,
            work,
            size,
            False,
            intakes=self.intakes,
            pair_ways=pair_ways,
        )
        return replace(self, metered=metered)

    @cached_property
    def kernels(self) -> Mapping[CallKey, Kernel]:
        """The compiled way of every call that occurs in a run."""
        return compiled_ways(self.lowered.schedule, self.metered)

    @cached_property
    def hidden(self) -> Mapping[CallKey, int]:
        """Bytes that NumPy takes beside the workspace in some of the calls."""
        ways = self.metered.ways
        return {key: way.hidden_bytes for key, way in ways.items() if way.hidden_bytes}

    def run(
        self,
        leaves: Sequence[Array | Window],
        progress: Progress | None = None,
        guard: Guard | None = None,
    ) -> tuple[Array, ...]:
        """The targets in order, then the other kept values.

        Args:
            leaves: One array per leaf, of exactly the layouts that it was compiled for; windows
                into those that are not in memory.
            progress: Called with (trips done, trips in all) of the outermost loops.
            guard: Makes a scope around each loop that adds up, from its number of trips.
        """
        guards = None if guard is None else Guards(guard, summing_loops(self.lowered.schedule))
        call = contextvars.copy_context().run if self.intakes else call_here
        with nullcontext() if guards is None else guards:
            return quiet().copy().run(self._walk, leaves, progress, guards, call)

    def _walk(
        self,
        leaves: Sequence[Array | Window],
        progress: Progress | None,
        guards: Guards | None,
        call: Call,
    ) -> tuple[Array, ...]:
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
        if guards is not None:
            ops.spans = guards.spans
        if self.intakes:
            ops.intakes, ops.workspace, ops.call = self.intakes, allocator, call
        try:
            made = walk(self.lowered.schedule, ops, leaves, progress)
            allocator.finish()
            return made
        except BaseException:
            # A caller may keep the error, and with its frames the arena.
            allocator.abandon()
            raise


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
    operands = _operands(schedule, leaves)
    intakes = _intakes(schedule, operands, work, buffer_bytes)
    metered = meter(schedule, operands, results, work, buffer_bytes, False, intakes=intakes)
    return ForestExecutable(
        plan, tuple(leaves), work, lowered, results, metered, intakes, buffer_bytes
    )


def _operands(schedule: Schedule, leaves: Sequence[View]) -> tuple[View, ...]:
    """The layouts of the leaves, under the indices of their cells."""
    return tuple(
        View(cell.indices, leaf.extents, leaf.strides, leaf.dtype, leaf.aligned)
        for cell, leaf in zip(schedule.cells, leaves, strict=False)
    )


def _intakes(
    schedule: Schedule, leaves: Sequence[View], work: np.dtype, buffer_bytes: int
) -> dict[int, Intake]:
    """How leaves that are not in memory are read: in blocks like a step's buffers."""
    cells = schedule.cells
    axes = {each.cell: each.axes for each in flat(schedule.body) if isinstance(each, See)}
    intakes = {}
    for each in flat(schedule.body):
        if isinstance(each, Read):
            indices = cells[each.source].indices
            looks = tuple(_looks(cells, each.source))
            runs = next((axes[cell] for cell in looks if axes.get(cell)), ((0,),) * len(indices))
            leaf = looks[-1]
            intakes[each.into] = Intake(
                leaf,
                tuple(len(run) for run in runs),
                tuple(indices.index(i) for i in cells[each.into].indices),
                leaves[leaf].dtype.itemsize,
                work.itemsize,
                buffer_bytes,
            )
    return intakes


def _looks(cells: Sequence[Cell], number: int | None) -> Iterator[int]:
    """A cell, what it looks at, and so on down to memory."""
    while number is not None:
        yield number
        number = cells[number].source
