"""Fields of records as callers give them, checked and brought to one form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, TypeVar

from einbound.errors import MachineError

R = TypeVar("R")
S = TypeVar("S", bound=StrEnum)


def check_count(name: str, given: object) -> None:
    """Nothing, if `given` is a whole number of at least 1.

    Raises:
        MachineError: It is not.
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise MachineError(f"{name} is {given!r}; expected a whole number of at least 1")


def check_rate(name: str, given: object) -> None:
    """Nothing, if `given` is a finite number above 0.

    Raises:
        MachineError: It is not.
    """
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not (is_number and math.isfinite(given) and given > 0):  # type: ignore[arg-type,operator]
        raise MachineError(f"{name} is {given!r}; expected a finite number above 0, per second")


def counts(name: str, given: Any, length: int | None = None) -> tuple[Any, ...]:
    """The whole numbers in `given`, as a tuple; `length` of them, if that is said.

    Raises:
        MachineError: They are something else.
    """
    found = tuple(given) if isinstance(given, Iterable) else None
    if found is None or (length is not None and len(found) != length):
        raise MachineError(f"{name} is {given!r}; expected {length or 'a list of'} whole numbers")
    for each in found:
        check_count(f"a number of {name}", each)
    return found


def pairs(given: Any) -> Iterable[tuple[Any, Any]]:
    """Keys and values of a mapping, or the pairs that are given instead."""
    return given.items() if isinstance(given, Mapping) else given


def ordered(given: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Pairs sorted by their keys; those of equal keys stay as they stand."""
    return tuple(sorted(given, key=lambda pair: pair[0]))


def listed(given: Any) -> tuple[Any, ...]:
    """The items in `given`; one text is one item."""
    return (given,) if isinstance(given, str) else tuple(given)


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
