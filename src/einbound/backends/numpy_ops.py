"""The walk on NumPy arrays: every instruction on views and preallocated memory.

Which way a step takes is chosen in `step.way`, how a way runs stands in `backends.numpy_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from einbound.backends.access import see
from einbound.backends.numpy_ import Kernel
from einbound.backends.reads import Call, Window, Workspace, call_here, fill
from einbound.backends.sizes import CallKey
from einbound.expr.network import Access
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import Contract, Loop, Read, See, Sum
from einbound.step.reading import Intake

Array: TypeAlias = NDArray[Any]


class TakeAt(Protocol):
    """Gives a buffer of so many bytes, on request at the far end of the workspace."""

    def __call__(self, n_bytes: int, high: bool = False) -> NDArray[np.uint8]:
        """A buffer with undefined content."""


class NumpyOps:
    """`Ops` on NumPy arrays.

    Args:
        kernels: The compiled way of every call that occurs, by what it writes, the shapes of
            what it reads, and whether it adds.
        work: Element type of stored cells.
        take: Gives a buffer of so many bytes.
        give: Takes a buffer back.
        result: Makes the array of a result, or returns the caller's.
    """

    __slots__ = (
        "buffers",
        "call",
        "give",
        "hidden",
        "intakes",
        "kernels",
        "make_room",
        "result",
        "spans",
        "take",
        "work",
        "workspace",
    )

    def __init__(
        self,
        kernels: Mapping[CallKey, Kernel],
        work: np.dtype,
        take: TakeAt,
        give: Callable[[NDArray[np.uint8]], None],
        result: Callable[[Cell], Array],
    ) -> None:
        self.kernels = kernels
        self.work = work
        self.take = take
        self.give = give
        self.result = result
        self.buffers: dict[int, NDArray[np.uint8]] = {}
        #: What NumPy takes itself in some of the calls, and who is told before it does.
        self.hidden: Mapping[CallKey, int] = {}
        self.make_room: Callable[[int], None] = _ignore
        #: How operands that are not in memory are read, and what for.
        self.intakes: Mapping[int, Intake] = {}
        self.workspace: Workspace | None = None
        self.call: Call = call_here
        #: Where the trips of a loop start and stop, while they are made.
        self.spans: Callable[[Loop], Iterator[tuple[int, int]]] = Loop.spans

    def trips(self, loop: Loop) -> Iterator[tuple[int, int]]:
        """Every trip."""
        return self.spans(loop)

    def alloc(self, cell: Cell, shape: tuple[int, ...]) -> Array:
        """An array on a buffer of exactly its bytes."""
        if cell.place is Place.RESULT:
            return self.result(cell)
        work = self.work
        if work.hasobject:
            return np.empty(shape, work)
        n_bytes = work.itemsize
        for n in shape:
            n_bytes *= n
        # A value and the value made from it overlap in time, so they take different ends.
        buffer = self.take(n_bytes, cell.depth % 2 == 1)
        self.buffers[cell.number] = buffer
        return np.ndarray(shape, work, buffer)

    def see(self, what: See, cell: Cell, source: Any) -> Any:
        """A view, or a window under other indices."""
        if not what.axes:
            return source
        if isinstance(source, Window):
            return source.seen(Access(what.axes))
        return see(source, Access(what.axes))

    def slice(self, source: Array, axis: int, start: int, stop: int) -> Array:
        """A basic slice."""
        return source[(slice(None),) * axis + (slice(start, stop),)]

    def contract(self, what: Contract, left: Array, right: Array, into: Array, add: bool) -> Array:
        """The product, in place."""
        key = (what.into, left.shape, right.shape, add)
        if key in self.hidden:
            self.make_room(self.hidden[key])
        self.kernels[key](left, right, into, add, self.take, self.give)
        return into

    def sum(self, what: Sum, source: Array, into: Array, add: bool) -> Array:
        """The sum, in place."""
        kernel = self.kernels[what.into, source.shape, (), add]
        kernel(source, None, into, add, self.take, self.give)
        return into

    def read(self, what: Read, source: Any, into: Array) -> Array:
        """The window's blocks, read and written one after the other."""
        assert self.workspace is not None, "a run with operands not in memory has a workspace"
        fill(source, into, self.intakes[what.into], self.workspace, self.call)
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


def _ignore(n_bytes: int) -> None:
    """Nobody needs to know."""
