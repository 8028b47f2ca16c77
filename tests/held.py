"""Bytes alive during a schedule, counted trip by trip without any of the meter's shortcuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einbound.schedule.cells import Place
from einbound.schedule.instructions import (
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Read,
    Schedule,
    See,
    Slice,
    Sum,
)
from einbound.step.reading import Intake
from einbound.step.view import View
from einbound.step.way import pair_way, sum_way


@dataclass
class Held:
    """What is alive, and the most that ever was.

    Attributes:
        schedule: A schedule.
        views: The layout of each cell that is alive.
        work: Element type of values.
        buffer_bytes: Bound of each buffer of a step.
        intakes: How operands that are not in memory are read.
        stored: Bytes of each stored cell that is alive.
        results: Bytes of each result that is alive.
        starts: Where the running trip of each open loop starts and stops.
        workspace_bytes: Most bytes that were neither operand nor result.
        space_bytes: Most bytes that were no operand.
    """

    schedule: Schedule
    views: dict[int, View]
    work: np.dtype
    buffer_bytes: int
    intakes: Mapping[int, Intake] = field(default_factory=dict)
    stored: dict[int, int] = field(default_factory=dict)
    results: dict[int, int] = field(default_factory=dict)
    starts: dict[int, tuple[int, int]] = field(default_factory=dict)
    workspace_bytes: int = 0
    space_bytes: int = 0

    @classmethod
    def during(
        cls,
        schedule: Schedule,
        leaves: Sequence[View],
        work: np.dtype,
        buffer_bytes: int,
        intakes: Mapping[int, Intake],
    ) -> Held:
        """The account of a whole run."""
        views = {
            n: replace(leaf, indices=schedule.cells[n].indices) for n, leaf in enumerate(leaves)
        }
        held = cls(schedule, views, work, buffer_bytes, intakes)
        held.run(schedule.body)
        assert not held.stored, "all that is stored is freed"
        return held

    def run(self, body: tuple[Instruction, ...]) -> None:
        """Go on with some instructions."""
        for i in body:
            match i:
                case Loop():
                    for span in i.spans():
                        self.starts[i.number] = span
                        self.run(i.body)
                    del self.starts[i.number]
                case Alloc():
                    self.alloc(i.cell)
                case Free():
                    self.stored.pop(i.cell, None)
                case Slice():
                    self.views[i.cell] = self.sliced(i)
                case See():
                    self.views[i.cell] = self.seen(i)
                case _:
                    self.note(self.buffers(i))

    def note(self, buffers: int) -> None:
        """Take note of what is alive beside the buffers of a step."""
        workspace = sum(self.stored.values()) + buffers
        self.workspace_bytes = max(self.workspace_bytes, workspace)
        self.space_bytes = max(self.space_bytes, workspace + sum(self.results.values()))

    def alloc(self, number: int) -> None:
        """A cell comes to life, as large as the running trips make it."""
        cell = self.schedule.cells[number]
        spans = {index: self.starts[loop] for index, loop in cell.slices}
        shape = [
            spans[i][1] - spans[i][0] if i in spans else self.schedule.extents[i]
            for i in cell.indices
        ]
        self.views[number] = view = View.contiguous(cell.indices, tuple(shape), self.work)
        alive = self.results if cell.place is Place.RESULT else self.stored
        alive[number] = view.nbytes
        self.note(0)

    def sliced(self, what: Slice) -> View:
        """What a slice looks at."""
        source = self.views[what.source]
        start, stop = self.starts[what.loop]
        extents = [stop - start if n == what.axis else x for n, x in enumerate(source.extents)]
        return replace(source, extents=tuple(extents))

    def seen(self, what: See) -> View:
        """What a renamed view looks at."""
        source, cell = self.views[what.source], self.schedule.cells[what.cell]
        axes = what.axes or [(n,) for n in range(len(source.indices))]
        extents = tuple(source.extents[run[0]] for run in axes)
        strides = tuple(sum(source.strides[n] for n in run) for run in axes)
        return View(cell.indices, extents, strides, source.dtype, source.aligned)

    def buffers(self, i: Instruction) -> int:
        """Bytes of the buffers of one step."""
        match i:
            case Contract():
                adds = i.onto or any(self.starts[loop][0] > 0 for loop in i.adds)
                left, right, into = (self.views[n] for n in (i.left, i.right, i.into))
                bound = self.buffer_bytes
                way = pair_way(left, right, into, self.work, accumulate=adds, buffer_bytes=bound)
                return way.workspace_bytes
            case Sum():
                adds = i.onto or any(self.starts[loop][0] > 0 for loop in i.adds)
                source, into = self.views[i.source], self.views[i.into]
                bound = self.buffer_bytes
                way = sum_way(source, into, self.work, accumulate=adds, buffer_bytes=bound)
                return way.workspace_bytes
            case Read():
                reading = self.intakes[i.into].reading(self.views[i.source].extents)
                return reading.workspace_bytes
            case _:
                return 0
