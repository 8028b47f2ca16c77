"""Sums of products with equal factors become products of sums where that pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from einbound.forest.factor import Fold, Folding
from einbound.forest.forest import Kind
from einbound.forest.parts import Prices
from einbound.forest.rewriting import Rewritten, rewritten
from einbound.forest.translation import algebra_of
from sums import Written, arrays, evaluated, recounted, written

N = 8
MATRICES = {name: (N, N) for name in "ABCDEFTUV"} | {"X": (N, N, N)}


def products(names: str, numbers: dict[str, float] | None = None) -> list[Written]:
    numbers = numbers or {}
    return [(numbers.get(each, 1), "ik,kj->ij", tuple(each)) for each in names.split()]


def factored(terms: list[Written]) -> Rewritten:
    forest = written({"R": terms}, MATRICES)
    done = rewritten(forest)
    leaves = arrays(forest, 0)
    assert (evaluated(forest, leaves)[0] == evaluated(done.forest, leaves)[0]).all()
    assert done.after.macs == recounted(done.forest)
    return done


def sums(done: Rewritten) -> list[int]:
    """How many products each value is the sum of, those made by rewriting first."""
    return [
        len(done.forest.producers[v.number]) for v in done.forest.values if v.kind is not Kind.LEAF
    ]


def best_fold(terms: list[Written]) -> Fold:
    algebra = algebra_of(written({"R": terms}, MATRICES))
    folds = Folding(Prices(algebra.registry)).folds(algebra)
    return max(folds, key=lambda fold: fold.saving)


def test_one_common_factor_is_multiplied_with_a_sum() -> None:
    """V T + V B = V (T + B)."""
    done = factored(products("VT VB"))
    assert sums(done) == [2, 1]
    assert (done.after.macs, done.after.reads) == (N**3, 2 * N**2)


def test_all_pairs_are_one_product_of_two_sums() -> None:
    """U T + U B + V T + V B = (U + V) (T + B)."""
    assert best_fold(products("UT UB VT VB")).sizes == (2, 2)
    done = factored(products("UT UB VT VB"))
    assert sums(done) == [2, 2, 1]
    assert (done.after.macs, done.after.reads) == (N**3, 4 * N**2)


def test_products_of_numbers_are_left_alone() -> None:
    shapes: dict[str, tuple[int, ...]] = {"V": (), "T": (), "B": ()}
    forest = written({"R": [(1, ",->", ("V", "T")), (1, ",->", ("V", "B"))]}, shapes)
    assert rewritten(forest).forest is forest


def test_numbers_go_into_the_sum() -> None:
    """2 V T + 3 V B = 2 V (T + 3/2 B), with one multiplication of a matrix by a number."""
    done = factored(products("VT VB", {"VT": 2, "VB": 3}))
    assert sums(done) == [2, 1]
    assert done.after.macs == N**3 + N**2


def test_signs_of_rank_one_fold_on_both_sides() -> None:
    """U T - U B - V T + V B = (U - V) (T - B)."""
    done = factored(products("UT UB VT VB", {"UB": -1, "VT": -1}))
    assert sums(done) == [2, 2, 1]
    assert done.after.macs == N**3 + 2 * N**2


def test_signs_of_rank_two_fold_twice_on_one_side() -> None:
    """U T + U B + V T - V B = U (T + B) + V (T - B)."""
    done = factored(products("UT UB VT VB", {"VB": -1}))
    assert sums(done) == [2, 2, 2]
    assert done.after.macs == 2 * N**3 + N**2


EXPANDED: list[Written] = [(1, "ik,kl,lj->ij", (x, y, z)) for x in "AB" for y in "CD" for z in "EF"]


def test_a_product_of_three_sums_is_found_again() -> None:
    """(A + B) (C + D) (E + F), expanded: first a fold of two with four, then that of the four."""
    assert sorted(best_fold(EXPANDED).sizes) == [2, 4]
    done = factored(EXPANDED)
    assert sums(done) == [2, 2, 2, 1]
    assert done.after.macs == 2 * N**3


@pytest.mark.parametrize("rotation", range(1, 8, 3))
def test_the_order_of_summands_does_not_matter(rotation: int) -> None:
    turned = EXPANDED[rotation:] + EXPANDED[:rotation]
    assert factored(turned[::-1]).after == factored(EXPANDED).after


def test_factors_with_other_open_indices_are_not_added() -> None:
    """V[ik] T[kj] + V[ik] X[kji]: the second matrix of the product depends on i."""
    terms: list[Written] = [
        (1, "ik,kj->ij", ("V", "T")),
        (1, "ik,kji->ij", ("V", "X")),
    ]
    assert factored(terms).gains == ()


def test_a_factor_may_be_read_transposed() -> None:
    """V T + V B' where B' is B with its axes exchanged."""
    terms: list[Written] = [(1, "ik,kj->ij", ("V", "T")), (1, "ik,jk->ij", ("V", "B"))]
    assert factored(terms).after.macs == N**3


def test_a_sum_in_the_middle_is_no_outer_product() -> None:
    """A C E + A D E = A (C + D) E."""
    terms: list[Written] = [(1, "ik,kl,lj->ij", ("A", y, "E")) for y in "CD"]
    done = factored(terms)
    assert sums(done) == [2, 1]
    assert done.after.macs == 2 * N**3


def test_a_term_that_costs_more_than_it_saves_stays_outside() -> None:
    """Nothing is saved by v (T + B) with a vector v: N^2 less, and 2 N^2 to add."""
    shapes = {**MATRICES, "v": (N,)}
    terms: list[Written] = [(1, "k,kj->j", ("v", name)) for name in "TB"]
    forest = written({"R": terms}, shapes)
    assert rewritten(forest).forest is forest


def test_a_square_of_a_sum_stays_correct() -> None:
    """A A + A B + B A + B B and 2 A B: a product serves in one place of a fold only."""
    factored(products("AA AB BA BB"))
    factored([(1, "ik,ik->i", (x, y)) for x, y in ("AA", "AB", "AB", "BB")])


def test_equal_sums_of_different_targets_are_made_once() -> None:
    """V (T + B) and (T + B) U."""
    terms = {"R": products("VT VB"), "S": products("TU BU")}
    done = rewritten(written(terms, MATRICES))
    assert sums(done) == [2, 1, 1]
    assert done.after.macs == 2 * N**3


def test_persistent_terms_are_summed_apart_from_volatile_ones() -> None:
    """V (T + B) with volatile V: the sum is made once, whatever the number of iterations."""
    forest = written({"R": products("VT VB")}, MATRICES, volatile=["V"])
    done = rewritten(forest, 10)
    (made,) = (value for value in done.forest.values if value.kind is Kind.SHARED)
    assert not made.volatile
    assert (done.after.macs, done.after.reads) == (10 * N**3, 2 * N**2)


def test_what_folding_saves_is_what_it_says() -> None:
    algebra = algebra_of(written({"R": products("UT UB VT VB VA")}, MATRICES))
    prices = Prices(algebra.registry)
    for fold in Folding(prices).folds(algebra):
        after = fold.applied(algebra)
        assert prices.of(algebra).total - prices.of(after).total == fold.saving
        assert replace(after, sums=algebra.sums) == algebra
