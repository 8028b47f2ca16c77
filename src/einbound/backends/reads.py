"""Operands that are not in memory, as the walk on arrays sees them: windows, and their reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from einbound.errors import DTypeError, ExpressionError
from einbound.expr.network import Access
from einbound.expr.source import Source
from einbound.step.reading import Intake, Reading, Spans

Array: TypeAlias = NDArray[Any]
#: Calls a function with one argument where the caller of the run would.
Call: TypeAlias = Callable[[Callable[[Any], Any], Any], Any]


class Workspace(Protocol):
    """The allocator, as far as reading needs it."""

    def take(self, n_bytes: int, high: bool = False) -> NDArray[np.uint8]:
        """A buffer with undefined content."""

    def give(self, buffer: NDArray[np.uint8]) -> None:
        """Takes a buffer back."""

    def lend(self, n_bytes: int) -> None:
        """Counts memory that is taken elsewhere."""

    def settle(self, n_bytes: int) -> None:
        """Ends that."""


@dataclass(frozen=True, slots=True)
class Window:
    """A part of an operand that is not in memory; nothing of it is read yet.

    Attributes:
        source: The operand.
        number: Its number.
        access: How its axes map to indices.
        look: Sees a block with one axis per index.
        spans: The part, by index.
    """

    source: Source
    number: int
    access: Access
    look: Callable[[Array, Access], Array]
    spans: Spans

    @classmethod
    def whole(
        cls, source: Source, number: int, access: Access, look: Callable[[Array, Access], Array]
    ) -> Window:
        """All of an operand."""
        spans = tuple((0, source.shape[axes[0]]) for axes in access.axes)
        return cls(source, number, access, look, spans)

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each index."""
        return tuple(stop - start for start, stop in self.spans)

    def __getitem__(self, cuts: tuple[slice, ...]) -> Window:
        """A part of this part, in a basic slice as arrays take it."""
        spans = list(self.spans)
        for i, cut in enumerate(cuts):
            start, stop = spans[i]
            if cut.start is not None:
                spans[i] = (start + cut.start, min(start + cut.stop, stop))
        return Window(self.source, self.number, self.access, self.look, tuple(spans))

    def seen(self, access: Access) -> Window:
        """The same part under other indices, each of which runs over some of its own."""
        spans = tuple(self.spans[run[0]] for run in access.axes)
        axes = tuple(tuple(k for n in run for k in self.access.axes[n]) for run in access.axes)
        whole = Access(axes, self.access.dropped)
        return Window(self.source, self.number, whole, self.look, spans)

    def block(self, spans: Spans, call: Call) -> Array:
        """What `read` returns for a part of this part, with one axis per index.

        Raises:
            ExpressionError: It has another shape than was asked for.
            DTypeError: Its dtype is not the one that was declared.
        """
        wanted = [slice(0, 1)] * len(self.source.shape)
        for (first, _), (start, stop), axes in zip(
            self.spans, spans, self.access.axes, strict=True
        ):
            for axis in axes:
                wanted[axis] = slice(first + start, first + stop)
        block = np.asarray(call(self.source.read, tuple(wanted)))
        self._check(block, wanted)
        return self.look(block, self.access)

    def _check(self, block: Array, wanted: list[slice]) -> None:
        shape = tuple([cut.stop - cut.start for cut in wanted])
        if block.shape == shape and np.can_cast(block.dtype, self.source.dtype, "safe"):
            return
        where = ", ".join(f"{cut.start}:{cut.stop}" for cut in wanted)
        if block.shape != shape:
            raise ExpressionError(
                f"reading block [{where}] of operand {self.number} returned shape {block.shape}; "
                f"expected {shape}; read must return exactly the block that its slices cut out"
            )
        raise DTypeError(
            f"reading block [{where}] of operand {self.number} returned dtype {block.dtype}; its "
            f"Source was declared with {self.source.dtype}, to which that does not cast safely; "
            "declare the dtype that read returns"
        )


def call_here(function: Callable[[Any], Any], argument: Any) -> Any:
    """What a function returns, called in the context of the run."""
    return function(argument)


def fill(window: Window, into: Array, intake: Intake, workspace: Workspace, call: Call) -> None:
    """Write a window, summed over the indices that the cell lacks, into a cell, block by block."""
    reading = intake.reading(window.shape)
    if not reading.n_blocks:
        into[...] = 0
        return
    partial = workspace.take(reading.partial_bytes) if reading.partial_bytes else None
    try:
        for spans in reading.spans():
            workspace.lend(reading.block_bytes)
            try:
                _write(window.block(spans, call), spans, into, reading, partial)
            finally:
                workspace.settle(reading.block_bytes)
    finally:
        if partial is not None:
            workspace.give(partial)


def _write(
    block: Array, spans: Spans, into: Array, reading: Reading, partial: NDArray[np.uint8] | None
) -> None:
    order, summed = reading.intake.order, reading.intake.summed()
    # The ellipsis keeps an array where plain slices would give a scalar.
    cuts: Any = (*[slice(*spans[i]) for i in order], ...)
    part = into[cuts]
    seen = block.transpose((*order, *summed))
    if not summed:
        np.copyto(part, seen, casting="unsafe")
        return
    axes = tuple(range(len(order), len(seen.shape)))
    if all(spans[i][0] == 0 for i in summed):
        np.add.reduce(seen, axis=axes, dtype=into.dtype, out=part)
        return
    assert partial is not None, f"no room for the sums of a block of {reading}"
    n_bytes = part.size * into.itemsize
    sums: Array = np.ndarray(part.shape, into.dtype, partial[:n_bytes])
    np.add.reduce(seen, axis=axes, dtype=into.dtype, out=sums)
    np.add(part, sums, out=part)
