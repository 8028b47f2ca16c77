"""In which order numpy.einsum lays the axes of its result in memory.

Only the order of axes; numpy packs the result without gaps and without negative strides.
"""

from __future__ import annotations

from collections.abc import Sequence

from einbound.step.view import View


def result_axis_order(
    order: str, output: tuple[int, ...], views: Sequence[View], summed: tuple[int, ...]
) -> tuple[int, ...]:
    """The indices of the result in memory order, slowest first, as numpy.einsum has them.

    Args:
        order: "C"; "F"; "A", which is "F" if all operands are contiguous in Fortran order and
            else "C"; or "K", as close to the operands' own layout as is possible. Upper or
            lower case.
        output: Indices of the result.
        views: The operands, diagonals merged; an operand lacks the indices that it broadcasts.
        summed: Indices that are not on the result, sorted by label. numpy iterates over them in
            this order, which decides ties in rare cases of "K".

    Raises:
        ValueError: `order` is none of these letters.

    Law: equals the strides that numpy.einsum allocates (tests/test_memory_order.py).
    """
    letter = check_order(order)
    if letter == "K":
        outside = set(output)
        fastest_first = _closest((*output, *summed), views)
        return tuple(i for i in reversed(fastest_first) if i in outside)
    if letter == "F" or (letter == "A" and all(map(_is_fortran, views))):
        return output[::-1]
    return output


def check_order(order: str) -> str:
    """The letter of `order` in upper case.

    Raises:
        TypeError: `order` is no text.
        ValueError: `order` is not one of K, A, C and F.
    """
    if not isinstance(order, str):
        raise TypeError(
            f"order is {order!r} of type {type(order).__name__}; expected 'K', 'A', 'C' or 'F'"
        )
    letter = order.upper()
    if letter not in ("K", "A", "C", "F"):
        raise ValueError(f"order is {order!r}; expected 'K', 'A', 'C' or 'F'")
    return letter


def _is_fortran(view: View) -> bool:
    if 0 in view.extents:
        return True
    step = view.dtype.itemsize
    for extent, stride in zip(view.extents, view.strides, strict=True):
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def _closest(axes: tuple[int, ...], views: Sequence[View]) -> list[int]:
    """The axes, fastest first, in the order in which numpy's nditer iterates.

    The insertion sort of numpy 2.4 step by step: whether one axis is faster than another is no
    transitive relation once axes lack a common operand, so another sort may differ.
    """
    steps = [
        {
            index: abs(stride)
            for index, extent, stride in zip(v.indices, v.extents, v.strides, strict=True)
            if stride and extent != 1
        }
        for v in views
    ]
    placed: list[int] = []
    for axis in reversed(axes):
        place = len(placed)
        for k in range(len(placed) - 1, -1, -1):
            faster = _is_faster(axis, placed[k], steps)
            if faster:
                place = k
            elif faster is False:
                break
        placed.insert(place, axis)
    return placed


def _is_faster(axis: int, other: int, steps: Sequence[dict[int, int]]) -> bool | None:
    """Whether `axis` has the smaller stride wherever both have one; None if nowhere."""
    both = [each for each in steps if axis in each and other in each]
    return all(each[axis] < each[other] for each in both) if both else None
