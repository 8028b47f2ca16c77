"""A search under way: the threshold, the ledger, and what is told of every node.

Which node comes next is the matter of `space/search.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from einbound.space.events import Event, Fathomed, Left, Met, Outcome, Scored, Verdict
from einbound.space.limit import Allowance
from einbound.space.number import INFINITY, Number, number
from einbound.space.stats import SearchStats
from einbound.space.traversal import render_path
from einbound.space.tree import Child, Excluded, Judged, Leaf, Path, Refuted, Tree

D = TypeVar("D")
P = TypeVar("P")
R = TypeVar("R")

#: The price of a leaf; None where it has none, and then it never wins.
Score: TypeAlias = Callable[[P], Number | None]
#: Less than or equal to the score of every completion below; None: no opinion.
Bound: TypeAlias = Callable[[Path[D], Tree[D, P]], Number | None]


@dataclass(frozen=True, slots=True, eq=False)
class Place(Generic[D]):
    """Where a node is: the last decision and the place it was made at.

    Paths are written out only where somebody reads them; a deep tree would not fit otherwise.
    """

    above: Place[D] | None
    depth: int
    decided: tuple[str, D] | None = None

    def path(self) -> Path[D]:
        """The decisions, outermost first."""
        steps = []
        place: Place[D] | None = self
        while place is not None and place.decided is not None:
            steps.append(place.decided)
            place = place.above
        return tuple(reversed(steps))

    def __str__(self) -> str:
        return render_path(self.path()) or "the root"


@dataclass(frozen=True, slots=True, eq=False)
class Open(Generic[D, P]):
    """A child that was not looked at; no completion scores less than `floor`."""

    place: Place[D]
    judged: Judged[D, P]
    floor: Number


@dataclass(frozen=True, slots=True, eq=False)
class Node(Generic[D, P]):
    """A subtree that may be entered; no completion scores less than `floor`."""

    place: Place[D]
    subtree: Tree[D, P]
    floor: Number


class Run(Generic[D, P]):
    """A search under way: what it was asked, and how far it is."""

    def __init__(
        self,
        score: Score[P],
        bound: Bound[D, P] | None,
        incumbent: Number | None,
        allowance: Allowance,
        listeners: Sequence[Callable[[Event[D]], None]],
    ) -> None:
        self._score = score
        self._bound = bound
        self._allowance = allowance
        self._listeners = listeners
        self._counts: Counter[str] = Counter()
        self._n_told = 0
        self._stopped = False
        self._least_left: Number | None = None
        self._threshold: Number = INFINITY if incumbent is None else incumbent
        self._winner: Place[D] | None = None
        self.best: P | None = None

    def judged(self, child: Open[D, P]) -> Node[D, P] | None:
        """What may be entered of a child, its bound asked; None: nothing."""
        place, judged, floor = child.place, child.judged, child.floor
        if not isinstance(judged, Child):
            verdict = Verdict(type(judged).__name__.lower())
            self._tell(place, Met, verdict, verdict, judged.witness)
        if isinstance(judged, Refuted | Excluded):
            return None
        subtree = _noting("making", place, lambda: judged.subtree)
        own = self._bounded(place, subtree) if isinstance(judged, Child) else None
        if own is None:
            return Node(place, subtree, floor)
        node = Node(place, subtree, own)
        return None if self.fathoms(node) else node

    def fathoms(self, node: Node[D, P]) -> bool:
        """Whether nothing below a node can win, which is told then."""
        if node.floor < self._threshold:
            return False
        self._tell(node.place, Fathomed, "fathomed", node.floor, self._threshold)
        return True

    def entered(self, node: Node[D, P]) -> Sequence[Open[D, P]]:
        """The children of a node, none if it is a leaf, which is scored, or if time is up."""
        subtree = node.subtree
        if not self._covers(subtree):
            self._leave(node)
            return ()
        if isinstance(subtree, Leaf):
            self._weigh(node.place, subtree.payload)
            return ()
        self._counts["expanded"] += 1
        depth = node.place.depth + 1
        return [
            Open(Place(node.place, depth, (subtree.level, decision)), judged, node.floor)
            for decision, judged in subtree.children
        ]

    def outcome(self) -> Outcome[D]:
        """What was found."""
        path = None if self._winner is None else self._winner.path()
        score = None if self._winner is None else self._threshold
        proven = self._least_left is None
        return Outcome(path, score, SearchStats(**self._counts), proven, self._gap())

    def _gap(self) -> Number | None:
        if self._least_left is None:
            return 0
        if self._least_left == -INFINITY or self._threshold == INFINITY:
            return None
        return self._threshold - self._least_left

    def _covers(self, subtree: Tree[D, P]) -> bool:
        # Once stopped, always stopped: what remains is bounded, and nothing entered.
        if not self._stopped:
            self._stopped = not self._allowance.covers(leaf=isinstance(subtree, Leaf))
        return not self._stopped

    def _leave(self, node: Node[D, P]) -> None:
        if self.fathoms(node):
            return
        self._tell(node.place, Left, "", node.floor)
        known = INFINITY if self._least_left is None else self._least_left
        self._least_left = min(known, node.floor)

    def _weigh(self, place: Place[D], payload: P) -> None:
        value = _noting("scoring", place, lambda: self._score(payload))
        if value is not None:
            value = number(value, "score", place)
        counted = "unscored" if value is None else "scored"
        self._tell(place, Scored, counted, value, self._threshold)
        if value is not None and value < self._threshold:
            self.best, self._winner, self._threshold = payload, place, value

    def _bounded(self, place: Place[D], subtree: Tree[D, P]) -> Number | None:
        if self._bound is None:
            return None
        value = _noting("bounding", place, partial(self._bound, place.path(), subtree))
        return None if value is None else number(value, "bound", place)

    def _tell(
        self, place: Place[D], event: Callable[..., Event[D]], counted: str, *values: Any
    ) -> None:
        if counted:
            self._counts[counted] += 1
        if self._listeners:
            told = event(self._n_told, place.path(), *values)
            self._n_told += 1
            for listen in self._listeners:
                listen(told)


def _noting(doing: str, place: Place[D], ask: Callable[[], R]) -> R:
    try:
        return ask()
    except Exception as error:
        error.add_note(f"while {doing} {place}")
        raise
