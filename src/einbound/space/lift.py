"""Policies taken back: what they hid is proposed again, under the law all the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from einbound.space.tree import (
    TREE,
    VERDICT,
    Child,
    Choice,
    Excluded,
    Judged,
    Leaf,
    Tree,
    Unknown,
)

D = TypeVar("D")
P = TypeVar("P")


def lift_excluded(judged: Judged[D, P]) -> Judged[D, P]:
    """The verdict without its policy, if that excludes it; any other verdict as it is.

    One policy is lifted at a time: what comes out may be excluded by another one, or refuted.

    Example:
        >>> lift_excluded(Excluded("too small to win", Child(Leaf("one"))))
        Child(Leaf(payload='one'))
    """
    return judged.lifted if isinstance(judged, Excluded) else VERDICT.checked(judged)


def lift_where(tree: Tree[D, P], is_lifted: Callable[[D], bool]) -> Tree[D, P]:
    """The tree without any policy against certain decisions.

    Verdicts of the tree's own children are lifted at once, those below when they are asked for.

    Args:
        tree: What is searched.
        is_lifted: Whether exclusions of this decision are lifted.

    Returns:
        A tree with the same leaves, and with those that the exclusions hid.

    Law: the leaves are the old ones and the lifted ones (tests/test_space_tree.py).

    Example:
        >>> small = Excluded("too small to win", Child(Leaf("one")))
        >>> lift_where(Choice("tile", ((1, small), (2, small))), lambda tile: tile > 1)
        Choice('tile', {1: Excluded, 2: Child})
    """
    tree = TREE.checked(tree)
    if isinstance(tree, Leaf):
        return tree
    ways = ((each, _without(judged, each, is_lifted)) for each, judged in tree.children)
    return Choice(tree.level, tuple(ways))


def _without(judged: Judged[D, P], decision: D, is_lifted: Callable[[D], bool]) -> Judged[D, P]:
    if isinstance(judged, Excluded) and is_lifted(decision):
        while isinstance(judged, Excluded):
            judged = judged.lifted
    if isinstance(judged, Child):
        return Child(partial(_below, judged, is_lifted))
    if isinstance(judged, Unknown):
        return Unknown(judged.witness, partial(_below, judged, is_lifted))
    return judged


def _below(judged: Child[D, P] | Unknown[D, P], is_lifted: Callable[[D], bool]) -> Tree[D, P]:
    return lift_where(judged.subtree, is_lifted)
