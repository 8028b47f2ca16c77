"""The walk on NumPy arrays: every instruction on views and preallocated memory.

Which way a step takes is chosen in `step.way`, how a way runs stands in `backends.numpy_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from einbound.backends.numpy_ import Kernel, compile_way
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Contract, Loop, Schedule, Sum
from einbound.step.view import View
from einbound.step.way import pair_way, sum_way

Array: TypeAlias = NDArray[Any]


class Kernels:
    """The compiled ways of one schedule on operands of one layout; filled as slices appear.

    Filling is idempotent, so threads may share it.

    Args:
        schedule: The schedule.
        work: Element type of stored cells.
        buffer_bytes: Bound of each buffer of a step.
    """

    __slots__ = ("buffer_bytes", "known", "schedule", "work")

    def __init__(self, schedule: Schedule, work: np.dtype, buffer_bytes: int) -> None:
        self.schedule = schedule
        self.work = work
        self.buffer_bytes = buffer_bytes
        self.known: dict[tuple[object, ...], Kernel] = {}

    def view(self, cell: int, array: Array) -> View:
        """The layout of the array that stands for a cell."""
        indices = self.schedule.cells[cell].indices
        return View(indices, array.shape, array.strides, array.dtype, array.flags.aligned)

    def pair(self, what: Contract, left: Array, right: Array, into: Array, add: bool) -> Kernel:
        """The kernel of a product of slices of these shapes."""
        way = pair_way(
            self.view(what.left, left),
            self.view(what.right, right),
            self.view(what.into, into),
            self.work,
            accumulate=add,
            buffer_bytes=self.buffer_bytes,
        )
        return compile_way(way)

    def unary(self, what: Sum, source: Array, into: Array) -> Kernel:
        """The kernel of a sum of a slice of this shape."""
        way = sum_way(
            self.view(what.source, source),
            self.view(what.into, into),
            self.work,
            accumulate=False,
            buffer_bytes=self.buffer_bytes,
        )
        return compile_way(way)


class NumpyOps:
    """`Ops` on NumPy arrays.

    Args:
        kernels: Compiled ways of the schedule.
        take: Gives a buffer of so many bytes.
        give: Takes a buffer back.
        result: Makes the result array, or returns the caller's.
    """

    __slots__ = ("buffers", "give", "kernels", "result", "take")

    def __init__(
        self,
        kernels: Kernels,
        take: Callable[[int], NDArray[np.uint8]],
        give: Callable[[NDArray[np.uint8]], None],
        result: Callable[[], Array],
    ) -> None:
        self.kernels = kernels
        self.take = take
        self.give = give
        self.result = result
        self.buffers: dict[int, NDArray[np.uint8]] = {}

    def trips(self, loop: Loop) -> Iterator[tuple[int, int]]:
        """Every trip."""
        for start in range(0, max(loop.extent, 1), loop.width):
            yield start, min(start + loop.width, loop.extent)

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> Array:
        """An array on a buffer of exactly its bytes."""
        if cell.place is Place.RESULT:
            return self.result()
        work = self.kernels.work
        if work.hasobject:
            return np.empty(shape, work)
        n_bytes = work.itemsize
        for n in shape:
            n_bytes *= n
        buffer = self.take(n_bytes)
        self.buffers[cell.number] = buffer
        return np.ndarray(shape, work, buffer)

    def slice(self, source: Array, axis: int, start: int, stop: int) -> Array:
        """A basic slice."""
        return source[(slice(None),) * axis + (slice(start, stop),)]

    def contract(self, what: Contract, left: Array, right: Array, into: Array, add: bool) -> Array:
        """The product, in place."""
        key = (what.into, left.shape, right.shape, add)
        kernel = self.kernels.known.get(key)
        if kernel is None:
            kernel = self.kernels.known[key] = self.kernels.pair(what, left, right, into, add)
        kernel(left, right, into, add, self.take, self.give)
        return into

    def sum(self, what: Sum, source: Array, into: Array) -> Array:
        """The sum, in place."""
        key = (what.into, source.shape)
        kernel = self.kernels.known.get(key)
        if kernel is None:
            kernel = self.kernels.known[key] = self.kernels.unary(what, source, into)
        kernel(source, None, into, False, self.take, self.give)
        return into

    def add(self, source: Array, into: Array) -> Array:
        """The sum, in place."""
        return np.add(into, source, out=into)

    def scatter(self, source: Array, into: Array) -> Array:
        """The copy, in place."""
        np.copyto(into, source, casting="unsafe")
        return into

    def free(self, cell: Cell, handle: Array) -> None:
        """Give the buffer back."""
        buffer = self.buffers.pop(cell.number, None)
        if buffer is not None:
            self.give(buffer)
