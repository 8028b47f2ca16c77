"""Views of a step's arrays: over fused axes, as stacks of matrices, spread for broadcasting.

Every view is made by transposing, reshaping without a copy, or basic slicing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

from numpy.typing import NDArray

from einbound.step.blocked import Buffer, Way
from einbound.step.pair import CARRIERS, C, Pair
from einbound.step.view import View

Array: TypeAlias = NDArray[Any]
#: A view of an array; None: the array as it is.
Look: TypeAlias = Callable[[Array], Array] | None


def same(array: Any) -> Any:
    """The array itself."""
    return array


def fused_look(pair: Pair, side: int) -> Callable[[Array], Array]:
    """Makes the view of an array over the fused axes of its step, without a copy."""
    view = pair.views[side]
    if view is None:
        return same
    axes = [pair.axes[i] for i in pair.carried[side]]
    wanted = [i for axis in axes for i in axis.indices]
    return indices_look(view, wanted, tuple(axis.extent for axis in axes)) or same


def matrix_look(way: Way, side: int) -> Look:
    """The view of a whole array as a stack of matrices."""
    view = way.pair.views[side]
    assert view is not None
    axes = way.pair.axes
    first, second = way.form.matrix(side)
    batch = [i for i in way.form.batch if side in CARRIERS[axes[i].group]]
    wanted = [i for n in (*batch, *first, *second) for i in axes[n].indices]
    shape = [axes[i].extent if i in batch else 1 for i in way.form.batch]
    shape += [prod(axes[i].extent for i in run) for run in (first, second)]
    while len(shape) > 2 and shape[0] == 1:
        del shape[0]
    return indices_look(view, wanted, tuple(shape))


def indices_look(view: View, wanted: list[int], shape: tuple[int, ...]) -> Look:
    """The view of an array with its indices in the order `wanted`, those left out first."""
    dropped = [i for i in view.indices if i not in set(wanted)]
    order = tuple(view.indices.index(i) for i in (*dropped, *wanted))
    return _look(order, shape, view.extents)


def _look(order: tuple[int, ...], shape: tuple[int, ...], now: tuple[int, ...]) -> Look:
    """A transposition and a reshape that copies nothing, or only what is needed of them."""
    is_ordered = order == tuple(range(len(order)))
    is_shaped = shape == tuple(now[i] for i in order)
    if is_ordered and is_shaped:
        return None
    if is_shaped:
        return lambda array: array.transpose(order)
    if is_ordered:
        return lambda array: array.reshape(shape, copy=False)
    return lambda array: array.transpose(order).reshape(shape, copy=False)


def block_matrix_look(way: Way, side: int) -> Callable[[Array], Array]:
    """The view of a block as a stack of matrices; its extents may differ from trip to trip."""
    pair, form = way.pair, way.form
    carried = pair.carried[side]
    runs = [(i,) for i in form.batch] + list(form.matrix(side))
    looped = [i for i in form.looped if i in carried]
    kept = [[carried.index(i) for i in run if i in carried] for run in runs]
    order = tuple(carried.index(i) for i in looped) + tuple(i for run in kept for i in run)
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}

    def look(array: Array) -> Array:
        shape = shapes.get(array.shape)
        if shape is None:
            shape = tuple([prod([array.shape[i] for i in run]) for run in kept])
            shapes[array.shape] = shape
        return array.transpose(order).reshape(shape, copy=False)

    return look


def spread_look(way: Way, side: int) -> Callable[[Array], Array]:
    """The view of an operand's block with the axes of c, of length 1 where it lacks one."""
    pair = way.pair
    carried, kept = pair.carried[side], pair.carried[C]
    looped = [i for i in carried if i not in kept]
    order = tuple(carried.index(i) for i in (*looped, *(i for i in kept if i in carried)))
    is_ordered = order == tuple(range(len(order)))
    # One element along each summed axis, and a new axis where c has one that is not carried.
    picks = (0,) * len(looped) + tuple(slice(None) if i in carried else None for i in kept)
    if is_ordered and all(pick == slice(None) for pick in picks):
        return same
    # The ellipsis keeps an array where plain integers would give a scalar.
    return lambda array: array.transpose(order)[(*picks, ...)]


def product_look(way: Way) -> Look:
    """The view of a whole product's buffer as a stack of matrices."""
    assert way.product is not None, f"no product in {way}"
    order, form, axes = way.product.order, way.form, way.pair.axes
    places = tuple(order.index(i) for i in (*form.batch, *form.rows, *form.columns))
    shape = [axes[i].extent for i in form.batch]
    shape += [prod(axes[i].extent for i in run) for run in (form.rows, form.columns)]
    return _look(places, tuple(shape), way.product.extents)


def block_view(way: Way, buffer: Buffer) -> Callable[[Array, tuple[int, ...]], Array]:
    """Makes the view of a flat buffer that has the axes of a block of its array."""
    carried = way.pair.carried[buffer.side]
    order = tuple(carried.index(i) for i in buffer.order)
    back = tuple(order.index(i) for i in range(len(order)))

    def view(flat: Array, shape: tuple[int, ...]) -> Array:
        # A tuple of an iterator is cut from a longer one and, when freed, piles up in the
        # interpreter's free list: up to 128 KiB, one per call.
        ordered = tuple([shape[i] for i in order])
        return flat[: prod(shape)].reshape(ordered).transpose(back)

    return view
