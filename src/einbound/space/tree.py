"""Partial schedules as a lazy tree: what is decided, what is open, and what cannot be.

Verdicts exist as soon as the node above them does; subtrees are made when they are asked for,
once, whichever thread asks. Trees are equal if they were given the same: a callable equals itself
only, since comparing makes nothing. They are pickled as they were given, too, so callables must be
functions of a module or partials of these there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from einbound.errors import SpaceError
from einbound.space.held import Held, Kind
from einbound.space.structure import Node, Parts
from einbound.space.witness import Witness

# Nodes never change, so one of narrower decisions or payloads passes for one of wider ones.
D = TypeVar("D", covariant=True)
P = TypeVar("P", covariant=True)

#: A rule with its numbers, or a sentence.
Reason: TypeAlias = Witness | str


@dataclass(frozen=True, slots=True, eq=False)
class Leaf(Node, Generic[P]):
    """A schedule with nothing left to decide."""

    payload: P

    def parts(self) -> Parts:
        """The payload."""
        return Parts(Leaf, (self.payload,))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Choice(Node, Generic[D, P]):
    """One open decision and every way to make it.

    Attributes:
        level: Names the decision for people; it identifies nothing.
        children: The ways, each a decision with its verdict, in the order of search. A decision
            is data that can be hashed, and equals no other one here.

    Example:
        >>> Choice("tile", ((8, Child(Leaf("small"))), (9, Refuted("9 divides nothing"))))
        Choice('tile', {8: Child, 9: Refuted})
    """

    level: str
    children: tuple[tuple[D, Judged[D, P]], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.level, str):
            raise SpaceError(f"the level of a choice is {self.level!r}; expected its name as text")
        object.__setattr__(self, "children", _pairs(self.level, self.children))
        seen: set[object] = set()
        for decision, judged in self.children:
            _check_decision(self.level, decision, seen)
            if not isinstance(judged, VERDICT.classes):
                raise SpaceError(
                    f"{self.level}={decision} has {judged!r} for its verdict; expected {VERDICT}"
                )
            _put(judged, (self.level, decision))

    def __repr__(self) -> str:
        ways = (f"{decision!r}: {type(judged).__name__}" for decision, judged in self.children)
        return f"Choice({self.level!r}, {{{', '.join(ways)}}})"

    def parts(self) -> Parts:
        """The level with the decisions, and the verdicts."""
        decisions = tuple(decision for decision, _ in self.children)
        return Parts(_choice, (self.level, decisions), tuple(judged for _, judged in self.children))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Child(Node, Generic[D, P]):
    """Feasible as far as is known: a tree, or a callable without arguments that makes it."""

    given: Tree[D, P] | Callable[[], Tree[D, P]]
    _held: Held[Tree[D, P]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_held", Held(self.given, TREE, "Child"))

    def __repr__(self) -> str:
        return f"Child({_shown(self.given)})"

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return self._held.get()

    def parts(self) -> Parts:
        """What it was given."""
        return _parts(Child, (), self.given)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unknown(Node, Generic[D, P]):
    """Not decidable here, so never pruned by verdict: building a leaf settles it.

    Attributes:
        witness: What is not known.
        given: A tree, or a callable without arguments that makes it.
    """

    witness: Reason
    given: Tree[D, P] | Callable[[], Tree[D, P]]
    _held: Held[Tree[D, P]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_held", Held(self.given, TREE, "Unknown"))
        _check_witness("Unknown", self.witness)

    def __repr__(self) -> str:
        return f"Unknown({self.witness!r}, {_shown(self.given)})"

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return self._held.get()

    def parts(self) -> Parts:
        """The witness and what it was given."""
        return _parts(Unknown, (self.witness,), self.given)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Excluded(Node, Generic[D, P]):
    """Legal, but not proposed by a policy; lifted, it is what only that policy hid.

    Attributes:
        witness: The policy.
        given: The same judgment without it, which may be any verdict, or a callable without
            arguments that makes it.
    """

    witness: Reason
    given: Judged[D, P] | Callable[[], Judged[D, P]]
    _held: Held[Judged[D, P]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_held", Held(self.given, VERDICT, "Excluded"))
        _check_witness("Excluded", self.witness)

    def __repr__(self) -> str:
        shown = "..." if callable(self.given) else type(self.given).__name__
        return f"Excluded({self.witness!r}, {shown})"

    @property
    def lifted(self) -> Judged[D, P]:
        """The same judgment without this policy."""
        judged = self._held.get()
        _put(judged, self._held.place)
        return judged

    def parts(self) -> Parts:
        """The witness and what it was given."""
        return _parts(Excluded, (self.witness,), self.given)


@dataclass(frozen=True, slots=True, eq=False)
class Refuted(Node):
    """No completion is legal.

    Attributes:
        witness: The rule that is broken.
    """

    witness: Reason

    def __post_init__(self) -> None:
        _check_witness("Refuted", self.witness)

    def parts(self) -> Parts:
        """The witness."""
        return Parts(Refuted, (self.witness,))


# The first to appear is the alias's first parameter, so Choice comes first.
Tree: TypeAlias = Choice[D, P] | Leaf[P]
Judged: TypeAlias = Child[D, P] | Unknown[D, P] | Excluded[D, P] | Refuted
#: What was decided so far, outermost first: the name of each level and the decision.
Path: TypeAlias = tuple[tuple[str, D], ...]

#: The two kinds of record that there are, for checks of what callers give.
TREE = Kind("a tree", (Leaf, Choice))
VERDICT = Kind("a verdict", (Child, Unknown, Excluded, Refuted))


def _choice(level: str, decisions: tuple[Any, ...], *judged: Any) -> Choice[Any, Any]:
    return Choice(level, tuple(zip(decisions, judged, strict=True)))


def _parts(build: type[Node], data: tuple[Any, ...], given: Any) -> Parts:
    return Parts(build, data, (given,)) if isinstance(given, Node) else Parts(build, (*data, given))


def _shown(given: object) -> str:
    return repr(given) if isinstance(given, Node) else "..."


def _pairs(level: str, children: Any) -> tuple[tuple[Any, Any], ...]:
    if not isinstance(children, Iterable):
        raise SpaceError(
            f"the children of choice {level!r} are {children!r}; expected pairs (decision, verdict)"
        )
    pairs = tuple(children)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise SpaceError(
                f"choice {level!r} has {pair!r} among its children; "
                "expected pairs (decision, verdict)"
            )
    return pairs


def _check_decision(level: str, decision: object, seen: set[object]) -> None:
    try:
        is_new = decision not in seen
        seen.add(decision)
    except TypeError:
        raise SpaceError(
            f"decision {decision!r} of choice {level!r} cannot be hashed; "
            "expected data such as a number, an enum member or a frozen record"
        ) from None
    if not is_new:
        raise SpaceError(
            f"choice {level!r} has decision {decision!r} twice; a decision identifies its child"
        )


def _check_witness(holder: str, witness: object) -> None:
    if not isinstance(witness, Witness | str):
        raise SpaceError(f"{holder} has witness {witness!r}; expected a Witness or a sentence")


def _put(judged: Judged[Any, Any], place: tuple[str, Any] | None) -> None:
    # For messages alone, so a record that several choices share knows the first of them.
    if not isinstance(judged, Refuted):
        judged._held.put(place)
