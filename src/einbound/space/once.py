"""A value that is made when it is first asked for, once, whichever thread asks."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Once(Generic[T]):
    """A value made on demand and kept.

    What the maker raises goes to the caller, and the next call tries again.

    Example:
        >>> Once(lambda: 6 * 7).get()
        42
    """

    __slots__ = ("_lock", "_make", "_value")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._value: T | None = None
        self._lock = RLock()

    def get(self) -> T:
        """The value."""
        if self._make is not None:
            with self._lock:
                make = self._make
                if make is not None:
                    self._value = make()
                    # Last, since other threads look at it without the lock.
                    self._make = None
        return cast(T, self._value)
