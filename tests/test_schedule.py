"""Lowering and the rules of schedules."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.errors import ScheduleError
from einbound.expr.network import Access, Network
from einbound.plan.tree import Cut, Tree
from einbound.schedule.cells import Place
from einbound.schedule.instructions import (
    Add,
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Scatter,
    Schedule,
    Slice,
    Sum,
    flat,
)
from einbound.schedule.listing import listing
from einbound.schedule.lower import lower
from einbound.schedule.validate import validate
from trees import random_network, random_tree


def ladder(opens: tuple[tuple[Cut, ...], ...], levels: tuple[int, ...] = (0, 0)) -> Tree:
    """Pac,Pbd,ijcd->ijab, the three-centre factors first."""
    #         P   a  b  c  d  i  j
    extents = (12, 6, 6, 6, 6, 4, 4)
    inputs = ((0, 1, 3), (0, 2, 4), (5, 6, 3, 4))
    accesses = tuple(Access(tuple((k,) for k in range(len(ix)))) for ix in inputs)
    network = Network(tuple("Pabcdij"), extents, inputs, (5, 6, 1, 2), accesses)
    return Tree(network, ((0, 1), (3, 2)), opens, levels)


def lowered(tree: Tree, *, staged: bool = False) -> Schedule:
    return lower(tree, tree.carried, tree.network.output, itemsize=8, staged=staged)


CASES = {
    "plain": ladder(((), ())),
    "external": ladder(((), (Cut(1, 2),)), (1, 0)),
    "contracted": ladder(((), (Cut(3, 3),)), (1, 0)),
    "hoisted_whole_and_read_in_slices": ladder(((), (Cut(3, 3),)), (0, 0)),
    "two_nests": ladder(((Cut(0, 4),), (Cut(1, 3),)), (1, 0)),
    "late": ladder(((), (Cut(0, 4), Cut(1, 2))), (2, 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_schedules_are_as_on_file(name: str, golden: Callable[[str], None]) -> None:
    tree = CASES[name].check()
    golden(listing(validate(lowered(tree)), tree.network) + "\n")


def test_a_staged_result_is_copied_at_the_end(golden: Callable[[str], None]) -> None:
    tree = CASES["contracted"]
    golden(listing(validate(lowered(tree, staged=True)), tree.network) + "\n")


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=200, deadline=None)
def test_every_legal_tree_lowers_to_a_valid_schedule(seed: int, staged: bool) -> None:
    rng = random.Random(seed)
    network = random_network(rng, rng.randint(1, 5), rng.randint(1, 6))
    tree = random_tree(rng, network)
    schedule = validate(lowered(tree, staged=staged))
    products = [i for i in flat(schedule.body) if isinstance(i, Contract)]
    assert sorted(p.step for p in products) == list(range(len(tree.steps)))


def edited(schedule: Schedule, change: Callable[[Instruction], Instruction | None]) -> Schedule:
    """The schedule with every instruction replaced; None removes it."""

    def block(body: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
        made = []
        for instruction in body:
            if isinstance(instruction, Loop):
                instruction = replace(instruction, body=block(instruction.body))
            new = change(instruction)
            if new is not None:
                made.append(new)
        return tuple(made)

    return replace(schedule, body=block(schedule.body))


def first_stored(schedule: Schedule) -> int:
    return next(c.number for c in schedule.cells if c.place is Place.STORED)


def test_reading_a_dead_cell_breaks_visibility() -> None:
    schedule = lowered(CASES["plain"])
    frees = [i for i in flat(schedule.body) if isinstance(i, Free)]
    body = tuple(i for i in schedule.body if i not in frees)
    broken = replace(schedule, body=(*body[:2], *frees, *body[2:]))
    with pytest.raises(ScheduleError, match=r"rule 'visibility' is broken: .* does not live"):
        validate(broken)


def test_a_missing_write_of_the_result_breaks_visibility() -> None:
    schedule = lowered(CASES["plain"])
    last = max(i.step for i in flat(schedule.body) if isinstance(i, Contract))

    def drop(i: Instruction) -> Instruction | None:
        return None if isinstance(i, Contract) and i.step == last else i

    cells = tuple(
        replace(c, life=c.life - (c.number in (2, first_stored(schedule)))) for c in schedule.cells
    )
    with pytest.raises(
        ScheduleError, match=r"'visibility' is broken: the result, cell \d+, is never"
    ):
        validate(replace(edited(schedule, drop), cells=cells))


def test_reading_a_whole_cell_inside_its_loop_breaks_form() -> None:
    schedule = lowered(CASES["external"])

    def whole(i: Instruction) -> Instruction:
        return replace(i, left=0) if isinstance(i, Contract) and i.step == 0 else i

    with pytest.raises(ScheduleError, match=r"rule 'form' is broken: .* uses cell 0 whole along"):
        validate(edited(schedule, whole))


def test_a_slice_of_another_loop_breaks_chain() -> None:
    schedule = lowered(CASES["external"])

    def wrong(i: Instruction) -> Instruction:
        return replace(i, loop=7) if isinstance(i, Slice) else i

    with pytest.raises(ScheduleError, match="rule 'chain' is broken: Slice"):
        validate(edited(schedule, wrong))


def test_a_product_that_does_not_add_its_trips_breaks_chain() -> None:
    schedule = lowered(CASES["contracted"])

    def write(i: Instruction) -> Instruction:
        return replace(i, adds=()) if isinstance(i, Contract) else i

    with pytest.raises(ScheduleError, match=r"'chain' is broken: .* adds over \(\), cell"):
        validate(edited(schedule, write))


def test_reading_a_sum_inside_its_loop_breaks_chain() -> None:
    schedule = lowered(CASES["contracted"])
    result = schedule.results[0]

    def peek(i: Instruction) -> Instruction:
        if not isinstance(i, Loop):
            return i
        return replace(i, body=(*i.body, Add(result, result)))

    with pytest.raises(ScheduleError, match=r"reads cell .* before its sum is complete"):
        validate(edited(schedule, peek))


def test_a_wrong_number_of_reads_breaks_life() -> None:
    schedule = lowered(CASES["plain"])
    cells = (replace(schedule.cells[0], life=5), *schedule.cells[1:])
    with pytest.raises(
        ScheduleError, match="rule 'life' is broken: cell 0 is read 1 times, the table says 5"
    ):
        validate(replace(schedule, cells=cells))


def test_a_cell_that_is_never_freed_breaks_life() -> None:
    schedule = edited(lowered(CASES["plain"]), lambda i: None if isinstance(i, Free) else i)
    with pytest.raises(ScheduleError, match=r"rule 'life' is broken: cell \d+ is never freed"):
        validate(schedule)


def test_a_cell_that_outlives_its_loop_breaks_life() -> None:
    schedule = edited(lowered(CASES["external"]), lambda i: None if isinstance(i, Free) else i)
    with pytest.raises(ScheduleError, match=r"rule 'life' is broken: cells \[\d+\] outlive loop 0"):
        validate(schedule)


def test_making_a_cell_twice_breaks_uniqueness() -> None:
    schedule = lowered(CASES["plain"])
    stored = first_stored(schedule)
    broken = replace(schedule, body=(Alloc(stored), *schedule.body))
    with pytest.raises(
        ScheduleError, match=rf"'uniqueness' is broken: cell {stored} is made twice"
    ):
        validate(broken)


def test_two_writers_break_uniqueness() -> None:
    schedule = lowered(CASES["plain"])

    def twice(i: Instruction) -> Instruction:
        return replace(i, into=first_stored(schedule)) if isinstance(i, Contract) else i

    with pytest.raises(ScheduleError, match="has two writers"):
        validate(edited(schedule, twice))


def test_a_loop_inside_a_loop_over_the_same_index_breaks_uniqueness() -> None:
    schedule = lowered(CASES["external"])
    (loop,) = (i for i in schedule.body if isinstance(i, Loop))
    body = (*loop.body, replace(loop, number=9, body=()))
    broken = replace(
        schedule, body=tuple(replace(i, body=body) if i is loop else i for i in schedule.body)
    )
    with pytest.raises(ScheduleError, match="index 1 is looped inside its own loop"):
        validate(broken)


def test_writing_an_operand_breaks_visibility() -> None:
    schedule = lowered(CASES["plain"])
    broken = replace(schedule, body=(*schedule.body, Scatter(1, 0), Sum(1, 0)))
    with pytest.raises(ScheduleError, match="writes cell 0, not alive"):
        validate(broken)


def test_a_cell_outside_the_table_breaks_visibility() -> None:
    schedule = lowered(CASES["plain"])
    with pytest.raises(ScheduleError, match="cell 99 is not in the table"):
        validate(replace(schedule, body=(*schedule.body, Free(99))))
