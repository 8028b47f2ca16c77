"""Forests planned within limits: the values are right, the limit holds, fusing never costs."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.api.forests import Ready, ready_forest
from einbound.api.limits import Limits
from einbound.backends.numpy_ops import NumpyOps
from einbound.forest.blocks import Block, Together, members
from einbound.forest.forest import Forest, Kind
from einbound.forest.placement import Keeping
from einbound.plan.policy import BatchPolicy, BatchScheduler
from einbound.run.allocator import Allocator
from einbound.run.forest import ForestExecutable
from einbound.run.walk import walk
from einbound.schedule.cells import Cell
from einbound.space.placement import Inline, Materialize, StageAt
from forests import direct, random_forest, random_leaves, views
from sums import written

FLOAT = np.dtype(float)
SCHEDULERS = tuple(BatchScheduler)


def ready(forest: Forest, beside_bytes: int | None, **wish: object) -> Ready:
    """A forest planned within some bytes beside its leaves."""
    leaves = views([np.empty(v.shape) for v in forest.values if v.kind is Kind.LEAF])
    held = sum(leaf.nbytes for leaf in leaves)
    limit = None if beside_bytes is None else held + beside_bytes
    return ready_forest(forest, leaves, FLOAT, Limits(memory_bytes=limit), **wish)  # type: ignore[arg-type]


def run(made: Ready, leaves: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    kept = () if made.prelude is None else made.prelude.run(leaves)
    return made.main.run([*leaves, *kept])


def taken_bytes(made: ForestExecutable, leaves: list[np.ndarray]) -> int:
    """Workspace that a run takes from an allocator."""
    allocator = Allocator(1 << 40)
    allocator.arena = np.empty(1 << 22, np.uint8)
    allocator.holes = [(0, 1 << 22)]

    def make(cell: Cell) -> np.ndarray:
        return np.empty(made.results[cell.number].extents)

    walk(
        made.lowered.schedule,
        NumpyOps(made.kernels, made.work, allocator.take, allocator.give, make),
        leaves,
    )
    return allocator.peak_bytes


def loops(block: Block) -> list[Together]:
    found = []
    for item in block:
        if isinstance(item, Together):
            found += [item, *loops(item.body)]
    return found


@given(st.integers(0, 2**32), st.sampled_from([4, 3, 2]))
@settings(max_examples=10, deadline=None)
def test_planned_forests_keep_their_limit_and_their_values(seed: int, quarters: int) -> None:
    forest = random_forest(random.Random(seed))
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    leaves = random_leaves(forest, seed)
    limit = ready(forest, None).planned.draft.space_bytes * quarters // 4
    macs = {}
    for scheduler in SCHEDULERS:
        made = ready(forest, limit, scheduler=scheduler)
        if not made.planned.fits:
            assert made.planned.draft.space_bytes > limit
            continue
        macs[scheduler] = made.planned.draft.macs
        metered = made.main.metered
        assert metered.space_bytes <= limit
        for mine, theirs in zip(run(made, leaves), direct(forest, leaves), strict=True):
            assert np.array_equal(mine, theirs)
        hidden = max(made.main.hidden.values(), default=0)
        taken = taken_bytes(made.main, leaves)
        assert metered.workspace_bytes - hidden <= taken <= metered.workspace_bytes
    if BatchScheduler.FOREST_DESCENT in macs:
        assert macs[BatchScheduler.ORDERED] <= macs[BatchScheduler.FOREST_DESCENT]


def ladder(n: int = 8) -> Forest:
    """A large value V that never changes, read twice by what does."""
    shapes = {"B": (40, n, n), "T": (6, n, n), "S": (5, n, n)}
    equations = {
        "V": [(1.0, "Pac,Pbd->abcd", ("B", "B"))],
        "R": [(1.0, "abcd,icd->iab", ("V", "T"))],
        "Q": [(1.0, "abcd,icd->iab", ("V", "S"))],
    }
    return written(equations, shapes, targets=("R", "Q"), volatile=("T", "S"))


V_BYTES = 8 * 8**4
RESULT_BYTES = 8 * 11 * 8**2
#: Multiply-adds that make V, and those that read it.
MADE, READ = 40 * 8**4, 11 * 8**4


def test_a_value_read_twice_is_staged_in_one_loop_around_both_readers() -> None:
    forest = ladder()
    (value,) = (v.number for v in forest.values if v.name == "V")
    apart, fused = (ready(forest, V_BYTES // 2, scheduler=s) for s in SCHEDULERS)
    assert [type(d) for _, d in apart.planned.path] == [Inline]
    assert [type(d) for _, d in fused.planned.path] == [StageAt]
    assert loops(apart.main.plan.block) == []
    (loop,) = loops(fused.main.plan.block)
    makers, readers = forest.producers[value], forest.readers[value]
    assert {m.production for m in members(loop.body)} == {*makers, *readers}
    assert fused.planned.draft.macs == MADE + READ
    assert apart.planned.draft.macs == 2 * MADE + READ


def test_the_trips_of_a_common_loop_are_as_few_as_fit() -> None:
    (wide,) = loops(ready(ladder(), RESULT_BYTES + V_BYTES * 3 // 4).main.plan.block)
    (narrow,) = loops(ready(ladder(), RESULT_BYTES + V_BYTES // 3).main.plan.block)
    assert 8 > wide.width > narrow.width


def test_two_loops_are_nested_where_one_slice_is_too_large() -> None:
    forest = ladder()
    made = ready(forest, RESULT_BYTES + V_BYTES // 16)
    assert made.planned.fits
    assert len(loops(made.main.plan.block)) == 2
    leaves = random_leaves(forest, 0)
    for mine, theirs in zip(run(made, leaves), direct(forest, leaves), strict=True):
        assert np.array_equal(mine, theirs)


def test_more_room_never_costs_multiply_adds() -> None:
    free = ready(ladder(), None).planned.draft.space_bytes
    for scheduler in SCHEDULERS:
        macs = [
            ready(ladder(), free * k // 8, scheduler=scheduler).planned.draft.macs
            for k in range(2, 9)
        ]
        assert all(less >= more for less, more in pairwise(macs))


def test_a_value_is_kept_between_evaluations_where_there_is_room() -> None:
    free = ready(ladder(), None, iterations=10)
    assert [d for _, d in free.planned.path] == [Materialize(), Keeping.KEPT]
    assert free.prelude is not None
    assert free.planned.draft.macs == MADE + 10 * READ
    assert free.main.metered.macs == READ
    tight = ready(ladder(), V_BYTES // 2, iterations=10)
    assert tight.prelude is None
    assert tight.planned.draft.macs == 10 * (MADE + READ)


def test_kept_values_count_in_the_limit_of_every_evaluation() -> None:
    made = ready(ladder(), None, iterations=10)
    metered = made.main.metered
    needed = metered.space_bytes + V_BYTES
    assert made.planned.draft.space_bytes == needed
    assert ready(ladder(), needed, iterations=10).planned.draft.kept_bytes == V_BYTES
    leaves = random_leaves(ladder(), 1)
    for mine, theirs in zip(run(made, leaves), direct(ladder(), leaves), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_smallest_peak_found_is_a_limit_that_can_be_kept() -> None:
    least = ready(ladder(3), 0).planned
    assert not least.fits
    smallest = least.draft.space_bytes
    results = 8 * 11 * 3**2
    assert results < smallest < results + 8 * 3**4
    assert ready(ladder(3), smallest).planned.fits


def test_a_policy_that_admits_no_loop_gets_none() -> None:
    policy = BatchPolicy(peak_threshold=1e9, scheduler="ordered")
    made = ready(ladder(), V_BYTES // 4, policy=policy)
    assert loops(made.main.plan.block) == []
    assert not made.planned.fits


def test_a_common_loop_is_as_wide_as_the_policy_says() -> None:
    policy = BatchPolicy(
        is_batchable_contracted_index=lambda index: False,
        is_batchable_external_index=lambda index: index.extent == 8,
        batch_spectator_indices=True,
        batch_target_size=lambda index: 5,
        peak_threshold=1e9,
        scheduler="ordered",
    )
    made = ready(ladder(), RESULT_BYTES + V_BYTES * 3 // 4, policy=policy)
    (loop,) = loops(made.main.plan.block)
    assert (loop.extent, loop.width) == (8, 5)


def test_persistent_only_opens_no_loop_around_what_changes() -> None:
    policy = BatchPolicy(
        is_batchable_contracted_index=lambda index: True,
        is_batchable_external_index=lambda index: True,
        batch_spectator_indices=True,
        persistent_only=True,
        peak_threshold=1e9,
        scheduler="ordered",
    )
    assert loops(ready(ladder(), V_BYTES // 2, policy=policy).main.plan.block) == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_same_input_same_plan(scheduler: BatchScheduler) -> None:
    first, second = (ready(ladder(), V_BYTES // 3, scheduler=scheduler) for _ in range(2))
    assert first.planned == second.planned
