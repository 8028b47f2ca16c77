"""Inputs on which libraries fail or disagree, from public reports, with their right answers.

The names of the tests lead with the number of the case. `F(shape, s)` and `check` fill and weigh
arrays exactly in binary floating point, so most comparisons are for equality.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import einbound as eb

DOUBLE_BYTES = 8
GIB = 2**30

Contract = Callable[..., Any]


def F(shape: Sequence[int], seed: int) -> np.ndarray:  # the name of the case log
    n = int(np.prod(shape))
    return np.array([((7 * k + 3 * seed) % 11 - 5) / 4 for k in range(n)]).reshape(shape)


def fill(*shapes: Sequence[int]) -> list[np.ndarray]:
    return [F(shape, number + 1) for number, shape in enumerate(shapes)]


def check(result: np.ndarray) -> tuple[float, float]:
    flat = np.asarray(result).ravel()
    return float(flat.sum()), float((flat * (1 + np.arange(flat.size) % 7)).sum())


def flops(text: str, shapes: Sequence[Sequence[int]], path: Sequence[Sequence[int]]) -> int:
    """Flops of a path of pairs: two per multiply-add in a step that sums, else one."""
    inputs, _, output = text.partition("->")
    terms = [frozenset(term) for term in inputs.split(",")]
    sizes = {
        label: n
        for term, shape in zip(inputs.split(","), shapes, strict=True)
        for label, n in zip(term, shape, strict=True)
    }
    total = 0
    for places in path:
        pair = [terms.pop(place) for place in sorted(places, reverse=True)]
        both = frozenset().union(*pair)
        kept = both & frozenset(output).union(*terms)
        macs = 1
        for label in both:
            macs *= sizes[label]
        total += macs * (2 if kept < both else 1)
        terms.append(kept)
    return total


def largest(text: str, shapes: Sequence[Sequence[int]], path: Sequence[Sequence[int]]) -> int:
    """Elements of the largest value that a path makes."""
    inputs, _, output = text.partition("->")
    terms = [frozenset(term) for term in inputs.split(",")]
    sizes = {
        label: n
        for term, shape in zip(inputs.split(","), shapes, strict=True)
        for label, n in zip(term, shape, strict=True)
    }
    found = 0
    for places in path:
        pair = [terms.pop(place) for place in sorted(places, reverse=True)]
        made = frozenset().union(*pair) & frozenset(output).union(*terms)
        found = max(found, int(np.prod([sizes[label] for label in made], dtype=object)))
        terms.append(made)
    return found


def n_operands(arguments: Sequence[Any]) -> int:
    return len(arguments) - 1 if isinstance(arguments[0], str) else len(arguments) // 2


@pytest.fixture(params=["planned", "unoptimised", "left to right", "right to left", "limited"])
def contract(request: pytest.FixtureRequest) -> Contract:
    """Einsum along several orders of contraction, and within the least workspace found."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        n = n_operands(arguments)
        if request.param == "unoptimised":
            keywords["optimize"] = False
        elif request.param == "left to right" and n > 1:
            keywords["optimize"] = [(0, 1)] + [(0, k) for k in range(n - 2, 0, -1)]
        elif request.param == "right to left" and n > 1:
            keywords["optimize"] = [(k - 1, k) for k in range(n - 1, 0, -1)]
        elif request.param == "limited":
            return within_least_workspace(*arguments, **keywords)
        return eb.einsum(*arguments, **keywords)

    return call


def within_least_workspace(*arguments: Any, **keywords: Any) -> Any:
    """The result within the smallest workspace that the planner finds.

    Above eight operands within the workspace of the plan without a limit, to keep the search short.
    """
    if n_operands(arguments) > 8:
        limit = eb.plan(*arguments).workspace_bytes
        return eb.einsum(*arguments, **keywords, workspace_limit=limit)
    try:
        return eb.einsum(*arguments, **keywords, workspace_limit=0)
    except eb.BudgetError as error:
        return eb.einsum(*arguments, **keywords, workspace_limit=error.smallest_bytes)


# --- repeated labels, hyper-indices, outer products


def test_d01_a_diagonal_beside_a_kept_label_stays_in_label_order(contract: Contract) -> None:
    x = np.arange(16.0).reshape(2, 2, 4)
    diagonal = np.array([x[0, 0], x[1, 1]])
    assert np.array_equal(contract("iij->ij", x), diagonal)
    assert np.array_equal(contract("iij->i", x), [6, 54])
    j = np.array([1.0, 2, 3, 4])
    assert np.array_equal(contract("iij,j->ij", x, j), diagonal * j)


def test_d02_two_diagonals_and_a_sum_in_one_operand(contract: Contract) -> None:
    result = contract("tiijj->ij", F((3, 2, 2, 4, 4), 1))
    assert result.shape == (2, 4)
    assert check(result) == (0.5, 8.25)


def test_d03_a_label_that_comes_three_times(contract: Contract) -> None:
    x = np.zeros((2, 2, 2))
    x[0, 0, 0], x[1, 1, 1], x[0, 0, 1], x[1, 0, 1], x[1, 1, 0] = 1, 4, 7, 9, 5
    assert np.array_equal(contract("iii->i", x), [1, 4])
    assert contract("iii->", x) == 5


def test_d04_two_diagonals_of_size_one(contract: Contract) -> None:
    assert np.array_equal(contract("bbcdc->d", np.arange(4).reshape(1, 1, 2, 1, 2)), [3])


def test_d05_a_label_in_one_operand_only_is_summed_there(contract: Contract) -> None:
    result = contract("ij,jk->k", *fill((3, 4), (4, 5)))
    assert result.shape == (5,)
    assert check(result) == (0.0625, -0.3125)


def test_d06_a_label_of_three_operands_needs_no_third_order_value(contract: Contract) -> None:
    arrays = fill((3, 4), (4,), (4, 5))
    result = contract("ik,k,kj->ij", *arrays)
    assert result.shape == (3, 5)
    assert check(result) == (0.03125, -4.28125)
    path = eb.plan("ik,k,kj->ij", *arrays).path
    assert largest("ik,k,kj->ij", [a.shape for a in arrays], path) <= 20


def test_d07_five_operands_with_hyper_indices(contract: Contract) -> None:
    result = contract("ijab,na,mb,ni,mj->nm", *fill((4, 4, 3, 3), (5, 3), (5, 3), (5, 4), (5, 4)))
    assert result.shape == (5, 5)
    assert check(result) == pytest.approx((4.1357421875, 52.873046875), abs=1e-10)


def test_d08_an_outer_product_into_a_permuted_output(contract: Contract) -> None:
    result = contract("ac,b->abc", *fill((2, 4), (3,)))
    assert result.shape == (2, 3, 4)
    assert check(result) == (0.5, 2.4375)


# --- broadcasting, ellipsis, labels


def test_d09_ellipsis_dimensions_of_size_one_broadcast_from_either_side(contract: Contract) -> None:
    first, second = fill((1, 3, 4), (2, 4, 5))
    result = contract("...ij,...jk->...ik", first, second)
    assert result.shape == (2, 3, 5)
    assert check(result) == (-0.0625, -11.5625)
    swapped = contract("...jk,...ij->...ik", second, first)
    assert np.array_equal(swapped, result)


def test_d10_size_one_broadcasts_on_a_label_that_is_summed(contract: Contract) -> None:
    assert contract("i,i", np.zeros(2), np.zeros(1)) == 0
    assert contract("i,i", np.ones(1), np.array([2.0, 3])) == 5


def test_d11_ellipsis_dimensions_are_not_dropped_silently(contract: Contract) -> None:
    with pytest.raises(eb.ExpressionError, match=r"\(\.\.\.0 of size 3, \.\.\.1 of size 4\)"):
        contract("i...->i", np.arange(24).reshape(2, 3, 4))


def test_d12_three_spaced_ellipses_broadcast(contract: Contract) -> None:
    result = contract("..., ..., ...->...", F((2, 3), 1), F((3,), 2), np.array(1.0))
    assert result.shape == (2, 3)
    assert check(result) == (-1.75, -5.75)


def test_d13_the_same_arrays_may_be_several_operands(contract: Contract) -> None:
    a, b = fill((3, 3), (3, 3))
    result = contract("ij,jk,kj,ji->ij", a, b, b, a)
    assert result.shape == (3, 3)
    assert check(result) == (0.35546875, 1.765625)


def test_d14_repeated_output_labels_are_said_to_be_unsupported(contract: Contract) -> None:
    with pytest.raises(eb.ExpressionError, match="repeated output labels are unsupported"):
        contract("i->ii", np.array([1, 2]))


# --- dtypes and numbers


def test_d15_half_precision_counts_right(contract: Contract) -> None:
    result = contract("i,ji->", np.ones(2, np.float16), np.eye(2, dtype=np.float16))
    assert result == 2
    assert result.dtype == np.float16


def test_d15_half_precision_sums_are_kept_in_single(contract: Contract) -> None:
    ones = np.ones((1, 4096), np.float16)
    result = contract("ij,kj->ik", ones, ones)
    assert result == 4096  # a running sum in half precision stops at 2048
    assert result.dtype == np.float16


def test_d16_bool_is_or_of_and(contract: Contract) -> None:
    true = np.ones((2, 2), bool)
    product = contract("ij,jk->ik", true, true)
    assert product.dtype == bool
    assert product.all()
    rows = contract("ij->i", np.array([[True, True], [False, False]]))
    assert rows.dtype == bool
    assert rows.tolist() == [True, False]


def test_d17_mixed_dtypes_promote_in_every_form(contract: Contract) -> None:
    real = F((2, 3), 1).astype(np.float32)
    mixed = F((3, 4), 2) + 1j * F((3, 4), 3)
    product = contract("ij,jk->ik", real, mixed)
    assert product.dtype == np.complex128
    assert check(product.real) == (-4.1875, -12.6875)
    assert check(product.imag) == (-3.875, -8.5)
    assert contract("ij,ij->ij", real, mixed[:2, :3]).dtype == np.complex128
    assert contract("ij,kl->ijkl", real, mixed).dtype == np.complex128


def test_d18_conjugates_are_conjugates(contract: Contract) -> None:
    z = np.exp(2j * np.pi * np.arange(3) / 3)
    assert contract("i,i", z, z.conj()) == pytest.approx(3 + 0j, abs=1e-12)


def test_d19_zeros_are_not_skipped(contract: Contract) -> None:
    nan = contract("k,kj->j", np.array([np.nan, np.nan, 1]), np.ones((3, 2)))
    assert np.isnan(nan).all()
    with np.errstate(invalid="ignore"):
        product = contract("k,kj->j", np.array([np.inf, 1]), np.array([[0.0, 1], [1, 1]]))
    assert np.isnan(product[0])
    assert product[1] == np.inf


def test_d20_single_precision_is_all_of_single_precision(contract: Contract) -> None:
    x = np.array([0, 3.14], np.float32)
    result = contract("i,ij,j", x, np.eye(2, dtype=np.float32), x)
    assert result == pytest.approx(9.8596, abs=1e-5)
    assert result.dtype == np.float32


# --- empty, scalar, out=, strides


def test_d21_a_sum_over_nothing_is_zero(contract: Contract) -> None:
    product = contract("ij,jk->ik", np.ones((2, 0)), np.ones((0, 3)))
    assert np.array_equal(product, np.zeros((2, 3)))
    assert contract("ij,j", np.ones((0, 3)), np.ones(3)).shape == (0,)


def test_d22_scalars_are_operands(contract: Contract) -> None:
    assert contract("->", 5) == 5
    assert contract(",->", 5, 3) == 15
    arrays = [np.array(-0.5), F((2, 3), 2), F((3, 4), 3)]
    result = contract(",ab,bc->ac", *arrays)
    assert result.shape == (2, 4)
    assert check(result) == (-2.9375, -7.28125)
    assert all(len(step) == 2 for step in eb.plan(",ab,bc->ac", *arrays).path)


def test_d23_out_may_have_no_dimensions(contract: Contract) -> None:
    out = np.array(0.0)
    assert contract("i,i->", np.arange(3), np.ones(3), out=out) is out
    assert out == 3
    trace = np.array(0.0)
    assert contract("ij,jk,ki->", np.eye(3), np.eye(3), np.eye(3), out=trace) is trace
    assert trace == 3


def test_d24_out_may_be_an_operand(contract: Contract) -> None:
    first = np.array([[1, 2], [3, 4]])
    assert contract("ij,jk->ik", first, np.array([[0, 1], [1, 0]]), out=first) is first
    assert np.array_equal(first, [[2, 1], [4, 3]])


def test_d25_negative_strides_are_read_in_place(contract: Contract) -> None:
    first, second = F((8, 3), 1)[::-1, ::-1], F((4, 3), 2).T[::-1]
    result = contract("ij,jk->ik", first, second)
    assert result.shape == (8, 4)
    assert check(result) == (-10.875, -41.3125)


def test_d26_overlapping_windows_are_not_copied(contract: Contract) -> None:
    small = sliding_window_view(np.arange(6.0), 3)
    assert np.array_equal(contract("ij,j->i", small, np.ones(3)), [3, 6, 9, 12])


def test_d26_a_window_over_a_million_values_runs_within_a_hundred_megabytes() -> None:
    limit = 100_000_000
    window = sliding_window_view(np.ones(1_000_000), 1000)
    assert eb.plan("ij,j->i", window, np.ones(1000), memory_limit=limit).peak_bytes <= limit
    part = window[:100_000]  # a copy of this part would take eight times the limit
    tracemalloc.start()
    result = eb.einsum("ij,j->i", part, np.ones(1000), memory_limit=limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(result, np.full(100_000, 1000.0))
    assert peak <= limit


# --- many labels and operands


def test_d27_a_chain_of_forty_matrices(contract: Contract) -> None:
    arguments: list[Any] = []
    for k in range(40):
        arguments += [np.array([[1, 1], [0, 1]]), [k, k + 1]]
    assert np.array_equal(contract(*arguments, [0, 40]), [[1, 40], [0, 1]])


def test_d27_implicit_outputs_sort_integer_labels_by_value(contract: Contract) -> None:
    assert contract(np.ones((2, 3)), [26, 0]).shape == (3, 2)
    assert contract(np.ones((2, 3)), [1, 0]).shape == (3, 2)


def test_d28_seventy_operands_are_no_limit(contract: Contract) -> None:
    text = ",".join(["i"] * 70) + "->i"
    result = contract(text, *[np.full(3, 1.01)] * 70)
    assert result == pytest.approx(np.full(3, 1.01**70), rel=1e-13)


# --- plans


def test_d29_the_exact_order_beats_optimal_of_today() -> None:
    text, shapes = "bgk,bkd,bk->bgd", [(64, 8, 4096), (64, 4096, 128), (64, 4096)]
    path = eb.plan(text, *shapes, memory_limit="16GiB").path
    assert flops(text, shapes, path) <= 539_000_000
    assert largest(text, shapes, path) <= 2_100_000


def test_d30_ten_small_operands_are_planned_exactly() -> None:
    text = "a,c,d,db,ab,cb,ac,cd,ad,b->dbc"
    shapes = [(2,) * len(term) for term in text.partition("->")[0].split(",")]
    plan = eb.plan(text, *shapes)
    assert plan.proven
    assert flops(text, shapes, plan.path) <= 80


def test_d31_a_limit_of_the_largest_input_is_kept_by_loops() -> None:
    text = "cq,cqje,rji,cqik,cqlf,slk->cresf"
    shapes = [(1, 4), (1, 4, 3, 4), (3, 3, 6), (1, 4, 6, 6), (1, 4, 3, 4), (3, 3, 6)]
    limit = 144 * DOUBLE_BYTES
    plan = eb.plan(text, *shapes, workspace_limit=limit)
    assert plan.workspace_bytes <= limit
    assert plan.macs <= 13_500
    arrays = fill(*shapes)
    expected = np.einsum(text, *arrays, optimize=True)
    assert np.allclose(plan(*arrays), expected, rtol=0, atol=1e-10)


def test_d32_a_hyper_index_makes_no_large_value() -> None:
    text, shapes = "ki,k,kj,k->ij", [(10_000, 100), (10_000,), (10_000, 100), (10_000,)]
    limit = 1_000_000 * DOUBLE_BYTES
    plan = eb.plan(text, *shapes, workspace_limit=limit)
    assert plan.workspace_bytes <= limit
    assert largest(text, shapes, plan.path) <= 1_000_000
    assert flops(text, shapes, plan.path) <= 210_000_000
    assert plan.macs <= 105_000_000
    assert np.array_equal(plan(*map(np.ones, shapes)), np.full((100, 100), 10_000.0))


BATCHED = ",".join("ABC" + k for k in "ijklmnopqrstuvwx") + ",ijklmnopqrstuvwxW->ABCW"


def batched(*batch: int) -> list[tuple[int, ...]]:
    return [(*batch, 2)] * 16 + [(2,) * 17]


@pytest.mark.parametrize("keywords", [{}, {"optimize": False}, {"workspace_limit": 1_000_000}])
def test_d33_seventeen_operands_contract_pair_by_pair(keywords: dict[str, Any]) -> None:
    result = eb.einsum(BATCHED, *map(np.ones, batched(2, 2, 1)), **keywords)
    assert np.array_equal(result, np.full((2, 2, 1, 2), 65_536.0))


def test_d33_a_batch_of_operands_fits_at_no_extra_cost() -> None:
    small = eb.plan(BATCHED, *batched(2, 5, 5), memory_limit=4 * GIB)
    assert np.array_equal(small(*map(np.ones, batched(2, 5, 5))), np.full((2, 5, 5, 2), 65_536.0))
    limited = eb.plan(BATCHED, *batched(512, 25, 25), memory_limit=4 * GIB)
    assert limited.peak_bytes <= 4 * GIB
    free = eb.plan(BATCHED, *batched(512, 25, 25), memory_limit=2**50)
    assert limited.macs <= free.macs * 1.0001


# --- more reports without a number


def test_one_array_twice_gives_a_square(contract: Contract) -> None:
    x = np.where(np.arange(12).reshape(3, 4) % 2 == 0, 1.0, 2.0)
    result = contract("xj,yj->xy", x, x)
    assert result.shape == (3, 3)
    assert np.array_equal(result, x @ x.T)


def test_the_last_axis_meets_the_first(contract: Contract) -> None:
    first, second = fill((30, 4), (4, 20))
    assert np.array_equal(contract("ab,bc->ac", first, second), first @ second)


def test_counts_are_exact_beyond_64_bits() -> None:
    shapes = [(10_000,) * 4] * 3
    with pytest.warns(eb.MemoryRiskWarning):
        plan = eb.plan("abcd,cdef,efgh->abgh", *shapes)
    assert plan.macs == 2 * 10**24


def test_numpy_integers_are_labels(contract: Contract) -> None:
    first, second = fill((2, 3), (3, 4))
    zero, one, two = np.arange(3)
    result = contract(first, [zero, one], second, [one, two], [zero, two])
    assert np.array_equal(result, first @ second)


def test_a_plan_with_an_ellipsis_is_called_again() -> None:
    arrays = fill((2, 3, 4), (4,), (5,))
    plan = eb.plan("...D,D,k->...k", *[a.shape for a in arrays])
    for _ in range(2):
        result = plan(*arrays)
        assert result.shape == (2, 3, 5)
        assert check(result) == (-0.25, 11.3125)


def test_a_limit_below_the_output_is_refused_with_the_least_bytes() -> None:
    vector = np.ones(1000)
    tracemalloc.start()
    with pytest.raises(eb.BudgetError) as caught:
        eb.einsum("i,j->ij", vector, vector, memory_limit=1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    error = caught.value
    assert error.smallest_bytes >= error.lower_bound_bytes >= 8_000_000 + vector.nbytes
    assert str(error.smallest_bytes) in str(error).replace(",", "").replace("_", "")
    assert peak < 4_000_000


def test_a_returned_array_is_the_callers_own(contract: Contract) -> None:
    first, second = fill((3, 3), (3, 3))
    expected = first @ second
    contract("ij,jk->ik", first, second)[:] = 99
    assert np.array_equal(contract("ij,jk->ik", first, second), expected)


def test_hash_seeds_change_no_plan() -> None:
    code = (
        "import einbound as eb\n"
        "p = eb.plan('ijab,na,mb,ni,mj,nk,kl->lm', (4, 4, 3, 3), (5, 3), (5, 3), (5, 4), (5, 4),"
        " (5, 6), (6, 7), workspace_limit=500)\n"
        "print(p.to_json())\n"
    )
    source = Path(eb.__file__).parents[1]
    plans = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert json.loads(plans[0])
    assert len(set(plans)) == 1
