"""Curves of budgets: exact against every program, metered, thinned, printed, refused."""

from __future__ import annotations

import pickle
import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import einbound as eb
from brute import Acted, Case, Composed, random_case, sampled, staircase
from einbound.api.staircase import Stair, spread
from einbound.plan.curve import balanced, workspace_bytes
from einbound.plan.effort import Effort
from einbound.plan.tree import Tree, trips
from interpreter import Interpreter
from test_exact import TABLE
from trees import random_network, random_tree

LADDER = "pac,pbd,ijcd->ijab"
LADDER_SHAPES = ((12, 6, 6), (12, 6, 6), (4, 4, 6, 6))
LADDER_COUNTS = {"a": 3, "c": 2, "p": 4}

TEMPTING = "abcd,aefgh,e,fgc,b->hd"
TEMPTING_SHAPES = ((4, 8, 12, 4), (4, 12, 4, 8, 4), (12,), (4, 8, 12), (8,))
TEMPTING_COUNTS = {"d": 2, "e": 4, "f": 2}


def read(text: str, sign: str) -> dict[str, int]:
    return {letter: int(number) for letter, number in (pair.split(sign) for pair in text.split())}


def points_of(case: Case, **options: Any) -> list[tuple[int, int]]:
    """The exact points above the operands."""
    curve = eb.budget_curve(
        case.equation,
        *case.shapes,
        batch_counts=case.batch_counts,
        temporaries=False,
        **options,
    )
    assert curve.exact
    return [(point.peak_bytes - case.operand_bytes, point.macs) for point in curve]


@pytest.mark.parametrize(
    ("equation", "extents", "counts", "plain", "exact"), TABLE, ids=[row[0] for row in TABLE]
)
def test_curves_equal_the_table(
    equation: str,
    extents: str,
    counts: str,
    plain: list[tuple[int, int]] | None,
    exact: list[tuple[int, int]],
) -> None:
    case = Case(equation, read(extents, "="), read(counts, ":"))
    assert points_of(case) == exact
    bare = points_of(Case(equation, case.extents, {}))
    assert plain is None or bare == plain


@pytest.mark.parametrize("n_operands", [2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_every_program_is_run_and_none_beats_the_curve(n_operands: int, seed: int) -> None:
    case = random_case(seed, n_operands, 3 if n_operands < 4 else 1)
    points = set()
    for node in case.programs.all():
        ran = Acted(case.programs, node)
        assert (ran.peak, ran.macs) == (case.programs.peak(node), case.programs.macs(node))
        points.add((ran.peak, ran.macs))
    assert points_of(case) == staircase(points) == Composed(case.programs).frontier()


@pytest.mark.parametrize(("n_operands", "n_cut"), [(5, 3), (6, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_programs_put_together_give_the_curve(n_operands: int, n_cut: int, seed: int) -> None:
    case = random_case(100 + seed, n_operands, n_cut)
    assert points_of(case) == Composed(case.programs).frontier()


@pytest.mark.parametrize("seed", range(2))
def test_programs_at_random_never_beat_the_curve(seed: int) -> None:
    case = random_case(6010 + seed, 6, 3)
    rng, points = random.Random(seed), points_of(case)
    for _ in range(100):
        ran = Acted(case.programs, sampled(rng, case.programs))
        assert staircase({*points, (ran.peak, ran.macs)}) == points


@pytest.mark.parametrize("seed", range(40))
def test_workspace_is_what_an_interpreter_holds_beside_the_result(seed: int) -> None:
    rng = random.Random(seed)
    tree = random_tree(rng, random_network(rng, rng.randint(1, 5), 4))
    if tree.steps:
        assert workspace_bytes(tree, 8) == Interpreter(tree, 8).run().workspace
    else:
        assert workspace_bytes(tree, 8) == 0


@pytest.mark.parametrize(
    ("subscripts", "shapes", "counts"),
    [(LADDER, LADDER_SHAPES, LADDER_COUNTS), (TEMPTING, TEMPTING_SHAPES, TEMPTING_COUNTS)],
)
def test_points_are_what_their_plans_meter_and_run(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], counts: dict[str, int]
) -> None:
    arrays = [np.random.default_rng(k).random(shape) for k, shape in enumerate(shapes)]
    curve = eb.budget_curve(subscripts, *arrays, batch_counts=counts)
    below = eb.budget_curve(subscripts, *arrays, batch_counts=counts, temporaries=False)
    for number, point in enumerate(curve):
        plan, reading = curve.plan(number), curve.plan(number).meter()
        assert plan.peak_bytes == reading.operand_bytes + reading.space_bytes == point.peak_bytes
        assert (reading.workspace_bytes, reading.macs) == (point.workspace_bytes, point.macs)
        assert plan.seconds == point.seconds
        np.testing.assert_allclose(plan(*arrays), np.einsum(subscripts, *arrays))
        assert min(p.macs for p in below if p.peak_bytes <= point.peak_bytes) <= point.macs


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("temporaries", [True, False])
def test_points_rise_in_bytes_and_fall_in_multiply_adds(seed: int, temporaries: bool) -> None:
    case = random_case(seed, 5, 3)
    curve = eb.budget_curve(
        case.equation, *case.shapes, batch_counts=case.batch_counts, temporaries=temporaries
    )
    for low, high in pairwise(curve):
        assert low.peak_bytes < high.peak_bytes
        assert low.macs > high.macs
    used = [{cut.index for opens in s.tree.opens for cut in opens} for s in curve._basis.stairs]
    admitted = {index for index, _ in curve._basis.slices}
    assert all(indices <= admitted for indices in used)


def test_without_counts_the_grid_is_told() -> None:
    curve = eb.budget_curve("ab,bc,cd->ad", (6, 9), (9, 6), (6, 1), temporaries=False)
    assert curve.exact
    assert curve.grid == {"a": (2, 4, 6), "b": (2, 4, 8, 9), "c": (2, 4, 6)}
    few = Effort(widths=(3, 100))
    coarse = eb.budget_curve("ab,bc,cd->ad", (6, 9), (9, 6), (6, 1), optimize=few)
    assert coarse.grid == {"a": (3, 6), "b": (3, 9), "c": (3, 6)}


def test_a_count_is_kept_where_no_even_slices_make_it() -> None:
    for extent in range(1, 14):
        for n_slices in range(1, extent + 1):
            cut = balanced(0, extent, n_slices)
            tree = Tree.plain(random_network(random.Random(0), 1, 1), ())
            network = type(tree.network)(("a",), (extent,), ((0,),), (), ())
            assert trips(cut, network) == n_slices
            assert cut.width == -(-extent // n_slices)
    curve = eb.budget_curve("ab,bc,cd->ad", (5, 5), (5, 5), (5, 5), batch_counts={"c": 4})
    assert {loop.n_batches for loop in curve.plan(0).loops} == {4}


def test_labels_are_those_of_the_caller() -> None:
    rows, columns = ("row", "sum"), ("sum", "column")
    curve = eb.budget_curve(
        (6, 8), rows, (8, 6), columns, (6, 6), ["column", 0], ["row", 0], batch_counts={"sum": 2}
    )
    assert curve.grid == {"sum": (2,)}
    dotted = eb.budget_curve("...a,...ab->...b", (3, 4), (3, 4, 5), batch_counts={"a": 2})
    assert dotted.grid == {"a": (2,)}


@pytest.mark.parametrize(
    ("subscripts", "shapes", "above", "macs"),
    [
        ("ab->ba", [(4, 5)], 0, 0),
        ("ab->a", [(4, 5)], 32, 0),
        (",->", [(), ()], 8, 1),
        ("a,a->", [(4,), (4,)], 8, 4),
        ("ab,bc,cd->ad", [(4, 0), (0, 3), (3, 2)], 64, 0),
        ("ab,bc,cd->ad", [(0, 4), (4, 3), (3, 2)], 0, 0),
    ],
    ids=["view", "sum", "scalars", "two operands", "empty sum", "empty result"],
)
@pytest.mark.parametrize("temporaries", [True, False])
def test_degenerate_networks_have_a_curve(
    subscripts: str, shapes: list[tuple[int, ...]], above: int, macs: int, temporaries: bool
) -> None:
    curve = eb.budget_curve(subscripts, *shapes, temporaries=temporaries)
    operand_bytes = curve.plan(0).operand_bytes
    assert [(p.peak_bytes - operand_bytes, p.macs) for p in curve][-1] == (above, macs)
    assert str(curve)


def test_many_operands_get_the_best_plans_found() -> None:
    chain = ",".join(f"{a}{b}" for a, b in pairwise("abcdefghijklmno")) + "->ao"
    shapes = [(4, 6) if k % 2 else (6, 4) for k in range(14)]
    curve = eb.budget_curve(chain, *shapes, batch_counts={"c": 2})
    assert not curve.exact
    plans = [curve.plan(k) for k in range(len(curve))]
    assert [(p.peak_bytes, p.macs) for p in plans] == [(p.peak_bytes, p.macs) for p in curve]
    loops = [loop for plan in plans for loop in plan.loops]
    assert all((loop.index, loop.n_batches) == ("c", 2) for loop in loops)
    assert curve[-1].macs == eb.plan(chain, *shapes).macs


def test_little_effort_is_admitted_and_made_up_for() -> None:
    hurried = eb.budget_curve(
        TEMPTING,
        *TEMPTING_SHAPES,
        batch_counts=TEMPTING_COUNTS,
        temporaries=False,
        optimize=Effort(states=10),
    )
    exact = eb.budget_curve(
        TEMPTING, *TEMPTING_SHAPES, batch_counts=TEMPTING_COUNTS, temporaries=False
    )
    assert not hurried.exact
    assert hurried[-1].macs == exact[-1].macs
    for point in hurried:
        assert min(p.macs for p in exact if p.peak_bytes <= point.peak_bytes) <= point.macs


def test_some_points_are_kept_with_both_ends() -> None:
    whole, three = (
        eb.budget_curve(
            TEMPTING,
            *TEMPTING_SHAPES,
            batch_counts=TEMPTING_COUNTS,
            temporaries=False,
            points=n,
        )
        for n in (None, 3)
    )
    assert (len(whole), len(three)) == (5, 3)
    assert (three[0], three[-1]) == (whole[0], whole[-1])
    assert three.plan(1).macs == three[1].macs


@pytest.mark.parametrize("n_most", range(2, 9))
def test_points_are_spread_evenly_in_the_logarithm(n_most: int) -> None:
    tree = Tree.plain(random_network(random.Random(0), 1, 1), ())
    stairs = tuple(Stair(eb.BudgetPoint(2**k, 0, 99 - k, 0.0), tree, 0) for k in range(9))
    kept = [stair.point.peak_bytes for stair in spread(stairs, n_most)]
    assert len(kept) == n_most
    assert (kept[0], kept[-1]) == (1, 256)
    gaps = [(high // low).bit_length() - 1 for low, high in pairwise(kept)]
    assert max(gaps) - min(gaps) <= 1


def test_a_curve_is_a_tuple_that_can_be_pickled() -> None:
    curve = eb.budget_curve(LADDER, *LADDER_SHAPES, batch_counts=LADDER_COUNTS)
    again = pickle.loads(pickle.dumps(curve))
    assert isinstance(curve, tuple)
    assert again == curve
    assert (again.grid, again.exact, str(again)) == (curve.grid, curve.exact, str(curve))


def test_dtypes_count() -> None:
    options: dict[str, Any] = {"batch_counts": LADDER_COUNTS, "temporaries": False}
    double = eb.budget_curve(LADDER, *LADDER_SHAPES, **options)
    single = eb.budget_curve(LADDER, *LADDER_SHAPES, dtype="float32", **options)
    each = eb.budget_curve(LADDER, *LADDER_SHAPES, dtype=["float32"] * 3, **options)
    assert [2 * p.peak_bytes for p in single] == [p.peak_bytes for p in double]
    assert each == single


def test_a_curve_prints_as_a_table() -> None:
    curve = eb.budget_curve(
        TEMPTING, *TEMPTING_SHAPES, batch_counts=TEMPTING_COUNTS, temporaries=False
    )
    lines = str(curve).splitlines()
    assert lines[0] == f"{TEMPTING}  float64"
    assert lines[2].split() == ["peak", "workspace", "macs", "of", "fewest", "time"]
    assert [line.split()[4:6] for line in lines[3:8]] == [
        [f"{macs:,}", f"{macs / 14592:.2f}x"] for macs in (34176, 32640, 32448, 23552, 14592)
    ]
    assert lines[9:] == [
        "d, f in 2 slices",
        "e in 4 slices",
        "no plan over these slices lies below",
    ]
    bare = eb.budget_curve("ab->ba", (2, 2), batch_counts={}, temporaries=False)
    assert str(bare).splitlines()[-2:] == [
        "no index is cut",
        "no plan over these slices lies below",
    ]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"batch_counts": {"x": 2}},
            eb.PlanError,
            r"^batch_counts cuts 'x', which the expression does not have; it has p, a, c, b, d, ",
        ),
        (
            {"batch_counts": {"a": 7}},
            eb.PlanError,
            r"^batch_counts cuts 'a' into 7 slices; expected 1 to 6, since 'a' has 6 elements$",
        ),
        (
            {"batch_counts": {"a": 0}},
            eb.PlanError,
            r"^batch_counts cuts 'a' into 0 slices; expected 1 to 6, since 'a' has 6 elements$",
        ),
        (
            {"batch_counts": {"a": 2.5}},
            TypeError,
            r"^batch_counts of 'a' is 2\.5 of type float; expected an integer$",
        ),
        (
            {"batch_counts": ["a"]},
            TypeError,
            r"^batch_counts is \['a'\] of type list; expected a mapping of labels to numbers of "
            r"slices, such as {'a': 4}$",
        ),
        (
            {"points": 1},
            eb.PlanError,
            r"^points is 1; expected at least 2, one for each end, or None for all$",
        ),
        (
            {"points": "3"},
            TypeError,
            r"^points is '3' of type str; expected an integer$",
        ),
        (
            {"optimize": "greedy"},
            TypeError,
            r"^optimize is 'greedy' of type str; expected an einbound\.Effort or None: a curve is "
            r"over all orders$",
        ),
        (
            {"optimize": Effort(deadline_seconds=2.0, clock=float)},
            eb.PlanError,
            r"^optimize has deadline_seconds=2\.0; a curve counts its work in states; "
            r"leave it out$",
        ),
        (
            {"dtype": object},
            eb.DTypeError,
            r"^a curve of bytes was asked for operands of dtype object, whose elements take memory "
            r"that no shape tells; expected a numeric dtype; convert them$",
        ),
    ],
)
def test_wrong_arguments_are_named(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        eb.budget_curve(LADDER, *LADDER_SHAPES, **options)
