"""The result's memory order is numpy.einsum's, stride by stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.expr.expression import parse
from einbound.expr.network import Network
from einbound.step.memory_order import check_order, result_axis_order
from einbound.step.view import View
from strategies import Call, calls, strided

EIGHT = np.dtype(np.float64)


def views(network: Network, operands: list[np.ndarray]) -> list[View]:
    sides = zip(network.inputs, network.accesses, operands, strict=True)
    return [
        View(
            indices,
            tuple(network.extents[i] for i in indices),
            tuple(sum(array.strides[axis] for axis in axes) for axes in access.axes),
            array.dtype,
        )
        for indices, access, array in sides
    ]


def summed(network: Network) -> tuple[int, ...]:
    inside = set(range(len(network.labels))) - set(network.output)
    return tuple(sorted(inside, key=lambda i: str(network.labels[i])))


def packed(order: tuple[int, ...], network: Network) -> dict[int, int]:
    """The stride of each index of a result laid out in `order`; length-1 axes have none."""
    strides, step = {}, EIGHT.itemsize
    for i in reversed(order):
        if network.extents[i] != 1:
            strides[i] = step
        step *= network.extents[i]
    return strides


@settings(max_examples=600)
@given(call=calls(min_extent=1, max_operands=3), order=st.sampled_from("KACFkacf"), data=st.data())
def test_axis_order_equals_the_strides_that_numpy_allocates(
    call: Call, order: Any, data: st.DataObject
) -> None:
    network = parse(call.text, len(call.shapes)).bind(call.shapes)
    operands = [
        data.draw(strided(shape) | st.sampled_from([np.ones(shape), np.ones(shape, order="F")]))
        for shape in call.shapes
    ]
    result = np.asarray(np.einsum(call.text, *operands, order=order))
    # numpy returns a view of the operand, whatever the order, where nothing is computed.
    assume(not any(np.shares_memory(result, each) for each in operands))
    found = result_axis_order(order, network.output, views(network, operands), summed(network))
    assert sorted(found) == sorted(network.output)
    strides = {
        i: stride
        for i, stride in zip(network.output, result.strides, strict=True)
        if network.extents[i] != 1
    }
    assert packed(found, network) == strides


def test_keeping_follows_the_largest_strides_of_the_operands() -> None:
    first = View((0, 1), (2, 3), (8, 16), EIGHT)
    second = View((1, 2), (3, 4), (8, 24), EIGHT)
    assert result_axis_order("K", (0, 1, 2), [first, second], ()) == (2, 1, 0)


def test_any_is_fortran_order_only_if_all_operands_are() -> None:
    fortran = View((0, 1), (2, 3), (8, 16), EIGHT)
    c = View((1, 2), (3, 4), (32, 8), EIGHT)
    assert result_axis_order("A", (0, 1), [fortran], ()) == (1, 0)
    assert result_axis_order("A", (0, 2), [fortran, c], (1,)) == (0, 2)


def test_axes_of_length_one_and_stride_zero_do_not_count() -> None:
    view = View((0, 1, 2), (1, 3, 4), (8, 0, 8), EIGHT)
    assert result_axis_order("K", (0, 1, 2), [view], ()) == (0, 1, 2)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^order is 'W'; expected 'K', 'A', 'C' or 'F'$"):
        check_order("W")


def test_an_order_that_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^order is 3 of type int; expected 'K', 'A', 'C' or 'F'"):
        check_order(3)  # type: ignore[arg-type]
