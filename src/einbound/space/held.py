"""What a verdict holds: given at once, or made when it is first asked for; checked either way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from einbound.errors import SpaceError
from einbound.space.once import Once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind:
    """A closed set of classes.

    Attributes:
        name: What their instances are together.
        classes: All of them.
    """

    name: str
    classes: tuple[type, ...]

    def __str__(self) -> str:
        *all_but_last, last = (each.__name__ for each in self.classes)
        return f"{self.name} ({', '.join(all_but_last)} or {last})"

    def checked(self, value: T) -> T:
        """The value, if it is of one of the classes.

        Raises:
            SpaceError: It is of none.

        Example:
            >>> Kind("a number", (int, float)).checked(3)
            3
        """
        if not isinstance(value, self.classes):
            raise SpaceError(f"{value!r} is not {self.name}; expected {self}")
        return value


class Held(Generic[T]):
    """Something of a kind, or what a callable without arguments makes of it, once."""

    __slots__ = ("_given", "_kind", "_made", "place")

    def __init__(self, given: T | Callable[[], T], kind: Kind, holder: str) -> None:
        if not isinstance(given, kind.classes) and not callable(given):
            raise SpaceError(
                f"{holder} was given {given!r}; expected {kind} "
                "or a callable without arguments that makes one"
            )
        self._kind = kind
        self._given = given
        self._made = (
            None if isinstance(given, kind.classes) else Once(cast("Callable[[], T]", given))
        )
        #: Level and decision where it was first held, which messages tell.
        self.place: tuple[str, Any] | None = None

    def get(self) -> T:
        """The thing itself.

        Raises:
            SpaceError: The callable made something of another kind.
        """
        if self._made is None:
            return cast(T, self._given)
        made = self._made.get()
        if not isinstance(made, self._kind.classes):
            where = "a verdict" if self.place is None else "{}={}".format(*self.place)
            raise SpaceError(f"the callable of {where} made {made!r}; expected {self._kind}")
        return made

    def put(self, place: tuple[str, Any] | None) -> None:
        """Remember where it is, if that is not known yet."""
        if self.place is None:
            self.place = place
