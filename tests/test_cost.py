"""Predicted seconds rank kernels, and bounds along paths never pass them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.kernels.bounds import Bound, clock_bound, model_score, score_bound
from einbound.kernels.cost import Cost, cost, least_cost
from einbound.kernels.decisions import CpuPacked, Decision, RegisterTile
from einbound.kernels.estimate import Transfer
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.kinds import PipelineKind
from einbound.kernels.menu import Menu
from einbound.kernels.microkernel import Ports, block_cycles, least_block_cycles, step_cycles
from einbound.kernels.numerics import Numerics
from einbound.kernels.occupancy import Needs, resident_workgroups
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.reloads import Block, Widths, moved_bytes
from einbound.kernels.runs import Side, least_pack_cycles, pack_cycles
from einbound.kernels.spec import KernelSpec
from einbound.machine.gpu import gpu
from einbound.machine.limits import CacheLevel, HardwareLimits
from einbound.machine.precision import Precision
from einbound.space.search import search
from einbound.space.traversal import leaves
from einbound.space.tree import Child, Choice, Judged, Leaf, Tree, Unknown

F16, F32, F64 = Precision.FLOAT16, Precision.FLOAT32, Precision.FLOAT64

#: A core like Zen 3: 2 x 256 bits, latency 4, three levels of cache.
ZEN = HardwareLimits(
    simd_vector_bytes=32,
    vector_registers=16,
    fma_per_cycle=2,
    fma_latency_cycles=4,
    clock_hz=3.4e9,
    n_cores=2,
    peak_flops=2 * 3.4e9 * 32,
    peak_memory_bandwidth=25e9,
    levels=(
        CacheLevel(2**15, 8, 64, 64 * 3.4e9),
        CacheLevel(2**19, 8, 64, 32 * 3.4e9),
        CacheLevel(2**25, 16, 64, 16 * 3.4e9),
    ),
)
TARGETS = {"cpu": ZEN, "sm_80": gpu("sm_80"), "sm_90": gpu("sm_90")}
ZEN_PORTS = Ports(fma_per_cycle=2, fma_latency_cycles=4, vector_registers=16)

Node = Tree[Decision, KernelSpec]
Steps = tuple[tuple[str, Decision], ...]
Score = Callable[[KernelSpec], float | None]

problems = st.builds(
    MatmulProblem,
    m=st.integers(1, 300),
    n=st.integers(1, 300),
    k=st.integers(1, 300),
    batch=st.sampled_from([(), (3,), (2, 40)]),
    outer_k=st.sampled_from([(), (4,)]),
    b_layout=st.sampled_from(BLayout),
    hoistable=st.sampled_from(["", "A", "B", "AB"]).map(frozenset),
).flatmap(
    lambda problem: st.sampled_from([F16, F32, F64]).map(
        lambda dtype: replace(problem, a_dtype=dtype, b_dtype=dtype, out_dtype=dtype)
    )
)
menus = st.sampled_from(["reference", "default"])


def menu_of(name: str, limits: HardwareLimits) -> Menu:
    menu = Menu.REFERENCE if name == "reference" else Menu.default(limits)
    return replace(menu, numerics=Numerics(tf32=True))


def kernel(bm: int, bn: int, bk: int, rm: int, rn: int, lanes: int = 4) -> KernelSpec:
    return KernelSpec(
        gpu=False,
        pipeline=PipelineKind.TENSORIZED,
        mma=True,
        packed=True,
        bm=bm,
        bn=bn,
        bk=bk,
        tile=RegisterTile(rm, rn, lanes),
    )


def square(n: int) -> MatmulProblem:
    return MatmulProblem(m=n, n=n, k=n, a_dtype=F64, b_dtype=F64, out_dtype=F64)


def seconds(spec: KernelSpec, problem: MatmulProblem, limits: HardwareLimits = ZEN) -> float:
    found = cost(spec, problem, limits)
    assert found is not None
    return found.seconds


def falls(path: Steps, node: Node, above: float, bound: Bound, score: Score) -> list[str]:
    """Where a bound falls along a path or exceeds a score."""
    here = bound(path, node)
    if here is None:
        # The model has no coverage here, so that it must have none below.
        here = above
    found = [] if here >= above else [f"{here} below {above} at {path}"]
    if isinstance(node, Leaf):
        price = score(node.payload)
        return found + ([f"{here} above {price} at {path}"] if price and here > price else [])
    for decision, child in node.children:
        if isinstance(child, Child | Unknown):
            step = (node.level, decision)
            found += falls((*path, step), child.subtree, here, bound, score)
    return found


# Bounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=20, deadline=None)
@given(problem=problems, menu=menus)
def test_a_bound_never_falls_along_a_path_and_never_exceeds_a_score(
    target: str, problem: MatmulProblem, menu: str
) -> None:
    limits = TARGETS[target]
    tree = family_tree(problem, limits, menu_of(menu, limits))
    bound = score_bound(problem, limits, menu_of(menu, limits))
    assert falls((), tree, 0.0, bound, model_score(problem, limits)) == []


@pytest.mark.parametrize("dtype", [F16, F32])
def test_a_bound_keeps_to_its_law_in_the_lattice(dtype: Precision) -> None:
    limits = TARGETS["sm_80"]
    problem = MatmulProblem(m=100, n=96, k=120, a_dtype=dtype, b_dtype=dtype, out_dtype=dtype)
    menu = menu_of("default", limits)
    tree = lift_lattice(family_tree(problem, limits, menu))
    bound, score = score_bound(problem, limits, menu), model_score(problem, limits)
    assert falls((), tree, 0.0, bound, score) == []


@pytest.mark.parametrize("hoistable", ["", "B"])
def test_a_bound_keeps_to_its_law_in_the_lattice_of_panels(hoistable: str) -> None:
    problem = MatmulProblem(m=50, n=70, k=100, outer_k=(2,), hoistable=frozenset(hoistable))
    menu = replace(Menu.default(ZEN), packed_lattice=CpuPacked(6, 32, 16))
    tree = lift_lattice(family_tree(problem, ZEN, menu))
    bound, score = score_bound(problem, ZEN, menu), model_score(problem, ZEN)
    assert falls((), tree, 0.0, bound, score) == []
    found = search(tree, score, bound)
    assert found.score == search(tree, score).score
    assert found.stats.scored < 0.25 * len(leaves(tree))


def renamed(node: Node) -> Node:
    """The same tree with every level named otherwise."""
    if isinstance(node, Leaf):
        return node

    def judged(child: Judged[Decision, KernelSpec]) -> Judged[Decision, KernelSpec]:
        if isinstance(child, Child):
            return Child(renamed(child.subtree))
        return Unknown("?", renamed(child.subtree)) if isinstance(child, Unknown) else child

    children = tuple((decision, judged(child)) for decision, child in node.children)
    return Choice(f"not {node.level}", children)


@pytest.mark.parametrize("target", TARGETS)
def test_names_of_levels_change_no_pick_and_no_ledger(target: str) -> None:
    limits, problem = TARGETS[target], MatmulProblem(m=200, n=100, k=300, batch=(2,))
    menu, score = Menu.default(limits), model_score(problem, limits)
    tree, bound = family_tree(problem, limits, menu), score_bound(problem, limits, menu)
    plain, other = (search(each, score, bound) for each in (tree, renamed(tree)))
    assert (other.best, other.score, other.stats) == (plain.best, plain.score, plain.stats)


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=10, deadline=None)
@given(problem=problems)
def test_a_bounded_search_finds_what_a_full_one_does(target: str, problem: MatmulProblem) -> None:
    limits = TARGETS[target]
    menu, score = Menu.default(limits), model_score(problem, limits)
    tree = family_tree(problem, limits, menu)
    bounded = search(tree, score, score_bound(problem, limits, menu))
    assert bounded.score == search(tree, score).score
    assert bounded.proven


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=20, deadline=None)
@given(problem=problems)
def test_the_bound_on_the_clock_is_below_that_on_the_score(
    target: str, problem: MatmulProblem
) -> None:
    limits = TARGETS[target]
    score = least_cost((), problem, limits)
    assert score is None or clock_bound(problem, limits) <= score.seconds


def test_a_clock_may_beat_memory_where_the_cache_holds_all() -> None:
    limits = replace(ZEN, peak_flops=1e30)
    assert clock_bound(square(100), limits) < 1e-20
    large = clock_bound(square(4096), limits)
    # A, B and C once, but for what the last cache may hold from an earlier run.
    assert large == (3 * 8 * 4096**2 - 2**25) / 25e9


def test_a_large_lattice_is_searched_to_proof_with_few_scores() -> None:
    limits = TARGETS["sm_90"]
    problem = MatmulProblem(m=4096, n=4096, k=4096)
    menu = menu_of("default", limits)
    tree = lift_lattice(family_tree(problem, limits, menu))
    found = search(tree, model_score(problem, limits), score_bound(problem, limits, menu))
    assert found.proven
    assert found.stats.expanded < 1000
    assert found.stats.scored < 100


# CPU --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rm", "rn", "cycles"),
    [
        (6, 2, 6.0),  # twelve multiply-adds on two ports
        (2, 2, 4.0),  # four chains of latency four
        (12, 1, 6.5),  # thirteen loads on two ports
        (3, 4, 9.0),  # seventeen registers: stores forwarded to loads in every chain
    ],
)
def test_a_step_takes_as_long_as_the_scarcest_unit(rm: int, rn: int, cycles: float) -> None:
    assert step_cycles(rm, rn, ZEN_PORTS) == cycles


@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 8), st.integers(1, 4))
def test_a_block_takes_no_fewer_cycles_than_the_least_of_any_tile(
    bm: int, vectors: int, rm: int, rn: int
) -> None:
    least = least_block_cycles(bm, vectors, 10, ZEN_PORTS)
    assert bm * vectors * 10 / 2 < least <= block_cycles(bm, vectors, 10, (rm, rn), ZEN_PORTS)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (kernel(96, 0, 256, 6, 2), kernel(96, 0, 32, 6, 2)),
        (kernel(96, 0, 256, 6, 2), kernel(96, 64, 256, 6, 2)),
        (kernel(96, 0, 256, 6, 2), kernel(96, 0, 256, 2, 2)),
        (kernel(96, 0, 256, 6, 2), kernel(96, 0, 256, 3, 4)),
        (kernel(96, 0, 256, 4, 3), kernel(96, 0, 256, 6, 1)),
    ],
    ids=["shallow", "narrow", "few accumulators", "spilled", "one vector"],
)
def test_the_measured_cliffs_are_cliffs_of_the_model(better: KernelSpec, worse: KernelSpec) -> None:
    assert seconds(worse, square(512)) > 1.1 * seconds(better, square(512))


@given(
    st.builds(Side, st.integers(1, 99), st.integers(1, 99), st.integers(1, 99)),
    st.integers(1, 99),
    st.sampled_from([(4, 8), (8, 8), (8, 4), (16, 4)]),
    st.sampled_from([1, 2]),
)
def test_packing_a_number_takes_no_less_than_moving_its_bytes(
    side: Side, width: int, vector: tuple[int, int], parts: int
) -> None:
    lanes, n_bytes = vector
    assert pack_cycles(side, width, lanes, n_bytes, parts) >= least_pack_cycles(n_bytes)


def test_runs_along_k_are_packed_faster_where_squares_fit_the_panel() -> None:
    rows = [pack_cycles(Side(1, 256), width, 8, 8) for width in (8, 14)]
    assert rows[1] > 3 * rows[0]


def test_small_blocks_add_to_far_results_more_often() -> None:
    shallow, deep = (cost(kernel(96, 0, bk, 6, 2), square(1024), ZEN) for bk in (128, 512))
    assert shallow is not None
    assert deep is not None
    assert shallow.compute_seconds > 1.05 * deep.compute_seconds


def test_what_is_packed_ahead_is_not_packed_in_the_call() -> None:
    problem = replace(square(512), hoistable=frozenset("AB"))
    ahead = cost(replace(kernel(96, 0, 256, 6, 2), hoist=True), problem, ZEN)
    assert ahead is not None
    assert ahead.packing_seconds == 0.0
    in_call = cost(kernel(96, 0, 256, 6, 2), problem, ZEN)
    assert in_call is not None
    assert in_call.packing_seconds > 0.0


def test_padding_is_paid_for() -> None:
    spec = kernel(96, 0, 256, 6, 2)
    found = cost(spec, MatmulProblem(m=97, n=64, k=256), ZEN)
    assert found is not None
    assert found.flops == 2 * 192 * 64 * 256


def test_two_cores_share_row_blocks_and_wait_for_the_last() -> None:
    even = replace(kernel(256, 0, 256, 6, 2), grid=True, pack_rest=True)
    uneven = replace(even, bm=176)
    one, two, three = (
        cost(spec, square(512), ZEN) for spec in (replace(even, grid=False), even, uneven)
    )
    assert one is not None
    assert two is not None
    assert three is not None
    assert two.compute_seconds == one.compute_seconds / 2
    # Three blocks on two cores take as long as four.
    assert three.compute_seconds > 1.3 * two.compute_seconds


@given(
    st.lists(st.tuples(st.sampled_from("mnk"), st.integers(1, 9)), max_size=5),
    st.integers(0, 5000),
    st.integers(0, 5000),
)
def test_a_larger_store_never_moves_more(
    loops: list[tuple[str, int]], capacity: int, more: int
) -> None:
    whole, block, widths = Block(30, 40, 50), Block(3, 4, 5), Widths(8, 4, 8)
    less = moved_bytes(whole, block, loops, widths, capacity + more)
    assert less <= moved_bytes(whole, block, loops, widths, capacity)


def test_a_store_for_everything_moves_each_number_once() -> None:
    loops = [("n", 2), ("k", 3), ("m", 5)]
    moved = moved_bytes(Block(20, 8, 12), Block(4, 4, 4), loops, Widths(8, 8, 8), 10**9)
    assert moved == 8 * (20 * 12 + 12 * 8 + 2 * 20 * 8)


def test_a_processor_that_is_not_known_has_no_coverage() -> None:
    spec = kernel(96, 0, 256, 6, 2)
    assert cost(spec, square(64), HardwareLimits(simd_vector_bytes=32)) is None
    assert cost(replace(spec, gpu=True), square(64), HardwareLimits()) is None


def test_complex_numbers_have_no_coverage_on_gpus() -> None:
    number = Precision.COMPLEX64
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=number, b_dtype=number, out_dtype=number)
    limits = TARGETS["sm_90"]
    assert least_cost((), problem, limits) is None
    score = model_score(problem, limits)
    found = leaves(family_tree(problem, limits, Menu.default(limits)))
    assert found
    assert {score(spec) for spec in found} == {None}


def test_a_complex_product_costs_as_much_as_four_real_ones_and_its_bound_holds() -> None:
    limits = TARGETS["cpu"]
    seconds = {}
    for number in (Precision.COMPLEX64, Precision.FLOAT32):
        problem = MatmulProblem(
            m=240, n=240, k=240, a_dtype=number, b_dtype=number, out_dtype=number
        )
        tree = family_tree(problem, limits)
        score, bound = model_score(problem, limits), score_bound(problem, limits)
        found = search(tree, score, bound, order="best_first")
        assert found.proven
        assert found.score == min(filter(None, map(score, leaves(tree))))
        seconds[number] = found.score or 0.0
    assert 3 < seconds[Precision.COMPLEX64] / seconds[Precision.FLOAT32] < 5


# GPU --------------------------------------------------------------------------------------------


def blocktile(bm: int, bn: int, bk: int, tm: int, tn: int) -> KernelSpec:
    return KernelSpec(
        gpu=True,
        pipeline=PipelineKind.BLOCKTILE,
        packed=True,
        bm=bm,
        bn=bn,
        bk=bk,
        tm=tm,
        tn=tn,
    )


def mma(bm: int, bk: int, *, swizzle: bool = False, depth: int = 1) -> KernelSpec:
    return KernelSpec(
        gpu=True,
        pipeline=PipelineKind.TENSORIZED,
        mma=True,
        simd=32,
        packed=bk > 0,
        bm=bm,
        bn=32,
        bk=bk,
        swizzle=swizzle,
        depth=depth,
    )


HALF = MatmulProblem(m=4096, n=4096, k=4096, a_dtype=F16, b_dtype=F16, out_dtype=F16)


def test_registers_shared_memory_and_threads_each_cap_residence() -> None:
    limits = gpu("sm_80")
    assert resident_workgroups(Needs(256, 32, 0), limits) == 8
    assert resident_workgroups(Needs(256, 128, 0), limits) == 2
    assert resident_workgroups(Needs(256, 32, 40 * 2**10), limits) == 4
    assert resident_workgroups(Needs(32, 32, 0), limits) == 32
    assert resident_workgroups(Needs(32, 32, 2**20), limits) == 0


def test_a_kernel_that_fits_no_multiprocessor_has_no_price() -> None:
    assert cost(mma(128, 1024), HALF, gpu("sm_80")) is None


def test_larger_blocks_load_less_on_large_products() -> None:
    limits, problem = gpu("sm_80"), MatmulProblem(m=4096, n=4096, k=4096)
    large, small = blocktile(128, 128, 8, 8, 8), blocktile(16, 16, 8, 2, 2)
    assert seconds(large, problem, limits) < 0.7 * seconds(small, problem, limits)


def test_small_blocks_keep_all_multiprocessors_busy_on_small_products() -> None:
    limits, problem = gpu("sm_80"), MatmulProblem(m=256, n=256, k=256)
    large, small = blocktile(128, 128, 8, 8, 8), blocktile(32, 32, 8, 4, 4)
    assert seconds(small, problem, limits) < seconds(large, problem, limits)


def test_one_block_more_than_multiprocessors_costs_another_round() -> None:
    limits = gpu("sm_80")
    spec = blocktile(64, 64, 8, 4, 4)
    full, more = (cost(spec, MatmulProblem(m=64 * n, n=64, k=4096), limits) for n in (108, 109))
    assert full is not None
    assert more is not None
    # Two blocks on one multiprocessor overlap, but its units are shared.
    assert more.compute_seconds > 1.2 * full.compute_seconds


def test_conflicts_of_banks_make_plain_tiles_slower_than_swizzled_ones() -> None:
    limits = gpu("sm_90")
    assert seconds(mma(64, 64, swizzle=True), HALF, limits) < seconds(mma(64, 64), HALF, limits)


def test_what_exactly_fits_a_store_stays_there() -> None:
    whole, block, widths = Block(8, 8, 4), Block(4, 4, 4), Widths(8, 8, 8)
    # One block of each operand is 384 bytes; a trip over all columns touches 640.
    loops = [("m", 2), ("n", 2)]
    touched = 8 * (4 * 4 + 4 * 8 + 4 * 8)
    moved = [moved_bytes(whole, block, loops, widths, touched - less) for less in (0, 1)]
    assert moved[0] < moved[1]


def test_a_spilled_register_costs_the_steps_of_its_store_and_load() -> None:
    limits = replace(gpu("sm_90"), max_registers_per_thread=64)
    roomy = replace(limits, max_registers_per_thread=255)
    spec, problem = blocktile(128, 128, 8, 8, 8), MatmulProblem(m=4096, n=4096, k=4096)
    found = [cost(spec, problem, each) for each in (limits, roomy)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].compute_seconds > 2 * found[1].compute_seconds


def test_results_that_spill_cost_more_than_half_as_many_that_do_not() -> None:
    limits, problem = gpu("sm_80"), MatmulProblem(m=4096, n=4096, k=4096)
    spilled, held = blocktile(256, 256, 8, 16, 16), blocktile(128, 128, 8, 8, 8)
    assert seconds(spilled, problem, limits) > seconds(held, problem, limits)


def test_batches_in_the_grid_fill_what_one_product_cannot() -> None:
    limits = gpu("sm_80")
    problem = MatmulProblem(m=64, n=64, k=64, batch=(64,))
    serial = blocktile(32, 32, 8, 4, 4)
    grid = replace(serial, batch_grid=True)
    assert seconds(grid, problem, limits) < 0.1 * seconds(serial, problem, limits)


def test_parts_that_overlap_count_as_the_longest_and_a_share_of_the_rest() -> None:
    parts = Cost(
        compute_seconds=4.0,
        transfers=(Transfer("L2", 1, 1.0), Transfer("memory", 1, 6.0)),
        packing_seconds=0.5,
        overhead_seconds=0.25,
        exposed=0.1,
        flops=1,
    )
    assert parts.seconds == 6.0 + 0.1 * (4.0 + 1.0) + 0.5 + 0.25


def test_a_whole_path_costs_what_its_kernel_does() -> None:
    limits, problem = ZEN, MatmulProblem(m=64, n=48, k=40)

    def compare(path: Steps, node: Node) -> None:
        if isinstance(node, Choice):
            for decision, child in node.children:
                if isinstance(child, Child | Unknown):
                    compare((*path, (node.level, decision)), child.subtree)
            return
        whole = least_cost(path, problem, limits, is_whole=True)
        assert whole == cost(node.payload, problem, limits)

    compare((), family_tree(problem, limits, Menu.default(limits)))
