"""Scores and bounds: numbers that can be compared, whole ones of any size included."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, TypeAlias, cast

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
    try:
        return cast("Number", plain(value))
    except OverflowError:
        raise SpaceError(
            f"the {what} of {where} is {value!r}, which is beyond any float; "
            "expected an int or a float, or None where there is none"
        ) from None


def plain(value: Any) -> Any:
    """A real number of any kind as an int or a float, rounded if need be; all else as it is.

    Example:
        >>> from fractions import Fraction
        >>> plain(Fraction(1, 2)), plain(None)
        (0.5, None)
    """
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)
