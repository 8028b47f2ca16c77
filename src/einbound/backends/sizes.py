"""The meter: a walk over sizes instead of arrays, exact to the byte.

It runs the schedule that will run, with the ways that will be taken, and counts what each
instruction holds. Nothing is allocated. Trips that cannot differ are walked once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, prod
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Contract, Loop, Read, Schedule, See, Sum, flat, reads
from einbound.step.blocked import Way
from einbound.step.reading import Intake
from einbound.step.view import View
from einbound.step.way import PairWays, pair_way, sum_way

#: Cell written, extents of the first and of the second cell read, whether it adds.
CallKey: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], bool]


@dataclass(frozen=True, slots=True)
class Alive:
    """A cell that is alive at the peak, and its bytes."""

    cell: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """When most bytes are alive, and whose.

    Attributes:
        n_bytes: All of them.
        step: The step that runs, or None while a cell is made.
        workspace_bytes: Buffers of that step.
        alive: The cells, in the order in which they were made.
        reads: The operand of which the workspace is a block that was just read, or None.
    """

    n_bytes: int = 0
    step: int | None = None
    workspace_bytes: int = 0
    alive: tuple[Alive, ...] = ()
    reads: int | None = None

    def on_top_of(self, n_bytes: int, alive: tuple[Alive, ...]) -> Peak:
        """The same moment with more alive around it."""
        return replace(self, n_bytes=n_bytes + self.n_bytes, alive=alive + self.alive)


@dataclass
class ReadCount:
    """What reading one operand that is not in memory does over the whole run.

    Attributes:
        n_bytes: Bytes of all blocks, in the operand's own element type.
        n_blocks: Requests for a block.
        block_bytes: The largest block.
        seconds: Rough time.
        beside_bytes: Most that is alive beside the block: without the result, and with it.
    """

    n_bytes: int = 0
    n_blocks: int = 0
    block_bytes: int = 0
    seconds: float = 0.0
    beside_bytes: tuple[int, int] = (0, 0)

    def include(self, other: ReadCount, times: int, held_bytes: int, result_bytes: int) -> None:
        """Add what is read in `times` equal stretches, beside what is held around them."""
        self.n_bytes += times * other.n_bytes
        self.n_blocks += times * other.n_blocks
        self.seconds += times * other.seconds
        self.block_bytes = max(self.block_bytes, other.block_bytes)
        workspace, space = (held_bytes + n for n in other.beside_bytes)
        mine = self.beside_bytes
        self.beside_bytes = max(mine[0], workspace), max(mine[1], space + result_bytes)


@dataclass
class StepCount:
    """What one step does over the whole run.

    Attributes:
        macs: Multiply-adds.
        calls: How often it runs.
        seconds: Rough time.
        workspace_bytes: Its own buffers at most.
        way: How it is done.
        beside_bytes: Most that is alive beside its buffers: without the result, and with it.
    """

    macs: int = 0
    calls: int = 0
    seconds: float = 0.0
    workspace_bytes: int = 0
    way: Way | None = None
    beside_bytes: tuple[int, int] = (0, 0)

    def include(self, other: StepCount, times: int, held_bytes: int, result_bytes: int) -> None:
        """Add what is done in `times` equal stretches of the run, beside what is held around."""
        workspace, space = (held_bytes + n for n in other.beside_bytes)
        mine = self.beside_bytes
        self.beside_bytes = max(mine[0], workspace), max(mine[1], space + result_bytes)
        self.macs += times * other.macs
        self.calls += times * other.calls
        self.seconds += times * other.seconds
        if self.way is None or _rank(other) > _rank(self):
            self.way = other.way
        self.workspace_bytes = max(self.workspace_bytes, other.workspace_bytes)


def _rank(count: StepCount) -> tuple[int, bool]:
    """Of a step's ways that is told which needs most, or adds where others only write."""
    return count.workspace_bytes, count.way is not None and count.way.accumulate


@dataclass(frozen=True)
class Metered:
    """What one run of a schedule takes.

    Attributes:
        space: The peak of everything but the operands.
        workspace: The peak of what is neither operand nor result.
        macs: Multiply-adds of all pairwise steps.
        calls: Pairwise products that run.
        elements_read: Elements that unary steps read.
        seconds: Rough estimate of the time.
        steps: What each step of the tree does.
        sums: What each unary step does, by operand.
        ways: The way of every call that occurs, by what it writes, the extents of what it
            reads, and whether it adds.
        operand_bytes: Bytes that the operands cover, where they are known.
        reads: What reading each operand that is not in memory does, by operand.
    """

    space: Peak
    workspace: Peak
    macs: int
    calls: int
    elements_read: int
    seconds: float
    steps: dict[int, StepCount] = field(repr=False)
    sums: dict[int, StepCount] = field(repr=False)
    ways: Mapping[CallKey, Way] = field(repr=False)
    operand_bytes: int = 0
    reads: Mapping[int, ReadCount] = field(default_factory=dict, repr=False)

    @property
    def bytes_read(self) -> int:
        """Bytes read from operands that are not in memory."""
        return sum(count.n_bytes for count in self.reads.values())

    @property
    def peak_bytes(self) -> int:
        """Most bytes of arrays alive at once, operands included."""
        return self.operand_bytes + self.space.n_bytes

    @property
    def space_bytes(self) -> int:
        """Peak bytes of everything but the operands."""
        return self.space.n_bytes

    @property
    def workspace_bytes(self) -> int:
        """Peak bytes of what is neither operand nor result."""
        return self.workspace.n_bytes


@dataclass
class Tally:
    """A stretch of the run: one trip of a loop, or all of it. Bytes count from its start."""

    held: dict[int, int] = field(default_factory=dict)
    held_bytes: int = 0
    results: tuple[Alive, ...] = ()
    result_bytes: int = 0
    space: Peak = field(default_factory=Peak)
    workspace: Peak = field(default_factory=Peak)
    steps: dict[int, StepCount] = field(default_factory=dict)
    sums: dict[int, StepCount] = field(default_factory=dict)
    reads: dict[int, ReadCount] = field(default_factory=dict)
    elements_read: int = 0

    def note(self, inner: Peak) -> None:
        """Take note of a moment, `inner` being what is alive on top of what is held."""
        if self.held_bytes + inner.n_bytes > self.workspace.n_bytes:
            self.workspace = inner.on_top_of(self.held_bytes, self._alive())
        if self.held_bytes + self.result_bytes + inner.n_bytes > self.space.n_bytes:
            alive = self._alive() + self.results
            self.space = inner.on_top_of(self.held_bytes + self.result_bytes, alive)

    def include(self, trip: Tally, times: int) -> None:
        """Add a stretch that happens `times` times."""
        for mine, theirs in ((self.steps, trip.steps), (self.sums, trip.sums)):
            for step, count in theirs.items():
                known = mine.setdefault(step, StepCount())
                known.include(count, times, self.held_bytes, self.result_bytes)
        self.elements_read += times * trip.elements_read
        for operand, read in trip.reads.items():
            self.include_read(operand, read, times)

    def include_read(self, operand: int, count: ReadCount, times: int) -> None:
        """Add what is read of one operand in `times` equal stretches."""
        known = self.reads.setdefault(operand, ReadCount())
        known.include(count, times, self.held_bytes, self.result_bytes)

    def _alive(self) -> tuple[Alive, ...]:
        return tuple(Alive(cell, n_bytes) for cell, n_bytes in self.held.items())


@dataclass(frozen=True, slots=True)
class Influence:
    """What of the loops around it can change a trip of a loop.

    Attributes:
        indices: Indices of the cells that its body touches.
        sums: For each step in its body that adds, the loops that make it an addition.
    """

    indices: frozenset[int]
    sums: tuple[tuple[int, ...], ...]


@dataclass
class SizesOps:
    """`Ops` whose handles are views and whose effect is a tally."""

    schedule: Schedule
    results: Mapping[int, View]
    work: np.dtype
    buffer_bytes: int
    result_given: bool
    accumulation_factor: float = 0.0
    intakes: Mapping[int, Intake] = field(default_factory=dict)
    pair_ways: Mapping[int, PairWays] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    open: dict[int, tuple[int, int, bool]] = field(default_factory=dict)
    known: dict[tuple[object, ...], Tally] = field(default_factory=dict)
    influences: dict[int, Influence] = field(default_factory=dict)
    ways: dict[CallKey, Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.result_given:
            for cell in self.results:
                self._make_result(cell)

    def metered(self) -> Metered:
        """The tally, closed."""
        tally = self.tally
        counts = [*tally.steps.values(), *tally.sums.values()]
        return Metered(
            space=tally.space,
            workspace=tally.workspace,
            macs=sum(count.macs for count in tally.steps.values()),
            calls=sum(count.calls for count in tally.steps.values()),
            elements_read=tally.elements_read,
            seconds=sum(count.seconds for count in counts)
            + sum(read.seconds for read in tally.reads.values()),
            steps=tally.steps,
            sums=tally.sums,
            ways=MappingProxyType(self.ways),
            reads=MappingProxyType(tally.reads),
        )

    def trips(self, loop: Loop) -> Iterator[tuple[int, int]]:
        """The trips that differ from those walked before; equal ones are counted at once."""
        for start, width, times in _distinct(loop):
            self.open[loop.number] = (loop.index, width, start > 0)
            key = self._key(loop)
            trip = self.known.get(key)
            if trip is None:
                outer, self.tally = self.tally, Tally()
                yield start, start + width
                trip = self.known[key] = self.tally
                self.tally = outer
            self.tally.include(trip, times)
            self.tally.note(trip.workspace)
        del self.open[loop.number]

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> View:
        """Count a cell's bytes."""
        if cell.place is Place.RESULT:
            if not self.result_given:
                self._make_result(cell.number)
            return self.results[cell.number]
        view = View.contiguous(cell.indices, shape, self.work)
        self.tally.held[cell.number] = view.nbytes
        self.tally.held_bytes += view.nbytes
        self.tally.note(Peak())
        return view

    def see(self, what: See, cell: Cell, source: View) -> View:
        """The same view under other indices; no bytes."""
        axes = what.axes or tuple((n,) for n in range(len(source.indices)))
        return replace(
            source,
            indices=cell.indices,
            extents=tuple(source.extents[run[0]] for run in axes),
            strides=tuple(sum(source.strides[n] for n in run) for run in axes),
        )

    def slice(self, source: View, axis: int, start: int, stop: int) -> View:
        """A narrower view; no bytes."""
        extents = list(source.extents)
        extents[axis] = stop - start
        return replace(source, extents=tuple(extents))

    def contract(self, what: Contract, left: View, right: View, into: View, add: bool) -> View:
        """Count a product and its buffers."""
        choose = self.pair_ways.get(what.step, pair_way)
        way = choose(left, right, into, self.work, accumulate=add, buffer_bytes=self.buffer_bytes)
        self.ways[what.into, left.extents, right.extents, add] = way
        extents = dict(zip(left.indices, left.extents, strict=True))
        extents.update(zip(right.indices, right.extents, strict=True))
        # A policy may know an executor that keeps more of a contribution than this one does.
        workspace = way.workspace_bytes
        if add and self.accumulation_factor:
            contribution = into.n_elements * self.work.itemsize
            workspace = max(workspace, ceil(self.accumulation_factor * contribution))
        self._count(self.tally.steps, what.step, way, prod(extents.values()), workspace)
        self.tally.note(Peak(workspace, what.step, workspace))
        return into

    def sum(self, what: Sum, source: View, into: View, add: bool) -> View:
        """Count a unary step and its buffers."""
        way = sum_way(source, into, self.work, accumulate=add, buffer_bytes=self.buffer_bytes)
        self.ways[what.into, source.extents, (), add] = way
        self.tally.elements_read += source.n_elements
        workspace = way.workspace_bytes
        self._count(self.tally.sums, self.schedule.cells[what.source].value, way, 0, workspace)
        self.tally.note(Peak(workspace, None, workspace))
        return into

    def read(self, what: Read, source: View, into: View) -> View:
        """Count the blocks of a part of an operand, and the largest of them as workspace."""
        intake = self.intakes[what.into]
        reading = intake.reading(source.extents)
        once = ReadCount(
            reading.total_bytes, reading.n_blocks, reading.block_bytes, reading.seconds
        )
        self.tally.include_read(intake.operand, once, 1)
        workspace = reading.workspace_bytes
        self.tally.note(Peak(workspace, None, workspace, reads=intake.operand))
        return into

    def add(self, source: View, into: View) -> View:
        """An addition in place takes nothing."""
        return into

    def scatter(self, source: View, into: View) -> View:
        """A copy takes nothing."""
        return into

    def free(self, cell: Cell, handle: View) -> None:
        """Release a cell's bytes; what only looks at another has none."""
        self.tally.held_bytes -= self.tally.held.pop(cell.number, 0)

    def _make_result(self, cell: int) -> None:
        n_bytes = self.results[cell].nbytes
        self.tally.results += (Alive(cell, n_bytes),)
        self.tally.result_bytes += n_bytes
        self.tally.note(Peak())

    def _count(
        self, counts: dict[int, StepCount], step: int, way: Way, macs: int, workspace_bytes: int
    ) -> None:
        once = StepCount(macs, 1, way.seconds, workspace_bytes, way)
        tally = self.tally
        known = counts.setdefault(step, StepCount())
        known.include(once, 1, tally.held_bytes, tally.result_bytes)

    def _key(self, loop: Loop) -> tuple[object, ...]:
        """All that a trip of `loop` depends on, given the loops that are open."""
        influence = self.influences.get(loop.number)
        if influence is None:
            influence = self.influences[loop.number] = _influence(loop, self.schedule)
        widths = tuple(
            (index, width) for index, width, _ in self.open.values() if index in influence.indices
        )
        adds = tuple(
            any(number in self.open and self.open[number][2] for number in sums)
            for sums in influence.sums
        )
        return loop.number, widths, adds


def _distinct(loop: Loop) -> Iterator[tuple[int, int, int]]:
    """Start, width and number of the trips that can differ: the first, and later ones by width."""
    if loop.edges:
        first, *later = [stop - start for start, stop in loop.spans()]
        widths: dict[int, int] = Counter(later)
    else:
        n_full, rest = divmod(loop.extent, loop.width)
        first = min(loop.width, loop.extent)
        widths = {loop.width: n_full - 1, rest: 1}
    yield 0, first, 1
    for width, times in widths.items():
        if width and times > 0:
            yield first, width, times


def _influence(loop: Loop, schedule: Schedule) -> Influence:
    indices: set[int] = set()
    sums = []
    for instruction in flat(loop.body):
        touched = [*reads(instruction), getattr(instruction, "into", None)]
        for cell in touched:
            if cell is not None:
                indices.update(schedule.cells[cell].indices)
        if isinstance(instruction, Contract | Sum):
            sums.append(instruction.adds)
    return Influence(frozenset(indices), tuple(sums))
