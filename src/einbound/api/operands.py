"""Arrays as the planner sees them: layouts, byte ranges, one axis per index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from einbound.backends.access import see
from einbound.backends.reads import Window
from einbound.expr.network import Access
from einbound.expr.source import Source
from einbound.step.view import View

Array = NDArray[Any]
#: What a contraction takes: arrays, and what is read while it runs.
Operand: TypeAlias = Array | Source


class Layout(NamedTuple):
    """What decides how an array is read: its shape, byte strides, dtype and alignment.

    A streamed one is not in memory; its blocks are expected in C order.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    aligned: bool = True
    streamed: bool = False

    @classmethod
    def of(cls, array: Operand) -> Layout:
        """The layout of an operand."""
        if isinstance(array, Source):
            return cls.fresh(array.shape, array.dtype)._replace(streamed=True)
        return cls(array.shape, array.strides, array.dtype, array.flags.aligned)

    @classmethod
    def fresh(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
        """The layout of a new array in C order."""
        indices = tuple(range(len(shape)))
        return cls(shape, View.contiguous(indices, shape, dtype).strides, dtype)

    @property
    def n_bytes(self) -> int:
        """Bytes from the first to the last element, as far as they are in memory."""
        if 0 in self.shape or self.streamed:
            return 0
        reach = sum(abs(s) * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))
        return reach + self.dtype.itemsize

    def view(self, access: Access, indices: tuple[int, ...]) -> View:
        """The layout with one axis per index: diagonals merged, broadcast axes left out."""
        extents = tuple(self.shape[axes[0]] for axes in access.axes)
        strides = tuple(sum(self.strides[axis] for axis in axes) for axes in access.axes)
        return View(indices, extents, strides, self.dtype, self.aligned)


def as_operand(given: Any) -> Operand:
    """A Source as it is, everything else as an array."""
    return given if isinstance(given, (np.ndarray, Source)) else np.asarray(given)


def see_operand(operand: Operand, number: int, access: Access) -> Array | Window:
    """An operand with one axis per index: a view of an array, a window into anything else."""
    if isinstance(operand, Source):
        return Window.whole(operand, number, access, see)
    return see(operand, access)


def union_bytes(operands: Sequence[Operand]) -> int:
    """Bytes of memory that the arrays among the operands cover together; shared ones count once."""
    spans = sorted(byte_bounds(a) for a in operands if isinstance(a, np.ndarray) and a.size)
    total = 0
    end = 0
    for low, high in spans:
        total += max(high - max(low, end), 0)
        end = max(end, high)
    return total
