"""The walker: the one evaluator of schedules, over any `Ops`.

Arrays, sizes and tasks are moved by the same walk. It decides nothing; the schedule did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from einbound.schedule.cells import Cell
from einbound.schedule.instructions import (
    Add,
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Read,
    Scatter,
    Schedule,
    See,
    Slice,
    Sum,
)

H = TypeVar("H")


class Ops(Protocol[H]):
    """What a walk needs from a kind of arrays; handles are returned, so they may be immutable."""

    def trips(self, loop: Loop) -> Iterable[tuple[int, int]]:
        """The (start, stop) of the trips to walk."""

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> H:
        """Memory for a cell."""

    def see(self, what: See, cell: Cell, source: H) -> H:
        """The same as `source`, under the indices of another cell."""

    def slice(self, source: H, axis: int, start: int, stop: int) -> H:
        """The part of `source` from start to stop along one axis."""

    def contract(self, what: Contract, left: H, right: H, into: H, add: bool) -> H:
        """The product written or added into `into`."""

    def sum(self, what: Sum, source: H, into: H, add: bool) -> H:
        """The source, summed over the axes that `into` lacks, written or added into it."""

    def read(self, what: Read, source: H, into: H) -> H:
        """The source, which is not in memory, summed over the axes that `into` lacks."""

    def add(self, source: H, into: H) -> H:
        """The sum of both."""

    def scatter(self, source: H, into: H) -> H:
        """The source, copied."""

    def free(self, cell: Cell, handle: H) -> None:
        """End a cell."""


Progress = Callable[[int, int], object]


def walk(
    schedule: Schedule, ops: Ops[H], operands: Iterable[H], progress: Progress | None = None
) -> tuple[H, ...]:
    """The results' handles after all instructions ran on `operands`.

    Args:
        schedule: A valid schedule.
        ops: How to do each instruction.
        operands: One handle per operand, in order.
        progress: Called with (trips done, trips in all) of the outermost loops.
    """
    cells: list[H | None] = [None] * len(schedule.cells)
    for number, operand in enumerate(operands):
        cells[number] = operand
    run = _Walk(schedule, ops, cells, progress)
    run.total = sum(i.n_trips for i in schedule.body if isinstance(i, Loop)) or 1
    if progress is not None:
        progress(0, run.total)
    for instruction in schedule.body:
        run.do(instruction)
    if progress is not None and run.done < run.total:
        progress(run.total, run.total)
    results = tuple([cells[number] for number in schedule.results])
    assert all(one is not None for one in results), "a valid schedule makes its results"
    return results  # type: ignore[return-value]  # as asserted


@dataclass
class _Walk(Generic[H]):
    schedule: Schedule
    ops: Ops[H]
    cells: list[Any]
    progress: Progress | None
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    later: set[int] = field(default_factory=set)
    depth: int = 0
    done: int = 0
    total: int = 1

    def do(self, instruction: Instruction) -> None:
        cells, ops = self.cells, self.ops
        match instruction:
            case Contract():
                into = instruction.into
                cells[into] = ops.contract(
                    instruction,
                    cells[instruction.left],
                    cells[instruction.right],
                    cells[into],
                    self._adds(instruction),
                )
            case Slice() | See():
                cells[instruction.cell] = self._look(instruction, cells[instruction.source])
            case Alloc():
                cell = self.schedule.cells[instruction.cell]
                cells[cell.number] = ops.alloc(cell, self._shape(cell))
            case Free():
                cell = self.schedule.cells[instruction.cell]
                ops.free(cell, cells[cell.number])
                cells[cell.number] = None
            case Loop():
                self._loop(instruction)
            case Sum():
                source, into = cells[instruction.source], instruction.into
                cells[into] = ops.sum(instruction, source, cells[into], self._adds(instruction))
            case Read():
                source, into = cells[instruction.source], instruction.into
                cells[into] = ops.read(instruction, source, cells[into])
            case Add():
                into = instruction.into
                cells[into] = ops.add(cells[instruction.source], cells[into])
            case Scatter():
                into = instruction.into
                cells[into] = ops.scatter(cells[instruction.source], cells[into])

    def _look(self, what: Slice | See, source: H) -> H:
        if isinstance(what, See):
            return self.ops.see(what, self.schedule.cells[what.cell], source)
        return self.ops.slice(source, what.axis, *self.ranges[what.loop])

    def _adds(self, what: Contract | Sum) -> bool:
        return what.onto or (bool(what.adds) and not self.later.isdisjoint(what.adds))

    def _shape(self, cell: Cell) -> tuple[int, ...]:
        shape = [self.schedule.extents[i] for i in cell.indices]
        for index, loop in cell.slices:
            start, stop = self.ranges[loop]
            shape[cell.indices.index(index)] = stop - start
        return tuple(shape)

    def _loop(self, loop: Loop) -> None:
        self.depth += 1
        for start, stop in self.ops.trips(loop):
            self.ranges[loop.number] = (start, stop)
            if start:
                self.later.add(loop.number)
            for instruction in loop.body:
                self.do(instruction)
            if self.progress is not None and self.depth == 1:
                self.done += 1
                self.progress(self.done, self.total)
        # A view of a slice would keep its buffer alive after the cell has ended.
        for instruction in loop.body:
            if isinstance(instruction, Slice | See):
                self.cells[instruction.cell] = None
        self.later.discard(loop.number)
        self.depth -= 1
