"""Arrays as the planner sees them: layouts, byte ranges, one axis per index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from einbound.expr.network import Access
from einbound.step.view import View

Array = NDArray[Any]


class Layout(NamedTuple):
    """What decides how an array is read: its shape, byte strides, dtype and alignment."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    aligned: bool = True

    @classmethod
    def of(cls, array: Array) -> Layout:
        """The layout of an array."""
        return cls(array.shape, array.strides, array.dtype, array.flags.aligned)

    @classmethod
    def fresh(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Layout:
        """The layout of a new array in C order."""
        indices = tuple(range(len(shape)))
        return cls(shape, View.contiguous(indices, shape, dtype).strides, dtype)

    @property
    def n_bytes(self) -> int:
        """Bytes from the first to the last element."""
        if 0 in self.shape:
            return 0
        reach = sum(abs(s) * (n - 1) for s, n in zip(self.strides, self.shape, strict=True))
        return reach + self.dtype.itemsize

    def view(self, access: Access, indices: tuple[int, ...]) -> View:
        """The layout with one axis per index: diagonals merged, broadcast axes left out."""
        extents = tuple(self.shape[axes[0]] for axes in access.axes)
        strides = tuple(sum(self.strides[axis] for axis in axes) for axes in access.axes)
        return View(indices, extents, strides, self.dtype, self.aligned)


def see(array: Array, access: Access) -> Array:
    """The array with one axis per index, as a view; writeable if the array is."""
    if not access.dropped and all(axes == (i,) for i, axes in enumerate(access.axes)):
        return array
    # The ellipsis keeps an array without axes from turning into a scalar.
    view = array[(*(0 if k in access.dropped else slice(None) for k in range(array.ndim)), ...)]
    index_of = {axis: i for i, axes in enumerate(access.axes) for axis in axes}
    indices = [index_of[k] for k in range(array.ndim) if k not in access.dropped]
    for index in range(len(access.axes)):
        while indices.count(index) > 1:
            first = indices.index(index)
            second = indices.index(index, first + 1)
            view = view.diagonal(0, first, second)
            indices = [i for k, i in enumerate(indices) if k not in (first, second)] + [index]
    view = view.transpose([indices.index(i) for i in range(len(access.axes))])
    if array.flags.writeable and not view.flags.writeable:
        # numpy hands out diagonals read-only; those of its einsum are not.
        view.flags.writeable = True
    return view


def union_bytes(arrays: Sequence[Array]) -> int:
    """Bytes of memory that the arrays cover together; shared bytes count once."""
    spans = sorted(byte_bounds(array) for array in arrays if array.size)
    total = 0
    end = 0
    for low, high in spans:
        total += max(high - max(low, end), 0)
        end = max(end, high)
    return total
