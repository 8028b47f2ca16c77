"""Prices rank ways as measurements did; they are never compared with a clock."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.step.form import Kernel
from einbound.step.pricing import (
    CACHES,
    STREAM_FROM_BYTES,
    copy_seconds,
    einsum_seconds,
    matmul_seconds,
    passing_seconds,
    scatter_seconds,
)

DOUBLE = np.dtype("f8")
EXTENTS = st.integers(2, 3000)
TYPES = st.sampled_from(["f4", "f8", "c8", "c16"])


def gemm(m: int, n: int, k: int, items: int = 1, dtype: str = "f8") -> float:
    moved = items * (m * k + k * n + m * n) * np.dtype(dtype).itemsize
    seconds = matmul_seconds(np.dtype(dtype), Kernel.GEMM, items, m, n, k)
    return seconds + passing_seconds(moved)


@given(EXTENTS, EXTENTS, EXTENTS, st.integers(1, 100), TYPES)
def test_more_of_anything_never_costs_less(m: int, n: int, k: int, items: int, kind: str) -> None:
    base = gemm(m, n, k, items, kind)
    assert base > 0
    assert gemm(2 * m, n, k, items, kind) >= base
    assert gemm(m, 2 * n, k, items, kind) >= base
    assert gemm(m, n, 2 * k, items, kind) >= base
    assert gemm(m, n, k, items + 1, kind) >= base


@given(st.integers(2, 8), st.integers(2, 64))
def test_one_large_matrix_beats_many_thin_ones(m: int, parts: int) -> None:
    assert gemm(m * parts, 64, 64) < gemm(m, 64, 64, items=parts) * 1.001 + 1e-9


@pytest.mark.parametrize("kernel", [Kernel.GEMV, Kernel.DOT, Kernel.LOOP])
def test_matrices_are_faster_than_vectors_and_loops(kernel: Kernel) -> None:
    macs = 64**3
    other = matmul_seconds(DOUBLE, kernel, 1, 1, macs // 64, 64)
    assert gemm(64, 64, 64) < other


def test_types_rank_by_the_width_of_their_arithmetic() -> None:
    times = [gemm(500, 500, 500, dtype=kind) for kind in ("f4", "f8", "c8", "c16")]
    assert times == sorted(times)


@pytest.mark.parametrize("kind", ["?", "e", "g", "G", "O", "i8", "i4", "u1"])
def test_every_type_that_can_be_multiplied_has_a_price(kind: str) -> None:
    dtype = np.dtype(kind)
    assert matmul_seconds(dtype, Kernel.LOOP, 1, 10, 10, 10) > 0
    assert einsum_seconds(dtype, 1000, is_contiguous=True) > 0


@given(st.integers(1, 10**7), st.integers(2, 1000), st.sampled_from([1, 2, 4, 8, 16]))
def test_copies_cost_more_when_scattered_or_far(elements: int, run: int, size: int) -> None:
    near = copy_seconds(elements, run, size, total=1)
    far = copy_seconds(elements, run, size, total=STREAM_FROM_BYTES + 1)
    longer = copy_seconds(elements, 2 * run, size, total=1)
    assert longer < near < far
    assert copy_seconds(elements, run, size, arrays=3, total=1) > near


def test_only_bytes_that_pass_a_cache_take_time() -> None:
    sizes = [size for size, _ in CACHES]
    assert passing_seconds(sizes[0]) == 0
    for size in sizes:
        assert passing_seconds(size + 1) / (size + 1) > passing_seconds(size) / size


def test_only_destinations_beyond_the_cache_pay_for_being_written_in_blocks() -> None:
    assert scatter_seconds(STREAM_FROM_BYTES) == 0
    assert scatter_seconds(64 * STREAM_FROM_BYTES) > 0


def test_scattered_einsum_is_slower_than_contiguous() -> None:
    assert einsum_seconds(DOUBLE, 10**6, True) < einsum_seconds(DOUBLE, 10**6, False)
