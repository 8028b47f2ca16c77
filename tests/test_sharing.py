"""Rewritten forests compute the same with no more multiply-adds, however they are written."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccsd import ccsd
from einbound.forest.algebra import Algebra
from einbound.forest.blocks import ForestPlan, Member
from einbound.forest.canonical import Atom, canonical
from einbound.forest.forest import Forest, Kind, Production
from einbound.forest.rewriting import Rewritten, Way, optimised, rewritten
from einbound.forest.translation import algebra_of, forest_of
from einbound.plan.order import first_order
from einbound.plan.tree import Tree
from einbound.run.forest import compile_forest
from forests import random_forest, views
from hash_seeds import printed_under_hash_seeds
from sums import Written, arrays, evaluated, random_sums, recounted, written


def renamed(
    atoms: Sequence[Atom], marks: dict[int, int], rng: random.Random
) -> tuple[list[Atom], dict[int, int]]:
    new = dict(zip(marks, rng.sample(range(100), len(marks)), strict=True))
    mixed = [(name, tuple(new[i] for i in indices)) for name, indices in atoms]
    rng.shuffle(mixed)
    return mixed, {new[i]: mark for i, mark in marks.items()}


def is_isomorphic(
    one: tuple[Sequence[Atom], dict[int, int]], two: tuple[Sequence[Atom], dict[int, int]]
) -> bool:
    (atoms, marks), (others, theirs) = one, two
    wanted = sorted(others)
    for order in permutations(theirs):
        new = dict(zip(marks, order, strict=True))
        if all(theirs[new[i]] == mark for i, mark in marks.items()) and wanted == sorted(
            (name, tuple(new[i] for i in indices)) for name, indices in atoms
        ):
            return True
    return False


def random_atoms(rng: random.Random, n_indices: int) -> tuple[list[Atom], dict[int, int]]:
    atoms: list[Atom] = [
        (rng.choice("AAB"), tuple(rng.randrange(n_indices) for _ in range(rng.randint(1, 2))))
        for _ in range(rng.randint(1, 5))
    ]
    return atoms, {i: rng.choice([0, 0, 1]) for i in range(n_indices)}


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_equal_names_are_isomorphic_products(seed: int) -> None:
    rng = random.Random(seed)
    n_indices = rng.randint(1, 5)
    one, two = random_atoms(rng, n_indices), random_atoms(rng, n_indices)
    if rng.random() < 0.5:
        two = renamed(*one, rng)
    same = canonical(*one).key == canonical(*two).key
    assert same == is_isomorphic(one, two)


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_the_orders_of_a_canonical_form_are_all_that_show_its_key(seed: int) -> None:
    rng = random.Random(seed)
    atoms, marks = random_atoms(rng, rng.randint(1, 5))
    found = canonical(atoms, marks)
    wanted = []
    for order in permutations(marks):
        at = {i: n for n, i in enumerate(order)}
        shown = sorted((name, tuple(at[i] for i in indices)) for name, indices in atoms)
        if (tuple(marks[i] for i in order), tuple(shown)) == found.key:
            wanted.append(order)
    assert sorted(found.orders(marks, 1000)) == sorted(wanted)


def test_many_symmetries_are_not_counted_through() -> None:
    """A product of 20 sums of one vector has 20! symmetries."""
    atoms: list[Atom] = [("a", (i,)) for i in range(20)]
    assert len(canonical(atoms, dict.fromkeys(range(20), 0)).order) == 20


def assert_same_values(one: Forest, two: Forest, seed: int) -> None:
    leaves = arrays(one, seed)
    for mine, theirs in zip(evaluated(one, leaves), evaluated(two, leaves), strict=True):
        assert np.array_equal(mine, theirs)


@given(st.integers(0, 2**32), st.sampled_from([1, 1, 10]))
@settings(max_examples=60)
def test_a_rewritten_forest_computes_the_same(seed: int, iterations: int) -> None:
    forest = random_sums(random.Random(seed)).forest
    done = rewritten(forest, iterations)
    assert_same_values(forest, done.forest, seed)
    assert done.before.macs == recounted(forest, iterations)
    assert done.after.macs == recounted(done.forest, iterations) <= done.before.macs
    assert sum(gain.macs for gain in done.gains) <= done.before.macs - done.after.macs


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_forests_that_read_targets_are_rewritten_too(seed: int) -> None:
    forest = random_forest(random.Random(seed))
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    assert_same_values(forest, optimised(forest), seed)


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_the_order_of_terms_and_factors_does_not_matter(seed: int) -> None:
    rng = random.Random(seed)
    drawn = random_sums(rng)
    one, two = rewritten(drawn.forest), rewritten(drawn.shuffled(rng).forest)
    assert (one.before, one.after) == (two.before, two.after)
    assert [gain.macs for gain in one.gains] == [gain.macs for gain in two.gains]


@given(st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_run_takes_the_macs_that_were_told(seed: int) -> None:
    """And returns the same: numbers of sums are tensors then."""
    forest = random_sums(random.Random(seed)).forest
    done = rewritten(forest)
    given = arrays(forest, seed)
    leaves = [
        np.asarray(value.constant if value.constant is not None else given[value.name], float)
        for value in done.forest.values
        if value.kind is Kind.LEAF
    ]
    members = (
        Member(each.number, Tree.plain(each.network, first_order(each.network)))
        for each in done.forest.productions
    )
    plan = ForestPlan(done.forest, tuple(members))
    ready = compile_forest(plan, views(leaves), np.dtype(float), 1 << 20)
    assert ready.metered.macs == done.after.macs
    for mine, theirs in zip(ready.run(leaves), evaluated(forest, given), strict=True):
        np.testing.assert_allclose(mine, np.asarray(theirs, float), rtol=1e-12, atol=1e-9)


CODE = """
import random
from einbound.forest.rewriting import rewritten
from sums import random_sums
for seed in range(20):
    print(rewritten(random_sums(random.Random(seed)).forest, 3))
"""


def test_the_same_forest_is_made_whatever_the_hash_seed() -> None:
    assert len(printed_under_hash_seeds(CODE)) == 1


@given(st.integers(0, 2**32))
@settings(max_examples=30)
def test_a_forest_is_the_same_after_translation_and_back(seed: int) -> None:
    forest = random_sums(random.Random(seed)).forest
    back = forest_of(algebra_of(forest), forest)
    assert [in_names(back, each) for each in back.productions] == [
        in_names(forest, each) for each in forest.productions
    ]
    assert_same_values(forest, back, seed)


def in_names(forest: Forest, production: Production) -> tuple[object, ...]:
    """A production by the names of its values."""
    network = production.network
    names = [forest.values[number].name for number in (production.into, *production.operands)]
    terms = [network.output, *network.inputs]
    return production.factor, names, [[network.extents[i] for i in term] for term in terms]


def test_products_that_stay_keep_their_labels() -> None:
    shapes = {name: (2, 2) for name in "ABCDE"}
    terms: list[Written] = [(1, "ix,xy,yj->ij", ("A", "B", name)) for name in "CD"]
    done = rewritten(written({"R": [*terms, (1, "iz,zj->ij", ("E", "A"))]}, shapes))
    labels = {label for each in done.forest.productions for label in each.network.labels}
    assert "Z" in labels
    assert all(
        len(set(each.network.labels)) == len(each.network.labels)
        for each in done.forest.productions
    )


Equations: TypeAlias = dict[str, list[Written]]

N = 6
MATRICES = {name: (N, N) for name in "ABCDT"} | {"X": (N, N, N)}


def shared(done: Rewritten) -> list[str]:
    return [value.name for value in done.forest.values if value.kind is Kind.SHARED]


def test_a_product_in_two_terms_is_made_once() -> None:
    """A B is shared, although A (B C) costs the first term as much."""
    forest = written(
        {
            "R": [(1, "ij,jk,kl->il", ("A", "B", "C"))],
            "S": [(1, "pq,qr,ri->pi", ("A", "B", "D"))],
        },
        MATRICES,
    )
    done = rewritten(forest)
    assert shared(done) == ["s1"]
    assert (done.before.macs, done.after.macs) == (4 * N**3, 3 * N**3)
    assert [(gain.way, gain.values, gain.n_products) for gain in done.gains] == [
        (Way.SHARED, ("s1",), 2)
    ]


def test_a_best_order_gives_way_to_one_that_shares() -> None:
    """Alone, R is A (B v) of vectors; A B is made for S, but R keeps its cheaper order."""
    shapes = {**MATRICES, "v": (N,), "W": (N, 2)}
    terms: Equations = {
        "R": [(1, "ij,jk,kl->il", ("A", "B", "C"))],
        "S": [(1, "ij,jk,k->i", ("A", "B", "v"))],
    }
    vector = rewritten(written(terms, shapes))
    # A (B v) takes 2 N^2, and N^2 if A B is there.
    assert vector.before.macs - vector.after.macs == N**2
    alone: list[Written] = [(1, "ij,jk,kl->il", ("A", "B", "W"))]
    assert rewritten(written({"S": alone}, shapes)).gains == ()


def test_a_product_and_its_transpose_are_one_value() -> None:
    done = rewritten(
        written({"R": [(1, "ik,kj->ij", ("A", "B")), (-1, "jk,ki->ij", ("A", "B"))]}, MATRICES)
    )
    assert shared(done) == ["s1"]
    # One product, and one multiplication by -1.
    assert (done.after.macs, done.after.reads) == (N**3 + N**2, N**2)


def test_terms_with_equal_permutations_are_added_before_these() -> None:
    terms = [("A", "B"), ("C", "D"), ("A", "T")]
    plain = [(1, "ik,kj->ij", names) for names in terms]
    exchanged = [(-1, "jk,ki->ij", names) for names in terms]
    done = rewritten(written({"R": [*plain, *exchanged]}, MATRICES))
    assert done.after.macs == 2 * N**3 + N**2
    reads = [each for each in done.forest.productions if each.into == done.forest.targets[0]]
    assert len(reads) == 2


def test_numbers_do_not_keep_products_apart() -> None:
    terms: Equations = {
        "R": [(2, "ik,kj,jl->il", ("A", "B", "C"))],
        "S": [(-3, "ik,kj->ij", ("A", "B"))],
    }
    done = rewritten(written(terms, MATRICES))
    assert done.after.macs == 2 * N**3
    assert_same_values(written(terms, MATRICES), done.forest, 0)


def test_a_value_that_the_caller_names_is_read_where_it_occurs() -> None:
    terms: Equations = {
        "W": [(1, "ik,kj->ij", ("A", "B"))],
        "R": [(1, "ik,kj,jl->il", ("A", "B", "C"))],
    }
    done = rewritten(written(terms, MATRICES, targets=["W", "R"]))
    assert shared(done) == []
    assert done.after.macs == 2 * N**3


def test_a_square_reads_its_half_twice() -> None:
    forest = written({"R": [(1, "ij,jk,kl,lm->im", ("A", "B", "A", "B"))]}, MATRICES)
    assert rewritten(forest).after.macs == 2 * N**3


def test_like_terms_are_added_and_opposite_ones_are_gone() -> None:
    twice = [(1, "ik,kj->ij", ("A", "B")), (1, "qj,iq->ij", ("B", "A"))]
    assert rewritten(written({"R": twice}, MATRICES)).after.macs == N**3
    opposite = [*twice, (-2, "ik,kj->ij", ("A", "B")), (1, "ik,kj->ij", ("C", "D"))]
    assert rewritten(written({"R": opposite}, MATRICES)).after.macs == N**3


def test_a_symmetric_value_is_the_same_read_transposed() -> None:
    """W = A A' is symmetric, so that W C + W' C = 2 W C."""
    terms: Equations = {
        "W": [(1, "ik,jk->ij", ("A", "A"))],
        "R": [(1, "ij,jk->ik", ("W", "C")), (1, "ji,jk->ik", ("W", "C"))],
    }
    forest = written(terms, MATRICES, targets=["R"])
    done = rewritten(forest)
    assert done.after.macs == 2 * N**3
    assert_same_values(forest, done.forest, 0)


def test_a_made_value_that_is_symmetric_is_shared_both_ways() -> None:
    """B B over its auxiliary index is read as iajb and as jbia."""
    shapes = {"B": (20, 2, 3), "T": (2, 3, 2), "U": (3, 2, 3)}
    terms: Equations = {
        "R": [(1, "pia,pjb,iaj->b", ("B", "B", "T"))],
        "S": [(1, "pia,pjb,bia->j", ("B", "B", "U")), (1, "pjb,pia,ajb->i", ("B", "B", "U"))],
    }
    done = rewritten(written(terms, shapes, volatile=["T", "U"]), 1000)
    assert shared(done) == ["s1"]
    # S has one term, twice.
    assert done.after.macs == 20 * 6**2 + 1000 * 2 * 6**2


LADDER: Equations = {"R": [(1, "acp,bdp,ijcd->ijab", ("B", "B", "T"))]}


@pytest.mark.parametrize(("iterations", "names"), [(1, []), (10, ["s1"])])
def test_persistent_work_in_a_volatile_product_is_kept_where_it_is_often_used(
    iterations: int, names: list[str]
) -> None:
    """B B over the auxiliary index: 20 * 4^4 once, or T times both with every evaluation."""
    shapes = {"B": (4, 4, 20), "T": (3, 3, 4, 4)}
    forest = written(LADDER, shapes, volatile=["T"])
    done = rewritten(forest, iterations)
    assert shared(done) == names
    kept = [value for value in done.forest.values if value.name in names]
    assert not any(value.volatile for value in kept)
    if names:
        assert done.after.macs == 20 * 4**4 + iterations * 9 * 4**4


def test_persistent_and_volatile_terms_are_not_summed_in_one_value() -> None:
    """A (B + C) is persistent, A T is not: what is kept does not change with T."""
    terms = [(1, "ik,kj->ij", ("A", name)) for name in "BCT"]
    done = rewritten(written({"R": terms}, MATRICES, volatile=["T"]), 100)
    persistent = [value for value in done.forest.values if value.kind is Kind.SHARED]
    assert any(not value.volatile for value in persistent)
    assert done.after.macs <= N**3 + 100 * N**3


def test_nothing_to_share_leaves_the_forest_as_it_is() -> None:
    forest = written({"R": [(1, "ik,kj->ij", ("A", "B"))]}, MATRICES)
    assert rewritten(forest).forest is forest


def test_coupled_cluster_takes_less_than_a_third() -> None:
    forest = ccsd(2, 3)
    done = rewritten(forest, 10)
    assert len(forest.productions) == 90
    assert_same_values(forest, done.forest, 0)
    assert done.after.macs == recounted(done.forest, 10)
    assert 3 * done.after.macs < done.before.macs


def test_coupled_cluster_finds_the_sum_of_doubles_and_products_of_singles() -> None:
    """Its leading products are as many as with the published intermediates.

    One with four virtual indices and two occupied ones, two with three of each.
    """
    o, v = 10, 40
    macs = leading(rewritten(ccsd(o, v)).forest)
    assert macs[:4] == [o**2 * v**4, o**3 * v**3, o**3 * v**3, o * v**4]


def leading(forest: Forest) -> list[int]:
    alone = [replace(forest, productions=(each,)) for each in forest.productions]
    return sorted((recounted(each) for each in alone), reverse=True)


def test_algebra_keeps_numbers_exact() -> None:
    forest = written({"R": [(0.1, "ik,kj->ij", ("A", "B"))]}, MATRICES)
    algebra: Algebra = algebra_of(forest)
    (total,) = algebra.sums.values()
    assert total[0].coefficient == Fraction(0.1)
