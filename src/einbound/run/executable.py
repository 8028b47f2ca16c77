"""A tree made ready to run on operands of one layout: schedule, meter reading, kernels.

Compiled once per plan and layout; running it changes nothing in it, so threads may share it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.backends.numpy_ import Kernel, compile_way
from einbound.backends.numpy_ops import NumpyOps
from einbound.backends.reads import Call, call_here
from einbound.backends.sizes import CallKey, Metered
from einbound.expr.network import Network
from einbound.plan.price import Limit
from einbound.plan.tree import Tree
from einbound.run.allocator import KEPT_BYTES, Allocator
from einbound.run.meter import meter
from einbound.run.walk import Progress, walk
from einbound.schedule.cells import Cell
from einbound.schedule.instructions import Alloc, Contract, Read, Schedule, flat
from einbound.schedule.layouts import value_orders
from einbound.schedule.lower import lower
from einbound.schedule.validate import validate
from einbound.step.reading import Intake
from einbound.step.view import View
from einbound.step.way import PairWays

Array = NDArray[Any]

#: Interpreter objects of one run (measured: at most 11 KiB in all), and the rounding of the arena
#: to lines and pages; docs/decisions/0002 has the measurements.
RUN_OVERHEAD_BYTES = 16 * 1024
#: Per cell: a view with its shape and strides, its entry in the tables, a page cut in two.
CELL_OVERHEAD_BYTES = 3 * 512
#: Per loop around a step's blocks: the shapes of its last blocks, kept from the first run on.
BLOCK_OVERHEAD_BYTES = 512

#: Elements per ufunc buffer during a run. NumPy's default of 8192 takes up to 128 KiB unseen for
#: each addition on a strided block, and was slower there (NumPy 2.4.6, rows of 4 to 700).
UFUNC_BUFFER_ELEMENTS = 512
#: Arrays that one ufunc call may buffer.
UFUNC_BUFFERS = 3


@dataclass(frozen=True)
class Job:
    """Everything that decides a schedule besides the tree.

    Attributes:
        network: What is contracted.
        operands: The layout of each operand, one axis per index.
        result: The layout of the result; its axes stand in the order of its memory.
        work: Element type in which values are computed and stored.
        result_given: The caller owns the result's memory.
        apart: The result's memory overlaps an operand, so it is written at the very end.
        accumulation_factor: Part of a contribution that counts beside what it is added to.
        room: Bytes that may be alive while a block of an operand that is not in memory is, that
            block included; None: any number.
    """

    network: Network
    operands: tuple[View, ...]
    result: View
    work: np.dtype
    result_given: bool = False
    apart: bool = False
    accumulation_factor: float = 0.0
    room: Limit | None = None


@dataclass(frozen=True)
class Executable:
    """A schedule with all that running it needs.

    Attributes:
        job: What it was made for.
        tree: The tree.
        buffer_bytes: Bound of each buffer of a step.
        schedule: The valid schedule.
        metered: What a run takes.
        intakes: How operands that are not in memory are read, by the cell that is written.
        pair_ways: What chose the ways of steps that may have kernels; the others got `pair_way`'s.
    """

    job: Job
    tree: Tree
    buffer_bytes: int
    schedule: Schedule
    metered: Metered
    intakes: Mapping[int, Intake] = field(default_factory=dict)
    pair_ways: Mapping[int, PairWays] = field(default_factory=dict)

    @cached_property
    def kernels(self) -> Mapping[CallKey, Kernel]:
        """The compiled way of every call that occurs in a run."""
        return compiled_ways(self.schedule, self.metered)

    @cached_property
    def hidden(self) -> Mapping[CallKey, int]:
        """Bytes that NumPy takes beside the workspace in some of the calls."""
        ways = self.metered.ways
        return {key: way.hidden_bytes for key, way in ways.items() if way.hidden_bytes}

    def meter(self) -> Metered:
        """A fresh reading of what a run takes."""
        return _metered(self.job, self.schedule, self.buffer_bytes, self.intakes, self.pair_ways)

    def choosing(self, pair_ways: Mapping[int, PairWays]) -> Executable:
        """The same schedule with ways of its products that something else chooses, by step."""
        chosen = replace(self, pair_ways=pair_ways)
        return replace(chosen, metered=chosen.meter())

    def prepare(self) -> int:
        """Compile all ways now, so that runs only run; the number of them."""
        return len(self.kernels)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result; 0 if it is a view of an operand."""
        is_view = self.job.network.is_view and not self.job.result_given
        return 0 if is_view else self.job.result.nbytes

    @property
    def overhead_bytes(self) -> int:
        """Bound of interpreter objects and ufunc buffers that a run takes beside its arrays."""
        itemsize = max(self.job.work.itemsize, self.job.result.dtype.itemsize)
        n_blocks = sum(len(way.blocks) for way in self.metered.ways.values())
        return (
            RUN_OVERHEAD_BYTES
            + UFUNC_BUFFERS * UFUNC_BUFFER_ELEMENTS * itemsize
            + CELL_OVERHEAD_BYTES * len(self.schedule.cells)
            + BLOCK_OVERHEAD_BYTES * n_blocks
        )

    @property
    def is_one_product(self) -> bool:
        """The schedule is a single product of whole operands, its workspace in a kept arena."""
        body = self.schedule.body
        plain = len(body) == 2 and isinstance(body[0], Alloc) and isinstance(body[1], Contract)
        return plain and self.metered.workspace_bytes < KEPT_BYTES and not self.hidden

    def new_result(self) -> Array:
        """An array for the result, its axes in the order of its memory."""
        return np.empty(self.job.result.extents, self.job.result.dtype)

    def run(
        self,
        operands: Sequence[Any],
        result: Array | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """The result, its axes in the order of its memory.

        Args:
            operands: Arrays with exactly the layouts of the job; windows of those not in memory.
            result: The caller's array, if the job says that it is given.
            progress: Called with (trips done, trips in all).
        """
        if self.job.work.hasobject:
            # Arithmetic of objects may depend on the caller's context (decimal), so it stays.
            return self._walk(operands, result, progress, call_here)
        if progress is not None:
            progress = _in_own_context(progress)
        call = contextvars.copy_context().run if self.intakes else call_here
        return _QUIET.copy().run(self._walk, operands, result, progress, call)

    def _walk(
        self,
        operands: Sequence[Any],
        result: Array | None,
        progress: Progress | None,
        call: Call,
    ) -> Array:
        allocator = Allocator(self.metered.workspace_bytes)

        def make(_: Cell) -> Array:
            if result is not None:
                return result
            # Workspace may have been at its peak before; from here on the result is part of it.
            allocator.limit(self.metered.space_bytes - self.job.result.nbytes)
            return self.new_result()

        ops = NumpyOps(self.kernels, self.job.work, allocator.take, allocator.give, make)
        if self.hidden:
            ops.hidden, ops.make_room = self.hidden, allocator.make_room
        if self.intakes:
            ops.intakes, ops.workspace, ops.call = self.intakes, allocator, call
        try:
            made = _one(walk(self.schedule, ops, operands, progress))
            allocator.finish()
            return made
        except BaseException:
            # A caller may keep the error, and with its frames the arena.
            allocator.abandon()
            raise


def compile_tree(job: Job, tree: Tree, buffer_bytes: int) -> Executable:
    """The executable of a legal tree.

    Args:
        job: What to compute, on which layouts.
        tree: In which order, inside which loops.
        buffer_bytes: Bound of each buffer of a step.
    """
    orders = value_orders(tree, job.operands, job.result, job.work, buffer_bytes)
    narrow_sums = job.result.dtype != job.work and _sums_at_root(tree)
    schedule = validate(
        lower(
            tree,
            orders,
            job.result.indices,
            itemsize=job.work.itemsize,
            staged=job.apart or narrow_sums,
            viewed=not job.result_given,
        )
    )
    intakes = _intakes(job, schedule, buffer_bytes)
    metered = _metered(job, schedule, buffer_bytes, intakes)
    if intakes and job.room is not None:
        intakes = {
            cell: _widened(intake, job.room, metered.reads[intake.operand].beside_bytes)
            for cell, intake in intakes.items()
        }
        metered = _metered(job, schedule, buffer_bytes, intakes)
    return Executable(job, tree, buffer_bytes, schedule, metered, intakes)


def _metered(
    job: Job,
    schedule: Schedule,
    buffer_bytes: int,
    intakes: Mapping[int, Intake],
    pair_ways: Mapping[int, PairWays] = MappingProxyType({}),
) -> Metered:
    """What a run of a schedule takes."""
    return meter(
        schedule,
        job.operands,
        {cell: job.result for cell in schedule.results},
        job.work,
        buffer_bytes,
        job.result_given,
        job.accumulation_factor,
        intakes,
        pair_ways,
    )


def _intakes(job: Job, schedule: Schedule, buffer_bytes: int) -> dict[int, Intake]:
    """How operands that are not in memory are read: in blocks like a step's buffers, or whole."""
    intakes = {}
    for instruction in flat(schedule.body):
        if isinstance(instruction, Read):
            operand = schedule.cells[instruction.source].value
            indices = job.network.inputs[operand]
            intakes[instruction.into] = Intake(
                operand,
                tuple([len(axes) for axes in job.network.accesses[operand].axes]),
                tuple([indices.index(i) for i in schedule.cells[instruction.into].indices]),
                job.operands[operand].dtype.itemsize,
                job.work.itemsize,
                None if job.room is None else buffer_bytes,
            )
    return intakes


def _widened(intake: Intake, room: Limit, beside_bytes: tuple[int, int]) -> Intake:
    """The same in blocks that fill the room beside what is alive while they are."""
    workspace, space = beside_bytes
    left = [
        limit - n
        for limit, n in ((room.workspace_bytes, workspace), (room.peak_bytes, space))
        if limit is not None
    ]
    assert intake.bound_bytes is not None, "blocks are bounded where there is a room"
    return replace(intake, bound_bytes=max(min(left), intake.bound_bytes))


def compiled_ways(schedule: Schedule, metered: Metered) -> Mapping[CallKey, Kernel]:
    """The kernel of every call that a run of a schedule makes."""
    factors = {i.into: i.factor for i in flat(schedule.body) if isinstance(i, Contract)}
    return {key: compile_way(way, factors.get(key[0], 1)) for key, way in metered.ways.items()}


def _one(results: tuple[Array, ...]) -> Array:
    (result,) = results
    return result


def _sums_at_root(tree: Tree) -> bool:
    if not tree.steps:
        # Blocks of an operand that is not in memory add up.
        return bool(tree.network.streamed) and len(tree.carried[0]) < len(tree.network.inputs[0])
    return bool(tree.partial(len(tree.steps) - 1))


def _quiet_context() -> contextvars.Context:
    """A context with small ufunc buffers and no floating-point warnings, as einsum has none."""
    context = contextvars.Context()
    context.run(np.setbufsize, UFUNC_BUFFER_ELEMENTS)
    context.run(lambda: np.seterr(all="ignore"))
    return context


def _in_own_context(progress: Progress) -> Progress:
    caller = contextvars.copy_context()
    return lambda done, total: caller.run(progress, done, total)


def quiet() -> contextvars.Context:
    """The context in which arithmetic runs; copy it before entering it."""
    return _QUIET


_QUIET = _quiet_context()
