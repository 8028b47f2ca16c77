"""Lower counts of products, by level, and what paths add to them."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.errors import KernelError
from einbound.kernels.decisions import (
    Axis,
    CpuBlocktile,
    CpuPacked,
    Decision,
    Geometry,
    GpuBlocktile,
    GpuMma,
    Lattice,
    LatticeBox,
    PackingShape,
    Pipeline,
    PipelineKind,
    ShapeKind,
)
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.floors import Access, Floor, Statement, floor, statement_floor
from einbound.kernels.menu import Menu
from einbound.kernels.path_floor import path_floor
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import CacheLevel, HardwareLimits, MmaLimits
from einbound.machine.precision import Precision
from einbound.space.traversal import enumerate_leaves

F32 = Precision.FLOAT32
GPU = HardwareLimits(mma=MmaLimits(32, (8, 8, 8), (((F32, F32, F32), (8, 8, 8)),)))
CUBE = MatmulProblem(m=64, n=64, k=64)
extents = st.integers(1, 40)


def reads(array: str, axes: str, n_bytes: int = 4) -> Access:
    return Access(array, frozenset(axes), n_bytes)


def writes(array: str, axes: str, n_bytes: int = 4) -> Access:
    return Access(array, frozenset(axes), n_bytes, writes=True)


def path(*decisions: Decision) -> tuple[tuple[str, Decision], ...]:
    return tuple(("any name", decision) for decision in decisions)


def test_a_small_product_has_the_published_counts() -> None:
    assert floor(MatmulProblem(m=4, n=5, k=6)) == Floor(240, 376)


def test_a_product_whose_result_is_undecided_needs_nothing() -> None:
    assert floor(MatmulProblem(m=4, n=5, k=6), undecided="D") == Floor(0, 0, False, False)


def test_an_undecided_operand_is_not_read() -> None:
    assert floor(MatmulProblem(m=4, n=5, k=6), undecided="A") == Floor(240, 280, True, False)


def test_a_map_with_a_broadcast_row_reads_the_row_once() -> None:
    accesses = (reads("x", "ij"), reads("row", "j"), writes("y", "ij"))
    assert statement_floor(Statement((("i", 4), ("j", 5)), accesses, 1)) == Floor(20, 180)


def test_accesses_that_may_overlap_count_as_the_largest() -> None:
    accesses = (reads("x", "i"), reads("x", "ij"), writes("y", "ij"))
    least = statement_floor(Statement((("i", 4), ("j", 5)), accesses, 1))
    assert least == Floor(20, 160, bytes_exact=False)


def test_a_dead_loop_moves_nothing() -> None:
    accesses = (reads("x", "i"), writes("y", "ij"))
    assert statement_floor(Statement((("i", 4), ("j", 0)), accesses, 1)) == Floor(0, 0)


@given(extents, extents, extents, st.sets(st.sampled_from("ABD")))
def test_deciding_more_arrays_never_lowers_a_floor(m: int, n: int, k: int, open_: set[str]) -> None:
    problem = MatmulProblem(m=m, n=n, k=k)
    for fewer in (set(some) for size in range(4) for some in combinations(sorted(open_), size)):
        low, high = floor(problem, undecided=open_), floor(problem, undecided=fewer)
        assert low.flops <= high.flops
        assert low.bytes <= high.bytes


def test_a_small_cache_is_filled_more_often_than_a_large_one() -> None:
    levels = (CacheLevel(2**10, 8, 64, 1e11), CacheLevel(2**30, 8, 64, 1e10))
    limits = HardwareLimits(simd_vector_bytes=32, levels=levels)
    problem = MatmulProblem(m=512, n=512, k=512)
    least = 4 * 4 * 512**2
    # 256 numbers: 2 mnk / 16 - 2 * 256 of them.
    assert floor(problem, limits, level=0).bytes == 4 * (2 * 512**3 // 16 - 512)
    assert floor(problem, limits, level=1).bytes == floor(problem, limits).bytes == least


def test_a_level_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KernelError, match=re.escape("level 2 is no cache; the machine has 0")):
        floor(CUBE, GPU, level=2)


@pytest.mark.parametrize(
    ("decisions", "expected"),
    [
        ((), 0),
        ((Pipeline(PipelineKind.BLOCKTILE),), 0),
        ((Geometry(GpuBlocktile(64, 64, 8, 4, 4)),), 2 * (64 * 8 + 8 * 64) * 4),
        ((Geometry(GpuMma(16, 32, 0)),), 0),
        ((Geometry(GpuMma(16, 32, 32)),), 2 * (16 * 32 + 32 * 32) * 4),
        ((PackingShape(ShapeKind.SERIAL), Geometry(CpuPacked(16, 0, 8))), (16 * 8 + 8 * 64) * 4),
        ((PackingShape(ShapeKind.HOISTED), Geometry(CpuPacked(16, 0, 8))), 0),
        ((Geometry(CpuBlocktile(16)),), 0),
        ((Geometry(Lattice()),), 2 * (8 * 8 + 8 * 32) * 4),
    ],
)
def test_a_path_adds_the_tiles_that_it_commits_to(
    decisions: tuple[Decision, ...], expected: int
) -> None:
    assert path_floor(path(*decisions), CUBE, GPU) == expected


def test_a_chain_of_boxes_adds_the_published_bytes() -> None:
    boxes = [(40, 64), (56, 64), (64, 64)]
    chain: list[Decision] = [
        Geometry(Lattice()),
        *(LatticeBox(Axis.BM, lo, hi) for lo, hi in boxes),
        *(LatticeBox(Axis.BK, lo, hi) for lo, hi in boxes),
    ]
    added = [path_floor(path(*chain[: end + 1]), CUBE, GPU) for end in range(1, len(chain))]
    assert added == [4608, 5632, 6144, 30720, 43008, 49152]


def test_a_lattice_of_a_format_starts_at_its_own_tile() -> None:
    half = Precision.FLOAT16
    tiles = (((half, half, F32), (16, 8, 16)), ((F32, F32, F32), (8, 8, 8)))
    limits = HardwareLimits(mma=MmaLimits(32, (32, 32, 32), tiles))
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=half, b_dtype=half)
    assert path_floor(path(Geometry(Lattice())), problem, limits) == 2 * (16 * 16 + 16 * 32) * 2


def test_an_operand_counts_by_its_own_width() -> None:
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=Precision.FLOAT16)
    added = path_floor(path(Geometry(GpuMma(16, 32, 32))), problem, GPU)
    assert added == 2 * (16 * 32 * 2 + 32 * 32 * 4)


def implied_bytes(spec: KernelSpec, problem: MatmulProblem) -> int:
    """What a kernel's parameters say that its staged tiles or its own panels move."""
    of_a, of_b = problem.a_dtype.n_bytes, problem.b_dtype.n_bytes
    if spec.gpu:
        return 2 * (spec.bm * spec.bk * of_a + spec.bk * spec.bn * of_b) if spec.packed else 0
    is_serial = spec.mma and spec.packed and not spec.hoist and not spec.grid
    width = spec.bn or problem.n
    return spec.bm * spec.bk * of_a + spec.bk * width * of_b if is_serial else 0


@pytest.mark.parametrize("limits", [GPU, HardwareLimits(simd_vector_bytes=32)], ids=["gpu", "cpu"])
@settings(max_examples=15, deadline=None)
@given(m=extents, n=extents, k=extents, hoistable=st.sampled_from(["", "B", "AB"]))
def test_a_path_adds_what_the_parameters_of_its_kernel_imply_and_never_less_on_the_way(
    limits: HardwareLimits, m: int, n: int, k: int, hoistable: str
) -> None:
    problem = MatmulProblem(m=m, n=n, k=k, hoistable=frozenset(hoistable))
    for whole, spec in enumerate_leaves(lift_lattice(family_tree(problem, limits, Menu.REFERENCE))):
        added = [path_floor(whole[:end], problem, limits) for end in range(len(whole) + 1)]
        assert added == sorted(added)
        assert added[-1] == implied_bytes(spec, problem)
