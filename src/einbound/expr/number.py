"""Numbers as callers write them, and as arithmetic in one element type takes them."""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fractions import Fraction


def whole(value: Any, name: str, *, expected: str = "an integer") -> int:
    """`value` as a Python integer.

    Args:
        value: What the caller gave.
        name: What the caller calls it.
        expected: What may be given, for the message.

    Raises:
        TypeError: It is no integer.
    """
    try:
        if not isinstance(value, bool | np.bool):
            return as_int(value)
    except TypeError:
        pass
    raise TypeError(f"{name} is {value!r} of type {type(value).__name__}; expected {expected}")


def element(number: Fraction | float | complex, dtype: np.dtype[Any]) -> int | float | complex:
    """An exact number as Python's number that arithmetic in an element type multiplies by.

    Integers go around as NumPy's do, so that -1 and 300 are numbers of every integer type.

    Args:
        number: An integer where the type is one of integers.
        dtype: The element type.
    """
    if isinstance(number, complex):
        return number
    if dtype.kind not in "iu":
        return float(number)
    whole_number, n_values = int(number), 1 << 8 * dtype.itemsize
    assert whole_number == number, f"{number} is no number of {dtype}"
    low = int(np.iinfo(dtype).min)
    return (whole_number - low) % n_values + low
