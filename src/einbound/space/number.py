"""Scores and bounds: numbers that can be compared, whole ones of any size included."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeAlias

from einbound.errors import SpaceError

Number: TypeAlias = int | float

INFINITY = float("inf")


def number(value: object, what: str, where: object) -> Number:
    """A score or a bound as given: an int, or a float that is not nan.

    Infinite ones are numbers: a score of inf never wins, a bound of inf says that no completion
    has a price, and a bound of -inf says nothing.

    Args:
        value: What a caller's function came back with.
        what: Its name in messages.
        where: What it was asked about; written out only in a message.

    Raises:
        SpaceError: It is nan or no real number.

    Example:
        >>> number(3, "score", "the root")
        3
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Real):
        raise SpaceError(
            f"the {what} of {where} is {value!r}, which is no number; "
            "expected an int or a float, or None where there is none"
        )
    if value != value:
        raise SpaceError(
            f"the {what} of {where} is nan, which no number can be compared with; "
            "expected an int or a float, or None where there is none"
        )
    if isinstance(value, int | float):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
