"""Fields of a problem as callers give them, checked and brought to one form."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, TypeGuard

from einbound.errors import KernelError, MachineError
from einbound.machine.precision import Precision


def checked_extent(name: str, given: object) -> int:
    """A number of elements.

    Raises:
        KernelError: It is no whole number, or below 1.
    """
    if not is_whole(given):
        raise KernelError(f"{name} is {given!r}; expected a whole number of at least 1")
    if given < 1:
        raise KernelError(
            f"{name} is {given}; expected at least 1: an empty product needs no kernel"
        )
    return int(given)


def is_whole(given: object) -> TypeGuard[int]:
    """Whether it is a whole number, of Python or of NumPy."""
    return isinstance(given, Integral) and not isinstance(given, bool)


def checked_extents(name: str, given: object) -> tuple[int, ...]:
    """Numbers of elements, from one number or several."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        return tuple(checked_extent(f"an extent of {name}", each) for each in given)
    return (checked_extent(name, given),)


def checked_flag(name: str, given: object) -> bool:
    """True or False.

    Raises:
        KernelError: It is something else.
    """
    if not isinstance(given, bool):
        raise KernelError(f"{name} is {given!r}; expected True or False")
    return given


def checked_precision(name: str, given: object) -> Precision:
    """A number format.

    Raises:
        KernelError: There is no such format.
    """
    try:
        return Precision.of(given)
    except MachineError as error:
        raise KernelError(f"{name}: {error}") from None


def checked_operands(given: object) -> frozenset[str]:
    """Names of operands.

    Raises:
        KernelError: Something else than "A" and "B" is in it.
    """
    names: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    if any(name not in ("A", "B") for name in names):
        raise KernelError(f'hoistable is {given!r}; expected any of "A" and "B"')
    return frozenset(names)


def checked_strides(name: str, given: Any) -> tuple[int, int]:
    """Two strides in elements.

    Raises:
        KernelError: They are not two whole numbers.
    """
    found = tuple(given) if isinstance(given, Iterable) else ()
    if len(found) != 2 or not all(map(is_whole, found)):
        raise KernelError(f"{name} is {given!r}; expected two whole numbers of elements")
    return int(found[0]), int(found[1])


def check_epilogue(name: object, reason: object) -> None:
    """Nothing, if there is the name of a tail, or a reason for there being none, or neither.

    Raises:
        KernelError: Both are there, or one is no text.
    """
    for field, given in (("epilogue", name), ("epilogue_reason", reason)):
        if given is not None and (not isinstance(given, str) or not given):
            raise KernelError(f"{field} is {given!r}; expected text, or None")
    if name is not None and reason is not None:
        raise KernelError(
            f"epilogue is {name!r}, and epilogue_reason says why there is none; give one of them"
        )
