"""Forests as one schedule: right values, and memory exactly as metered."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.backends.numpy_ops import NumpyOps
from einbound.errors import ScheduleError
from einbound.expr.expression import parse
from einbound.forest.blocks import Block, ForestPlan, Member, Together, members
from einbound.forest.forest import Forest, Kind, Production, Value
from einbound.plan.tree import Tree
from einbound.run.allocator import Allocator
from einbound.run.forest import ForestExecutable, compile_forest
from einbound.run.walk import walk
from einbound.schedule.cells import Cell
from einbound.schedule.listing import listing
from einbound.step.view import View
from forests import direct, random_forest, random_leaves, random_plan, views


def random_case(seed: int) -> tuple[ForestExecutable, list[np.ndarray]]:
    rng = random.Random(seed)
    forest = random_forest(rng)
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    leaves = random_leaves(forest, seed)
    plan = random_plan(rng, forest)
    buffer_bytes = rng.choice([64, 1024, 1 << 22])
    try:
        return compile_forest(plan, views(leaves), np.dtype(float), buffer_bytes), leaves
    except ScheduleError:
        # Loops that are common to productions that do not go together.
        assume(False)
        raise


@given(st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_common_loops_change_no_result(seed: int) -> None:
    ready, leaves = random_case(seed)
    wanted = direct(ready.plan.forest, leaves)
    got = ready.run(leaves)
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert np.array_equal(mine, theirs)


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_run_takes_the_workspace_that_was_metered(seed: int) -> None:
    ready, leaves = random_case(seed)
    allocator = Allocator(1 << 40)
    allocator.arena = np.empty(1 << 22, np.uint8)
    allocator.holes = [(0, 1 << 22)]

    def make(cell: Cell) -> np.ndarray:
        return np.empty(ready.results[cell.number].extents)

    ops = NumpyOps(ready.kernels, ready.work, allocator.take, allocator.give, make)
    walk(ready.lowered.schedule, ops, leaves)
    hidden = max(ready.hidden.values(), default=0)
    assert allocator.live_bytes == 0
    assert ready.metered.workspace_bytes - hidden <= allocator.peak_bytes
    assert allocator.peak_bytes <= ready.metered.workspace_bytes


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_steps_count_the_macs_of_their_productions(seed: int) -> None:
    ready, _ = random_case(seed)
    steps = ready.metered.steps
    assert sum(count.macs for count in steps.values()) == ready.metered.macs
    made = {ready.lowered.steps[number][0] for number in steps}
    pairs = {m.production for m in members(ready.plan.block) if m.tree.steps}
    assert made == pairs


def test_a_value_may_not_be_read_while_a_loop_adds_up_in_it() -> None:
    """A sum s over x[i], and y, the sum over s x[i] in the same loop: s is not complete there."""
    forest = two_steps("i->", ",i->")
    with pytest.raises(ScheduleError, match=r"'chain' is broken.* before its sum is complete"):
        compiled(forest, together(forest, {0: 0, 1: 0}))


def test_of_a_value_that_is_filled_part_by_part_only_that_part_is_read() -> None:
    """Let s[i] = x[i], filled slice by slice; y = sum over i, k of s[k] x[i] needs all of it."""
    forest = two_steps("i->i", "k,i->")
    with pytest.raises(ScheduleError, match=r"'chain' is broken.* does not fit|another part of"):
        compiled(forest, together(forest, {0: 0, 1: 1}))


def test_a_value_of_one_trip_takes_the_room_of_one_trip() -> None:
    forest = two_steps("i->i", "i,i->")
    apart = compiled(forest, tuple(Member(n, plain(forest, n, {})) for n in (0, 1)))
    fused = compiled(forest, together(forest, {0: 0, 1: 0}))
    leaf = [np.arange(6.0)]
    assert fused.run(leaf)[0] == apart.run(leaf)[0] == np.dot(leaf[0], leaf[0])
    assert apart.metered.workspace_bytes == 6 * 8
    # One trip of s, and the buffer of the product that is added.
    assert fused.metered.workspace_bytes == 2 * 8 + 8


def test_the_schedule_of_fused_productions_reads_like_a_program() -> None:
    forest = two_steps("i->i", "i,i->")
    schedule = compiled(forest, together(forest, {0: 0, 1: 0})).lowered.schedule
    labels = tuple("abcdefgh"[: len(schedule.extents)])
    network = replace(forest.productions[0].network, labels=labels)
    assert listing(schedule, network) == FUSED


FUSED = """\
alloc   %1out[]
see     %4[b] = %0in[a]
see     %6[] = %1out[]
see     %8[b] = %0in[a]
for b in 3 slices of 2 (loop 0, step -1):
    slice   %5[b@0] = %4[b] along b
    slice   %9[b@0] = %8[b] along b
    alloc   %2[b@0]
    see     %3[b@0] = %2[b@0]
    sum     %3[b@0] = %5[b@0]
    free    %3[b@0]
    see     %7[b@0] = %2[b@0]
    contract %6[] += (after the first of loops (0,)) %7[b@0] * %9[b@0]
    free    %7[b@0]
    free    %2[b@0]
free    %4[b]
free    %6[]
free    %8[b]"""


def two_steps(first: str, second: str) -> Forest:
    """A forest of s from x, and y from s and x, with x of six elements."""
    values = (
        Value(0, "x", Kind.LEAF, (6,), ("i",)),
        Value(1, "s", Kind.SHARED, (6,) * len(first.partition("->")[2]), ("i",)),
        Value(2, "y", Kind.TARGET, (), ()),
    )
    productions = (
        Production(0, 1, (0,), parse(first, 1).bind([(6,)])),
        Production(1, 2, (1, 0), parse(second, 2).bind([values[1].shape, (6,)])),
    )
    return Forest(values, productions, (2,))


def plain(forest: Forest, number: int, widths: dict[int, int]) -> Tree:
    network = forest.productions[number].network
    extents = tuple(widths.get(i, n) for i, n in enumerate(network.extents))
    path = [tuple(range(len(network.inputs)))]
    return Tree.from_path(replace(network, extents=extents), path)


def together(forest: Forest, cuts: dict[int, int]) -> Block:
    body = tuple(Member(n, plain(forest, n, {index: 2})) for n, index in cuts.items())
    return (Together(0, "i", 6, 2, (), tuple(cuts.items()), body),)


def compiled(forest: Forest, block: Block) -> ForestExecutable:
    leaf = View.contiguous((0,), (6,), np.dtype(float))
    return compile_forest(ForestPlan(forest, block), [leaf], np.dtype(float), 64)
