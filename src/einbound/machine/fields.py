"""Fields of records as callers give them, checked and brought to one form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, TypeVar

from einbound.errors import MachineError

R = TypeVar("R")
S = TypeVar("S", bound=StrEnum)


def count(name: str, given: object, least: int = 1) -> int:
    """A whole number of at least `least`, of Python or of NumPy, as an int.

    Raises:
        MachineError: It is something else.

    Example:
        >>> count("n_sm", 132)
        132
    """
    if not isinstance(given, Integral) or isinstance(given, bool) or int(given) < least:
        raise MachineError(f"{name} is {given!r}; expected a whole number of at least {least}")
    return int(given)


def rate(name: str, given: object) -> float:
    """A finite number above 0, of Python or of NumPy; whole ones stay whole.

    Raises:
        MachineError: It is something else.
    """
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not (is_number and math.isfinite(given) and given > 0):  # type: ignore[arg-type,operator]
        raise MachineError(f"{name} is {given!r}; expected a finite number above 0, per second")
    return given if isinstance(given, int) else float(given)  # type: ignore[arg-type]


def flag(name: str, given: object) -> bool:
    """True or False.

    Raises:
        MachineError: It is something else.
    """
    if not isinstance(given, bool):
        raise MachineError(f"{name} is {given!r}; expected True or False")
    return given


def as_text(name: str, given: object) -> str:
    """A text.

    Raises:
        MachineError: It is something else.
    """
    if not isinstance(given, str):
        raise MachineError(f"{name} is {given!r}; expected text")
    return given


def counts(name: str, given: Any, length: int | None = None) -> tuple[Any, ...]:
    """The whole numbers in `given`, as a tuple; `length` of them, if that is said.

    Raises:
        MachineError: They are something else.
    """
    found = tuple(given) if isinstance(given, Iterable) else None
    if found is None or (length is not None and len(found) != length):
        raise MachineError(f"{name} is {given!r}; expected {length or 'a list of'} whole numbers")
    return tuple(count(f"a number of {name}", each) for each in found)


def pairs(name: str, given: Any) -> tuple[tuple[Any, Any], ...]:
    """Keys and values of a mapping, or the pairs that are given instead.

    Raises:
        MachineError: It is neither.
    """
    found = tuple(given.items()) if isinstance(given, Mapping) else items(name, given)
    for each in found:
        if not isinstance(each, Sequence) or len(each) != 2:
            raise MachineError(f"{name} has {each!r}; expected a mapping, or pairs")
    return tuple((key, value) for key, value in found)


def items(name: str, given: Any) -> tuple[Any, ...]:
    """What is listed.

    Raises:
        MachineError: It is no list.
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise MachineError(f"{name} is {given!r}; expected a list")
    return tuple(given)


def ordered(given: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Pairs sorted by their keys; those of equal keys stay as they stand."""
    return tuple(sorted(given, key=lambda pair: pair[0]))


def listed(given: Any) -> tuple[Any, ...]:
    """The items in `given`; what is no list, a text among them, is one item."""
    return (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)


def member(kind: type[S], given: object) -> S:
    """The member of an enumeration that is meant by itself or by its text.

    Raises:
        MachineError: There is none; the message lists them.
    """
    try:
        return kind(given)  # type: ignore[arg-type]
    except ValueError:
        texts = ", ".join(repr(str(each)) for each in kind)
        raise MachineError(f"{given!r} is no {kind.__name__}; expected one of {texts}") from None


def record(kind: type[R], given: Any) -> R:
    """The record of a kind that is given as itself or as a mapping of its fields.

    Raises:
        MachineError: It is no mapping, or a field is not known or missing.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise MachineError(f"{given!r} is no {kind.__name__}; expected a mapping of its fields")
    members = fields(kind)  # type: ignore[arg-type]
    names = [field.name for field in members]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise MachineError(
            f"{kind.__name__} has no field {unknown[0]!r}; expected one of {', '.join(names)}"
        )
    needed = [field.name for field in members if field.default is MISSING]
    missing = [name for name in needed if name not in given]
    if missing:
        raise MachineError(f"{kind.__name__} needs {missing[0]}; given were {', '.join(given)}")
    return kind(**given)
