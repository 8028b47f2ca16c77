"""Limits at their ends: many blocks, small rooms, and limits that need no planning at all."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest

import einbound as eb


def test_a_plan_of_many_blocks_keeps_few_objects() -> None:
    shapes = ((10**6, 6), (6, 1000), (6,))
    path, loops = [(0, 2), (0, 1)], [eb.Loop("b", node=1, batch_size=2)]
    tracemalloc.start()
    try:
        plan = eb.Plan.build("ab,bc,b->ac", *shapes, path=path, loops=loops, buffer_bytes=4096)
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.workspace_bytes > 0
    assert kept_bytes < 1 << 20


def test_extents_beyond_any_memory_are_planned() -> None:
    plan = eb.plan("abcd,cdef,efgh->abgh", *[(10_000,) * 4] * 3, workspace_limit="1GB")
    assert plan.macs == 2 * 10**24
    assert plan.workspace_bytes <= 10**9


def test_the_room_that_stays_free_is_a_small_part_of_a_small_room() -> None:
    sizes = dict.fromkeys("ijkl", 20) | dict.fromkeys("abcd", 60)
    text = "Pkc,Pld,ic,jd,ka,lb->ijab"
    shapes = [tuple(240 if x == "P" else sizes[x] for x in term) for term in text[:-6].split(",")]
    free = eb.plan(text, *shapes)
    limit = free.operand_bytes + free.result_bytes + 80_000
    plan = eb.plan(text, *shapes, memory_limit=limit)
    # With 64 KiB of the 80,000 bytes left free the loops would take 49,200 calls.
    assert plan.meter().calls < 10_000


@pytest.mark.parametrize("limit", ["memory_limit", "workspace_limit"])
def test_the_smallest_peak_is_no_more_than_the_peak_without_a_limit(limit: str) -> None:
    text = "ced,a,ggg,,cbdu,d,gc->cdba"
    shapes = [(2, 1, 2), (4,), (2, 2, 2), (), (1, 2, 2, 1), (2,), (2, 2)]
    free = eb.plan(text, *shapes)
    used = free.peak_bytes if limit == "memory_limit" else free.workspace_bytes
    with pytest.raises(eb.BudgetError) as refused:
        eb.plan(text, *shapes, **{limit: 0})  # type: ignore[arg-type]
    assert refused.value.smallest_bytes <= used


@pytest.mark.parametrize("n", [20, 40])
def test_a_long_chain_with_room_for_one_row_repeats_nothing(n: int) -> None:
    labels = [chr(256 + k) for k in range(n + 1)]
    terms = [a + b for a, b in pairwise(labels)]
    text = f"{','.join(terms)}->{labels[0]}{labels[-1]}"
    shapes = [(8, 8)] * n
    plan = eb.plan(text, *shapes, workspace_limit=600)
    # Two rows of 8 elements at a time, from the first matrix to the last.
    assert plan.macs == eb.plan(text, *shapes).macs
