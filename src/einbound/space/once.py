"""A value that is made when it is first asked for, once, whichever thread asks."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Generic, TypeVar, cast

from einbound.errors import SpaceError

T = TypeVar("T")


class Once(Generic[T]):
    """A value made on demand and kept.

    What the maker raises goes to the caller, and the next call tries again. A maker that asks for
    the value itself is refused.

    Example:
        >>> Once(lambda: 6 * 7).get()
        42
    """

    __slots__ = ("_is_making", "_lock", "_make", "_value")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Callable[[], T] | None = make
        self._value: T | None = None
        self._lock = RLock()
        self._is_making = False

    def get(self) -> T:
        """The value."""
        if self._make is not None:
            with self._lock:
                if self._make is not None:
                    self._value = self._made_by(self._make)
                    # Last, since other threads look at it without the lock.
                    self._make = None
        return cast(T, self._value)

    def _made_by(self, make: Callable[[], T]) -> T:
        if self._is_making:
            raise SpaceError(
                "a subtree asks for itself while it is made; expected a callable that makes it "
                "from what is above"
            )
        self._is_making = True
        try:
            return make()
        finally:
            self._is_making = False
