"""What callers may get wrong, edit or carry elsewhere, at the public functions."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import einbound as eb
from strategies import Call, calls, strided

#: Callers are not bound by annotations.
Loop: Any = eb.Loop
build: Any = eb.Plan.build

SHAPES = ((4, 6), (6, 8), (8, 4))
CHAIN = "ab,bc,cd->ad"

#: Values of every JSON type, sensible nowhere or nearly so.
JUNK: list[Any] = [
    None, True, -1, 0, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\ud800", "M8[s]",
    "i4,i4", [], [0], [[0]], [None], [[0, 1], [0, 1]], {}, {"a": 1},
]  # fmt: skip


def looped_plan() -> eb.Plan:
    return eb.Plan.build(
        CHAIN, *SHAPES, path=[(0, 1), (0, 1)], loops=[Loop("c", node=1, batch_size=3)]
    )


def places(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value of a document."""
    yield above
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from places(value, (*above, key))
        else:
            yield (*above, key)


def altered(data: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy of a document with another value at one place."""
    if not place:
        return value
    data = copy.deepcopy(data)
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return data


class TestDocuments:
    def test_no_edit_raises_anything_but_a_plan_error(self) -> None:
        document = json.loads(looped_plan().to_json())
        for place in list(places(document)):
            for value in JUNK:
                text = json.dumps(altered(document, place, value))
                try:
                    eb.Plan.from_json(text)
                except eb.PlanError:
                    continue
                except Exception as error:
                    pytest.fail(f"{place} = {value!r} raises {error!r}")

    @pytest.mark.parametrize("text", ["[" * 100_000, "1" * 5000, "NaN", "", None, 5])
    def test_no_text_raises_anything_but_a_plan_error(self, text: Any) -> None:
        with pytest.raises(eb.PlanError):
            eb.Plan.from_json(text)

    @pytest.mark.parametrize("n_bytes", [0, 1000])
    def test_operand_bytes_are_not_believed(self, n_bytes: int) -> None:
        data = json.loads(looped_plan().to_json())
        data["promised"]["peak_bytes"] += n_bytes - data["operand_bytes"]
        data["operand_bytes"] = n_bytes
        with pytest.raises(eb.PlanError, match=rf"operand_bytes is {n_bytes}; the operands cover"):
            eb.Plan.from_json(json.dumps(data))

    def test_a_label_that_reads_like_an_ellipsis_is_refused(self) -> None:
        plan = eb.plan((2, 3), ["...", "x"], ["x"])
        with pytest.raises(eb.PlanError, match=r"label '\.\.\.' is text, which JSON could not"):
            plan.to_json()


class TestCopies:
    def test_a_plan_survives_pickling(self) -> None:
        plan = looped_plan()
        again = pickle.loads(pickle.dumps(plan))
        assert again.to_json() == plan.to_json()
        arrays = [np.ones(shape) for shape in SHAPES]
        assert np.array_equal(again(*arrays), plan(*arrays))

    def test_a_copy_of_a_plan_is_the_plan(self) -> None:
        plan = looped_plan()
        assert copy.copy(plan) is plan
        assert copy.deepcopy(plan) is plan

    @pytest.mark.parametrize(
        ("text", "limits"), [(CHAIN, {"memory_limit": 1}), ("ab,bc,cd->aa", {}), ("ab,b!,cd", {})]
    )
    def test_errors_survive_pickling(self, text: str, limits: dict[str, Any]) -> None:
        with pytest.raises(eb.EinboundError) as caught:
            eb.plan(text, *SHAPES, **limits)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))
        assert vars(again) == vars(caught.value)


class TestViews:
    @pytest.mark.parametrize("dtype", ["f4", "i1", "?", "O"])
    def test_dtype_is_not_looked_at(self, dtype: str) -> None:
        array = np.ones((2, 3))
        result = eb.einsum("ij->ji", array, dtype=dtype, casting="no")
        assert result.base is array
        assert result.dtype == array.dtype

    @pytest.mark.parametrize("dtype", ["U1", "M8[s]", "m8[D]", "i4,f8", "V3", "O"])
    def test_elements_of_every_dtype_are_seen(self, dtype: str) -> None:
        array = np.zeros((2, 2), dtype)
        for text in ("ij->ji", "ii->i"):
            result = eb.einsum(text, array)
            assert np.array_equal(result, np.einsum(text, array))
            assert np.shares_memory(result, array)

    @pytest.mark.parametrize("text", ["ij->ji", "ii->i"])
    def test_the_smallest_limit_of_a_view_is_its_operand(self, text: str) -> None:
        with pytest.raises(eb.BudgetError) as caught:
            eb.plan(text, (2, 2), memory_limit=31)
        assert caught.value.certified
        assert caught.value.lower_bound_bytes == caught.value.smallest_bytes == 32
        assert eb.plan(text, (2, 2), memory_limit=32).peak_bytes == 32


@given(calls(min_extent=1), st.data())
def test_memory_order_is_numpys_for_any_strides(call: Call, data: st.DataObject) -> None:
    arrays = [data.draw(strided(shape)) for shape in call.shapes]
    expected, result = np.einsum(call.text, *arrays), eb.einsum(call.text, *arrays)
    if isinstance(expected, np.ndarray):
        sides = zip(result.strides, expected.strides, expected.shape, strict=True)
        assert [a for a, _, n in sides if n != 1] == [
            b for b, n in zip(expected.strides, expected.shape, strict=True) if n != 1
        ]


def test_summed_labels_are_iterated_in_their_own_order() -> None:
    first, second = np.ones((3, 5), order="F"), np.ones((2, 4))
    expected = np.einsum("ec,af->fe", first, second)
    assert eb.einsum("ec,af->fe", first, second).strides == expected.strides


def test_text_may_be_bytes() -> None:
    assert eb.einsum(b"i,i", np.ones(2), np.ones(2)) == 2


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 1), ()])
def test_out_of_another_shape_is_named(shape: tuple[int, ...]) -> None:
    square, out = np.ones((2, 2)), np.empty(shape)
    text = r"out has shape \(.*\); the result has shape \(2, 2\); give an array of that shape"
    with pytest.raises(eb.ExpressionError, match=text):
        eb.einsum("ij,jk", square, square, out=out)
    with pytest.raises(eb.ExpressionError, match=text):
        eb.plan("ij,jk", square, square)(square, square, out=out)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"path": 5}, TypeError, "the path is 5; expected a path: a list of tuples"),
        ({"path": "01"}, TypeError, "the path is '01'; expected a path"),
        ({"path": [0, 1]}, TypeError, "expected a path"),
        ({"path": [(0.5, 1), (0, 1)]}, TypeError, "expected a path"),
        ({"path": [("a", "b")]}, TypeError, "expected a path"),
        ({"loops": "c"}, TypeError, "loops has 'c' of type str; expected einbound.Loop values"),
        ({"loops": [("c", 1, 2)]}, TypeError, "loops has .* of type tuple"),
        (
            {"loops": Loop("c", node=1.0, batch_size=2)},
            TypeError,
            "node of the loop over 'c' is 1.0",
        ),
        (
            {"loops": Loop("c", node=1, batch_size="2")},
            TypeError,
            "batch_size of the loop over 'c' is '2'",
        ),
        (
            {"loops": Loop("c", node=1, batch_size=0, n_batches=2.5)},
            TypeError,
            "n_batches of the loop over 'c' is 2.5",
        ),
        (
            {"loops": Loop("c", node=1, batch_size=2, role="external")},
            eb.PlanError,
            "have role external; there it is",
        ),
        ({"levels": [0, 0]}, TypeError, r"levels is \[0, 0\] of type list; expected a mapping"),
        ({"levels": {"a": 0}}, TypeError, "a step of levels is 'a' of type str"),
        ({"levels": {0: 0.5}}, TypeError, "level of step 0 is 0.5 of type float"),
        ({"buffer_bytes": "1KiB"}, TypeError, "buffer_bytes is '1KiB' of type str"),
        ({"buffer_bytes": -1}, eb.PlanError, "buffer_bytes is -1; expected a number of at least"),
    ],
)
def test_wrong_kinds_in_a_written_plan_are_named(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        build(CHAIN, *SHAPES, **options)


def test_planners_may_take_no_limit() -> None:
    def last_first(inputs: Any, output: Any, sizes: Any) -> list[tuple[int, int]]:
        return [(len(inputs) - 2, len(inputs) - 1), (0, 1)]

    assert eb.plan(CHAIN, *SHAPES, optimize=last_first).path == ((1, 2), (0, 1))
    assert eb.plan(CHAIN, *SHAPES, optimize=lambda *_: [(0, 1), (0, 1)]).path[0] == (0, 1)


@pytest.mark.parametrize("same", [5, [0, 1], [("a", 1)], [(0, 1, 2)], [(0.0, 1)]])
def test_same_that_is_no_pairs_is_named(same: Any) -> None:
    with pytest.raises(TypeError, match=r"same is .*; expected pairs of operand numbers"):
        eb.plan("ij,jk->ik", (3, 3), (3, 3), same=same)


def test_dtypes_are_not_listed_for_arrays() -> None:
    with pytest.raises(eb.ExpressionError, match="all operands are arrays, which have dtypes of"):
        eb.plan("i,i", np.ones(2), np.ones(2), dtype=["f4", "f8"])


def test_numbers_in_a_written_plan_may_be_numpys() -> None:
    loop = Loop("c", node=np.int64(1), batch_size=np.int64(3))
    path = ["einsum_path", (np.int64(0), 1), (0, 1)]
    plan = build(CHAIN, *SHAPES, path=path, loops=loop, levels={np.int64(0): np.int64(1)})
    assert eb.Plan.from_json(plan.to_json()).loops == plan.loops


def test_loops_name_an_ellipsis_as_it_is_printed() -> None:
    plan = build("...a,...a->...", (3, 4), (3, 4), loops=[Loop("...0", node=0, batch_size=1)])
    assert str(plan.loops[0].index) == "...0"


def test_labels_longer_than_a_letter_are_printed_apart() -> None:
    plan = eb.plan((2, 3), ["row", 1], (3, 4), [1, 2], ["row", 2])
    assert repr(plan).startswith("<einbound.Plan row 1,1 2->row 2 ")
    assert "row,1 ; 1,2->row,2" in str(plan)


def monotonous() -> float:
    return 0.0


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            {"states": -1},
            eb.PlanError,
            "states of an Effort is -1; expected a number of at least 0",
        ),
        ({"states": None}, TypeError, "states of an Effort is None of type NoneType"),
        ({"states": True}, TypeError, "states of an Effort is True of type bool"),
        ({"trials": 1.5}, TypeError, "trials of an Effort is 1.5 of type float"),
        ({"seed": None}, TypeError, "seed of an Effort is None of type NoneType"),
        ({"seed": "a"}, TypeError, "seed of an Effort is 'a' of type str"),
        ({"depth": -1}, eb.PlanError, "depth of an Effort is -1"),
        ({"widths": 5}, TypeError, r"widths of an Effort is 5 .* expected numbers of trips"),
        ({"widths": ()}, eb.PlanError, "widths of an Effort is empty"),
        ({"widths": (2, 0)}, eb.PlanError, "widths of an Effort is 0; expected .* at least 1"),
        ({"outer_products": 1}, TypeError, "outer_products of an Effort is 1 of type int"),
        ({"deadline_seconds": 1.0}, TypeError, "clock of an Effort is None .* time.monotonic"),
        ({"deadline_seconds": "1", "clock": monotonous}, TypeError, "deadline_seconds .* is '1'"),
        ({"deadline_seconds": -1, "clock": monotonous}, eb.PlanError, "deadline_seconds .* is -1"),
        (
            {"deadline_seconds": float("nan"), "clock": monotonous},
            eb.PlanError,
            "deadline_seconds of an Effort is nan; expected at least 0",
        ),
    ],
)
def test_an_effort_that_makes_no_sense_is_refused_when_it_is_made(
    given: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        eb.Effort(**given)


def test_efforts_hold_plain_values() -> None:
    effort: Any = eb.Effort
    numbers = effort(states=np.int64(10), widths=[np.int8(2), 4], outer_products=np.True_)
    assert numbers == eb.Effort(states=10, widths=(2, 4))
    assert hash(numbers) == hash(eb.Effort(states=10, widths=(2, 4)))
    assert type(numbers.states) is type(numbers.widths[0]) is int


@pytest.mark.parametrize(
    ("keyword", "value", "text"),
    [
        ("volatile", [True], "volatile is .True.; expected the numbers of the operands"),
        ("iterations", np.True_, "iterations is np.True_ of type bool"),
        ("tiles", {"a": True}, "the width of the tiles of 'a' is True of type bool"),
    ],
)
def test_truth_values_are_no_numbers(keyword: str, value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        eb.plan(CHAIN, *SHAPES, **{keyword: value})


def test_truth_values_count_no_slices_and_no_loops() -> None:
    with pytest.raises(TypeError, match="batch_counts of 'b' is True of type bool"):
        eb.budget_curve(CHAIN, *SHAPES, batch_counts={"b": True})
    with pytest.raises(TypeError, match="points is True of type bool"):
        eb.budget_curve(CHAIN, *SHAPES, points=True)
    with pytest.raises(TypeError, match="batch_size of the loop over 'b' is True of type bool"):
        build(CHAIN, *SHAPES, loops=Loop("b", node=1, batch_size=True))


def test_tiles_of_one_element_are_none_however_long_the_index() -> None:
    shapes = ((3, 10**12), (10**12, 4))
    plain, tiled = (
        eb.plan("ik,kj->ij", *shapes, workspace_limit=10**6, tiles=tiles)
        for tiles in (None, {"k": 1})
    )
    assert tiled.loops == plain.loops


def test_tiles_of_an_index_longer_than_any_machine_counts_join_to_trips() -> None:
    tiles = {"k": (0, 10**29, 5 * 10**29, 10**30)}
    loop = Loop("k", node=0, n_batches=2)
    plan = build("ik,kj->ij", (3, 10**30), (10**30, 4), loops=loop, tiles=tiles)
    assert (plan.loops[0].batch_size, plan.loops[0].n_batches) == (5 * 10**29, 2)
