"""What a menu can switch on besides the reference, and what never matters."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

import einbound.kernels as kernels
from einbound.errors import KernelError
from einbound.kernels.decisions import (
    CpuBlocktile,
    CpuPacked,
    Decision,
    FormKind,
    Geometry,
    GpuBlocktile,
    IndexOrder,
    Lattice,
    LatticeBox,
    PackingShape,
    Pipeline,
    PipelineKind,
    RegisterTile,
    Roles,
    ShapeKind,
    TensorizedForm,
    Twin,
    render_path,
)
from einbound.kernels.family import family_tree, lift_lattice
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.menu import Menu
from einbound.kernels.path_floor import path_floor
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.spec import KernelSpec
from einbound.kernels.verdicts import Node
from einbound.kernels.views import seen_by, viewed
from einbound.machine.limits import HardwareLimits, MmaLimits
from einbound.machine.mma import StagedLayout
from einbound.machine.precision import Precision
from einbound.space.lift import lift_excluded, lift_where
from einbound.space.traversal import (
    enumerate_leaves,
    exclusions,
    leaves,
    refutations,
    unknowns,
)
from einbound.space.tree import Child, Choice, Excluded, Judged, Leaf, Refuted, Unknown
from family_sites import CPU, CUBE, F16, FUSABLE, GPU, GPU_FULL, GPU_TIGHT, PROJECTION

REFERENCE = Menu.REFERENCE


def decisions_of(path: tuple[tuple[str, Decision], ...]) -> list[Decision]:
    return [decision for _, decision in path]


def at(tree: Node, *decisions: Decision) -> Judged[Decision, KernelSpec]:
    """The verdict on the last of these decisions."""
    judged: Judged[Decision, KernelSpec] = Child(tree)
    for decision in decisions:
        assert isinstance(judged, Child | Unknown)
        assert isinstance(judged.subtree, Choice)
        judged = dict(judged.subtree.children)[decision]
    return judged


def renamed(tree: Node) -> Node:
    """The same tree with other names for its levels."""
    if isinstance(tree, Leaf):
        return tree
    return Choice(f"({tree.level})", tuple((d, _renamed(j)) for d, j in tree.children))


def _renamed(judged: Judged[Decision, KernelSpec]) -> Judged[Decision, KernelSpec]:
    if isinstance(judged, Child):
        return Child(lambda: renamed(judged.subtree))
    if isinstance(judged, Unknown):
        return Unknown(judged.witness, lambda: renamed(judged.subtree))
    if isinstance(judged, Excluded):
        return Excluded(judged.witness, lambda: _renamed(judged.lifted))
    return judged


@pytest.mark.parametrize("limits", [CPU, GPU_FULL])
def test_names_of_levels_and_labels_change_no_leaf_and_no_floor(
    limits: HardwareLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = enumerate_leaves(lift_lattice(family_tree(PROJECTION, limits, Menu.REFERENCE)))
    floors = [path_floor(path, PROJECTION, limits) for path, _ in before]
    for made in {type(decision) for path, _ in before for _, decision in path}:
        monkeypatch.setattr(made, "label", property(lambda _: "?"))
    after = enumerate_leaves(lift_lattice(renamed(family_tree(PROJECTION, limits, Menu.REFERENCE))))
    assert [decisions_of(path) for path, _ in after] == [decisions_of(path) for path, _ in before]
    assert [spec for _, spec in after] == [spec for _, spec in before]
    assert [path_floor(path, PROJECTION, limits) for path, _ in after] == floors
    assert {level for path, _ in after for level, _ in path}.isdisjoint(
        level for path, _ in before for level, _ in path
    )


@pytest.mark.parametrize("limits", [CPU, GPU, GPU_FULL])
def test_the_decisions_of_a_path_are_the_parameters_of_its_kernel(limits: HardwareLimits) -> None:
    for problem in (FUSABLE, PROJECTION):
        for path, spec in enumerate_leaves(
            lift_lattice(family_tree(problem, limits, Menu.REFERENCE))
        ):
            assert read_off(decisions_of(path), limits) == spec


def read_off(path: list[Decision], limits: HardwareLimits) -> KernelSpec:
    """The parameters, from the decisions alone."""
    of: dict[str, Any] = {type(decision).__name__: decision for decision in path}
    is_mma = of["Pipeline"] == Pipeline("tensorized")
    width = limits.mma.width if limits.mma and is_mma else 0
    shape = str(of["PackingShape"].kind) if "PackingShape" in of else ""
    twin = of["Twin"].kind if "Twin" in of else "plain"
    tile = of.get("RegisterTile", RegisterTile())
    sizes = blocks(of.get("Geometry"), path)
    if "RowBlock" in of:
        sizes = {"bm": of["RowBlock"].bm}
    if width:
        sizes["bn"] = width
    return KernelSpec(
        gpu=limits.is_gpu,
        pipeline=PipelineKind.TENSORIZED if is_mma else PipelineKind.BLOCKTILE,
        mma=is_mma,
        simd=width,
        packed=sizes.get("bk", 0) > 0,
        hoist=shape.startswith("hoisted") or kernels.Packing("hoisted") in path,
        grid="grid" in shape,
        pack_rest="pack_rest" in shape,
        epilogue=of["Fusion"] == kernels.Fusion("fused"),
        batch_grid=kernels.Batch("grid") in path,
        swizzle=twin == "swizzled",
        depth=twin if isinstance(twin, int) else 1,
        tile=None if tile.is_auto else tile,
        **sizes,
    )


def blocks(geometry: Geometry | None, path: list[Decision]) -> dict[str, Any]:
    """The sizes of a geometry, or of the boxes at the end of a lattice."""
    if geometry is None:
        return {}
    if isinstance(geometry.choice, Lattice):
        return {box.level: box.lo for box in path if isinstance(box, LatticeBox)}
    if isinstance(geometry.choice, CpuBlocktile):
        return dict.fromkeys(("bm", "bn", "bk"), geometry.choice.b)
    return asdict(geometry.choice)


def test_a_result_that_is_zeroed_by_columns_is_refuted_above_both_pipelines() -> None:
    for limits in (CPU, GPU_FULL):
        tree = family_tree(replace(CUBE, zeroed=True, c_strides=(1, 64)), limits, Menu.REFERENCE)
        assert not leaves(tree)
        told = [f"{render_path(path)}: {witness}" for path, witness in refutations(tree)]
        assert told[0] == (
            "fusion=unfused > pipeline=blocktile: a zeroed result needs its row axis outside its "
            "column axis (row_stride = 1, column_stride = 64)"
        )
        assert len(told) == 3


def test_why_a_tail_cannot_be_fused_is_told() -> None:
    tree = family_tree(
        replace(CUBE, epilogue_reason="two steps read the product"), CPU, Menu.REFERENCE
    )
    (witness,) = [why for path, why in refutations(tree) if len(path) == 1]
    assert str(witness) == "fusion needs a tail: two steps read the product"


def test_a_grid_that_is_too_large_is_refuted_leaf_by_leaf() -> None:
    problem = MatmulProblem(m=64, n=64, k=64, batch=(70_000,))
    tree = family_tree(problem, GPU, Menu.REFERENCE)
    assert {spec.batch_grid for spec in leaves(tree)} == {False}
    rule = "workgroups along z must stay within the cap (workgroups = 70000, limit 65535)"
    assert [str(witness) for _, witness in refutations(tree)].count(rule) == 10


def test_a_swizzled_row_of_one_unit_is_refuted() -> None:
    narrow = Precision.FLOAT8_E5M2
    triple = (narrow, narrow, Precision.FLOAT32)
    mma = MmaLimits(
        width=32,
        tile=(8, 8, 8),
        tiles=((triple, (8, 8, 8)),),
        layouts=((triple, StagedLayout.SWIZZLE_16_BYTES),),
    )
    problem = MatmulProblem(m=64, n=64, k=64, a_dtype=narrow, b_dtype=narrow)
    found = leaves(family_tree(problem, HardwareLimits(mma=mma), Menu.REFERENCE))
    # A row of bk numbers of one byte: 16 are one unit, which has nowhere to go.
    assert {spec.bk for spec in found if spec.swizzle} == {32}


def test_depth_is_excluded_for_each_reason_on_its_own() -> None:
    mma = MmaLimits(32, (8, 8, 8), (((F16, F16, F16), (8, 8, 8)),), depths=(2,))
    problem = MatmulProblem(m=20, n=20, k=20, a_dtype=F16, b_dtype=F16, out_dtype=F16)
    tree = family_tree(problem, HardwareLimits(mma=mma), Menu.REFERENCE)
    block = Geometry(kernels.GpuMma(16, 32, 32))
    judged = at(tree, kernels.Fusion("unfused"), Pipeline("tensorized"), block, Twin(2))
    assert isinstance(judged, Excluded)
    assert "padded tiles wait" in str(judged.witness)
    judged = lift_excluded(judged)
    assert isinstance(judged, Excluded)
    assert "not asynchronous" in str(judged.witness)
    assert isinstance(lift_excluded(judged), Child)


def test_a_chunk_packs_only_what_is_not_packed_ahead() -> None:
    menu = replace(REFERENCE, chunk_cap_bytes=64 * 64 * 4, packing_cap_bytes=None)
    ahead = replace(CUBE, m=128, n=256)
    shapes = {
        hoistable: {
            str(decision.kind)
            for path, spec in enumerate_leaves(
                family_tree(replace(ahead, hoistable=frozenset(hoistable)), CPU, menu)
            )
            for decision in decisions_of(path)
            if isinstance(decision, PackingShape) and (spec.bm, spec.bk) == (64, 64)
        }
        for hoistable in ("A", "B")
    }
    # The panel of B, 64 x 256, is too large for a chunk; that of A, 64 x 64, just fits.
    assert "hoisted_grid_pack_rest" not in shapes["A"]
    assert "hoisted_grid_pack_rest" in shapes["B"]


def test_an_unknown_layout_is_refuted_or_left_open_as_the_menu_says() -> None:
    problem = replace(CUBE, b_layout=BLayout.UNKNOWN, hoistable=frozenset({"A"}))
    refused = family_tree(problem, CPU, Menu.REFERENCE)
    asked = family_tree(problem, CPU, replace(REFERENCE, unknown_layouts=True))
    assert not unknowns(refused)
    assert [decisions_of(path)[-1] for path, _ in unknowns(asked)] == [
        TensorizedForm(FormKind.WHOLE_TRIPLE),
        PackingShape(ShapeKind.HOISTED_GRID),
    ]
    plain = family_tree(replace(problem, b_layout=BLayout.PLAIN), CPU, Menu.REFERENCE)
    assert leaves(asked) == leaves(plain)
    assert len(leaves(refused)) < len(leaves(asked))


def test_registers_that_are_predicted_to_spill_leave_a_kernel_open() -> None:
    limits = replace(GPU, max_registers_per_thread=40)
    menu = replace(REFERENCE, predict_spills=True)
    tree = family_tree(CUBE, limits, menu)
    assert [str(why) for _, why in unknowns(tree)] == [
        "registers of a thread are predicted to spill (registers = 48, limit 40)"
    ] * 3
    assert leaves(tree) == leaves(family_tree(CUBE, limits, Menu.REFERENCE))
    few = replace(GPU, registers_per_sm=4096)
    assert [decisions_of(path)[-1].label for path, _ in unknowns(family_tree(CUBE, few, menu))] == [
        "bm64 bn64 bk8 tm4 tn4",
        "bm32 bn32 bk16 tm2 tn2",
    ]


def test_padding_beyond_the_menus_factor_is_excluded() -> None:
    tiny = MatmulProblem(m=20, n=20, k=20)
    menu = replace(REFERENCE, pad_factor=4.0)
    tree = family_tree(tiny, GPU_FULL, menu)
    padded = [spec for spec in leaves(tree) if spec.bk]
    assert {(spec.bm, spec.bn, spec.bk) for spec in padded} <= {
        (32, 32, 8),
        (16, 16, 8),
        (32, 32, 16),
        (16, 32, 32),
        (32, 32, 32),
    }
    assert not [spec for spec in padded if spec.bm == 64]
    everything = leaves(lift_where(tree, lambda _: True))
    assert {*everything} == {
        *leaves(lift_where(family_tree(tiny, GPU_FULL, Menu.REFERENCE), lambda _: True))
    }


def test_tiles_of_the_menu_are_judged_and_replace_the_models() -> None:
    tiles = (RegisterTile(6, 2, 8), RegisterTile(4, 3, 8), RegisterTile(4, 1, 4))
    limits = replace(CPU, vector_registers=16)
    wide = replace(REFERENCE, register_tiles=(*tiles, RegisterTile(7, 2, 8)), predict_spills=True)
    tree = family_tree(CUBE, limits, wide)
    start = (kernels.Fusion("unfused"), Pipeline("tensorized"))
    whole = (TensorizedForm("whole_triple"), kernels.RowBlock(0))
    judged = at(tree, *start, *whole)
    assert isinstance(judged, Child)
    assert isinstance(judged.subtree, Choice)
    verdicts = {tile.label: type(each) for tile, each in judged.subtree.children}
    # 4 x 3 is the model's own, which the first child is.
    assert verdicts == {
        "auto": Child,
        "rm6 rn2 lanes8": Child,
        "rm4 rn1 lanes4": Refuted,
        "rm7 rn2 lanes8": Unknown,
    }


def test_a_twin_of_two_rows_is_proposed_where_the_menu_says() -> None:
    tree = family_tree(CUBE, CPU, replace(REFERENCE, two_row_twin=True))
    tiles = [spec.tile.label for spec in leaves(tree) if spec.tile]
    assert set(tiles) == {"rm4 rn2 lanes8", "rm2 rn5 lanes8"}


def test_roles_are_swapped_where_rows_of_the_transpose_can_be_written() -> None:
    menu = replace(REFERENCE, roles=True)
    by_rows = MatmulProblem(m=128, n=64, k=64)
    tree = family_tree(by_rows, CPU, menu)
    assert isinstance(at(tree, Roles("as_given")), Child)
    assert isinstance(at(tree, Roles("swapped")), Refuted)
    by_columns = replace(by_rows, c_strides=(1, 128), a_strides=(1, 128))
    tree = family_tree(by_columns, CPU, menu)
    assert isinstance(at(tree, Roles("as_given")), Refuted)
    found = leaves(tree)
    assert {spec.swapped for spec in found} == {True}
    # A, stored by columns, is a transposed operand whose rows are side by side: a plain B.
    other = MatmulProblem(m=64, n=128, k=64, c_strides=(128, 1), b_layout=BLayout.TRANSPOSED)
    plain = replace(other, b_layout=BLayout.PLAIN)
    assert len(found) == len(leaves(family_tree(plain, CPU, Menu.REFERENCE)))
    assert seen_by(by_columns, found[0]).n == 128


def test_any_contracted_loop_can_be_the_innermost() -> None:
    menu = replace(REFERENCE, index_orders=True)
    problem = MatmulProblem(m=64, n=64, k=12, outer_k=(16,))
    tree = family_tree(problem, CPU, menu)
    assert tree.level == "k-order"
    assert [decision for decision, _ in tree.children] == [IndexOrder((0, 1)), IndexOrder((1, 0))]
    assert {spec.k_order for spec in leaves(tree)} == {(), (1, 0)}
    # Blocks of 16 divide the other loop only.
    blocked = {spec.k_order for spec in leaves(tree) if spec.pipeline == "blocktile"}
    assert blocked == {(1, 0)}
    for path, spec in enumerate_leaves(tree):
        assert viewed(problem, path) == seen_by(problem, spec)


def test_columns_are_nested_so_that_rows_can_be_written() -> None:
    groups = Groups(
        m=(GroupAxis(64, 64, 0, 4096),),
        n=(GroupAxis(16, 0, 1024, 1), GroupAxis(64, 0, 1, 16)),
        k=(GroupAxis(64, 1, 64, 0),),
    )
    problem = MatmulProblem(m=64, n=1024, k=64, groups=groups, b_layout=BLayout.UNKNOWN)
    tree = family_tree(problem, CPU, replace(REFERENCE, index_orders=True, roles=True))
    start = (Roles("as_given"),)
    assert isinstance(at(tree, *start, IndexOrder((0, 1), "n")), Refuted)
    assert isinstance(at(tree, *start, IndexOrder((1, 0), "n")), Child)
    assert {spec.n_order for spec in leaves(tree)} == {(1, 0)}


def test_panels_of_a_lattice_are_refuted_and_excluded_box_by_box() -> None:
    menu = replace(
        REFERENCE, packed_lattice=CpuPacked(4, 0, 16), packing_cap_bytes=16 * 1024, row_blocks=(0,)
    )
    problem = MatmulProblem(m=64, n=64, k=4096)
    tree = family_tree(problem, CPU, menu)
    lattices = [
        path for path, _ in exclusions(tree) if decisions_of(path)[-1] == Geometry(Lattice())
    ]
    assert len(lattices) == 3
    lifted = lift_lattice(tree)
    inside = [
        spec for path, spec in enumerate_leaves(lifted) if Geometry(Lattice()) in decisions_of(path)
    ]
    assert inside
    assert all((spec.bm + 64) * spec.bk * 4 <= 16 * 1024 for spec in inside)
    boxes = [path for path, _ in exclusions(lifted) if isinstance(path[-1][1], LatticeBox)]
    assert any(is_open(decisions_of(path)[-1]) for path in boxes)
    # 256 depths are some eight levels of halves, not 256 verdicts, where all are excluded.
    assert len(boxes) < 2 * 16 * 3 * 8


def is_open(decision: Decision) -> bool:
    return isinstance(decision, LatticeBox) and decision.lo < decision.hi


def test_nothing_is_made_below_a_node_that_nobody_looks_into() -> None:
    huge = MatmulProblem(m=10**12, n=10**12, k=10**12)
    tree = lift_lattice(family_tree(huge, GPU_TIGHT, Menu.REFERENCE))
    judged = at(tree, kernels.Fusion("unfused"), Pipeline("tensorized"), Geometry(Lattice()))
    assert isinstance(judged, Child)
    assert isinstance(judged.subtree, Choice)
    assert [decision.label for decision, _ in judged.subtree.children] == [
        "bm 8..500000000000",
        "bm 500000000008..1000000000000",
    ]


def test_a_lifted_box_is_without_the_cap_all_the_way_down() -> None:
    menu = replace(REFERENCE, packed_lattice=CpuPacked(16, 0, 16), packing_cap_bytes=8 * 1024)
    lifted = lift_lattice(family_tree(CUBE, CPU, menu))
    found = [
        at(lifted, *decisions_of(path))
        for path, _ in exclusions(lifted)
        if is_open(decisions_of(path)[-1])
    ]
    below = [lift_excluded(box) for box in found]
    opened = [judged.subtree for judged in below if isinstance(judged, Child)]
    assert 0 < len(opened) == len(found)
    assert not any(exclusions(tree) for tree in opened)
    assert any(leaves(tree) for tree in opened)


def test_panels_that_take_all_of_the_cap_are_proposed() -> None:
    panels = CpuPacked(16, 0, 16)
    n_bytes = (16 * 16 + 16 * 64) * 4
    start = (kernels.Fusion("unfused"), Pipeline("tensorized"), TensorizedForm("packed"))
    way = (*start, PackingShape("serial"), Geometry(panels))
    for cap, verdict in ((n_bytes, Child), (n_bytes - 1, Excluded)):
        menu = replace(REFERENCE, packed=(panels,), packing_cap_bytes=cap)
        assert isinstance(at(family_tree(CUBE, CPU, menu), *way), verdict)


def test_padding_is_held_against_the_exact_volume() -> None:
    # 16 x 16 blocks of 8 cover 20 cubed with 32 x 32 x 24 elements.
    tiny, block = MatmulProblem(m=20, n=20, k=20), GpuBlocktile(16, 16, 8, 4, 4)
    start = (kernels.Fusion("unfused"), Pipeline("blocktile"), Geometry(block))
    exact = 32 * 32 * 24 / 20**3
    for factor, verdict in ((exact, Child), (exact * 0.999, Excluded)):
        menu = replace(REFERENCE, pad_factor=factor)
        assert isinstance(at(family_tree(tiny, GPU, menu), *start), verdict)


def test_swapped_roles_are_priced_as_the_product_that_they_compute() -> None:
    mixed = MatmulProblem(m=64, n=64, k=64, a_dtype=F16, c_strides=(1, 64))
    tree = family_tree(mixed, GPU, replace(REFERENCE, roles=True))
    found = enumerate_leaves(tree)
    assert found
    for path, spec in found:
        # B, of 4 bytes, is the first operand now.
        assert path_floor(path, mixed, GPU) == 2 * (spec.bm * 4 + spec.bn * 2) * spec.bk


@pytest.mark.parametrize("limits", [CPU, GPU_FULL])
def test_a_menu_that_proposes_nothing_makes_a_tree_without_leaves(limits: HardwareLimits) -> None:
    nothing = Menu(
        blocktiles=(), mma_blocks=(), mma_lattice=False, cpu_blocks=(), row_blocks=(), packed=()
    )
    tree = family_tree(CUBE, limits, nothing)
    assert not leaves(lift_where(tree, lambda _: True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CUBE, "sm_90"), "limits is 'sm_90'; expected a HardwareLimits"),
        (((64, 64, 64), CPU), r"problem is \(64, 64, 64\); expected a MatmulProblem"),
        ((CUBE, CPU, "default"), "menu is 'default'; expected a Menu"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        family_tree(*arguments)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"blocktiles": ((64, 64, 8, 4, 4),)}, r"blocktiles of a menu has .*; expected GpuBlockt"),
        ({"mma_blocks": ((16,),)}, r"mma_blocks of a menu has \(16,\); expected pairs \(bm, bk\)"),
        ({"mma_blocks": 16}, "mma_blocks of a menu is 16; expected a list"),
        ({"cpu_blocks": ("8",)}, "cpu_blocks of a menu has '8'; expected ints"),
        ({"packed": 5}, "packed of a menu is 5; expected a list"),
        ({"packed_lattice": 5}, "packed_lattice of a menu is 5; expected one of: CpuPacked, None"),
        ({"packing_cap_bytes": "1KiB"}, "packing_cap_bytes of a menu is '1KiB'; expected one of: "),
        ({"pad_factor": True}, "pad_factor of a menu is True; expected one of: float, int, None"),
        ({"numerics": None}, "numerics of a menu is None; expected one of: Numerics"),
        ({"register_tiles": (4,)}, "register_tiles of a menu has 4; expected RegisterTiles"),
        ({"roles": 1}, "roles of a menu is 1; expected one of: bool"),
    ],
)
def test_a_menu_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        Menu(**fields)


def test_every_public_name_is_there() -> None:
    assert all(hasattr(kernels, name) for name in kernels.__all__)
