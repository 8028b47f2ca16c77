"""Branch and bound over a tree of decisions, whatever these are about.

Every event is told as it happens; whether a finished search told the truth is the matter of
`space/trace.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from einbound.errors import SpaceError
from einbound.space.events import Event, Order, Trace
from einbound.space.limit import Allowance, Limit
from einbound.space.number import INFINITY, Number, number
from einbound.space.progress import Bound, Node, Open, Place, Run, Score
from einbound.space.stats import SearchStats
from einbound.space.tree import Child, Path, Tree

D = TypeVar("D")
P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[D, P]):
    """The best leaf of a tree, and how far that is proven.

    Attributes:
        best: The payload of the best leaf; None: no leaf scores below the incumbent.
        score: Its score.
        path: The decisions that lead to it.
        stats: The ledger.
        proven: Whether nothing was left open: no leaf scores below `best` and the incumbent.
        gap: By how much the best score, or else the incumbent's, may exceed the least there is;
            0 if proven, None where nothing is known.
        trace: What was done; None if it was not kept.
    """

    best: P | None
    score: Number | None
    path: Path[D] | None
    stats: SearchStats
    proven: bool
    gap: Number | None
    trace: Trace[D] | None


def search(
    tree: Tree[D, P],
    score: Score[P],
    bound: Bound[D, P] | None = None,
    incumbent: Number | None = None,
    *,
    order: Order | str = Order.DEPTH_FIRST,
    limit: Limit | None = None,
    on_event: Callable[[Event[D]], None] | None = None,
    trace: bool = True,
) -> SearchResult[D, P]:
    """The leaf of the least score, or none if no leaf scores below the incumbent.

    Depth-first, children are taken in their order and the first of equal leaves wins. A feasible
    child is made, then bounded, and left out if its bound is not below the least score so far; an
    unknown child is entered without asking for a bound; refuted and excluded children are counted.
    Best-first, the open node of the smallest bound is entered next, of equal bounds the deepest, of
    these the one that was met first; a node without a bound of its own has that of its parent. The
    best score is the same; of equal leaves, another one may win.

    What `score`, `bound` or the making of a subtree raises comes out as it is, with a note that
    says where.

    Args:
        tree: What is searched.
        score: The price of a payload; inf is a price that never wins.
        bound: Asked with the path of a node and its subtree, () and the tree itself to begin with.
            It must not exceed the score of any completion (`verify_bound`); inf says that no
            completion has a price.
        incumbent: What a score must be below.
        order: "depth_first" or "best_first".
        limit: When to stop; nothing open is lost, it is counted in the gap.
        on_event: Called with every event as it happens.
        trace: Whether the events are kept, too; every one holds the whole path of its node.

    Raises:
        SpaceError: A score or a bound is nan or no number.

    Law: the score is the least of all leaves in reach (tests/test_space_search.py).

    Example:
        >>> from einbound.space.tree import Choice, Leaf, Refuted
        >>> tree = Choice("tile", ((8, Child(Leaf(5))), (9, Refuted("odd")), (16, Child(Leaf(3)))))
        >>> result = search(tree, score=float)
        >>> result.best, result.path, result.stats.scored
        (3, (('tile', 16),), 2)
    """
    order = _order(order)
    if incumbent is not None:
        incumbent = number(incumbent, "incumbent", "the search")
    events: list[Event[D]] = []
    listeners = ([events.append] if trace else []) + ([on_event] if on_event else [])
    run = Run(score, bound, incumbent, Allowance(limit), listeners)
    descend = _depth_first if order is Order.DEPTH_FIRST else _best_first
    descend(run, Open(Place(None, 0), Child(tree), -INFINITY))
    outcome = run.outcome()
    return SearchResult(
        run.best,
        outcome.score,
        outcome.path,
        outcome.stats,
        outcome.proven,
        outcome.gap,
        Trace(order, incumbent, tuple(events), outcome) if trace else None,
    )


def _depth_first(run: Run[D, P], root: Open[D, P]) -> None:
    todo = [root]
    while todo:
        node = run.judged(todo.pop())
        if node is not None:
            todo += reversed(run.entered(node))


def _best_first(run: Run[D, P], root: Open[D, P]) -> None:
    fresh: Sequence[Open[D, P]] = (root,)
    waiting: list[tuple[Number, int, int, Node[D, P]]] = []
    met = count()
    while fresh or waiting:
        for child in fresh:
            node = run.judged(child)
            if node is not None:
                # Deeper first, or else every leaf of a tree without bounds would come last.
                rank = (node.floor, -node.place.depth, next(met), node)
                heapq.heappush(waiting, rank)
        fresh = ()
        if waiting:
            *_, node = heapq.heappop(waiting)
            if not run.fathoms(node):
                fresh = run.entered(node)


def _order(order: Order | str) -> Order:
    try:
        return Order(order)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in Order)
        raise SpaceError(f"order {order!r} is not known; known are {known}") from None
