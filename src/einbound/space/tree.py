"""Partial schedules as a lazy tree: what is decided, what is open, and what cannot be.

Verdicts exist as soon as the node above them does; subtrees are made when they are asked for,
once, whichever thread asks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from einbound.space.once import Once
from einbound.space.witness import Witness

D = TypeVar("D")
P = TypeVar("P")

#: A rule with its numbers, or a sentence.
Reason: TypeAlias = Witness | str


@dataclass(frozen=True, slots=True)
class Leaf(Generic[P]):
    """A schedule with nothing left to decide."""

    payload: P


@dataclass(frozen=True, slots=True)
class Choice(Generic[D, P]):
    """One open decision and every way to make it.

    Attributes:
        level: Names the decision for people; it identifies nothing.
        children: The ways, each a decision with its verdict, in the order of search.
    """

    level: str
    children: tuple[tuple[D, Judged[D, P]], ...]


@dataclass(frozen=True, slots=True)
class Child(Generic[D, P]):
    """Feasible as far as is known: a tree, or a callable without arguments that makes it."""

    given: Tree[D, P] | Callable[[], Tree[D, P]]
    _subtree: Once[Tree[D, P]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_subtree", _once(self.given))

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return self._subtree.get()


@dataclass(frozen=True, slots=True)
class Unknown(Generic[D, P]):
    """Not decidable here, so never pruned by verdict: building a leaf settles it."""

    witness: Reason
    given: Tree[D, P] | Callable[[], Tree[D, P]]
    _subtree: Once[Tree[D, P]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_subtree", _once(self.given))

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return self._subtree.get()


@dataclass(frozen=True, slots=True)
class Excluded(Generic[D, P]):
    """Legal, but not proposed by a policy; lifted, it is what only that policy hid."""

    witness: Reason
    given: Judged[D, P] | Callable[[], Judged[D, P]]
    _payload: Once[Judged[D, P]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_payload", _once(self.given))

    @property
    def lifted(self) -> Judged[D, P]:
        """The same judgment without this policy."""
        return self._payload.get()


@dataclass(frozen=True, slots=True)
class Refuted:
    """No completion is legal."""

    witness: Reason


Tree: TypeAlias = Leaf[P] | Choice[D, P]
Judged: TypeAlias = Child[D, P] | Unknown[D, P] | Excluded[D, P] | Refuted
#: What was decided so far, outermost first: the name of each level and the decision.
Path: TypeAlias = tuple[tuple[str, D], ...]

T = TypeVar("T")


def _once(given: T | Callable[[], T]) -> Once[T]:
    return Once(given) if callable(given) else Once(lambda: given)
