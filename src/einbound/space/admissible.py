"""Whether a bound is one, asked of every node of a tree and compared with every leaf."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias, TypeVar

from einbound.space.number import Number
from einbound.space.tree import Child, Excluded, Judged, Leaf, Path, Refuted, Tree
from einbound.space.verification import Verification

D = TypeVar("D")
P = TypeVar("P")

#: A child, the path to it, and the bound of what is above; -inf where there is none.
_Step: TypeAlias = tuple[Path[D], Judged[D, P], Number]


def verify_bound(
    tree: Tree[D, P],
    score: Callable[[P], Number | None],
    bound: Callable[[Path[D], Tree[D, P]], Number | None],
) -> Verification[D]:
    """Whether a bound never falls along a path and never exceeds the score of a leaf below.

    Asks about every node in reach but unknown children, as a search may, and prices every leaf.
    A bound that falls loses nothing but time; one that exceeds a score may lose the best leaf.

    Args:
        tree: What is searched.
        score: The price of a payload.
        bound: What is asked with a path and the subtree there.

    Returns:
        A record that is true if all is well, and otherwise tells the first node that is not.

    Example:
        >>> print(verify_bound(Leaf(4), float, lambda path, subtree: 5))
        the bound 5 exceeds the score 4.0 (the root)
    """
    todo: list[_Step[D, P]] = [((), Child(tree), -inf)]
    while todo:
        path, judged, floor = todo.pop()
        if isinstance(judged, Refuted | Excluded):
            continue
        subtree = judged.subtree
        own = bound(path, subtree) if isinstance(judged, Child) else None
        if own is not None and not own >= floor:
            return Verification(f"the bound falls from {floor} to {own}", None, path)
        floor = floor if own is None else own
        if isinstance(subtree, Leaf):
            value = score(subtree.payload)
            if value is not None and not value >= floor:
                return Verification(f"the bound {floor} exceeds the score {value}", None, path)
        else:
            todo += [
                ((*path, (subtree.level, decision)), judged, floor)
                for decision, judged in reversed(subtree.children)
            ]
    return Verification()
