"""What a search did, as data: one record for each event, and the trace of them all.

How events come about is the matter of `space/search.py`, whether they are true that of
`space/trace.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from math import isfinite
from typing import Any, Generic, TypeAlias, TypeVar

from einbound.errors import SpaceError
from einbound.space.document import read, written
from einbound.space.number import Number, number
from einbound.space.stats import SearchStats
from einbound.space.tree import Path, Reason
from einbound.space.witness import Witness

D = TypeVar("D")


class Order(StrEnum):
    """Which open node a search enters next."""

    DEPTH_FIRST = "depth_first"
    BEST_FIRST = "best_first"


class Verdict(StrEnum):
    """What a child may be other than feasible."""

    REFUTED = "refuted"
    EXCLUDED = "excluded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Met(Generic[D]):
    """A child that is not simply feasible came up.

    Attributes:
        step: Number of the event, from 0.
        path: The decisions down to the child.
        verdict: Only unknown children are entered.
        witness: Why it was judged so.
    """

    step: int
    path: Path[D]
    verdict: Verdict
    witness: Reason


@dataclass(frozen=True, slots=True)
class Scored(Generic[D]):
    """A leaf was priced.

    Attributes:
        step: Number of the event, from 0.
        path: The decisions of the leaf.
        score: None: it has no price, and does not win.
        threshold: What a score had to be below to win.
    """

    step: int
    path: Path[D]
    score: Number | None
    threshold: Number


@dataclass(frozen=True, slots=True)
class Fathomed(Generic[D]):
    """A subtree was left out, since nothing in it can win.

    Attributes:
        step: Number of the event, from 0.
        path: The decisions down to the subtree.
        bound: No completion scores less; best-first, that of the nearest node above that has one,
            if the subtree has none of its own.
        threshold: What a score had to be below to win.
    """

    step: int
    path: Path[D]
    bound: Number
    threshold: Number


@dataclass(frozen=True, slots=True)
class Left(Generic[D]):
    """A subtree was not entered because the limit was reached.

    Attributes:
        step: Number of the event, from 0.
        path: The decisions down to the subtree.
        bound: No completion scores less: its own bound, or that of the nearest node above that
            has one; -inf: nothing is known.
    """

    step: int
    path: Path[D]
    bound: Number


Event: TypeAlias = Met[D] | Scored[D] | Fathomed[D] | Left[D]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[D]):
    """What a search claims.

    Attributes:
        path: The decisions of the best leaf; None: no leaf scores below the incumbent.
        score: Its score.
        stats: The ledger.
        proven: Whether nothing was left open.
        gap: By how much the best score, or else the incumbent's, may exceed the least there is;
            None: nothing is known.
    """

    path: Path[D] | None
    score: Number | None
    stats: SearchStats
    proven: bool
    gap: Number | None


@dataclass(frozen=True, slots=True)
class Trace(Generic[D]):
    """A search told from its beginning to its end, so that others can check it.

    Attributes:
        order: Which open node was entered next.
        incumbent: What a score had to be below from the start; None: anything was good enough.
        events: What happened, in the order in which it did.
        outcome: What follows from it.
    """

    order: Order
    incumbent: Number | None
    events: tuple[Event[D], ...]
    outcome: Outcome[D]

    def to_json(self, encode: Callable[[D], Any] | None = None) -> str:
        """The trace as JSON text.

        Args:
            encode: A decision as JSON; by default decisions are texts, numbers, booleans or None.

        Raises:
            SpaceError: A decision is nothing of that kind and `encode` was not given.
        """
        write = encode or _own
        rows = [{"event": _NAMES[type(event)], **_row(event, write)} for event in self.events]
        fields = {
            "order": self.order,
            "incumbent": _plain(self.incumbent),
            "events": rows,
            "outcome": _row(self.outcome, write),
        }
        return written(SCHEMA, fields)

    @staticmethod
    def from_json(text: str, decode: Callable[[Any], D] | None = None) -> Trace[D]:
        """The trace that was written.

        Args:
            text: What `to_json` came back with.
            decode: Undoes its `encode`.

        Raises:
            SpaceError: The text is no such document.
        """
        back = decode or (lambda value: value)
        return read(
            text,
            SCHEMA,
            lambda fields: Trace(
                Order(fields["order"]),
                _value("incumbent", fields["incumbent"], back),
                tuple(_event(row, back) for row in fields["events"]),
                Outcome(**_values(fields["outcome"], back)),
            ),
        )


SCHEMA = "einbound.search_trace"

_EVENTS: Mapping[str, type[Event[Any]]] = {
    "met": Met,
    "scored": Scored,
    "fathomed": Fathomed,
    "left": Left,
}
_NAMES = {kind: name for name, kind in _EVENTS.items()}
_NUMBERS = frozenset({"incumbent", "score", "threshold", "bound", "gap"})
_CLASSES: Mapping[str, type] = {"step": int, "proven": bool}


def _row(record: Event[D] | Outcome[D], encode: Callable[[D], Any]) -> dict[str, Any]:
    row = {field.name: _plain(getattr(record, field.name)) for field in fields(record)}
    if record.path is not None:
        row["path"] = [[level, encode(decision)] for level, decision in record.path]
    return row


def _event(row: Mapping[str, Any], decode: Callable[[Any], D]) -> Event[D]:
    values = _values(row, decode)
    return _EVENTS[values.pop("event")](**values)


def _values(row: Mapping[str, Any], decode: Callable[[Any], D]) -> dict[str, Any]:
    return {name: _value(name, told, decode) for name, told in row.items()}


def _value(name: str, told: Any, decode: Callable[[Any], D]) -> Any:
    """A field of a record from what was written."""
    if told is None:
        return None
    if name in _NUMBERS:
        return number(_number_told(told), name, "the trace")
    if name in _CLASSES and type(told) is not _CLASSES[name]:
        raise SpaceError(f"{name} is {told!r}; expected a value of type {_CLASSES[name].__name__}")
    if name == "path":
        return tuple((str(level), decode(decision)) for level, decision in told)
    if name == "verdict":
        return Verdict(told)
    if name == "stats":
        return SearchStats(**told)
    if name == "witness" and not isinstance(told, str):
        values = tuple((name, _number_told(value)) for name, value in told["values"])
        return Witness(told["rule"], values, _number_told(told["limit"]))
    return _number_told(told)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return {"float": str(float(value))}  # JSON has no infinities
    if isinstance(value, Witness):
        values = [[name, _plain(number)] for name, number in value.values]
        return {"rule": value.rule, "values": values, "limit": _plain(value.limit)}
    return asdict(value) if isinstance(value, SearchStats) else value


def _number_told(told: Any) -> Any:
    """A number as it was before it was written; anything else as it is."""
    return float(told["float"]) if isinstance(told, dict) else told


def _own(decision: object) -> Any:
    if decision is None or isinstance(decision, str | int | float):
        return decision
    raise SpaceError(
        f"decision {decision!r} is of type {type(decision).__name__}, which JSON does not know; "
        "give encode= here and decode= to Trace.from_json"
    )
