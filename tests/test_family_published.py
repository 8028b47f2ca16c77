"""Trees of the reference menu against published counts, paths and parameters.

The figures are the expected outputs of the project whose menu this is (ahrefs/ocannl,
test/operations/sketch_family_tree). Register tiles are a level there too, and only where there is
an alternative, so that no count differs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from einbound.kernels.decisions import (
    Fusion,
    FusionKind,
    Geometry,
    Lattice,
    LatticeBox,
    render_path,
)
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.menu import Menu
from einbound.kernels.numerics import HalfArithmetic, Numerics
from einbound.kernels.path_floor import path_floor
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.machine.limits import HardwareLimits
from einbound.machine.mma import Scope
from einbound.space.lift import lift_where
from einbound.space.search import search
from einbound.space.traversal import (
    count_choices,
    depth,
    enumerate_leaves,
    exclusions,
    leaves,
    refutations,
    unknowns,
)
from family_sites import (
    AWKWARD,
    CPU,
    CPU_F16,
    CUBE,
    F16,
    FUSABLE,
    GPU,
    GPU_COARSE,
    GPU_FULL,
    GPU_TIGHT,
    GPU_TINY,
    HALF,
    PROJECTION,
    TRANSPOSED,
    WIDE,
    gpu_f16,
)

_GRID_TOO_LARGE = ("bm64 bn0 bk64", "bm64 bn0 bk256", "bm128 bn128 bk128", "bm64 bn128 bk256")
_AHEAD = ("hoisted", "hoisted-grid", "hoisted-grid-pack-rest")
_TENSORIZED = "fusion=unfused > pipeline=tensorized > "
_BLOCKTILE = "fusion=unfused > pipeline=blocktile > "
_PACKED = _TENSORIZED + "tensorized-form=packed > packing-shape="
_WHOLE = _TENSORIZED + "tensorized-form=whole-triple"
_UNFUSABLE = "fusion=fused"


def paths(entries: object) -> list[str]:
    assert isinstance(entries, tuple | list)
    return [render_path(path) for path, _ in entries]


def without_hoistable() -> list[str]:
    grids = [
        f"{_PACKED}{shape} > geometry={tile}"
        for shape in ("grid-pack-rest", "grid")
        for tile in _GRID_TOO_LARGE
    ]
    return [*(_PACKED + shape for shape in _AHEAD), *grids]


@pytest.mark.parametrize(
    ("problem", "limits", "n_leaves", "n_choices", "levels", "n_refuted", "n_excluded"),
    [
        (CUBE, CPU, 34, 28, 6, 14, 1),
        (CUBE, GPU, 10, 9, 4, 1, 1),
        (CUBE, GPU_FULL, 16, 9, 4, 1, 1),
        (AWKWARD, GPU_FULL, 11, 7, 4, 3, 4),
        (AWKWARD, CPU, 10, 12, 6, 17, 0),
        (HALF, CPU, 20, 19, 6, 14, 0),
        (HALF, GPU_FULL, 5, 3, 3, 2, 0),
        (TRANSPOSED, CPU, 16, 16, 6, 14, 0),
        (PROJECTION, CPU, 14, 16, 6, 16, 0),
        (PROJECTION, GPU_FULL, 22, 14, 5, 5, 8),
        (FUSABLE, GPU_FULL, 32, 17, 4, 0, 2),
        (FUSABLE, CPU, 68, 55, 6, 26, 2),
        (CUBE, GPU_TIGHT, 9, 8, 4, 8, 1),
        (WIDE, CPU, 18, 18, 6, 12, 3),
    ],
    ids=str,
)
def test_trees_have_the_published_counts(
    problem: MatmulProblem,
    limits: HardwareLimits,
    n_leaves: int,
    n_choices: int,
    levels: int,
    n_refuted: int,
    n_excluded: int,
) -> None:
    tree = family_tree(problem, limits, Menu.REFERENCE)
    assert (len(leaves(tree)), count_choices(tree), depth(tree)) == (n_leaves, n_choices, levels)
    assert (len(refutations(tree)), len(exclusions(tree))) == (n_refuted, n_excluded)
    assert not unknowns(tree)


def told(spec: KernelSpec) -> str:
    """The fields that are published of a leaf."""
    tile = f" {spec.tile.label}" if spec.tile else ""
    flags = [name for name in ("hoist", "grid", "pack_rest", "swizzle") if getattr(spec, name)]
    numbers = [spec.simd, spec.bm, spec.bn, spec.bk, spec.tm, spec.tn, spec.depth]
    return f"{int(spec.mma)} {numbers} {' '.join(flags)}{tile}"


def test_the_cpu_cube_has_the_published_leaves_in_their_order() -> None:
    expected = []
    for hoist in ("", "hoist"):
        expected += [f"0 [0, {b}, {b}, {b}, 0, 0, 1] {hoist}" for b in (16, 8)]
    menu = [(64, 0, 64), (64, 0, 256), (128, 128, 128), (64, 128, 256), (16, 0, 16)]
    small = [(16, 0, 16)]
    shapes = [
        ("", [(0, 0, 0), (16, 0, 0)]),
        ("", menu),
        ("hoist", menu),
        ("hoist grid", small),
        ("hoist grid pack_rest", small),
        ("grid", small),
    ]
    for flags, blocks in shapes:
        for bm, bn, bk in blocks:
            for tile in ("", " rm4 rn2 lanes8"):
                expected.append(f"1 [0, {bm}, {bn}, {bk}, 0, 0, 1] {flags}{tile}")
    assert [told(spec) for spec in leaves(family_tree(CUBE, CPU, Menu.REFERENCE))] == expected


def test_the_gpu_cube_has_the_published_leaves_in_their_order() -> None:
    expected = [
        f"0 [0, {bm}, {bn}, {bk}, {tm}, {tn}, 1] "
        for bm, bn, bk, tm, tn in [
            (64, 64, 8, 4, 4),
            (32, 32, 8, 4, 4),
            (16, 16, 8, 4, 4),
            (32, 32, 16, 2, 2),
            (16, 16, 8, 2, 2),
        ]
    ]
    expected += [f"1 [32, {bm}, 32, 0, 0, 0, 1] " for bm in (16, 32)]
    for bm, bk in [(16, 32), (32, 32), (32, 16)]:
        for flags, deep in [("", 1), ("swizzle", 1), ("", 2)]:
            expected.append(f"1 [32, {bm}, 32, {bk}, 0, 0, {deep}] {flags}")
    assert [told(spec) for spec in leaves(family_tree(CUBE, GPU_FULL, Menu.REFERENCE))] == expected


def test_the_last_paths_are_the_published_ones() -> None:
    last = [
        render_path(enumerate_leaves(family_tree(problem, limits, Menu.REFERENCE))[-1][0])
        for problem, limits in [(CUBE, CPU), (CUBE, GPU_FULL), (PROJECTION, GPU_FULL)]
    ]
    assert last == [
        _PACKED + "grid > geometry=bm16 bn0 bk16 > register-tile=rm4 rn2 lanes8",
        _TENSORIZED + "geometry=bm32 bn32 bk16 > twin=depth2",
        _TENSORIZED + "batch=batch-grid > geometry=bm32 bn32 bk16 > twin=swizzled",
    ]


def test_the_awkward_cube_is_refuted_and_excluded_where_it_is_published_to_be() -> None:
    tree = family_tree(AWKWARD, GPU_FULL, Menu.REFERENCE)
    staged = ("bm16 bn32 bk32", "bm32 bn32 bk32", "bm32 bn32 bk16")
    assert paths(refutations(tree)) == [
        _TENSORIZED + "geometry=bm16 bn32 bk0",
        _TENSORIZED + "geometry=bm32 bn32 bk0",
        _UNFUSABLE,
    ]
    assert paths(exclusions(tree)) == [
        *(_TENSORIZED + f"geometry={tile} > twin=depth2" for tile in staged),
        _TENSORIZED + "geometry=lattice",
    ]
    assert str(refutations(tree)[0][1]) == "bm must divide m (bm = 16, m = 20)"
    assert paths(refutations(family_tree(AWKWARD, CPU, Menu.REFERENCE))) == [
        _BLOCKTILE + "packing=in-kernel > geometry=b16",
        _BLOCKTILE + "packing=in-kernel > geometry=b8",
        _BLOCKTILE + "packing=hoisted",
        _WHOLE + " > row-block=bm64",
        _WHOLE + " > row-block=bm16",
        *without_hoistable(),
        _UNFUSABLE,
    ]


def test_a_transposed_b_is_refuted_where_it_is_published_to_be() -> None:
    assert paths(refutations(family_tree(TRANSPOSED, CPU, Menu.REFERENCE))) == [
        _BLOCKTILE + "packing=hoisted",
        _WHOLE,
        *without_hoistable(),
        _UNFUSABLE,
    ]


def test_tight_memory_refutes_what_it_is_published_to() -> None:
    tree = family_tree(CUBE, GPU_TIGHT, Menu.REFERENCE)
    found = [
        f"{path}: {witness}"
        for path, (_, witness) in zip(paths(refutations(tree)), refutations(tree), strict=True)
    ]
    threads = "threads of a workgroup, (bm / tm) (bn / tn), must stay within the cap"
    memory = "staged tiles must fit the memory of a workgroup"
    generated = "kernels are generated for these depths only (depth = 3, limit 1, 2)"
    assert found[:-1] == [
        f"{_BLOCKTILE}geometry=bm64 bn64 bk8 tm4 tn4: {threads} (threads = 256, limit 128)",
        f"{_BLOCKTILE}geometry=bm32 bn32 bk16 tm2 tn2: {threads} (threads = 256, limit 128)",
        f"{_TENSORIZED}geometry=bm16 bn32 bk32 > twin=depth2: {memory} "
        "(bytes = 12288, depth = 2, limit 6144)",
        f"{_TENSORIZED}geometry=bm16 bn32 bk32 > twin=depth3: {generated}",
        f"{_TENSORIZED}geometry=bm32 bn32 bk32: {memory} (bytes = 8192, limit 6144)",
        f"{_TENSORIZED}geometry=bm32 bn32 bk16 > twin=depth2: {memory} "
        "(bytes = 8192, depth = 2, limit 6144)",
        f"{_TENSORIZED}geometry=bm32 bn32 bk16 > twin=depth3: {generated}",
    ]


def test_wide_panels_are_excluded_and_come_back_where_they_are_legal() -> None:
    tree = family_tree(WIDE, CPU, Menu.REFERENCE)
    shapes = ("serial", "grid-pack-rest", "grid")
    assert paths(exclusions(tree)) == [
        f"{_PACKED}{shape} > geometry=bm64 bn0 bk256" for shape in shapes
    ]
    assert {str(witness) for _, witness in exclusions(tree)} == {
        "panels beyond the policy's cap, for the caches' sake (bytes = 589824, limit 262144)"
    }
    lifted = lift_where(tree, lambda _: True)
    assert (len(leaves(tree)), len(leaves(lifted))) == (18, 20)


def test_fused_leaves_are_the_unfused_ones_again_after_them() -> None:
    for limits in (GPU_FULL, CPU):
        tree = family_tree(FUSABLE, limits, Menu.REFERENCE)
        found = leaves(tree)
        half = len(found) // 2
        assert [replace(spec, epilogue=True) for spec in found[:half]] == list(found[half:])
        for entries in (refutations(tree), exclusions(tree)):
            fused = [Fusion(FusionKind.FUSED) in decisions_of(path) for path, _ in entries]
            assert sum(fused) * 2 == len(fused)


def decisions_of(path: object) -> list[object]:
    assert isinstance(path, tuple)
    return [decision for _, decision in path]


@pytest.mark.parametrize(
    ("limits", "numerics", "n_leaves"),
    [
        (CPU, Numerics(narrow_in_float32=False), 2),
        (CPU_F16, Numerics(half=HalfArithmetic.NARROW), 20),
        (CPU, Numerics(half=HalfArithmetic.NARROW), 20),
        (CPU_F16, Numerics(half=HalfArithmetic.WIDE, narrow_in_float32=False), 2),
        (gpu_f16(), Numerics(), 10),
        (gpu_f16(), Numerics(half=HalfArithmetic.WIDE), 5),
        (gpu_f16(Scope.PER_STATEMENT), Numerics(half=HalfArithmetic.WIDE), 7),
        (
            gpu_f16(Scope.PER_STATEMENT, Scope.PERSISTENT_FRAGMENT),
            Numerics(half=HalfArithmetic.WIDE),
            10,
        ),
    ],
)
def test_numerics_admit_the_published_kernels_of_half_precision(
    limits: HardwareLimits, numerics: Numerics, n_leaves: int
) -> None:
    tree = family_tree(HALF, limits, replace(Menu.REFERENCE, numerics=numerics))
    assert len(leaves(tree)) == n_leaves


def test_half_precision_is_packed_and_tiled_in_the_published_formats() -> None:
    promoted = leaves(family_tree(HALF, CPU, Menu.REFERENCE))
    narrow = replace(Menu.REFERENCE, numerics=Numerics(half=HalfArithmetic.NARROW))
    native = leaves(family_tree(HALF, CPU_F16, narrow))
    assert {spec.pack_precision for spec in promoted if spec.bk and spec.mma} == {"float32"}
    assert {spec.pack_precision for spec in native} == {None}
    assert {spec.tile.label for spec in promoted if spec.tile} == {"rm4 rn2 lanes8"}
    wide = {spec.bn: spec.tile.label for spec in native if spec.tile}
    assert wide == {0: "rm4 rn3 lanes16", 128: "rm4 rn2 lanes16"}


def test_one_staged_block_is_one_statement_and_a_second_loop_is_not() -> None:
    menu = replace(Menu.REFERENCE, numerics=Numerics(half=HalfArithmetic.WIDE))
    statement = gpu_f16(Scope.PER_STATEMENT)
    one_block = MatmulProblem(m=32, n=32, k=16, a_dtype=F16, b_dtype=F16, out_dtype=F16)
    staged = [spec.bk for spec in leaves(family_tree(one_block, statement, menu)) if spec.mma]
    assert any(staged)
    outer = replace(HALF, k=8, outer_k=(2,))
    assert not [spec for spec in leaves(family_tree(outer, statement, menu)) if spec.mma]
    both = gpu_f16(Scope.PER_STATEMENT, Scope.PERSISTENT_FRAGMENT)
    blocks = {bool(spec.bk) for spec in leaves(family_tree(outer, both, menu)) if spec.mma}
    assert blocks == {False, True}


def test_the_lifted_lattice_has_the_published_size_and_increments() -> None:
    tree = family_tree(CUBE, GPU_FULL, Menu.REFERENCE)
    lifted = lift_lattice(tree)
    assert (len(leaves(lifted)), depth(lifted)) == (80, 9)
    found = [path_floor(path, CUBE, GPU_FULL) for path, _ in enumerate_leaves(lifted)]
    assert sum(increment > 0 for increment in found) == 78
    assert max(found) == 49152


def test_the_last_chain_of_boxes_has_the_published_increments() -> None:
    lifted = lift_lattice(family_tree(CUBE, GPU_FULL, Menu.REFERENCE))
    last = [
        path
        for path, _ in enumerate_leaves(lifted)
        if any(decision == Geometry(Lattice()) for _, decision in path)
    ][-1]
    chain = [
        (decision.label, path_floor(last[: place + 1], CUBE, GPU_FULL))
        for place, (_, decision) in enumerate(last)
        if isinstance(decision, LatticeBox)
    ]
    assert chain == [
        ("bm 40..64", 4608),
        ("bm 56..64", 5632),
        ("bm=64", 6144),
        ("bk 40..64", 30720),
        ("bk 56..64", 43008),
        ("bk=64", 49152),
    ]


def test_a_search_of_the_lifted_lattice_has_the_published_ledger() -> None:
    lifted = lift_lattice(family_tree(CUBE, GPU_FULL, Menu.REFERENCE))
    result = search(
        lifted,
        lambda _: float("inf"),
        lambda path, _: path_floor(path, CUBE, GPU_FULL),
        incumbent=6000.0,
    )
    stats = result.stats
    assert (stats.expanded, stats.scored, stats.fathomed) == (34, 13, 26)
    assert (stats.refuted, stats.excluded) == (1, 0)


def test_the_cpu_cube_has_the_published_increments() -> None:
    found = [
        path_floor(path, CUBE, CPU)
        for path, _ in enumerate_leaves(family_tree(CUBE, CPU, Menu.REFERENCE))
    ]
    assert (sum(increment > 0 for increment in found), max(found)) == (10, 196608)


def test_little_memory_refutes_the_published_boxes() -> None:
    lifted = lift_lattice(family_tree(CUBE, GPU_TINY, Menu.REFERENCE))
    inside = Geometry(Lattice())
    survivors = [path for path, _ in enumerate_leaves(lifted) if inside in decisions_of(path)]
    boxes = [
        (render_path(path), str(witness))
        for path, witness in refutations(lifted)
        if inside in decisions_of(path) and any(is_open(decision) for _, decision in path)
    ]
    assert (len(survivors), len(boxes)) == (4, 13)
    start = _TENSORIZED + "geometry=lattice > bm=bm 8..32 > bm=bm 8..16 > bm=bm=8 > bk=bk 8..32"
    rule = "staged tiles must fit the memory of a workgroup"
    assert boxes[:2] == [
        (f"{start} > bk=bk 8..16 > bk=bk=16", f"{rule} (bytes = 2560, limit 2048)"),
        (f"{start} > bk=bk 24..32", f"{rule} (bytes = 3840, limit 2048)"),
    ]


def is_open(decision: object) -> bool:
    return isinstance(decision, LatticeBox) and decision.lo != decision.hi


def test_the_lattice_steps_by_the_tile_of_the_format_in_use() -> None:
    lifted = lift_lattice(family_tree(CUBE, GPU_COARSE, Menu.REFERENCE))
    inside = [
        spec for path, spec in enumerate_leaves(lifted) if Geometry(Lattice()) in decisions_of(path)
    ]
    assert {(spec.bm, spec.bk) for spec in inside} == {
        (bm, bk) for bm in range(8, 65, 8) for bk in range(8, 65, 8)
    }
    open_axes = (("", Geometry(Lattice())),)
    assert path_floor(open_axes, CUBE, GPU_COARSE) == 2560
