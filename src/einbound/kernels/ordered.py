"""A total order on decisions, whatever kinds they are of."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields
from enum import Enum
from typing import ClassVar, TypeAlias

Key: TypeAlias = tuple["int | Key", ...]


def key(value: object) -> Key:
    """Numbers that compare as the values are ordered: kinds before numbers, None first.

    Members of a closed set are ordered as they are declared, which is the order of search.
    """
    if value is None:
        return (0,)
    if isinstance(value, Enum):
        return (1, list(type(value)).index(value))
    if isinstance(value, int):
        return (2, value)
    if isinstance(value, tuple):
        return (3, *map(key, value))
    assert isinstance(value, AbstractOrdered), f"no order is defined on {value!r}"
    return value.key


class AbstractOrdered:
    """A frozen dataclass that is ordered by its rank, then by its fields, and told by its label."""

    __slots__ = ()

    #: Place of the class among those that it is compared with.
    rank: ClassVar[int]

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is called where it is told to people."""

    def __str__(self) -> str:
        return self.label

    @property
    def key(self) -> Key:
        """What it is ordered by."""
        values = (getattr(self, each.name) for each in fields(self))  # type: ignore[arg-type]
        return (4, self.rank, *map(key, values))

    def __lt__(self, other: AbstractOrdered) -> bool:
        return self.key < other.key

    def __le__(self, other: AbstractOrdered) -> bool:
        return self.key <= other.key

    def __gt__(self, other: AbstractOrdered) -> bool:
        return self.key > other.key

    def __ge__(self, other: AbstractOrdered) -> bool:
        return self.key >= other.key
