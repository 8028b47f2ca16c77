"""Arrays seen with one axis per index."""

from __future__ import annotations

from typing import Any, TypeAlias

from numpy.typing import NDArray

from einbound.expr.network import Access

Array: TypeAlias = NDArray[Any]


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
