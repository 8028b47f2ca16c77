"""The meter: a walk over sizes instead of arrays, exact to the byte.

It runs the schedule that will run, with the ways that will be taken, and counts what each
instruction holds. Nothing is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

import numpy as np

from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Contract, Loop, Schedule, Sum
from einbound.step.view import View
from einbound.step.way import Way, pair_way, sum_way


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
    """

    n_bytes: int = 0
    step: int | None = None
    workspace_bytes: int = 0
    alive: tuple[Alive, ...] = ()


@dataclass
class StepCount:
    """What one step does over the whole run."""

    macs: int = 0
    calls: int = 0
    seconds: float = 0.0
    workspace_bytes: int = 0
    way: Way | None = None


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
    """

    space: Peak
    workspace: Peak
    macs: int
    calls: int
    elements_read: int
    seconds: float
    steps: dict[int, StepCount]
    sums: dict[int, StepCount]

    @property
    def space_bytes(self) -> int:
        """Peak bytes of everything but the operands."""
        return self.space.n_bytes

    @property
    def workspace_bytes(self) -> int:
        """Peak bytes of what is neither operand nor result."""
        return self.workspace.n_bytes


@dataclass
class SizesOps:
    """`Ops` whose handles are views and whose effect is a ledger."""

    schedule: Schedule
    result: View
    work: np.dtype
    buffer_bytes: int
    result_given: bool
    held: dict[int, int] = field(default_factory=dict)
    workspace: int = 0
    result_bytes: int = 0
    steps: dict[int, StepCount] = field(default_factory=dict)
    sums: dict[int, StepCount] = field(default_factory=dict)
    space_peak: Peak = field(default_factory=Peak)
    workspace_peak: Peak = field(default_factory=Peak)
    elements_read: int = 0

    def __post_init__(self) -> None:
        if self.result_given:
            self.result_bytes = self.result.nbytes
        self._note(None, 0)

    def metered(self) -> Metered:
        """The ledger, closed."""
        counts = [*self.steps.values(), *self.sums.values()]
        return Metered(
            space=self.space_peak,
            workspace=self.workspace_peak,
            macs=sum(count.macs for count in self.steps.values()),
            calls=sum(count.calls for count in self.steps.values()),
            elements_read=self.elements_read,
            seconds=sum(count.seconds for count in counts),
            steps=self.steps,
            sums=self.sums,
        )

    def trips(self, loop: Loop) -> Iterable[tuple[int, int, int]]:
        """The first trip, one for all further full ones, and a shorter last one."""
        n_full, rest = divmod(loop.extent, loop.width)
        if n_full:
            yield 0, loop.width, 1
        if n_full > 1:
            yield loop.width, 2 * loop.width, n_full - 1
        if rest or not n_full:
            yield n_full * loop.width, loop.extent, 1

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> View:
        """Count a cell's bytes."""
        if cell.place is Place.RESULT:
            self.result_bytes = self.result.nbytes
            view = self.result
        else:
            view = View.contiguous(cell.indices, shape, self.work)
            self.held[cell.number] = view.nbytes
            self.workspace += view.nbytes
        self._note(None, 0)
        return view

    def slice(self, source: View, axis: int, start: int, stop: int) -> View:
        """A narrower view; no bytes."""
        extents = list(source.extents)
        extents[axis] = stop - start
        return View(source.indices, tuple(extents), source.strides, source.dtype)

    def contract(
        self, what: Contract, left: View, right: View, into: View, add: bool, repeats: int
    ) -> View:
        """Count a product and its buffers."""
        way = pair_way(
            left, right, into, self.work, accumulate=add, buffer_bytes=self.buffer_bytes
        )
        extents = dict(zip(left.indices, left.extents, strict=True))
        extents.update(zip(right.indices, right.extents, strict=True))
        count = self.steps.setdefault(what.step, StepCount())
        count.macs += repeats * prod(extents.values())
        self._count(count, way, repeats, what.step)
        return into

    def sum(self, what: Sum, source: View, into: View, repeats: int) -> View:
        """Count a unary step and its buffers."""
        way = sum_way(
            source, into, self.work, accumulate=False, buffer_bytes=self.buffer_bytes
        )
        self.elements_read += repeats * source.n_elements
        operand = self.schedule.cells[what.source].value
        self._count(self.sums.setdefault(operand, StepCount()), way, repeats, None)
        return into

    def add(self, source: View, into: View) -> View:
        """An addition in place takes nothing."""
        return into

    def scatter(self, source: View, into: View) -> View:
        """A copy takes nothing."""
        return into

    def free(self, cell: Cell, handle: View) -> None:
        """Release a cell's bytes."""
        self.workspace -= self.held.pop(cell.number)

    def _count(self, count: StepCount, way: Way, repeats: int, step: int | None) -> None:
        count.calls += repeats
        count.seconds += repeats * way.seconds
        if count.way is None or way.workspace_bytes > count.workspace_bytes:
            count.way = way
        count.workspace_bytes = max(count.workspace_bytes, way.workspace_bytes)
        self._note(step, way.workspace_bytes)

    def _note(self, step: int | None, extra: int) -> None:
        workspace = self.workspace + extra
        space = workspace + self.result_bytes
        if space > self.space_peak.n_bytes:
            self.space_peak = Peak(space, step, extra, self._alive())
        if workspace > self.workspace_peak.n_bytes:
            self.workspace_peak = Peak(workspace, step, extra, self._alive())

    def _alive(self) -> tuple[Alive, ...]:
        alive = [Alive(cell, n_bytes) for cell, n_bytes in self.held.items()]
        if self.result_bytes:
            alive.append(Alive(self.schedule.result, self.result_bytes))
        return tuple(alive)
