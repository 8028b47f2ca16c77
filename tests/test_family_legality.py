"""The tree against all kernels that can be named, each judged on its own."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from einbound.kernels.decisions import Decision, Geometry, Lattice, LatticeBox, RegisterTile
from einbound.kernels.default_menu import fitted
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.geometry import CpuPacked
from einbound.kernels.menu import Menu
from einbound.kernels.numerics import HalfArithmetic, Numerics
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.verdicts import Node
from einbound.machine.limits import HardwareLimits, MmaLimits
from einbound.machine.mma import Scope, StagedLayout
from einbound.machine.precision import Precision
from einbound.space.lift import lift_where
from einbound.space.traversal import enumerate_leaves, exclusions, leaves, refutations
from family_oracle import Decisions, Oracle
from family_sites import CPU, CUBE, GPU_FULL, HALF, PROJECTION, gpu_f16

EXTENTS = st.sampled_from([1, 3, 8, 12, 16, 20, 32, 48, 64])
STORED = st.sampled_from(["float32", "float16", "bfloat16", "float64"]).map(Precision)
F16, F32, TF32 = Precision.FLOAT16, Precision.FLOAT32, Precision.TFLOAT32
TRIPLES = [(F32, F32, F32), (TF32, TF32, F32), (F16, F16, F16), (F16, F16, F32)]
TILES = (RegisterTile(6, 2, 8), RegisterTile(4, 3, 8), RegisterTile(4, 1, 4))


@st.composite
def problems(draw: st.DrawFn) -> MatmulProblem:
    one = draw(st.booleans())
    first = draw(STORED)
    m, n = draw(EXTENTS), draw(st.one_of(EXTENTS, st.just(512)))
    return MatmulProblem(
        m=m,
        n=n,
        k=draw(EXTENTS),
        batch=draw(st.sampled_from([(), (1,), (2,), (3, 4), (300, 300)])),
        outer_k=draw(st.sampled_from([(), (1,), (4,)])),
        a_dtype=first,
        b_dtype=first if one else draw(STORED),
        out_dtype=first if one else draw(STORED),
        b_layout=draw(st.sampled_from(BLayout)),
        hoistable=draw(st.sampled_from([frozenset(), frozenset("A"), frozenset("B"), {"A", "B"}])),
        epilogue=draw(st.sampled_from([None, "relu"])),
        zeroed=draw(st.booleans()),
        c_strides=draw(st.sampled_from([None, None, (n, 1), (1, m)])),
    )


@st.composite
def gpus(draw: st.DrawFn) -> HardwareLimits:
    tile = st.sampled_from([(8, 8, 8), (16, 8, 16), (16, 16, 4)])
    tiles = {triple: draw(tile) for triple in TRIPLES if draw(st.booleans())}
    mma = MmaLimits(
        width=draw(st.sampled_from([32, 24])),
        tile=(16, 16, 16),
        tiles=tuple(tiles.items()),
        wide_scopes=((F16, tuple(s for s in Scope if draw(st.booleans()))),),
        layouts=tuple((t, StagedLayout.SWIZZLE_16_BYTES) for t in TRIPLES if draw(st.booleans())),
        depths=draw(st.sampled_from([(), (2,), (1, 2, 3)])),
    )
    return HardwareLimits(
        mma=draw(st.sampled_from([None, mma, mma, mma])),
        max_threads_per_workgroup=draw(st.sampled_from([None, 16, 128, 1024])),
        max_workgroup_memory_bytes=draw(st.sampled_from([None, 2048, 6144, 49152])),
        max_workgroup_dims=draw(st.sampled_from([None, (16, 8, 64), (1024, 1024, 64)])),
        max_grid_yz=draw(st.sampled_from([None, 2, 65535])),
    )


def cpus() -> st.SearchStrategy[HardwareLimits]:
    return st.builds(
        HardwareLimits,
        simd_vector_bytes=st.sampled_from([8, 16, 32, 64]),
        native_fp16_arithmetic=st.booleans(),
        vector_registers=st.sampled_from([None, 8, 16]),
    )


@st.composite
def menus(draw: st.DrawFn) -> Menu:
    return Menu(
        packed_lattice=draw(st.sampled_from([None, CpuPacked(16, 0, 16), CpuPacked(4, 32, 16)])),
        packing_cap_bytes=draw(st.sampled_from([None, 256 * 1024, 4096])),
        chunk_cap_bytes=draw(st.sampled_from([None, 256 * 1024, 4096])),
        grid_rendering=draw(st.booleans()),
        pad_factor=draw(st.sampled_from([None, 2.0])),
        register_tiles=draw(st.sampled_from([None, None, TILES])),
        unknown_layouts=draw(st.booleans()),
        predict_spills=draw(st.booleans()),
        numerics=Numerics(
            tf32=draw(st.booleans()),
            narrow_in_float32=draw(st.booleans()),
            half=draw(st.sampled_from(HalfArithmetic)),
        ),
    )


def decisions_of(path: tuple[tuple[str, Decision], ...]) -> Decisions:
    """A path without the boxes that were still open."""
    found = (decision for _, decision in path)
    return tuple(each for each in found if not isinstance(each, LatticeBox) or each.lo == each.hi)


def kernels_of(tree: Node) -> list[Decisions]:
    return [decisions_of(path) for path, _ in enumerate_leaves(tree)]


def without_policies(tree: Node) -> Node:
    return lift_where(tree, lambda _: True)


machines = st.one_of(cpus(), gpus())


@settings(max_examples=150, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
@example(problem=CUBE, limits=CPU, menu=Menu.REFERENCE)
@example(problem=PROJECTION, limits=GPU_FULL, menu=Menu.REFERENCE)
@example(
    problem=HALF,
    limits=gpu_f16(Scope.PER_STATEMENT),
    menu=Menu(numerics=Numerics(half=HalfArithmetic.WIDE)),
)
@example(problem=replace(CUBE, m=40), limits=CPU, menu=Menu.REFERENCE)
def test_without_policies_the_leaves_are_all_legal_kernels(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    found = kernels_of(without_policies(family_tree(problem, limits, menu)))
    assert len(set(found)) == len(found)
    assert set(found) == Oracle(problem, limits, menu).legal()


@settings(max_examples=80, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
def test_refuted_means_no_legal_completion(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    tree = without_policies(family_tree(problem, limits, menu))
    legal = Oracle(problem, limits, menu).legal()
    for path, witness in refutations(tree):
        below = {kernel for kernel in legal if completes(kernel, path)}
        assert not below, witness


@settings(max_examples=60, deadline=None)
@given(problem=problems(), limits=machines)
def test_trees_of_our_own_menu_have_all_its_legal_kernels(
    problem: MatmulProblem, limits: HardwareLimits
) -> None:
    menu = replace(Menu.default(limits), roles=False, index_orders=False)
    found = kernels_of(without_policies(family_tree(problem, limits, menu)))
    assert len(set(found)) == len(found)
    assert set(found) == Oracle(problem, limits, fitted(menu, problem, limits)).legal()


def completes(kernel: Decisions, path: tuple[tuple[str, Decision], ...]) -> bool:
    """Whether a kernel's decisions start with a path's; an open box holds sizes."""
    decided = decisions_of(path)
    boxes = [each for _, each in path if isinstance(each, LatticeBox) and each.lo < each.hi]
    sizes = {each.axis: each.lo for each in kernel if isinstance(each, LatticeBox)}
    inside = all(box.axis in sizes and box.lo <= sizes[box.axis] <= box.hi for box in boxes)
    return kernel[: len(decided)] == decided and inside


@settings(max_examples=80, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
def test_a_policy_hides_leaves_and_never_adds_or_reorders_any(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    tree = family_tree(problem, limits, menu)
    proposed = kernels_of(tree)
    kept = set(proposed)
    everything = kernels_of(without_policies(tree))
    assert [each for each in everything if each in kept] == proposed
    hidden = [path for path, _ in exclusions(tree)]
    for kernel in set(everything) - kept:
        assert any(completes(kernel, path) for path in hidden)


@settings(max_examples=60, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
def test_lifting_the_lattice_gives_the_same_leaves_and_those_of_the_lattice(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    tree = family_tree(problem, limits, replace(menu, packing_cap_bytes=None, pad_factor=None))
    lifted = kernels_of(lift_lattice(tree))
    inside = Geometry(Lattice())
    assert [each for each in lifted if inside not in each] == kernels_of(tree)
    assert not any(inside in each for each in kernels_of(tree))


@settings(max_examples=40, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
def test_a_tree_is_made_in_the_same_way_every_time(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    first, second = (family_tree(problem, limits, menu) for _ in range(2))
    assert enumerate_leaves(first) == enumerate_leaves(second)
    assert refutations(first) == refutations(second)
    assert exclusions(first) == exclusions(second)


@settings(max_examples=60, deadline=None)
@given(problem=problems(), limits=machines, menu=menus())
def test_no_two_paths_but_a_depth_of_one_make_the_same_kernel(
    problem: MatmulProblem, limits: HardwareLimits, menu: Menu
) -> None:
    limits = replace(limits, mma=limits.mma and replace(limits.mma, depths=(2,)))
    found = leaves(family_tree(problem, limits, menu))
    assert len(set(found)) == len(found)
