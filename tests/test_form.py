"""Matrix forms: what BLAS takes as it is, found exactly, and nothing else let through."""

from __future__ import annotations

import tracemalloc
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from einbound.step.form import Form, Kernel, blas_takes, check_form, forms, is_taken, kernel
from einbound.step.pair import A, B, C, Group, Pair
from strided import Sample, samples, view

ALL = frozenset({A, B, C})
SIZES = {"a": 5, "b": 6, "c": 7, "d": 8, "i": 3, "j": 4, "P": 10, "Q": 9}


def pair_of(text: str, memory: str | None = None, dtype: str = "f8") -> Pair:
    """A step on arrays stored in the orders `memory`."""
    parts = text.replace("->", ",").split(",")
    stored = (memory or text).replace("->", ",").split(",")
    a, b, c = (view(part, order, SIZES, dtype) for part, order in zip(parts, stored, strict=True))
    return Pair.of(a, b, c, np.dtype(dtype))


def fused(pair: Pair, group: Group) -> list[str]:
    """The labels of the fused axes of one group."""
    return ["".join(map(chr, pair.axes[i].indices)) for i in pair.groups[group]]


def test_indices_fuse_that_nest_in_every_array() -> None:
    pair = pair_of("ijcd,abcd->ijab")
    assert fused(pair, Group.SUM) == ["cd"]
    assert fused(pair, Group.ROW) == ["ij"]
    assert fused(pair, Group.COLUMN) == ["ab"]


def test_indices_stay_apart_that_one_array_splits() -> None:
    assert fused(pair_of("icjd,abcd->ijab"), Group.SUM) == ["c", "d"]
    assert fused(pair_of("ijcd,abcd->iajb"), Group.ROW) == ["i", "j"]
    assert fused(pair_of("ijdc,abcd->ijab"), Group.SUM) == ["d", "c"]


def test_extents_of_one_are_left_out() -> None:
    one = dict(SIZES, b=1)
    a, b, c = (view(x, x, one) for x in ("abc", "cd", "abd"))
    pair = Pair.of(a, b, c, np.dtype("f8"))
    assert [axis.extent for axis in pair.axes] == [5, 8, 7]


@settings(max_examples=200)
@given(
    outer=st.integers(-40, 40),
    inner=st.integers(-40, 40),
    m=st.integers(2, 5),
    n=st.integers(2, 5),
)
def test_blas_takes_exactly_what_matmul_does_not_copy(
    outer: int, inner: int, m: int, n: int
) -> None:
    # The rule once more, in elements: one side contiguous, lines that do not overlap.
    contiguous_rows = inner == 8 and outer % 8 == 0 and outer // 8 >= n
    contiguous_columns = outer == 8 and inner % 8 == 0 and inner // 8 >= m
    assert blas_takes(outer, m, inner, n, 8) == (contiguous_rows or contiguous_columns)


@pytest.mark.parametrize(
    ("strides", "is_taken_as_is"),
    [((8, 800), True), ((800, 8), True), ((8, 8), False), ((0, 8), False), ((1600, 16), False)],
)
def test_matrices_refused_are_those_that_matmul_copies_or_loops_over(
    strides: tuple[int, int], is_taken_as_is: bool
) -> None:
    base = np.ones(100 * 200)
    matrix = as_strided(base, (100, 100), strides)
    assert blas_takes(strides[0], 100, strides[1], 100, 8) == is_taken_as_is
    expected = np.array(matrix) @ np.ones((100, 3))
    np.testing.assert_allclose(matrix @ np.ones((100, 3)), expected)


def test_a_form_has_one_run_per_side_and_the_rest_in_batch() -> None:
    (form,) = forms(pair_of("Pac,Pbd->abcd"), ALL)
    pair = pair_of("Pac,Pbd->abcd")
    assert [fused_name(pair, i) for i in form.batch] == ["a", "b"]
    assert [fused_name(pair, i) for i in form.rows] == ["c"]
    assert [fused_name(pair, i) for i in form.columns] == ["d"]
    assert [fused_name(pair, i) for i in form.sums] == ["P"]
    assert not form.looped


def fused_name(pair: Pair, axis: int) -> str:
    return "".join(map(chr, pair.axes[axis].indices))


def test_no_form_where_the_sums_are_split_unless_they_are_looped() -> None:
    pair = pair_of("acbd,ijcd->ijab")
    found = forms(pair, ALL)
    assert found
    assert all(form.looped for form in found)
    arranged = forms(pair, ALL - {A})
    assert any(not form.looped for form in arranged)


def test_no_real_matrix_where_the_shared_index_is_innermost() -> None:
    found = forms(pair_of("abP,acP->bcP"), ALL)
    assert all(not (form.rows and form.columns) for form in found)


@settings(max_examples=200)
@given(sample=samples("float", max_extent=6))
def test_every_form_nests_and_covers_all_axes_once(sample: Sample) -> None:
    pair = pair_from(sample)
    for fixed in (ALL, ALL - {A}, ALL - {C}, frozenset({B})):
        for form in forms(pair, fixed):
            used = (*form.batch, *form.rows, *form.columns, *form.sums, *form.looped)
            assert sorted(used) == list(range(len(pair.axes)))
            if all(pair.is_ready(side) for side in fixed):
                check_form(pair, form, fixed)


def pair_from(sample: Sample) -> Pair:
    a, b, c = sample.views
    pair = Pair.of(a, b, c, sample.work)
    assume(pair.n_sums and c.n_elements)
    return pair


@settings(max_examples=60)
@given(sample=samples("float", max_extent=6))
def test_fused_axes_keep_the_number_of_elements(sample: Sample) -> None:
    pair = pair_from(sample)
    for side, array in enumerate((sample.a, sample.b, sample.c)):
        assert array is not None
        assert prod(pair.axes[i].extent for i in pair.carried[side]) == array.size


def test_a_form_that_matmul_would_copy_is_refused_with_its_layout() -> None:
    pair = pair_of("ia,aj->ij", "ia,aj->ij")
    legal = forms(pair, ALL)[0]
    check_form(pair, legal, ALL)
    stepped = view("ia", "iaP", SIZES)
    b = pair.views[B]
    copied = Pair.of(stepped, b, pair.c, np.dtype("f8"))
    with pytest.raises(AssertionError, match="matmul would copy the matrices of array 0"):
        check_form(copied, legal, ALL)
    with pytest.raises(AssertionError, match="array 0 is not float32 and aligned"):
        check_form(Pair.of(stepped, b, pair.c, np.dtype("f4")), legal, ALL)
    split = pair_of("icjd,abcd->ijab")
    with pytest.raises(AssertionError, match="do not nest in array 0"):
        check_form(split, Form((0, 1, 2), (), (), tuple(split.groups[Group.SUM])), ALL)


@pytest.mark.parametrize("dtype", ["i8", "?", "g", "O", "f2"])
def test_types_without_blas_are_taken_on_any_strides(dtype: str) -> None:
    pair = pair_of("icP,cjP->ijP", dtype=dtype)
    (form, *_) = forms(pair, ALL)
    assert form.rows
    assert form.columns
    assert all(is_taken(pair, form, side) for side in (A, B, C))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ij,jc->ic", Kernel.GEMM),
        ("ij,j->i", Kernel.GEMV),
        ("j,jc->c", Kernel.GEMV),
        ("ij,ij->", Kernel.DOT),
    ],
)
def test_the_kernel_follows_the_extents(text: str, expected: Kernel) -> None:
    pair = pair_of(text)
    form = forms(pair, ALL)[0]
    m, n, k = (
        prod(pair.axes[i].extent for i in run) for run in (form.rows, form.columns, form.sums)
    )
    assert kernel(pair, form, ALL, m, n, k) is expected


def test_a_strided_dot_product_is_a_plain_loop() -> None:
    pair = pair_of("Pj,Pj->j")
    form = forms(pair, ALL)[0]
    assert kernel(pair, form, ALL, 1, 1, 10) is Kernel.LOOP


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_matmul_on_a_legal_form_traces_no_array(dtype: str) -> None:
    a = np.ones((20, 60, 70), dtype).transpose(1, 0, 2)
    b = np.ones((60, 50, 70), dtype).transpose(0, 2, 1)
    out = np.ones((20, 60, 90), dtype)[:, :, :50].transpose(1, 0, 2)
    np.matmul(a, b, out=out)
    tracemalloc.start()
    np.matmul(a, b, out=out)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4096
