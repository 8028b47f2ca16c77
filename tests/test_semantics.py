"""What einsum computes is what numpy.einsum computes: value, dtype, shape, memory order, type."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import einbound as eb
from strategies import Call, calls

DTYPES = ["f8", "f4", "i4", "u1", "?", "D", ">f8", "O"]


def operands(call: Call, dtype: str) -> list[np.ndarray]:
    arrays = [np.abs(array) if dtype == "u1" else array for array in call.arrays()]
    return [(array * (1 + 1j) if dtype == "D" else array).astype(dtype) for array in arrays]


def steps(array: np.ndarray) -> list[int]:
    """Strides of the axes that have any."""
    sides = zip(array.strides, array.shape, strict=True)
    return [stride for stride, n in sides if n != 1] if array.size else []


@settings(max_examples=250)
@given(calls(), st.sampled_from(DTYPES), st.sampled_from("KACF"), st.booleans())
def test_results_are_numpys(call: Call, dtype: str, order: Any, limited: bool) -> None:
    arrays = operands(call, dtype)
    expected = np.einsum(call.text, *arrays, order=order)
    limit: dict[str, Any] = {"workspace_limit": 2**20} if limited and dtype != "O" else {}
    result = eb.einsum(call.text, *arrays, order=order, **limit)
    assert type(result) is type(expected)
    assert np.array_equal(result, expected)
    if isinstance(expected, np.ndarray):
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        assert steps(result) == steps(expected)


@settings(max_examples=100)
@given(calls())
def test_half_precision_is_single_precision_rounded_once(call: Call) -> None:
    halves = operands(call, "f2")
    with np.errstate(over="ignore"):
        result = np.asarray(eb.einsum(call.text, *halves))
    singles = np.asarray(np.einsum(call.text, *[half.astype("f4") for half in halves]))
    assert result.dtype == np.float16
    with np.errstate(over="ignore"):
        assert np.array_equal(result, singles.astype("f2"))
