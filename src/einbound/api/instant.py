"""The shortest way from two arrays to their product, for plans of one product.

Small contractions are called in tight loops, where a walk over two instructions would cost more
than the product itself. The kernel is the one that the walk would run.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any, TypeAlias

import numpy as np

from einbound.api.operands import Array
from einbound.api.planning import Made
from einbound.backends.numpy_ import compile_way
from einbound.run.allocator import Allocator
from einbound.run.executable import quiet

#: Two operands, and the caller's array for the result, if there is one.
Instant: TypeAlias = Callable[..., Array | None]


def instant_of(made: Made) -> Instant | None:
    """A function of two operands, or None if the plan is more than one product as it is.

    The function returns None for operands of another kind than was planned, and for an array for
    the result that is not as a new one would be.
    """
    ready, setting = made.executable, made.setting
    if not ready.is_one_product or not _takes_arrays_as_they_are(made):
        return None
    way = ready.metered.steps[0].way
    assert way is not None, "a metered step has a way"
    kernel = compile_way(way)
    # The step may read its operands in either order.
    is_swapped = ready.tree.steps[0] == (1, 0)
    a_layout, b_layout = setting.layouts
    a_shape, a_strides, a_dtype = a_layout[:3]
    b_shape, b_strides, b_dtype = b_layout[:3]
    shape, dtype = ready.job.result.extents, ready.job.result.dtype
    array, empty, context = np.ndarray, np.empty, quiet().copy
    nothing, workspace_bytes = Allocator(0), ready.metered.workspace_bytes
    must_align = setting.limits.is_set
    is_as_new = _as_new(shape, dtype, may_be_given=not must_align)

    def instant(a: Any, b: Any, c: Any = None) -> Array | None:
        if not (
            type(a) is array
            and type(b) is array
            and a.shape == a_shape
            and b.shape == b_shape
            and a.strides == a_strides
            and b.strides == b_strides
            and a.dtype is a_dtype
            and b.dtype is b_dtype
        ):
            return None
        if must_align and not (a.flags.aligned and b.flags.aligned):
            return None
        if c is None:
            c = empty(shape, dtype)
        elif not is_as_new(c, a, b):
            return None
        if is_swapped:
            a, b = b, a
        room = Allocator(workspace_bytes) if workspace_bytes else nothing
        context().run(kernel, a, b, c, False, room.take, room.give)
        room.finish()
        made_in: Array = c
        return made_in

    return instant


def _takes_arrays_as_they_are(made: Made) -> bool:
    ready, setting = made.executable, made.setting
    job = ready.job
    plain = all(
        not access.dropped and all(axes == (i,) for i, axes in enumerate(access.axes))
        for access in job.network.accesses
    )
    # Arrays that share memory take less than was planned, never more; but a plan for shared
    # memory under a limit must look at every pair of arrays.
    apart = setting.operand_bytes == sum(layout.n_bytes for layout in setting.layouts)
    return (
        plain
        and setting.out is None
        and job.result.indices == job.network.output
        and bool(job.result.indices)
        and not job.work.hasobject
        and (apart or not setting.limits.is_set)
    )


def _as_new(
    shape: tuple[int, ...], dtype: np.dtype, *, may_be_given: bool
) -> Callable[[Any, Array, Array], bool]:
    """Tells whether a caller's array is as a new one would be, and apart from two operands."""
    strides, array, share = _strides(shape, dtype.itemsize), np.ndarray, np.may_share_memory

    def is_as_new(c: Any, a: Array, b: Array) -> bool:
        return (
            may_be_given
            and type(c) is array
            and c.shape == shape
            and c.strides == strides
            and c.dtype is dtype
            and c.flags.behaved
            and not (share(c, a) or share(c, b))
        )

    return is_as_new


def _strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Bytes between neighbours of a new array."""
    inside = accumulate(reversed(shape[1:]), mul, initial=itemsize)
    return tuple(inside)[::-1]
