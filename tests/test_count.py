"""The plain count of a tree against an interpreter that makes every trip."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from einbound.expr.network import Network
from einbound.plan.model import Count
from einbound.plan.tree import Cut, Tree
from interpreter import Interpreter
from trees import random_network, random_tree


@given(st.integers(0, 10**6))
def test_the_count_equals_an_interpreter(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(2, 5), 5, largest=4)
    tree = random_tree(rng, network, n_loops=3)
    count, ran = Count(tree, 8), Interpreter(tree, 8).run()
    assert (count.macs, count.calls) == (ran.macs, ran.calls)
    assert count.peak_bytes == ran.peak


def test_a_loop_over_a_contracted_index_halves_the_intermediate() -> None:
    network = Network(tuple("abcd"), (8, 16, 8, 16), ((0, 1), (1, 2), (2, 3)), (0, 3), ())
    plain = Tree.plain(network, ((0, 1), (3, 2)))
    assert (Count(plain, 8).peak_bytes, Count(plain, 8).macs) == (1536, 2048)
    opens = ((), (Cut(2, 4),))
    looped = Tree(network, plain.steps, opens, (0, 0)).with_default_levels()
    assert (Count(looped, 8).peak_bytes, Count(looped, 8).macs) == (1280, 2048)


def test_counts_do_not_overflow() -> None:
    network = Network(tuple("ijk"), (2**30, 2**30, 2**30), ((0, 1), (1, 2)), (0, 2), ())
    assert Count(Tree.plain(network, ((0, 1),)), 8).macs == 2**90
