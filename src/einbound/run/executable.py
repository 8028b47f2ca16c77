"""A tree made ready to run on operands of one layout: schedule, meter reading, kernels.

Compiled once per plan and layout; running it changes nothing in it, so threads may share it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einbound.backends.numpy_ import Kernel, compile_way
from einbound.backends.numpy_ops import NumpyOps
from einbound.backends.sizes import CallKey, Metered
from einbound.expr.network import Network
from einbound.plan.tree import Tree
from einbound.run.allocator import Allocator
from einbound.run.meter import meter
from einbound.run.walk import Progress, walk
from einbound.schedule.instructions import Alloc, Contract, Schedule
from einbound.schedule.layouts import value_orders
from einbound.schedule.lower import lower
from einbound.schedule.validate import validate
from einbound.step.view import View

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
    """

    network: Network
    operands: tuple[View, ...]
    result: View
    work: np.dtype
    result_given: bool = False
    apart: bool = False
    accumulation_factor: float = 0.0


@dataclass(frozen=True)
class Executable:
    """A schedule with all that running it needs.

    Attributes:
        job: What it was made for.
        tree: The tree.
        buffer_bytes: Bound of each buffer of a step.
        schedule: The valid schedule.
        metered: What a run takes.
    """

    job: Job
    tree: Tree
    buffer_bytes: int
    schedule: Schedule
    metered: Metered

    @cached_property
    def kernels(self) -> Mapping[CallKey, Kernel]:
        """The compiled way of every call that occurs in a run."""
        return {key: compile_way(way) for key, way in self.metered.ways.items()}

    @cached_property
    def hidden(self) -> Mapping[CallKey, int]:
        """Bytes that NumPy takes beside the workspace in some of the calls."""
        ways = self.metered.ways
        return {key: way.hidden_bytes for key, way in ways.items() if way.hidden_bytes}

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
        """The schedule is a single product of whole operands, without workspace."""
        body = self.schedule.body
        plain = len(body) == 2 and isinstance(body[0], Alloc) and isinstance(body[1], Contract)
        return plain and self.metered.workspace_bytes == 0

    def new_result(self) -> Array:
        """An array for the result, its axes in the order of its memory."""
        return np.empty(self.job.result.extents, self.job.result.dtype)

    def run(
        self,
        operands: Sequence[Array],
        result: Array | None = None,
        progress: Progress | None = None,
    ) -> Array:
        """The result, its axes in the order of its memory.

        Args:
            operands: Arrays with exactly the layouts of the job.
            result: The caller's array, if the job says that it is given.
            progress: Called with (trips done, trips in all).
        """
        if self.job.work.hasobject:
            # Arithmetic of objects may depend on the caller's context (decimal), so it stays.
            return self._walk(operands, result, progress)
        if progress is not None:
            progress = _in_own_context(progress)
        return _QUIET.copy().run(self._walk, operands, result, progress)

    def _walk(
        self, operands: Sequence[Array], result: Array | None, progress: Progress | None
    ) -> Array:
        allocator = Allocator(self.metered.workspace_bytes)

        def make() -> Array:
            if result is not None:
                return result
            # Workspace may have been at its peak before; from here on the result is part of it.
            allocator.limit(self.metered.space_bytes - self.job.result.nbytes)
            return self.new_result()

        ops = NumpyOps(self.kernels, self.job.work, allocator.take, allocator.give, make)
        if self.hidden:
            ops.hidden, ops.make_room = self.hidden, allocator.make_room
        return walk(self.schedule, ops, operands, progress)


def compile_tree(job: Job, tree: Tree, buffer_bytes: int) -> Executable:
    """The executable of a legal tree.

    Args:
        job: What to compute, on which layouts.
        tree: In which order, inside which loops.
        buffer_bytes: Bound of each buffer of a step.
    """
    orders = value_orders(tree, job.operands, job.result, job.work, buffer_bytes)
    narrow_sums = job.result.dtype != job.work and bool(tree.steps) and _sums_at_root(tree)
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
    metered = meter(
        schedule,
        job.operands,
        job.result,
        job.work,
        buffer_bytes,
        job.result_given,
        job.accumulation_factor,
    )
    return Executable(job, tree, buffer_bytes, schedule, metered)


def _sums_at_root(tree: Tree) -> bool:
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
