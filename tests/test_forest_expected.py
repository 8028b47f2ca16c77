"""What is published about tables of cells, roles and passes, on our own records.

A table of cells there is a schedule here: one cell per stored form, and the instructions that
write and read it. Where we differ on purpose, the test says how.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import einbound as eb
from einbound.errors import ScheduleError
from einbound.forest.blocks import Block, ForestPlan, Item, Member, Together
from einbound.forest.forest import Forest
from einbound.forest.fusion import Staged, bundled, common
from einbound.plan.grid import cut_of
from einbound.plan.tree import Cut, Tree
from einbound.run.forest import ForestExecutable, compile_forest
from einbound.schedule.cells import Cell, Place
from einbound.schedule.instructions import (
    Alloc,
    Contract,
    Free,
    Instruction,
    Loop,
    Schedule,
    Slice,
    Sum,
)
from einbound.schedule.validate import validate
from einbound.space.witness import Witness
from forests import direct, random_leaves, views
from sums import Written, written

FLOAT = np.dtype(float)
EXTENT = 6


def table(cells: tuple[Cell, ...], *body: Instruction) -> Schedule:
    return Schedule(cells, body, (4,), (EXTENT, EXTENT))


def loop(*body: Instruction, number: int = 0, width: int = 3) -> Loop:
    return Loop(number, 0, EXTENT, width, 0, body)


#: A leaf, a value that a loop fills slice by slice, the slices of both, and a result.
CELLS = (
    Cell(0, 0, Place.OPERAND, (0,), life=1),
    Cell(1, 1, Place.STORED, (0,), life=2),
    Cell(2, 1, Place.SLICE, (0,), (0,), ((0, 0),), 1),
    Cell(3, 0, Place.SLICE, (0,), (0,), ((0, 0),), 0, life=1),
    Cell(4, 2, Place.RESULT, ()),
)
FILL = (Slice(2, 1, 0, 0), Slice(3, 0, 0, 0), Sum(3, 2))
LATER = (Alloc(4), Sum(1, 4), Free(1))
SCATTERED = table(CELLS, Alloc(1), loop(*FILL), *LATER)
#: The same value summed over the loop.
SUMMED = table(
    (
        CELLS[0],
        replace(CELLS[1], indices=(), partial=(0,), life=1),
        replace(CELLS[2], indices=(1,), scope=(), slices=(), source=0),
        CELLS[3],
        CELLS[4],
    ),
    Alloc(1),
    loop(Slice(3, 0, 0, 0), Sum(3, 1, (0,))),
    *LATER,
)


def refused(schedule: Schedule, rule: str) -> None:
    with pytest.raises(ScheduleError, match=f"rule '{rule}' is broken"):
        validate(schedule)


def with_cell(schedule: Schedule, number: int, **changes: object) -> Schedule:
    cells = list(schedule.cells)
    cells[number] = replace(cells[number], **changes)  # type: ignore[arg-type]
    return replace(schedule, cells=tuple(cells))


class TestCellTable:
    def test_a_value_filled_in_slices_is_read_whole_behind_the_loop(self) -> None:
        assert validate(SCATTERED) is SCATTERED

    def test_so_is_one_that_is_summed(self) -> None:
        assert validate(SUMMED) is SUMMED

    def test_what_one_trip_made_is_not_read_outside_the_loop(self) -> None:
        refused(table(CELLS, Alloc(1), loop(*FILL), Alloc(4), Sum(2, 4), Free(1)), "visibility")

    def test_nor_in_another_loop_over_the_same_index(self) -> None:
        """There it is one form and one visibility; here slices end with their loop."""
        again = loop(Sum(2, 4), number=1)
        refused(table(CELLS, Alloc(1), loop(*FILL), Alloc(4), again, Free(1)), "visibility")

    def test_reads_are_counted(self) -> None:
        refused(with_cell(SCATTERED, 1, life=5), "life")

    def test_what_is_filled_in_slices_is_written_in_slices(self) -> None:
        """There the chain is broken; here the writer itself has the wrong form."""
        body = (Slice(2, 1, 0, 0), Slice(3, 0, 0, 0), Sum(3, 1))
        refused(table(CELLS, Alloc(1), loop(*body), *LATER), "form")

    def test_a_value_is_made_once(self) -> None:
        refused(table(CELLS, Alloc(1), Alloc(1), loop(*FILL), *LATER), "uniqueness")
        refused(table(CELLS, Alloc(1), loop(*FILL, Sum(3, 2)), *LATER), "life|uniqueness")

    def test_a_sum_says_over_which_loops_it_is(self) -> None:
        refused(with_cell(SUMMED, 1, partial=()), "chain")

    def test_a_sum_is_not_read_before_its_loop_has_ended(self) -> None:
        peek = loop(Slice(3, 0, 0, 0), Sum(3, 1, (0,)), Sum(1, 4, (0,)))
        schedule = table(SUMMED.cells, Alloc(1), Alloc(4), peek, Free(1))
        refused(with_cell(schedule, 4, partial=(0,)), "chain")

    def test_a_cell_inside_a_loop_is_sliced_by_it_or_lacks_its_index(self) -> None:
        """There a mark says that a loop does not matter to a read; here the indices say so."""
        whole = (Alloc(1), loop(FILL[0], Sum(0, 2)), *LATER)
        refused(replace(SCATTERED, body=whole), "form")

    def test_what_lacks_the_index_of_a_loop_is_read_in_every_trip(self) -> None:
        """A vector times each slice of another: the loop cuts only what carries its index."""
        cells = (
            Cell(0, 0, Place.OPERAND, (0,), life=1),
            Cell(1, 1, Place.OPERAND, (1,), life=1),
            Cell(2, 0, Place.SLICE, (0,), (0,), ((0, 0),), 0, life=1),
            Cell(3, 2, Place.RESULT, (0, 1), life=1),
            Cell(4, 2, Place.SLICE, (0, 1), (0,), ((0, 0),), 3),
        )
        body = (Slice(2, 0, 0, 0), Slice(4, 3, 0, 0), Contract(0, 2, 1, 4))
        schedule = Schedule(cells, (Alloc(3), loop(*body)), (3,), (EXTENT, EXTENT))
        assert validate(schedule) is schedule

    @pytest.mark.parametrize("width", [2, 3, 6])
    def test_a_life_is_told_in_instructions_not_in_trips(self, width: int) -> None:
        """There a source that three trips read lives for three reads; here for one instruction."""
        schedule = table(CELLS, Alloc(1), loop(*FILL, width=width), *LATER)
        assert validate(schedule).cells[0].life == 1

    def test_a_whole_value_is_read_by_a_second_loop_too(self) -> None:
        cells = (
            replace(CELLS[0], life=1),
            *CELLS[1:4],
            replace(CELLS[4], partial=(1,)),
            Cell(5, 1, Place.SLICE, (0,), (1,), ((0, 1),), 1, life=1),
        )
        second = loop(Slice(5, 1, 0, 1), Sum(5, 4, (1,)), number=1)
        validate(table(cells, Alloc(1), loop(*FILL), Alloc(4), second, Free(1)))

    def test_the_empty_table_is_valid(self) -> None:
        validate(Schedule((), (), (), ()))

    @pytest.mark.parametrize("number", [-1, 5])
    def test_a_cell_that_is_not_in_the_table_is_refused(self, number: int) -> None:
        refused(table(CELLS, Alloc(number), *SCATTERED.body), "visibility")

    def test_siblings_are_different_loops(self) -> None:
        refused(table(CELLS, Alloc(1), loop(*FILL), loop(), *LATER), "uniqueness")


class TestSums:
    """Rules that are not published: what is added up must be one sum, cut into trips."""

    def test_what_does_not_change_from_trip_to_trip_is_not_added_up(self) -> None:
        cells = (
            Cell(0, 0, Place.OPERAND, (1,), life=1),
            Cell(1, 1, Place.RESULT, (), partial=(0,)),
        )
        body = (Alloc(1), loop(Sum(0, 1, (0,))))
        refused(Schedule(cells, body, (1,), (EXTENT, EXTENT)), "sums")

    def test_two_sums_over_one_trip_are_not_multiplied(self) -> None:
        """The sum of (sum of x) (sum of x) over the trips is not the square of the sum."""
        cells = (
            Cell(0, 0, Place.OPERAND, (0,), life=1),
            Cell(1, 0, Place.SLICE, (0,), (0,), ((0, 0),), 0, life=1),
            Cell(2, 1, Place.STORED, (), (0,), life=2),
            Cell(3, 2, Place.RESULT, (), partial=(0,)),
        )
        body = (Slice(1, 0, 0, 0), Alloc(2), Sum(1, 2), Contract(0, 2, 2, 3, (0,)), Free(2))
        schedule = Schedule(cells, (Alloc(3), loop(*body)), (3,), (EXTENT,))
        refused(schedule, "sums")

    def test_what_nothing_wrote_is_not_read(self) -> None:
        cells = (*CELLS[:1], replace(CELLS[1], life=1), *CELLS[2:])
        refused(table(cells, Alloc(1), *LATER), "visibility")

    def test_axes_are_counted_from_the_first(self) -> None:
        refused(table(CELLS, Alloc(1), loop(Slice(2, 1, -1, 0), *FILL[1:]), *LATER), "chain")


def member(forest: Forest, number: int, widths: dict[int, int] | None = None) -> Member:
    network = forest.productions[number].network
    extents = tuple((widths or {}).get(i, n) for i, n in enumerate(network.extents))
    narrow = replace(network, extents=extents)
    return Member(number, Tree.from_path(narrow, [tuple(range(len(network.inputs)))]))


def inside(
    forest: Forest, label: str, cut: Cut, *numbers: int, number: int = 0, extent: int
) -> Together:
    """Some productions in a loop over an index that has the same label in all of them."""
    cuts = tuple((n, forest.productions[n].network.labels.index(label)) for n in numbers)
    body = tuple(member(forest, n, {index: cut.width}) for n, index in cuts)
    return Together(number, label, extent, cut.width, cut.edges, cuts, body)


def compiled(forest: Forest, *block: Item) -> ForestExecutable:
    return compile_forest(ForestPlan(forest, block), views(random_leaves(forest, 0)), FLOAT, 256)


def is_right(forest: Forest, *block: Item) -> bool:
    leaves = random_leaves(forest, 0)
    pairs = zip(compiled(forest, *block).run(leaves), direct(forest, leaves), strict=True)
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)


#: S[i,j] = A[i,k] B[k,j], R[i] = S[i,j] C[j,i].
CHAIN: dict[str, list[Written]] = {
    "S": [(1, "ik,kj->ij", ("A", "B"))],
    "R": [(1, "ij,ji->i", ("S", "C"))],
}
SQUARES = {name: (EXTENT, EXTENT) for name in "ABC"}
TWO = Cut(0, 2)


def chain() -> Forest:
    return written(CHAIN, SQUARES, targets=["R"])


def label_of(forest: Forest, production: int, axis: int) -> str:
    network = forest.productions[production].network
    return str(network.labels[network.output[axis]])


class TestRoles:
    """Roles are not stored: where a value lives and whether trips add up in it says the same."""

    def value(self, forest: Forest) -> int:
        return next(v.number for v in forest.values if v.name == "S")

    def homes(self, block: Block) -> tuple[int, ...]:
        forest = chain()
        return ForestPlan(forest, block).homes[self.value(forest)]

    def test_a_value_whose_readers_are_all_in_its_loop_is_local(self) -> None:
        forest = chain()
        label = label_of(forest, 1, 0)
        both = inside(forest, label, TWO, 0, 1, extent=EXTENT)
        assert self.homes((both,)) == (0,)
        assert is_right(forest, both)

    def test_a_value_with_a_reader_outside_is_carried(self) -> None:
        forest = chain()
        made = inside(forest, label_of(forest, 0, 0), TWO, 0, extent=EXTENT)
        assert self.homes((made, member(forest, 1))) == ()
        assert is_right(forest, made, member(forest, 1))

    def test_a_value_that_a_loop_sums_lives_outside_of_it(self) -> None:
        forest = chain()
        network = forest.productions[0].network
        (summed,) = set(range(3)) - set(network.output)
        made = inside(forest, str(network.labels[summed]), TWO, 0, extent=EXTENT)
        assert self.homes((made, member(forest, 1))) == ()
        assert is_right(forest, made, member(forest, 1))

    def test_a_value_without_the_index_of_its_trees_loop_is_made_once(self) -> None:
        """Of single trees levels say what does not depend on a loop: it is made outside."""
        plan = eb.Plan.build(
            "ik,kj,jl->il",
            *[(EXTENT, EXTENT)] * 3,
            path=[(1, 2), (0, 1)],
            loops=(eb.Loop("i", batch_size=2, node=1),),
        )
        assert plan.macs == 2 * EXTENT**3


class TestPasses:
    """A[i] A[j] in one loop over the axis of A: it is complete only behind the loop."""

    SQUARE: dict[str, list[Written]] = {  # noqa: RUF012
        "A": [(1, "i->i", ("x",))],
        "R": [(1, "i,j->ij", ("A", "A"))],
    }

    def forest(self) -> Forest:
        return written(self.SQUARE, {"x": (8,)}, targets=["R"])

    def test_no_loop_holds_maker_and_reader(self) -> None:
        forest = self.forest()
        value = next(v.number for v in forest.values if v.name == "A")
        loop = common(forest, value, 0)
        assert isinstance(loop, Witness)
        assert "a loop cuts one index of a production" in str(loop)
        assert isinstance(bundled(forest, [Staged(value, (0,))]), Witness)

    def test_put_there_by_hand_they_are_refused(self) -> None:
        forest = self.forest()
        network = forest.productions[0].network
        cut = Cut(0, 4)
        cuts = ((0, network.output[0]), (1, forest.productions[1].network.output[0]))
        body = tuple(member(forest, n, {index: 4}) for n, index in cuts)
        with pytest.raises(ScheduleError, match=r"rule '(form|chain)' is broken"):
            compiled(forest, Together(0, "i", 8, cut.width, (), cuts, body))

    def test_two_passes_are_right(self) -> None:
        forest = self.forest()
        cut = Cut(0, 4)
        first = inside(forest, label_of(forest, 0, 0), cut, 0, extent=8)
        second = inside(forest, label_of(forest, 1, 0), cut, 1, number=1, extent=8)
        assert is_right(forest, first, second)


class TestScalars:
    NUMBERS = {"a": np.array(2.0), "b": np.array(-3.5), "c": np.array(7.25)}  # noqa: RUF012

    @pytest.mark.parametrize("scheduler", ["ordered", "forest_descent"])
    def test_sums_of_products_of_numbers(self, scheduler: str) -> None:
        text = "R[] = 2 a[] b[] - c[]\nS[] = a[] a[] + 3 b[] - 2 c[]\nT[] = R[] + S[]"
        made = eb.Program(text, scheduler=scheduler)(**self.NUMBERS)
        assert float(made["T"]) == -42.25
        if "R" in made:
            assert (float(made["R"]), float(made["S"])) == (-21.25, -21.0)


#: R[a,d,x] = g[a,b,x] h[b,c,x] p[c,d,x] with a shared product, and its sizes.
LADDER: dict[str, list[Written]] = {
    "S": [(1, "abx,bcx->acx", ("g", "h"))],
    "R": [(1, "acx,cdx->adx", ("S", "p"))],
}


class TestNumbers:
    @pytest.mark.parametrize("width", [2, 3])
    def test_an_index_of_the_result_in_blocks(self, width: int) -> None:
        shapes = {name: (3, 3, 6) for name in "ghp"}
        forest = written(LADDER, shapes, targets=["R"])
        both = inside(forest, label_of(forest, 1, 2), Cut(0, width), 0, 1, extent=6)
        assert is_right(forest, both)
        (shared,) = (v.number for v in forest.values if v.name == "S")
        assert ForestPlan(forest, (both,)).homes[shared] == (0,)

    @pytest.mark.parametrize(("target", "n_trips"), [(100, 1), (8, 2), (4, 3), (1, 3)])
    def test_a_summed_index_in_whole_tiles_of_four(self, target: int, n_trips: int) -> None:
        cut = cut_of(0, 12, (0, 4, 8, 12), target)
        trips = -(-12 // cut.width) if not cut.edges else len(cut.edges) - 1
        assert trips == n_trips
        terms: list[Written] = [(1, "iK,Kj->ij", ("A", "B"))]
        forest = written({"R": terms}, {"A": (3, 12), "B": (12, 3)})
        network = forest.productions[0].network
        (summed,) = set(range(3)) - set(network.output)
        made = inside(forest, str(network.labels[summed]), cut, 0, extent=12)
        assert is_right(forest, made)

    def test_an_index_of_both_factors_and_the_result(self) -> None:
        terms: list[Written] = [(1, "ai,bi->abi", ("g", "h"))]
        forest = written({"R": terms}, {"g": (3, 6), "h": (4, 6)})
        assert is_right(forest, inside(forest, label_of(forest, 0, 2), TWO, 0, extent=6))

    def test_a_value_escapes_by_scatter_then_sum_then_scatter(self) -> None:
        """In loops over i, k and j of S[i,j] = A[i,k] B[k,j]: parts, a sum, and parts again."""
        forest = chain()
        network = forest.productions[0].network
        i, j = network.output
        (k,) = set(range(3)) - {i, j}
        narrow = replace(network, extents=(2, 2, 2))
        item: Item = Member(0, Tree.from_path(narrow, [(0, 1)]))
        for number, index in enumerate((j, k, i)):
            item = Together(number, "x", EXTENT, 2, (), ((0, index),), (item,))
        assert is_right(forest, item, member(forest, 1))
        made = compiled(forest, item, member(forest, 1)).lowered.schedule
        (loops,) = (i for i in made.body if isinstance(i, Loop))
        assert loops.n_trips == 3

    def test_persistent_only_opens_no_loop_where_a_volatile_tensor_takes_part(self) -> None:
        loops = {only: self.n_loops(only) for only in (False, True)}
        assert loops[False] > 0
        assert loops[True] == 0

    def n_loops(self, persistent_only: bool) -> int:
        """Loops of a product of a volatile tensor, within a threshold that asks for some."""
        policy = eb.BatchPolicy(
            is_batchable_contracted_index=lambda index: True,
            is_batchable_external_index=lambda index: True,
            batch_spectator_indices=True,
            is_volatile_leaf=lambda operand: operand.number == 0,
            persistent_only=persistent_only,
            peak_threshold=1,
        )
        with pytest.warns(eb.BudgetWarning, match="peak_threshold"):
            plan = eb.plan(
                "ik,kj,jl->il", *[(EXTENT, EXTENT)] * 3, policy=policy, optimize=[(0, 1), (0, 1)]
            )
        return len(plan.loops)
