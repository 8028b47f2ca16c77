"""What is in reach in a tree: its leaves, its verdicts, and how many of each.

Feasible and unknown children are entered, and so made; what is refuted or excluded is closed.
Paths tell what was decided, outermost first. Nothing here recurses, so trees may be deep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from einbound.space.tree import (
    TREE,
    Child,
    Choice,
    Excluded,
    Judged,
    Leaf,
    Path,
    Reason,
    Refuted,
    Tree,
    Unknown,
)

D = TypeVar("D")
P = TypeVar("P")


def leaves(tree: Tree[D, P]) -> tuple[P, ...]:
    """The payloads of all completions in reach, in the order of the tree.

    Example:
        >>> leaves(Choice("tile", ((8, Child(Leaf("small"))), (9, Refuted("odd")))))
        ('small',)
    """
    return tuple(node.payload for _, node in _walk(tree) if isinstance(node, Leaf))


def enumerate_leaves(tree: Tree[D, P]) -> tuple[tuple[Path[D], P], ...]:
    """The same, each with the path that decides it.

    Example:
        >>> enumerate_leaves(Choice("tile", ((8, Child(Leaf("small"))),)))
        (((('tile', 8),), 'small'),)
    """
    return tuple(
        (tuple(path), node.payload) for path, node in _walk(tree) if isinstance(node, Leaf)
    )


def refutations(tree: Tree[D, P]) -> tuple[tuple[Path[D], Reason], ...]:
    """What cannot be: the path to every refuted child, and the rule that it breaks.

    Example:
        >>> refutations(Choice("tile", ((9, Refuted("9 does not divide m")),)))
        (((('tile', 9),), '9 does not divide m'),)
    """
    return _witnesses(tree, Refuted)


def exclusions(tree: Tree[D, P]) -> tuple[tuple[Path[D], Reason], ...]:
    """What a policy hides: the path to every excluded child, and the policy.

    Example:
        >>> exclusions(Choice("tile", ((1, Excluded("too small to win", Child(Leaf("one")))),)))
        (((('tile', 1),), 'too small to win'),)
    """
    return _witnesses(tree, Excluded)


def unknowns(tree: Tree[D, P]) -> tuple[tuple[Path[D], Reason], ...]:
    """What only building settles: the path to every unknown child, and what is not known.

    Example:
        >>> unknowns(Choice("tile", ((8, Unknown("may spill", Leaf("eight"))),)))
        (((('tile', 8),), 'may spill'),)
    """
    return _witnesses(tree, Unknown)


def count_choices(tree: Tree[D, P]) -> int:
    """Number of decisions in reach, over all paths.

    Example:
        >>> count_choices(Choice("tile", ((8, Child(Leaf("small"))),)))
        1
    """
    return sum(isinstance(node, Choice) for _, node in _walk(tree))


def depth(tree: Tree[D, P]) -> int:
    """Most decisions on one path; a choice counts even if nothing below it is in reach.

    Example:
        >>> depth(Choice("tile", ((9, Refuted("9 does not divide m")),)))
        1
    """
    return max((len(path) + 1 for path, node in _walk(tree) if isinstance(node, Choice)), default=0)


def render_path(path: Path[D], label: Callable[[D], str] = str) -> str:
    """The path as a person reads it; nothing parses it back.

    Example:
        >>> render_path((("bm", 64), ("bk", 8)), label=lambda size: f"{size} rows")
        'bm=64 rows > bk=8 rows'
    """
    return " > ".join(f"{level}={label(decision)}" for level, decision in path)


def _witnesses(
    tree: Tree[D, P], kind: type[Refuted] | type[Excluded[D, P]] | type[Unknown[D, P]]
) -> tuple[tuple[Path[D], Reason], ...]:
    return tuple(
        (tuple(path), node.witness) for path, node in _walk(tree) if isinstance(node, kind)
    )


def _walk(tree: Tree[D, P]) -> Iterator[tuple[list[tuple[str, D]], Tree[D, P] | Judged[D, P]]]:
    """Every tree and every verdict in reach with its path, which is one list all the time."""
    path: list[tuple[str, D]] = []
    yield path, TREE.checked(tree)
    todo = _ways(tree, 0)
    while todo:
        n_above, step, judged = todo.pop()
        path[n_above:] = [step]
        yield path, judged
        if isinstance(judged, Child | Unknown):
            subtree = judged.subtree
            yield path, subtree
            todo += _ways(subtree, len(path))


def _ways(tree: Tree[D, P], n_above: int) -> list[tuple[int, tuple[str, D], Judged[D, P]]]:
    """What is decided next, the last way first: the length of the path to it, step, verdict."""
    if isinstance(tree, Leaf):
        return []
    return [(n_above, (tree.level, each), judged) for each, judged in reversed(tree.children)]
