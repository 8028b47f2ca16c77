"""Partial schedules as a lazy tree: what is decided, what is open, and what cannot be.

Verdicts exist as soon as the node above them does; subtrees are made when they are asked for,
once, whichever thread asks. Trees are equal if they were given the same: a callable equals itself
only, since comparing makes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, cast

from einbound.errors import SpaceError
from einbound.space.once import Once
from einbound.space.structure import Node, Parts
from einbound.space.witness import Witness

D = TypeVar("D")
P = TypeVar("P")

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
        seen: set[Any] = set()
        for decision, judged in self.children:
            _check_decision(self.level, decision, seen)
            if not isinstance(judged, _VERDICTS):
                raise SpaceError(
                    f"{self.level}={decision} has {judged!r} for its verdict; "
                    "expected Child, Unknown, Excluded or Refuted"
                )
            _set_place(judged, (self.level, decision))

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
    _made: Once[Tree[D, P]] | None = field(init=False)
    _place: tuple[str, D] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", _lazily(self.given))
        _check_given(self, _TREES)

    def __repr__(self) -> str:
        return f"Child({_shown(self.given)})"

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return cast("Tree[D, P]", _held(self, _TREES))

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
    _made: Once[Tree[D, P]] | None = field(init=False)
    _place: tuple[str, D] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", _lazily(self.given))
        _check_witness(self, self.witness)
        _check_given(self, _TREES)

    def __repr__(self) -> str:
        return f"Unknown({self.witness!r}, {_shown(self.given)})"

    @property
    def subtree(self) -> Tree[D, P]:
        """What is below."""
        return cast("Tree[D, P]", _held(self, _TREES))

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
    _made: Once[Judged[D, P]] | None = field(init=False)
    _place: tuple[str, D] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", _lazily(self.given))
        _check_witness(self, self.witness)
        _check_given(self, _VERDICTS)

    def __repr__(self) -> str:
        shown = "..." if callable(self.given) else type(self.given).__name__
        return f"Excluded({self.witness!r}, {shown})"

    @property
    def lifted(self) -> Judged[D, P]:
        """The same judgment without this policy."""
        judged = cast("Judged[D, P]", _held(self, _VERDICTS))
        if self._place is not None:
            _set_place(judged, self._place)
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
        _check_witness(self, self.witness)

    def parts(self) -> Parts:
        """The witness."""
        return Parts(Refuted, (self.witness,))


# The first to appear is the alias's first parameter, so Choice comes first.
Tree: TypeAlias = Choice[D, P] | Leaf[P]
Judged: TypeAlias = Child[D, P] | Unknown[D, P] | Excluded[D, P] | Refuted
#: What was decided so far, outermost first: the name of each level and the decision.
Path: TypeAlias = tuple[tuple[str, D], ...]

T = TypeVar("T")

_TREES: tuple[type, ...] = (Leaf, Choice)
_VERDICTS: tuple[type, ...] = (Child, Unknown, Excluded, Refuted)
_EXPECTED = {
    _TREES: "a tree (Leaf or Choice)",
    _VERDICTS: "a verdict (Child, Unknown, Excluded or Refuted)",
}


def checked_tree(tree: Tree[D, P]) -> Tree[D, P]:
    """The tree itself, if it is one.

    Raises:
        SpaceError: It is a verdict, or something else.

    Example:
        >>> checked_tree(Leaf(3))
        Leaf(payload=3)
    """
    if not isinstance(tree, _TREES):
        raise SpaceError(f"{tree!r} is no tree; expected {_EXPECTED[_TREES]}")
    return tree


def checked_verdict(judged: Judged[D, P]) -> Judged[D, P]:
    """The verdict itself, if it is one.

    Raises:
        SpaceError: It is a tree, or something else.

    Example:
        >>> checked_verdict(Refuted("9 does not divide m"))
        Refuted(witness='9 does not divide m')
    """
    if not isinstance(judged, _VERDICTS):
        raise SpaceError(f"{judged!r} is no verdict; expected {_EXPECTED[_VERDICTS]}")
    return judged


def _choice(level: str, decisions: tuple[Any, ...], *judged: Any) -> Choice[Any, Any]:
    return Choice(level, tuple(zip(decisions, judged, strict=True)))


def _parts(build: type[Node], data: tuple[Any, ...], given: Any) -> Parts:
    return Parts(build, data, (given,)) if isinstance(given, Node) else Parts(build, (*data, given))


def _shown(given: object) -> str:
    return repr(given) if isinstance(given, Node) else "..."


def _lazily(given: T | Callable[[], T]) -> Once[T] | None:
    return Once(given) if callable(given) else None


def _held(holder: Any, kinds: tuple[type, ...]) -> object:
    """What a verdict was given, or what came of it."""
    if holder._made is None:
        return holder.given
    made = holder._made.get()
    if not isinstance(made, kinds):
        where = "a verdict's callable"
        if holder._place is not None:
            where = "the callable of {}={}".format(*holder._place)
        raise SpaceError(f"{where} made {made!r}; expected {_EXPECTED[kinds]}")
    return made


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


def _check_decision(level: str, decision: D, seen: set[D]) -> None:
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


def _check_given(holder: Any, kinds: tuple[type, ...]) -> None:
    if holder._made is None and not isinstance(holder.given, kinds):
        raise SpaceError(
            f"{type(holder).__name__} was given {holder.given!r}; expected {_EXPECTED[kinds]} "
            "or a callable without arguments that makes one"
        )


def _check_witness(holder: object, witness: object) -> None:
    if not isinstance(witness, Witness | str):
        raise SpaceError(
            f"{type(holder).__name__} has witness {witness!r}; expected a Witness or a sentence"
        )


def _set_place(judged: Any, place: tuple[str, Any]) -> None:
    # For the message of _held alone; the first choice that holds the verdict says where it is.
    if not isinstance(judged, Refuted) and judged._place is None:
        object.__setattr__(judged, "_place", place)
