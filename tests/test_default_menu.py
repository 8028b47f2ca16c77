"""Our own menu: blocks that fit what is at hand, and nothing that cannot be searched."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.kernels.bounds import model_score, score_bound
from einbound.kernels.cpu_blocking import (
    balanced,
    cached_panels,
    panels_for,
    register_tiles,
    row_blocks,
)
from einbound.kernels.decisions import CpuPacked, RegisterTile
from einbound.kernels.default_menu import fitted
from einbound.kernels.family import family_tree
from einbound.kernels.gpu_blocking import blocktiles_for, mma_blocks_for
from einbound.kernels.menu import Menu
from einbound.kernels.microkernel import Ports, is_spilled
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.machine.gpu import gpu
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.precision import Precision
from einbound.space.search import search
from einbound.space.trace import verify_trace
from einbound.space.traversal import leaves, refutations, unknowns

F16, F32, F64 = Precision.FLOAT16, Precision.FLOAT32, Precision.FLOAT64
CPU = HardwareLimits(
    simd_vector_bytes=32,
    vector_registers=16,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=3.4e9,
    n_cores=2,
    peak_memory_bandwidth=25e9,
    levels=(
        CacheLevel(2**15, 8, 64, 2e11),
        CacheLevel(2**19, 8, 64, 1e11),
        CacheLevel(2**25, 16, 64, 5e10),
    ),
)
TARGETS = {"cpu": CPU, "sm_80": gpu("sm_80"), "sm_90": gpu("sm_90")}

extents = st.integers(1, 5000)
problems = st.builds(MatmulProblem, m=extents, n=extents, k=extents)


@given(extents, st.integers(1, 6000), st.integers(1, 64))
def test_balanced_blocks_reach_less_than_a_unit_each_past_an_extent(
    extent: int, most: int, unit: int
) -> None:
    size = balanced(extent, most, unit)
    n_blocks = -(-extent // size)
    assert 1 <= size <= extent
    assert n_blocks <= -(-extent // most)
    assert n_blocks * size - extent < n_blocks * unit


@given(st.integers(1, 16), st.integers(1, 4))
def test_panels_fit_the_caches_that_they_are_made_for(rm: int, rn: int) -> None:
    panels = cached_panels(RegisterTile(rm, rn, 4), CPU, 8)
    near, middle, last = (level.bytes for level in CPU.levels)
    assert (rm + 4 * rn) * panels.bk * 8 <= near
    assert panels.bm * panels.bk * 8 <= middle
    assert panels.bn * panels.bk * 8 <= last


def test_a_processor_without_a_last_cache_takes_all_columns() -> None:
    limits = replace(CPU, levels=CPU.levels[:2])
    assert cached_panels(RegisterTile(6, 2, 4), limits, 8).bn == 0
    problem = MatmulProblem(m=500, n=500, k=500)
    found = panels_for(problem, limits, RegisterTile(6, 2, 4), 8)
    assert found[0].bn == 0


@given(problems, st.sampled_from([F32, F64]))
def test_register_tiles_fit_registers_and_extents(
    problem: MatmulProblem, number: Precision
) -> None:
    for tile in register_tiles(problem, CPU, number):
        rm, rn, lanes = tile.sizes
        assert not is_spilled(rm, rn, Ports(2, 4, 16))
        assert rm <= problem.m
        assert rn * lanes <= problem.n


def test_the_tile_that_was_measured_best_is_among_the_proposed() -> None:
    tiles = register_tiles(MatmulProblem(m=960, n=960, k=960), CPU, F64)
    assert RegisterTile(6, 2, 4) in tiles


@given(st.integers(1, 5000), st.integers(1, 64))
def test_row_blocks_divide_and_keep_every_worker_at_work(m: int, workers: int) -> None:
    whole, *split = row_blocks(m, workers)
    assert whole == 0
    for bm in split:
        assert m % bm == 0
        assert m // bm >= max(2, workers)


@given(st.integers(1, 2000), st.integers(1, 64))
def test_row_blocks_are_the_largest_that_there_are(m: int, workers: int) -> None:
    sizes = [bm for bm in range(1, m + 1) if m % bm == 0 and m // bm >= 2]
    largest = [max((bm for bm in sizes if m // bm >= n), default=0) for n in (workers, 2 * workers)]
    assert row_blocks(m, workers) == tuple(dict.fromkeys([0, *largest]))


def test_row_blocks_of_extents_beyond_all_arrays_are_found_at_once() -> None:
    assert row_blocks(2**70, 2) == (0, 2**69, 2**68)
    assert row_blocks(2**61 - 1, 4) == (0,)


@given(problems, st.sampled_from(["sm_80", "sm_90"]))
def test_threads_of_our_blocks_fit_the_registers(problem: MatmulProblem, target: str) -> None:
    limits = TARGETS[target]
    found = blocktiles_for(problem, limits)
    assert found
    for block in found:
        threads = (block.bm // block.tm) * (block.bn // block.tn)
        assert threads * (block.tm * block.tn + block.tm + block.tn) <= 65536


def test_small_products_get_no_blocks_that_are_mostly_padding() -> None:
    found = blocktiles_for(MatmulProblem(m=20, n=20, k=20), TARGETS["sm_80"])
    assert max(max(block.bm, block.bn) for block in found) <= 40


def test_matrix_blocks_are_whole_instructions_and_their_results_fit() -> None:
    problem = MatmulProblem(m=999, n=999, k=999, a_dtype=F16, b_dtype=F16, out_dtype=F16)
    for bm, bk in mma_blocks_for(problem, TARGETS["sm_90"]):
        assert bm % 16 == 0
        assert bk % 16 == 0
        assert bm * 32 // 32 <= 255
    assert mma_blocks_for(problem, CPU) == ()


@settings(max_examples=30, deadline=None)
@given(problems, st.sampled_from(list(TARGETS)))
def test_a_menu_that_is_fitted_stays_as_it_is(problem: MatmulProblem, target: str) -> None:
    limits = TARGETS[target]
    once = fitted(Menu.default(limits), problem, limits)
    assert fitted(once, problem, limits) == once
    assert fitted(Menu.REFERENCE, problem, limits) == Menu.REFERENCE


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=15, deadline=None)
@given(problem=problems)
def test_every_product_has_a_kernel_that_is_found_and_proven(
    target: str, problem: MatmulProblem
) -> None:
    limits = TARGETS[target]
    menu, score = Menu.default(limits), model_score(problem, limits)
    tree, bound = family_tree(problem, limits, menu), score_bound(problem, limits, menu)
    found = search(tree, score, bound)
    # Without vectors that fit the columns, or blocks that divide, a CPU has none.
    assert found.best is not None or not leaves(tree)
    assert found.best is not None or target == "cpu"
    assert found.proven
    assert verify_trace(tree, score, bound, found.trace)


def test_an_unknown_layout_is_unknown_and_not_refuted() -> None:
    problem = MatmulProblem(m=64, n=64, k=64, b_layout=BLayout.UNKNOWN)
    assert unknowns(family_tree(problem, CPU, Menu.default(CPU)))
    assert not unknowns(family_tree(problem, CPU, Menu.REFERENCE))


def test_the_roles_of_the_operands_are_a_decision() -> None:
    problem = MatmulProblem(m=64, n=64, k=64)
    assert family_tree(problem, CPU, Menu.default(CPU)).level == "roles"
    assert family_tree(problem, CPU, Menu.REFERENCE).level == "fusion"


def test_a_product_with_few_columns_is_still_cut_to_what_fits() -> None:
    problem = MatmulProblem(m=4096, n=8, k=4096)
    found = fitted(Menu.default(CPU), problem, CPU)
    assert all(isinstance(each, CpuPacked) and each.bn in (0, 8) for each in found.packed)
    assert refutations(family_tree(problem, CPU, Menu.default(CPU)))
