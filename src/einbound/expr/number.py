"""Whole numbers as callers write them: Python's or NumPy's, and never a truth value."""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np


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
