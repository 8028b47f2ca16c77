"""The rules of schedules: what is changed anywhere is refused, or does what it says."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from einbound.backends.numpy_ops import NumpyOps
from einbound.backends.sizes import Metered
from einbound.errors import ScheduleError
from einbound.forest.forest import Forest, Kind
from einbound.run.executable import Job, compile_tree, compiled_ways, quiet
from einbound.run.forest import ForestExecutable, compile_forest
from einbound.run.meter import meter
from einbound.run.walk import walk
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
    Schedule,
    See,
    flat,
)
from einbound.schedule.validate import validate
from einbound.step.view import View
from forests import direct, random_forest, random_leaves, random_plan, views
from held import Held
from mutants import EDITS, Edit, Meaning, in_the_results, refitted
from trees import random_network, random_tree

FLOAT = np.dtype(float)
#: Small, so that steps are blocked, and their buffers matter.
BUFFER_BYTES = 256
#: Whole numbers below are exact as floats, and so are sums of them.
EXACT = 2.0**50
#: Changes that are tried of each schedule.
N_CHANGES = 12


@dataclass(frozen=True)
class Case:
    """A schedule with arrays to run it on, and what it should give."""

    schedule: Schedule
    leaves: list[np.ndarray]
    wanted: list[np.ndarray]

    def views(self) -> tuple[View, ...]:
        """The layouts of the leaves under the schedule's indices."""
        cells = self.schedule.cells
        return tuple(
            replace(view, indices=cell.indices)
            for view, cell in zip(views(self.leaves), cells, strict=False)
        )


def of_a_forest(seed: int) -> Case:
    ready, leaves = compiled_forest(seed)
    largest = direct(ready.plan.forest, [np.abs(leaf) for leaf in leaves])
    assume(all(float(each.max(initial=0)) < EXACT for each in largest))
    return Case(ready.lowered.schedule, leaves, direct(ready.plan.forest, leaves))


def compiled_forest(
    seed: int, change: Callable[[random.Random, Forest], Forest] = lambda _, forest: forest
) -> tuple[ForestExecutable, list[np.ndarray]]:
    rng = random.Random(seed)
    forest = random_forest(rng)
    assume(all(i >= 0 for each in forest.productions for i in each.network.output))
    leaves = random_leaves(forest, seed)
    forest = change(rng, forest)
    plan = random_plan(rng, forest)
    try:
        return compile_forest(plan, views(leaves), FLOAT, BUFFER_BYTES), leaves
    except ScheduleError:
        # Loops that are common to productions that do not go together.
        assume(False)
        raise


def of_a_tree(seed: int) -> Case:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(1, 4), rng.randint(1, 5), 4)
    tree = random_tree(rng, network, uneven=rng.random() < 0.3)
    extents = network.extents
    numbers = np.random.default_rng(seed)
    leaves = [
        numbers.integers(-2, 3, [extents[i] for i in term]).astype(float) for term in network.inputs
    ]
    operands = tuple(
        replace(view, indices=term)
        for view, term in zip(views(leaves), network.inputs, strict=True)
    )
    output = network.output
    result = View.contiguous(output, tuple(extents[i] for i in output), FLOAT)
    job = Job(network, operands, result, FLOAT, apart=rng.random() < 0.2)
    schedule = compile_tree(job, tree, BUFFER_BYTES).schedule
    # What is a view of its operand has no instructions.
    assume(schedule.body)
    terms = [item for pair in zip(leaves, map(list, network.inputs), strict=True) for item in pair]
    return Case(schedule, leaves, [np.asarray(np.einsum(*terms, list(output)))])


@dataclass(frozen=True)
class Ran:
    """What a run gave, and what it took."""

    results: tuple[np.ndarray, ...]
    metered: Metered
    left_bytes: int
    most_bytes: int


class Poison:
    """Memory that is no number before it is written, nor after it is given back."""

    def __init__(self, results: Mapping[int, View]) -> None:
        self.results = results
        self.live_bytes = self.most_bytes = 0

    def take(self, n_bytes: int, high: bool = False) -> np.ndarray:
        self.live_bytes += n_bytes
        self.most_bytes = max(self.most_bytes, self.live_bytes)
        return np.full(n_bytes, 0xFF, np.uint8)

    def give(self, buffer: np.ndarray) -> None:
        self.live_bytes -= buffer.nbytes
        buffer[...] = 0xFF

    def make(self, cell: Cell) -> np.ndarray:
        return np.full(self.results[cell.number].extents, np.nan)


def run(case: Case, schedule: Schedule) -> Ran:
    results = {
        cell.number: View.contiguous(
            cell.indices, tuple(schedule.extents[i] for i in cell.indices), FLOAT
        )
        for cell in schedule.cells
        if cell.place is Place.RESULT
    }
    metered = meter(schedule, case.views(), results, FLOAT, BUFFER_BYTES, False)
    memory = Poison(results)
    kernels = compiled_ways(schedule, metered)
    ops = NumpyOps(kernels, FLOAT, memory.take, memory.give, memory.make)
    made = quiet().copy().run(walk, schedule, ops, case.leaves)
    return Ran(made, metered, memory.live_bytes, memory.most_bytes)


def equal(some: object, others: object) -> bool:
    assert isinstance(some, list | tuple)
    assert isinstance(others, list | tuple)
    return len(some) == len(others) and all(
        a.shape == b.shape and np.array_equal(a, b) for a, b in zip(some, others, strict=True)
    )


@pytest.mark.parametrize("case_of", [of_a_forest, of_a_tree])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_a_schedule_means_what_was_planned(case_of: Callable[[int], Case], seed: int) -> None:
    case = case_of(seed)
    assert equal(Meaning.of(case.schedule, case.leaves), case.wanted)
    assert equal(run(case, case.schedule).results, case.wanted)


@pytest.mark.parametrize("case_of", [of_a_forest, of_a_tree])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_what_is_changed_is_refused_or_does_what_it_says(
    case_of: Callable[[int], Case], seed: int
) -> None:
    """Without its loops and lifetimes a schedule is a list of products, which it computes."""
    case, rng = case_of(seed), random.Random(seed)
    for _ in range(N_CHANGES):
        edit = rng.choice(EDITS)
        changed = edit(rng, case.schedule)
        if changed is None or not fits(changed, case.leaves):
            continue
        hidden = rng.random() < 0.5
        if hidden:
            changed = refitted(changed)
        try:
            validate(changed)
        except ScheduleError:
            continue
        ran = run(case, changed)
        assert equal(ran.results, Meaning.of(changed, case.leaves)), edit
        assert ran.left_bytes == 0
        assert ran.most_bytes <= ran.metered.workspace_bytes
        if not (hidden or says_something_else(edit, case.schedule, changed)):
            assert equal(ran.results, case.wanted), edit


def fits(schedule: Schedule, leaves: list[np.ndarray]) -> bool:
    """Whether the table knows the axes of the operands; only who brings them can tell."""
    known = [
        all(0 <= i < len(schedule.extents) for i in cell.indices)
        and tuple(schedule.extents[i] for i in cell.indices) == leaf.shape
        for cell, leaf in zip(schedule.cells, leaves, strict=False)
    ]
    return all(known)


def says_something_else(edit: Edit, before: Schedule, after: Schedule) -> bool:
    """Whether axes are named otherwise, or results: what is meant is said nowhere else."""
    named = [
        ([cell.indices for cell in each.cells], [i for i in flat(each.body) if isinstance(i, See)])
        for each in (before, after)
    ]
    return edit is in_the_results or (named[0] != named[1] and len(named[0][1]) == len(named[1][1]))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=150)
def test_bytes_are_those_of_a_count_trip_by_trip(seed: int) -> None:
    ready, leaves = compiled_forest(seed, some_not_in_memory)
    held = Held.during(ready.lowered.schedule, ready.leaves, FLOAT, BUFFER_BYTES, ready.intakes)
    assert held.workspace_bytes == ready.metered.workspace_bytes
    assert held.space_bytes == ready.metered.space_bytes
    if not ready.intakes:
        case = Case(ready.lowered.schedule, leaves, [])
        hidden = max(ready.hidden.values(), default=0)
        taken = run(case, case.schedule).most_bytes
        assert taken <= held.workspace_bytes <= taken + hidden


def some_not_in_memory(rng: random.Random, forest: Forest) -> Forest:
    """The same with some leaves that are read in blocks, everywhere they occur."""
    far = {v.number for v in forest.values if v.kind is Kind.LEAF and rng.random() < 0.3}
    productions = []
    for each in forest.productions:
        streamed = frozenset(k for k, value in enumerate(each.operands) if value in far)
        productions.append(replace(each, network=replace(each.network, streamed=streamed)))
    return replace(forest, productions=tuple(productions))
