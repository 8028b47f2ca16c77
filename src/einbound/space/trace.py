"""Whether a search told the truth: its trace against the tree, the score and the bound alone.

Nothing here is shared with the search. A trace is checked as a proof, so it does not matter who
found it: every leaf in reach is accounted for once, and nothing was left out without need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from math import inf
from typing import Any, Generic, TypeAlias, TypeVar

from einbound.errors import SpaceError
from einbound.space.events import Event, Fathomed, Left, Met, Order, Outcome, Scored, Trace
from einbound.space.number import Number, number, plain
from einbound.space.stats import SearchStats
from einbound.space.traversal import enumerate_leaves, render_path
from einbound.space.tree import Child, Excluded, Judged, Leaf, Path, Reason, Refuted, Tree
from einbound.space.verification import Verification

D = TypeVar("D")
P = TypeVar("P")

Score: TypeAlias = Callable[[P], Number | None]
Bound: TypeAlias = Callable[[Path[D], Tree[D, P]], Number | None]
_Kind: TypeAlias = type[Event[Any]]
#: A child with its path, and the nearest and the greatest bound above it.
_Above: TypeAlias = tuple[Path[D], Judged[D, P], Number, Number]


def verify_trace(
    tree: Tree[D, P],
    score: Score[P],
    bound: Bound[D, P] | None,
    trace: Trace[D] | None,
    *,
    incumbent: Number | None = None,
    audit: bool = True,
) -> Verification[D]:
    """Whether a trace proves its outcome; if it does not, the first step that is false.

    Every leaf in reach must be accounted for once: priced, without a price, below a subtree that
    was fathomed, or below one that was left open at the limit. Scores and bounds are asked again
    and must be what was told; a fathom must have been due at the threshold of that moment; winner,
    ledger and gap must follow from the events; no leaf may score less than a bound above it. Events
    of a depth-first search must come in the order of the tree; those of a best-first search in any
    order that makes them true.

    Args:
        tree: What was searched.
        score: What the search was given.
        bound: What the search was given.
        trace: What it told.
        incumbent: What the search was given; None: what the trace says.
        audit: Whether every leaf that was left out is priced now, which finds bounds that exceed
            a score; takes about as long as a search without bounds.

    Returns:
        A record that is true if all is well. What `score`, `bound` and the tree raise comes out.

    Raises:
        SpaceError: There is no trace, since the search was told not to keep it.

    Law: a trace that was tampered with is found (tests/test_space_trace.py).

    Example:
        >>> from einbound.space.search import search
        >>> trace = search(Leaf(3), float).trace
        >>> bool(verify_trace(Leaf(3), float, None, trace))
        True
        >>> print(verify_trace(Leaf(4), float, None, trace))
        step 0: the score was told as 3.0, and is 4.0 (the root)
    """
    if trace is None:
        raise SpaceError("there is no trace to verify; search with trace=True")
    if not isinstance(trace, Trace):
        raise SpaceError(f"{trace!r} is no trace; expected the trace of a result of search")
    if incumbent is not None and incumbent != trace.incumbent:
        return Verification(_differ("incumbent", trace.incumbent, incumbent))
    closed = {each.path: type(each) for each in trace.events if isinstance(each, Fathomed | Left)}
    account: dict[tuple[_Kind, Path[D]], _Due[D, P]] = {}
    n_expanded = 0
    for due in _walk(tree, bound, closed):
        if due.event is None:
            n_expanded += 1
        else:
            account[due.event, due.path] = due
    false = _false_steps(trace, account, lambda event, due: _fault(event, due, score, audit))
    return next(chain(false, _false_outcome(trace, n_expanded)), Verification())


@dataclass(frozen=True, slots=True, eq=False)
class _Due(Generic[D, P]):
    """An event that must be told of a node; None: the node is expanded, which nobody tells.

    Attributes:
        bound: What is told: the bound of the nearest node from here up that has one.
        floor: The greatest bound of all of these, below which no score may be.
    """

    event: _Kind | None
    path: Path[D]
    witness: Reason | None
    verdict: str
    subtree: Tree[D, P] | None
    bound: Number
    floor: Number


def _walk(
    tree: Tree[D, P], bound: Bound[D, P] | None, closed: Mapping[Path[D], _Kind]
) -> Iterator[_Due[D, P]]:
    """What is due of every node that is in reach and not below a closed one, in their order."""
    todo: list[_Above[D, P]] = [((), Child(tree), -inf, -inf)]
    while todo:
        path, judged, known, floor = todo.pop()
        verdict = type(judged).__name__.lower()
        if not isinstance(judged, Child):
            yield _Due(Met, path, judged.witness, verdict, None, known, floor)
        if isinstance(judged, Refuted | Excluded):
            continue
        subtree = judged.subtree
        if bound is not None and isinstance(judged, Child):
            own = bound(path, subtree)
            known = known if own is None else number(own, "bound", render_path(path) or "the root")
            floor = max(floor, known)
        event = closed.get(path, Scored if isinstance(subtree, Leaf) else None)
        yield _Due(event, path, None, verdict, subtree, known, floor)
        if event is None and not isinstance(subtree, Leaf):
            for decision, each in reversed(subtree.children):
                todo.append(((*path, (subtree.level, decision)), each, known, floor))


def _false_steps(
    trace: Trace[D],
    account: dict[tuple[_Kind, Path[D]], _Due[D, P]],
    fault: Callable[[Event[D], _Due[D, P]], str],
) -> Iterator[Verification[D]]:
    """What is false, the first step first; what was never told comes last."""
    order = tuple(account.values()) if trace.order is Order.DEPTH_FIRST else ()
    threshold = inf if trace.incumbent is None else trace.incumbent
    for step, event in enumerate(trace.events):
        due = account.pop((type(event), event.path), None)
        if due is None:
            yield Verification(f"{_name(type(event))} is not due", step, event.path)
        elif order and order[step] is not due:
            due = order[step]
            yield Verification(f"{_name(due.event)} is due before", step, due.path)
        told = _differ("number", event.step, step)
        if isinstance(event, Scored | Fathomed):
            told = told or _differ("threshold", event.threshold, threshold)
        if due is not None and (told := told or fault(event, due)):
            yield Verification(told, step, event.path)
        if isinstance(event, Scored) and event.score is not None:
            threshold = min(threshold, event.score)
    for due in account.values():
        yield Verification(f"{_name(due.event)} was never told", None, due.path)


def _fault(event: Event[D], due: _Due[D, P], score: Score[P], audit: bool) -> str:
    """What is false in an event that is due; empty if nothing is."""
    if isinstance(event, Met):
        witness = _differ("witness", event.witness, due.witness)
        return _differ("verdict", event.verdict, due.verdict) or witness
    if isinstance(event, Scored):
        (payload,) = (payload for _, payload in enumerate_leaves(_subtree(due)))
        return _differ("score", event.score, plain(score(payload))) or _inflated(due, score)
    told = _differ("bound", event.bound, due.bound)
    if not told and isinstance(event, Fathomed) and event.bound < event.threshold:
        told = f"the bound {event.bound} is below the threshold {event.threshold}"
    return told or (_inflated(due, score) if audit else "")


def _inflated(due: _Due[D, P], score: Score[P]) -> str:
    for path, payload in enumerate_leaves(_subtree(due)):
        value = plain(score(payload))
        if value is not None and value < due.floor:
            below = "" if due.event is Scored else f" of {render_path(path) or 'this leaf'} below"
            return f"the bound {due.floor} exceeds the score {value}{below}"
    return ""


def _false_outcome(trace: Trace[D], n_expanded: int) -> Iterator[Verification[D]]:
    """What does not follow from the events."""
    derived = _outcome(trace, n_expanded)
    for name in [each.name for each in fields(derived)]:
        if told := _differ(name, getattr(trace.outcome, name), getattr(derived, name)):
            yield Verification(told)


def _outcome(trace: Trace[D], n_expanded: int) -> Outcome[D]:
    """What follows from the events."""
    leaves = [each for each in trace.events if isinstance(each, Scored)]
    priced = {each.path: each.score for each in leaves if each.score is not None}
    start = inf if trace.incumbent is None else trace.incumbent
    least = min(priced.values(), default=inf)
    # Of equal leaves the first one wins, and none of them if the incumbent is as good.
    path = next(path for path, price in priced.items() if price == least) if least < start else None
    kinds = Counter(type(each) for each in trace.events)
    verdicts = Counter(str(each.verdict) for each in trace.events if isinstance(each, Met))
    n_unscored = len(leaves) - len(priced)
    stats = SearchStats(n_expanded, len(priced), n_unscored, kinds[Fathomed], **verdicts)
    bounds = [each.bound for each in trace.events if isinstance(each, Left)]
    gap: Number | None = 0
    if bounds:
        ends = min(bounds), min(start, least)
        gap = None if ends[0] == -inf or ends[1] == inf else ends[1] - ends[0]
    return Outcome(path, None if path is None else least, stats, not bounds, gap)


def _differ(name: str, told: object, true: object) -> str:
    return "" if told == true else f"the {name} was told as {told}, and is {true}"


def _name(event: _Kind | None) -> str:
    return "nothing" if event is None else f"an event of {event.__name__}"


def _subtree(due: _Due[D, P]) -> Tree[D, P]:
    assert due.subtree is not None, "what is met has no subtree"
    return due.subtree
