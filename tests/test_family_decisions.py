"""Decisions: words, levels, labels, order and text."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.errors import KernelError
from einbound.kernels.decision_json import from_json, to_json
from einbound.kernels.decisions import (
    Axis,
    Batch,
    CpuBlocktile,
    CpuPacked,
    Decision,
    Fusion,
    FusionKind,
    Geometry,
    GpuBlocktile,
    GpuMma,
    Group,
    IndexOrder,
    Lattice,
    LatticeBox,
    Packing,
    PackingShape,
    Pipeline,
    RegisterTile,
    Roles,
    RowBlock,
    TensorizedForm,
    Twin,
    TwinKind,
    render_path,
)
from einbound.kernels.menu import Menu

#: One of each, in their total order, with its level and its label.
TOLD: list[tuple[Decision, str, str]] = [
    (Roles("as_given"), "roles", "as-given"),
    (Roles("swapped"), "roles", "swapped"),
    (IndexOrder((0, 1), "n"), "n-order", "n0 n1"),
    (IndexOrder((0, 1)), "k-order", "k0 k1"),
    (IndexOrder((1, 0)), "k-order", "k1 k0"),
    (Fusion("unfused"), "fusion", "unfused"),
    (Fusion("fused"), "fusion", "fused"),
    (Pipeline("blocktile"), "pipeline", "blocktile"),
    (Pipeline("tensorized"), "pipeline", "tensorized"),
    (Batch("serial"), "batch", "batch-serial"),
    (Batch("grid"), "batch", "batch-grid"),
    (Packing("in_kernel"), "packing", "in-kernel"),
    (Packing("hoisted"), "packing", "hoisted"),
    (TensorizedForm("whole_triple"), "tensorized-form", "whole-triple"),
    (TensorizedForm("packed"), "tensorized-form", "packed"),
    (RowBlock(0), "row-block", "bm0"),
    (RowBlock(64), "row-block", "bm64"),
    (PackingShape("serial"), "packing-shape", "serial"),
    (PackingShape("hoisted_grid_pack_rest"), "packing-shape", "hoisted-grid-pack-rest"),
    (Geometry(GpuBlocktile(64, 64, 8, 4, 4)), "geometry", "bm64 bn64 bk8 tm4 tn4"),
    (Geometry(GpuMma(16, 32, 0)), "geometry", "bm16 bn32 bk0"),
    (Geometry(CpuBlocktile(16)), "geometry", "b16"),
    (Geometry(CpuPacked(64, 0, 256)), "geometry", "bm64 bn0 bk256"),
    (Geometry(CpuPacked(128, 128, 128)), "geometry", "bm128 bn128 bk128"),
    (Geometry(Lattice()), "geometry", "lattice"),
    (LatticeBox("bm", 8, 8), "bm", "bm=8"),
    (LatticeBox("bm", 8, 32), "bm", "bm 8..32"),
    (LatticeBox("bk", 8, 16), "bk", "bk 8..16"),
    (Twin("plain"), "twin", "plain"),
    (Twin("swizzled"), "twin", "swizzled"),
    (Twin(2), "twin", "depth2"),
    (RegisterTile(), "register-tile", "auto"),
    (RegisterTile(4, 2, 8), "register-tile", "rm4 rn2 lanes8"),
]
DECISIONS = [decision for decision, _, _ in TOLD]


@pytest.mark.parametrize(("decision", "level", "label"), TOLD)
def test_a_decision_tells_its_level_and_its_label(
    decision: Decision, level: str, label: str
) -> None:
    assert (decision.level, decision.label) == (level, label)
    assert str(decision) == label


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_comes_back_from_its_text(decision: Decision) -> None:
    again = from_json(to_json(decision))
    assert again == decision
    assert hash(again) == hash(decision)
    assert type(again) is type(decision)


def test_decisions_are_totally_ordered_whatever_they_are() -> None:
    mixed = random.Random(0).sample(DECISIONS, len(DECISIONS))
    assert sorted(mixed) == DECISIONS
    for first, second in itertools.combinations(DECISIONS, 2):
        assert first < second
        assert second > first
        assert first <= second
        assert not second <= first
        assert second >= first
        assert first != second


def test_words_become_members_at_once() -> None:
    assert Fusion("fused").kind is FusionKind.FUSED
    assert Twin("plain").kind is TwinKind.PLAIN
    assert LatticeBox("bk", 8, 8).axis is Axis.BK
    assert IndexOrder((0,), "m").group is Group.M
    assert Fusion("fused") == Fusion(FusionKind.FUSED)
    assert RegisterTile("auto") == RegisterTile()
    assert hash(IndexOrder([1, 0])) == hash(IndexOrder((1, 0)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Fusion, "melted", "Fusion is 'melted'; expected one of unfused, fused"),
        (Batch, 3, "Batch is 3; expected one of serial, grid"),
        (Twin, "depth2", "Twin, where it is no depth, is 'depth2'; expected one of plain, swiz"),
        (Twin, 0, "depth of Twin is 0; expected a whole number of at least 1"),
        (RowBlock, -1, "bm of RowBlock is -1; expected a whole number of at least 0"),
        (CpuBlocktile, True, "b of CpuBlocktile is True; expected a whole number"),
        (Geometry, 16, "Geometry is 16; expected a GpuBlocktile, GpuMma, CpuBlocktile, CpuPack"),
        (IndexOrder, 5, "IndexOrder is 5; expected every place from 0"),
        (IndexOrder, ("a", 0), r"IndexOrder is \('a', 0\); expected every place from 0"),
        (IndexOrder, (0, 2), r"IndexOrder is \(0, 2\); expected every place from 0"),
    ],
)
def test_what_is_no_decision_is_refused(make: Any, given: object, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        make(given)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GpuMma(0, 32, 0), "bm of GpuMma is 0; expected a whole number of at least 1"),
        (lambda: GpuBlocktile(8, 8, 0, 4, 4), "bk of GpuBlocktile is 0"),
        (lambda: CpuPacked(16, -1, 16), "bn of CpuPacked is -1; expected .* at least 0"),
        (lambda: LatticeBox("bm", 16, 8), "hi of LatticeBox is 8; expected .* at least 16"),
        (lambda: LatticeBox("bn", 8, 8), "axis of LatticeBox is 'bn'; expected one of bm, bk"),
        (lambda: RegisterTile("auto", 2, 8), "rm of RegisterTile is 'auto'; expected a whole"),
        (lambda: RegisterTile(4, None, 8), "rn of RegisterTile is None; expected a whole"),
        (lambda: IndexOrder((0,), "j"), "group of IndexOrder is 'j'; expected one of m, n, k"),
    ],
)
def test_sizes_that_are_none_are_refused(make: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        make()


def test_a_geometry_has_no_fields_that_it_does_not_use() -> None:
    mma: Any = GpuMma
    with pytest.raises(TypeError, match="tm"):
        mma(bm=16, bn=32, bk=0, tm=4)
    with pytest.raises(KernelError, match="GpuMma has the fields bm, bn, bk, tm; expected bm, bn"):
        from_json('{"is": "GpuMma", "bm": 16, "bn": 32, "bk": 0, "tm": 4}')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text of a decision is no JSON"),
        ('{"bm": 16}', 'has no known class under "is"; known: Roles, '),
        ('{"is": "RowBlock"}', "RowBlock has the fields none; expected bm"),
        ('{"is": "GpuMma", "bm": 16, "bn": 32, "bk": 0}', "is no decision; expected one of Roles"),
        ("7", "7 is no decision"),
        (None, "the text of a decision is no JSON"),
        ("[" * 100_000, "the text of a decision is no JSON"),
        ('{"is": ["Twin"]}', 'has no known class under "is"'),
    ],
)
def test_text_that_is_no_decision_is_refused(text: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        from_json(text)


@given(st.lists(st.sampled_from(DECISIONS)))
def test_a_path_is_rendered_level_by_level(decisions: list[Decision]) -> None:
    path = [(decision.level, decision) for decision in decisions]
    told = render_path(path).split(" > ") if decisions else []
    assert told == [f"{decision.level}={decision.label}" for decision in decisions]


def test_the_reference_menu_is_what_a_menu_is_by_itself() -> None:
    assert Menu() == Menu.REFERENCE
    assert hash(Menu.REFERENCE) == hash(Menu())
