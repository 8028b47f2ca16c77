"""Chunks and the workers that take them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einbound.kernels.kinds import PipelineKind
from einbound.kernels.member import Form, Member
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.shares import Chunks, shared
from einbound.kernels.spec import KernelSpec
from einbound.kernels.task import task_of
from einbound.machine.precision import Precision
from native_objects import Operands, needs_compiler, run

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


@needs_compiler
@pytest.mark.parametrize("form", [Form.PACKED, Form.IN_PLACE])
def test_the_bits_of_a_scaled_sum_are_those_of_one_worker(form: Form) -> None:
    number, draw = Precision.FLOAT64, np.random.default_rng(0)
    member = Member(form=form, dtype=number, rm=4, rn=2, lanes=4)
    spec = KernelSpec(
        gpu=False,
        pipeline=PipelineKind.TENSORIZED,
        mma=True,
        packed=form is Form.PACKED,
        bm=64,
        bn=64,
        bk=7,
    )
    problem = MatmulProblem(m=67, n=61, k=29, a_dtype=number, b_dtype=number, out_dtype=number)
    a, b, before = (draw.standard_normal(shape) for shape in ((67, 29), (29, 61), (67, 61)))
    found, cut = set(), set()
    for n_workers in (1, 2, 3, 5):
        task = task_of(problem, spec, member, accumulate=True, alpha=-1 / 3, n_workers=n_workers)
        c = before.copy()
        run(member, task, Operands(a, b, c, c), task.cuts)
        found.add(c.tobytes())
        cut.add(task.n_chunks)
    assert len(cut) > 2
    assert len(found) == 1


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
