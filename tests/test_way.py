"""The choice of a way: no copy where none is needed, and buffers within their bound."""

from __future__ import annotations

import numpy as np
import pytest

from einbound.step.blocked import Core, Way
from einbound.step.pricing import ACCUMULATE_BYTES, DEFAULT_BUFFER_BYTES, LONG_SUM_TERMS
from einbound.step.view import View
from einbound.step.way import pair_way, sum_way
from strided import view

LADDER = {"P": 300, "a": 80, "b": 80, "c": 80, "d": 80, "i": 20, "j": 20, "Q": 300, "k": 20}


def way_of(text: str, memory: str | None = None, **options: object) -> Way:
    """The way of a step on arrays stored in the orders `memory`."""
    sizes = {**LADDER, **options.pop("sizes", {})}  # type: ignore[dict-item]
    dtype = str(options.pop("dtype", "f8"))
    work = np.dtype(str(options.pop("work", dtype)))
    parts = text.replace("->", ",").split(",")
    stored = (memory or text).replace("->", ",").split(",")
    a, b, c = (view(part, order, sizes, dtype) for part, order in zip(parts, stored, strict=True))
    settings = {"accumulate": False, "buffer_bytes": DEFAULT_BUFFER_BYTES, **options}
    return pair_way(a, b, c, work, **settings)


@pytest.mark.parametrize(
    "text",
    [
        "Pac,Pbd->acbd",
        "Pac,Pbd->abcd",
        "abcd,ijcd->ijab",
        "cP,ijcd->ijdP",
        "ijdP,dQ->ijPQ",
        "ijPQ,bQ->ijPb",
        "aP,ijPb->ijab",
        "Pab,Pac->Pbc",
        "ijPQ,PQ->ijPQ",
        "ij,j->i",
        "j,ij->i",
        "abcd,abcd->",
    ],
)
def test_no_buffer_where_views_are_enough(text: str) -> None:
    way = way_of(text)
    assert way.workspace_bytes == 0
    assert not way.blocks
    assert not way.buffers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Pac,Pbd->acbd", "matmul 6400x6400x300, on views"),
        ("Pac,Pbd->abcd", "matmul 80x80x300, 6400 in batch, on views"),
        ("abcd,ijcd->ijab", "matmul 6400x400x6400, on views"),
        ("ijPQ,PQ->ijPQ", "multiply 400x90000"),
    ],
)
def test_a_way_tells_what_it_does(text: str, expected: str) -> None:
    assert way_of(text).describe() == expected


def test_a_split_sum_is_packed_or_looped_within_the_bound() -> None:
    way = way_of("acbd,ijcd->ijab", sizes={"a": 5})
    assert way.core is Core.MATMUL
    assert 0 < way.workspace_bytes <= 2 * DEFAULT_BUFFER_BYTES
    looped = way_of("kiac,kjcb->ijab")
    assert looped.blocks_sums
    assert not looped.packs
    assert 0 < looped.workspace_bytes <= 2 * DEFAULT_BUFFER_BYTES
    packed = way_of("kiac,kjcb->ijab", sizes={"i": 2, "a": 8, "c": 3})
    assert packed.packs
    assert packed.describe().startswith("pack ")


def test_degenerate_matrices_are_avoided() -> None:
    # The sum over d alone has unit stride, but leaves matrices of 80x1x1.
    way = way_of("abcd,ijcd->ijab", "abdc,ijcd->ijab", sizes={"a": 20})
    m, n, k = (
        np.prod([way.pair.axes[i].extent for i in run])
        for run in (way.form.rows, way.form.columns, way.form.sums)
    )
    assert min(m, n, k) >= 20


@pytest.mark.parametrize("bound", [64, 1000, 4096, 1 << 16, 1 << 20, 1 << 24])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Pac,Pbd->acbd", {}),
        ("kiac,kjcb->ijab", {}),
        ("abP,acP->bcP", {}),
        ("acbd,ijcd->ijab", {"dtype": "c16"}),
        ("Pac,Pbd->abcd", {"dtype": "f2", "work": "f4"}),
        ("iajb,Qib->ajQ", {"dtype": "i2", "work": "f8"}),
    ],
)
def test_three_bounds_hold_all_buffers(
    text: str, options: dict[str, str], accumulate: bool, bound: int
) -> None:
    sizes = dict.fromkeys(LADDER, 12)
    way = way_of(text, accumulate=accumulate, buffer_bytes=bound, sizes=sizes, **options)
    assert way.workspace_bytes <= 3 * bound
    assert all(buffer.n_bytes <= bound for buffer in way.buffers)


def test_an_addition_goes_through_a_block_of_constant_size() -> None:
    way = way_of("Pac,Pbd->acbd", accumulate=True)
    assert way.workspace_bytes <= ACCUMULATE_BYTES
    assert way.product is not None
    assert not way.always
    small = way_of("Pac,Pbd->acbd", accumulate=True, sizes=dict.fromkeys(LADDER, 4))
    assert small.workspace_bytes == 4**4 * 8


def test_an_addition_of_long_sums_goes_through_blocks_as_large_as_any_buffer() -> None:
    sizes = {"i": 144, "k": LONG_SUM_TERMS, "j": 5184}
    way = way_of("ik,kj->ij", accumulate=True, sizes=sizes)
    assert ACCUMULATE_BYTES < way.workspace_bytes <= DEFAULT_BUFFER_BYTES
    shorter = way_of("ik,kj->ij", accumulate=True, sizes=sizes | {"k": LONG_SUM_TERMS - 1})
    assert shorter.workspace_bytes <= ACCUMULATE_BYTES


def test_blocks_of_an_addition_take_batch_items_before_they_cut_matrices() -> None:
    way = way_of("aP,ijPb->ijab", accumulate=True)
    assert way.blocks
    assert {block.axis for block in way.blocks} <= set(way.form.batch)
    one = way_of("ik,kj->ij", accumulate=True, sizes={"i": 2000, "j": 2000, "k": 64})
    widths = {block.axis: block.width for block in one.blocks}
    assert min(widths.values()) >= 50


def test_a_destination_without_unit_stride_is_filled_through_a_buffer() -> None:
    sizes = {**LADDER, "z": 2}
    a, b = view("Pa", "Pa", sizes), view("Pb", "Pb", sizes)
    c = view("ab", "abz", sizes)
    way = pair_way(a, b, c, np.dtype("f8"), accumulate=False, buffer_bytes=DEFAULT_BUFFER_BYTES)
    assert way.always
    assert way.workspace_bytes == 80 * 80 * 8


def test_operands_of_another_type_are_packed() -> None:
    sizes = dict.fromkeys(LADDER, 16)
    a, b, c = (view(x, x, sizes, t) for x, t in (("Pac", "f4"), ("Pbd", "f8"), ("acbd", "f8")))
    way = pair_way(a, b, c, np.dtype("f8"), accumulate=False, buffer_bytes=DEFAULT_BUFFER_BYTES)
    assert [buffer.side for buffer in way.packs] == [0]
    assert way.workspace_bytes == 16**3 * 8
    assert way.copied_bytes == 16**3 * 8


def test_einsum_is_only_taken_where_its_hidden_buffers_fit() -> None:
    text, sizes = "ijcP,cP->ijP", dict.fromkeys(LADDER, 80)
    free = way_of(text, sizes=sizes)
    assert free.core is Core.EINSUM
    assert free.workspace_bytes == free.hidden_bytes == 3 * 8192 * 8
    assert way_of(text, sizes=sizes, buffer_bytes=1 << 14).core is not Core.EINSUM


@pytest.mark.parametrize("text", ["ac,cb->ab", "a,b->ab", "ab,ab->ab"])
@pytest.mark.parametrize("empty", ["a", "c"])
def test_empty_extents_need_nothing(text: str, empty: str) -> None:
    way = way_of(text, sizes={empty: 0})
    if empty in text:
        assert way.core is Core.FILL
    assert way.workspace_bytes == 0


def test_the_same_layouts_give_the_same_way() -> None:
    first, second = way_of("kiac,kjcb->ijab"), way_of("kiac,kjcb->ijab")
    assert first == second
    assert hash(first) == hash(second)


def test_many_indices_of_extent_two_are_chosen_for_without_trying_all_subsets() -> None:
    # 2**30 subsets would not end; every index is apart from every other in some array.
    indices = tuple(range(30))
    extents = (2,) * 20
    a = View.contiguous(indices[:20], extents, np.dtype("f4"))
    b = View.contiguous(tuple(reversed(indices[10:])), extents, np.dtype("f4"))
    out = indices[:10] + indices[20:]
    c = View.contiguous(out[::2] + out[1::2], extents, np.dtype("f4"))
    way = pair_way(a, b, c, np.dtype("f4"), accumulate=False, buffer_bytes=DEFAULT_BUFFER_BYTES)
    assert way.workspace_bytes <= 3 * DEFAULT_BUFFER_BYTES


def test_a_sum_of_one_operand_writes_in_place_unless_it_must_be_rounded() -> None:
    sizes = dict.fromkeys(LADDER, 8)
    a = view("abPQ", "abPQ", sizes)
    bound = {"buffer_bytes": DEFAULT_BUFFER_BYTES}
    direct = sum_way(a, view("aQ", "aQ", sizes), np.dtype("f8"), accumulate=False, **bound)
    assert (direct.core, direct.workspace_bytes) == (Core.REDUCE, 0)
    rounded = sum_way(a, view("aQ", "aQ", sizes, "f4"), np.dtype("f8"), accumulate=False, **bound)
    assert rounded.workspace_bytes == 8 * 8 * 8
    added = sum_way(a, view("aQ", "aQ", sizes), np.dtype("f8"), accumulate=True, **bound)
    assert added.workspace_bytes == 8 * 8 * 8
    copied = sum_way(a, view("QPba", "QPba", sizes), np.dtype("f8"), accumulate=True, **bound)
    assert (copied.core, copied.workspace_bytes) == (Core.COPY, 0)


def test_copies_and_additions_are_told() -> None:
    assert way_of("Pac,Pbd->acbd", accumulate=True).describe() == (
        "matmul 64x800x300 in 800 blocks, then add through 400 KiB"
    )
    assert way_of("ik,kj->ij", dtype="f2", work="f4", sizes={"j": 20}).describe() == (
        "pack a (1.56 KiB), then pack b (1.56 KiB), then matmul 20x20x20, "
        "then copy through 1.56 KiB"
    )


def test_a_batch_begins_with_the_operand_that_is_costly_to_fetch_again() -> None:
    # In the order of the destination, all 20 MB of Pac come from a far cache once per k.
    sizes = {"P": 320, "k": 24, "i": 24, "a": 90, "c": 90}
    way = way_of("Pki,Pac->kcai", sizes=sizes)
    outer, inner = way.form.batch
    assert (outer, inner) == (0, 2)
    assert [(block.axis, block.width) for block in way.blocks] == [(inner, 1)]
    assert not way.buffers
    assert way.describe() == "matmul 24x90x320, 24 in batch in 90 blocks, on views"


def test_a_batch_that_stays_in_the_cache_is_one_call() -> None:
    way = way_of("Pki,Pac->kcai", sizes={"P": 32, "k": 8, "i": 8, "a": 9, "c": 9})
    assert len(way.form.batch) == 2
    assert not way.blocks
