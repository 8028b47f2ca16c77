"""Chunks and the workers that take them."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from einbound.kernels.shares import Chunks, shared

UNITS, LANES = (4, 48), 8

sizes = st.integers(1, 400)


@st.composite
def drawn(draw: st.DrawFn) -> Chunks:
    """Chunks of blocks that are whole register tiles, or all of an extent."""
    m, n = draw(sizes), draw(sizes)
    bm = min(m, draw(st.integers(1, 40)) * UNITS[0])
    bn = min(n, draw(st.integers(1, 8)) * UNITS[1])
    return Chunks(m, n, bm, bn, draw(st.integers(1, 3)))


def extents(chunks: Chunks) -> list[tuple[int, int]]:
    """Rows and columns of every chunk, in order."""
    return [
        (min(chunks.bm, chunks.m - row), min(chunks.bn, chunks.n - column))
        for _ in range(chunks.n_batch)
        for column in range(0, chunks.n, chunks.bn)
        for row in range(0, chunks.m, chunks.bm)
    ]


@given(drawn())
def test_elements_before_a_chunk_are_those_of_all_chunks_before(chunks: Chunks) -> None:
    found = extents(chunks)
    assert len(found) == chunks.number
    for stop in range(chunks.number + 1):
        assert chunks.elements(stop) == sum(rows * columns for rows, columns in found[:stop])


@given(drawn(), st.integers(1, 9))
def test_every_chunk_has_one_worker_and_none_waits_while_there_are_chunks(
    chunks: Chunks, n_workers: int
) -> None:
    cuts = chunks.cuts(n_workers)
    assert (cuts[0], cuts[-1], len(cuts)) == (0, chunks.number, n_workers + 1)
    least = 1 if chunks.number >= n_workers else 0
    assert all(stop - first >= least for first, stop in pairwise(cuts))


@given(drawn())
def test_no_worker_has_more_than_its_share_and_half_a_chunk_more_at_each_end(
    chunks: Chunks,
) -> None:
    cuts, everything = chunks.cuts(2), chunks.elements(chunks.number)
    for first, stop in pairwise(cuts):
        has = chunks.elements(stop) - chunks.elements(first)
        assert chunks.number == 1 or has <= everything / 2 + chunks.bm * chunks.bn / 2


@given(drawn(), st.integers(1, 9))
def test_shared_chunks_are_finer_keep_tiles_whole_and_are_no_more_work(
    chunks: Chunks, n_workers: int
) -> None:
    found = shared(chunks, n_workers, UNITS, LANES)
    assert found.number >= n_workers or found == chunks
    assert found.bm <= chunks.bm
    assert found.bn <= chunks.bn
    assert found.bm % UNITS[0] == 0 or found.bm == chunks.m
    assert found.bn % UNITS[1] == 0 or found.bn == chunks.n
    assert found.busiest(n_workers, LANES) <= chunks.busiest(n_workers, LANES)


def test_a_narrow_last_block_leaves_no_worker_with_more_than_others() -> None:
    # What halving a block of 1024 columns in whole tiles gives: 480, 480 and 64 columns.
    chunks = Chunks(m=1024, n=1024, bm=344, bn=480)
    found = shared(chunks, 2, UNITS, LANES)
    share = chunks.busiest(1, LANES) / 2
    assert chunks.busiest(2, LANES) > 1.05 * share
    assert found.busiest(2, LANES) < 1.02 * share


def test_as_many_chunks_as_workers_or_very_many_stay_as_they_are() -> None:
    two, many = Chunks(512, 512, 256, 512), Chunks(512, 512, 4, 480)
    assert shared(two, 2, UNITS, LANES) is two
    assert shared(many, 2, UNITS, LANES) is many
