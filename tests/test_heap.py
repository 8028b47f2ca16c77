"""What a search leaves behind: its results, and nothing that they were found with."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest

import einbound as eb
from einbound.expr.network import Network
from einbound.plan.chains import Chain
from einbound.plan.heap import apart
from einbound.plan.tree import Cut, Tree

MATRICES = Network(("a", "b", "c"), (4, 6, 8), ((0, 1), (1, 2)), (0, 2), accesses=())


def looped() -> tuple[Tree, ...]:
    return (Tree(MATRICES, ((0, 1),), ((Cut(0, 2),),), (0,)).check(),)


def test_what_is_returned_is_equal_and_made_anew() -> None:
    known = looped()
    (tree,) = apart(lambda: known)
    assert tree == known[0]
    assert hash(tree) == hash(known[0])
    assert tree is not known[0]
    assert tree.opens is not known[0].opens


def test_networks_are_kept_as_they_are() -> None:
    (tree,) = apart(looped)
    assert tree.network is MATRICES


def test_errors_come_out_as_they_are_and_the_collector_is_on_again() -> None:
    def work() -> int:
        raise ValueError("nothing to find")

    with pytest.raises(ValueError, match="nothing to find"):
        apart(work)
    assert gc.isenabled()


@pytest.mark.parametrize("share", [2, 16, None])
def test_planning_leaves_no_chain_to_the_collector(share: int | None) -> None:
    equation, shapes = "abi,bcj,cdk,dal->ijkl", [(12, 14, 6), (14, 16, 4), (16, 10, 6), (10, 12, 4)]
    plain = eb.plan(equation, *shapes)
    room = 8 if share is None else plain.workspace_bytes // share
    limit = plain.operand_bytes + plain.result_bytes + room
    gc.collect()
    gc.disable()
    try:
        with nullcontext() if share else pytest.raises(eb.BudgetError):
            eb.plan(equation, *shapes, memory_limit=limit)
        left = [one for one in gc.get_objects() if isinstance(one, Chain)]
    finally:
        gc.enable()
    assert not left
