"""Axis orders of shared values: the same targets, and products without copies."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import einbound as eb
from einbound.api.forests import Workshop
from einbound.forest.build import planted
from einbound.forest.forest import Forest, Kind, Production
from einbound.forest.layouts import LEAST_ELEMENTS, arranged
from einbound.run.forest import ForestExecutable
from einbound.step.blocked import Core
from forests import direct, random_forest, random_leaves, views
from hash_seeds import printed_under_hash_seeds

#: A ring of doubles: matrices of pairs (k,c) and (i,a), which the axes as they are named are not.
RING = """
space occ: i j k l = 8
space vir: a b c d = 24
space aux: P = 30
volatile t
V[k,l,c,d] = B[P,k,c] B[P,l,d]
W[k,i,a,c] = V[l,k,c,d] t[l,i,a,d]
R[i,j,a,b] = W[k,i,a,c] t[k,j,b,c] + V[i,j,a,b]
"""


def legal_forest(rng: random.Random) -> Forest:
    forest = random_forest(rng)
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    return forest


def likes(rng: random.Random) -> dict[int, float]:
    """Seconds of an axis order, by chance but always the same."""
    return {n: rng.random() for n in range(997)}


@settings(max_examples=200)
@given(st.integers(0, 10**6))
def test_another_order_of_the_axes_of_shared_values_gives_the_same_targets(seed: int) -> None:
    rng = random.Random(seed)
    forest = legal_forest(rng)
    seconds = likes(rng)

    def priced(_: Forest, each: Production, onto: bool) -> float:
        key = hash((each.number, each.network.inputs, each.network.output, onto))
        return seconds[key % 997]

    found = arranged(forest, priced, least_elements=1)
    leaves = random_leaves(forest, seed)
    for mine, plain in zip(direct(found, leaves), direct(forest, leaves), strict=True):
        assert np.array_equal(mine, plain)


def total(forest: Forest, shop: Workshop) -> float:
    first = {numbers[0] for numbers in forest.producers.values()}
    return sum(shop.seconds(forest, p, p.number not in first) for p in forest.productions)


@settings(max_examples=100)
@given(st.integers(0, 10**6))
def test_the_chosen_orders_never_take_longer_than_the_given_ones(seed: int) -> None:
    forest = legal_forest(random.Random(seed))
    leaves = [value for value in forest.values if value.kind is Kind.LEAF]
    layouts = views(random_leaves(forest, seed))
    names = [value.name for value in leaves]
    shop = Workshop(dict(zip(names, layouts, strict=True)), np.dtype(float))
    found = arranged(forest, shop.seconds, least_elements=1)
    assert total(found, shop) <= total(forest, shop) * (1 + 1e-12)


def planned_ring(monkeypatch: pytest.MonkeyPatch, least_elements: int) -> ForestExecutable:
    """What every call of the ring runs, where orders of larger values are chosen."""
    monkeypatch.setattr("einbound.forest.layouts.LEAST_ELEMENTS", least_elements)
    program = eb.Program(RING)
    assert program._stages is not None
    return program._stages.main


def test_a_ring_packs_less_than_with_axes_as_they_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def packed_bytes(executable: ForestExecutable) -> int:
        ways = executable.metered.ways.values()
        return sum(n.n_bytes for way in ways if way.core is Core.MATMUL for n in way.packs)

    chosen, named = (planned_ring(monkeypatch, least) for least in (LEAST_ELEMENTS, 10**9))
    assert packed_bytes(chosen) < packed_bytes(named)
    assert chosen.metered.seconds < named.metered.seconds


def test_a_program_with_other_orders_gives_what_numpy_gives() -> None:
    drawn = np.random.default_rng(0)
    b, t = drawn.standard_normal((30, 8, 24)), drawn.standard_normal((8, 8, 24, 24))
    v = np.einsum("Pkc,Pld->klcd", b, b)
    w = np.einsum("lkcd,liad->kiac", v, t, optimize=True)
    expected = np.einsum("kiac,kjbc->ijab", w, t, optimize=True) + v
    np.testing.assert_allclose(eb.Program(RING)(B=b, t=t)["R"], expected, rtol=1e-10, atol=1e-9)


def test_axes_that_are_read_on_a_diagonal_or_returned_as_they_are_keep_their_order() -> None:
    text = """space s: i j k = 3
    S[i,j] = a[i,k] b[k,j]
    Y[i] = S[i,i] a[i,j]
    U[i,j] = a[i,k] b[j,k]
    R[i,j] = U[i,j]
    Z[i] = U[i,j] b[j,i]
    W[i,j] = a[i,k] b[k,j] a[j,j]
    Q[i,k] = W[i,j] W[j,k]
    """
    system = eb.Equations.parse(text).system
    forest = planted(system, dict.fromkeys("ab", (3, 3)), frozenset())
    named = {value.name: value.number for value in forest.values}

    def dislikes_the_given_order(_: Forest, each: Production, onto: bool) -> float:
        return float(each.network.output == tuple(sorted(each.network.output)))

    found = arranged(forest, dislikes_the_given_order, least_elements=1)
    for name in "SU":
        assert [found.productions[n] for n in found.producers[named[name]]] == [
            forest.productions[n] for n in forest.producers[named[name]]
        ]
    (n,) = found.producers[named["W"]]
    assert found.productions[n].network.output == forest.productions[n].network.output[::-1]


def test_hash_seeds_change_no_order() -> None:
    code = f"import einbound as eb; print(eb.Program({RING!r}).explain())"
    texts = printed_under_hash_seeds(code)
    assert len(texts) == 1
    # Not the order of the equations, so that something was chosen.
    assert "W[k,i,a,c] += V" not in texts.pop()
