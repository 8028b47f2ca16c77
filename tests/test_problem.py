"""Matrix products as problems: fields, canonical forms, text, and steps of plans."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

import einbound as eb
from einbound.errors import KernelError
from einbound.expr.network import Network
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.persistent import persistent_sides
from einbound.kernels.problem import NO_TAIL, BLayout, MatmulProblem
from einbound.machine.precision import Precision
from einbound.plan.tree import Tree
from einbound.step.pair import Pair
from einbound.step.view import View
from einbound.step.way import pair_way, sum_way

Array = NDArray[Any]
EXTENTS = st.integers(1, 5)
F64 = np.dtype("float64")


def made(**fields: Any) -> MatmulProblem:
    """A problem from fields as callers may write them, texts and single numbers among them."""
    return MatmulProblem(**{"m": 2, "n": 3, "k": 4, **fields})


# fields -------------------------------------------------------------------------------------


def test_texts_and_single_numbers_become_members_and_tuples() -> None:
    problem = made(m=2, n=3, k=4, batch=5, outer_k=[6, 7], a_dtype="bf16", b_layout="transposed",
        hoistable=["B", "A"],
    )  # fmt: skip
    assert problem.batch == (5,)
    assert problem.outer_k == (6, 7)
    assert problem.a_dtype is Precision.BFLOAT16
    assert problem.b_layout is BLayout.TRANSPOSED
    assert problem.hoistable == {"A", "B"}
    assert hash(problem) == hash(replace(problem))


def test_macs_are_exact_beyond_64_bits() -> None:
    huge = 10**30
    problem = made(m=huge, n=huge, k=huge, batch=(2, 3), outer_k=5)
    assert problem.macs == 30 * huge**3
    assert problem.n_batch == 6


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"m": 0}, "m is 0; expected at least 1: an empty product needs no kernel"),
        ({"k": -3}, "k is -3; expected at least 1"),
        ({"n": 2.0}, "n is 2.0; expected a whole number of at least 1"),
        ({"n": True}, "n is True; expected a whole number"),
        ({"batch": (2, 0)}, "an extent of batch is 0; expected at least 1"),
        ({"outer_k": "3"}, "outer_k is '3'; expected a whole number"),
        ({"a_dtype": "int8"}, "a_dtype: 'int8' is no number format of kernels"),
        ({"b_layout": "fortran"}, "b_layout is 'fortran'; expected one of plain, transposed"),
        ({"hoistable": "C"}, 'hoistable is \'C\'; expected any of "A" and "B"'),
        ({"hoistable": 2}, "hoistable is 2; expected any of"),
        ({"zeroed": "yes"}, "zeroed is 'yes'; expected True or False"),
        ({"epilogue": ""}, "epilogue is ''; expected text, or None"),
        ({"epilogue": "relu", "epilogue_reason": "two readers"}, "give one of them"),
        ({"a_strides": (1,)}, r"a_strides is \(1,\); expected two whole numbers of elements"),
        ({"b_strides": (1, 5)}, r"b_layout is 'plain' and b_strides are \(1, 5\); expected a str"),
        ({"groups": Groups(m=(GroupAxis(5),))}, "the groups are .* expected axes that make batch"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        made(**fields)


@pytest.mark.parametrize("axis", [{"extent": 0}, {"extent": 2, "a": 0.5}])
def test_an_axis_without_elements_or_with_broken_strides_is_refused(axis: dict[str, Any]) -> None:
    with pytest.raises(KernelError, match=r"an axis has extent .* expected whole numbers"):
        GroupAxis(**axis)


def test_why_no_tail_is_fused_is_told_as_given_or_in_general() -> None:
    problem = made(m=2, n=3, k=4)
    assert problem.unfused_because == NO_TAIL
    assert replace(problem, epilogue_reason="two readers").unfused_because == "two readers"


def test_a_problem_prints_on_one_line() -> None:
    problem = made(m=2, n=3, k=4, batch=(5, 6), outer_k=7, epilogue="relu", hoistable="A")
    assert str(problem) == (
        "5*6 x (2 x 3 x 7*4) float32 float32 -> float32, B plain, hoistable A, then relu"
    )


# canonical form and text --------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> MatmulProblem:
    formats = st.sampled_from(Precision)
    fields: dict[str, Any] = {name: draw(EXTENTS) for name in ("m", "n", "k")}
    return MatmulProblem(
        **fields,
        batch=tuple(draw(st.lists(EXTENTS, max_size=3))),
        outer_k=tuple(draw(st.lists(EXTENTS, max_size=3))),
        a_dtype=draw(formats),
        b_dtype=draw(formats),
        out_dtype=draw(formats),
        b_layout=draw(st.sampled_from(BLayout)),
        hoistable=draw(st.frozensets(st.sampled_from("AB"))),
        epilogue=draw(st.none() | st.just("relu")),
        zeroed=draw(st.booleans()),
        a_strides=draw(st.none() | st.tuples(st.integers(-9, 9), st.integers(-9, 9))),
        c_strides=draw(st.none() | st.tuples(st.integers(1, 9), st.integers(1, 9))),
    )


@given(problems())
def test_a_problem_comes_back_from_its_text(problem: MatmulProblem) -> None:
    assert MatmulProblem.from_json(problem.to_json()) == problem


@given(problems())
def test_the_canonical_form_is_its_own_and_keeps_the_work(problem: MatmulProblem) -> None:
    canonical = problem.canonical
    assert canonical.canonical == canonical
    assert canonical.macs == problem.macs
    assert 1 not in canonical.batch
    assert canonical.key == problem.key


def test_loops_of_one_trip_and_usual_strides_make_no_other_problem() -> None:
    plain = made(m=2, n=3, k=4)
    told = made(m=2, n=3, k=4, batch=(1, 1), outer_k=1, a_strides=(4, 1), b_strides=(3, 1),
        c_strides=(3, 1),
    )  # fmt: skip
    assert told != plain
    assert told.key == plain.key


@pytest.mark.parametrize(
    "other",
    [
        {"a_strides": (5, 1)},
        {"b_layout": "transposed"},
        {"out_dtype": "f64"},
        {"zeroed": True},
        {"batch": 2},
        {"hoistable": "A"},
        {"epilogue": "relu"},
    ],
)
def test_what_a_kernel_can_tell_makes_another_problem(other: dict[str, Any]) -> None:
    assert made(m=2, n=3, k=4, **other).key != made(m=2, n=3, k=4).key


def test_a_stride_along_one_element_makes_no_other_problem() -> None:
    row = made(m=1, n=3, k=4, a_strides=(99, 1))
    assert row.key == made(m=1, n=3, k=4).key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a problem is no JSON"),
        ('{"m": 2, "n": 3}', "is no problem; expected an object with m, n, k"),
        ('{"m": 2, "n": 3, "k": 4, "x": 1}', "is no problem; expected an object with m, n, k"),
        ("[]", "is no problem"),
        (None, "a problem is no JSON"),
        ("[" * 100_000, "a problem is no JSON"),
        ('{"m": 2, "n": 3, "k": 0}', "k is 0; expected at least 1"),
    ],
)
def test_text_that_is_no_problem_is_refused(text: Any, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        MatmulProblem.from_json(text)


# groups -------------------------------------------------------------------------------------

GROUPS = Groups(
    m=(GroupAxis(2, a=20, c=3), GroupAxis(3, a=4, c=1)),
    n=(GroupAxis(5, b=1, c=6),),
    k=(GroupAxis(4, a=1, b=5),),
)


def test_strides_are_the_innermost_of_the_groups() -> None:
    problem = made(m=6, n=5, k=4, groups=GROUPS, a_strides=(99, 99))
    assert problem.a_strides == (4, 1)
    assert problem.b_strides == (5, 1)
    assert problem.c_strides == (1, 6)


def test_groups_swapped_twice_are_the_same() -> None:
    assert GROUPS.swapped != GROUPS
    assert GROUPS.swapped.swapped == GROUPS
    assert GROUPS.swapped.m == (GroupAxis(5, a=1, c=6),)


def test_columns_that_do_not_lie_side_by_side_make_no_plain_layout() -> None:
    nested = Groups(n=(GroupAxis(2, b=3), GroupAxis(3, b=1)), k=(GroupAxis(4, b=6),))
    apart = Groups(n=(GroupAxis(2, b=4), GroupAxis(3, b=1)), k=(GroupAxis(4, b=8),))
    assert nested.b_layout == "plain"
    assert apart.b_layout == "unknown"


# steps --------------------------------------------------------------------------------------


#: The stubs of einsum know no interleaved form of floats.
summed: Any = np.einsum


def gathered(
    problem: MatmulProblem, a: NDArray[Any], b: NDArray[Any], c_shape: tuple[int, ...]
) -> NDArray[Any]:
    """The result of a problem, computed by its groups' strides alone on flat memory."""
    groups = problem.groups
    assert groups is not None
    axes = [*groups.batch, *groups.m, *groups.n, *groups.k]
    n_kept = len(axes) - len(groups.k)
    size = [axis.extent for axis in axes]
    looks = [
        as_strided(array, size, [getattr(axis, side) * array.itemsize for axis in axes])
        for side, array in (("a", a), ("b", b))
    ]
    products = looks[0] * looks[1]
    result = np.zeros(prod(c_shape), products.dtype)
    strides = [axis.c * result.itemsize for axis in axes[:n_kept]]
    as_strided(result, size[:n_kept], strides)[...] = products.sum(tuple(range(n_kept, len(axes))))
    return result.reshape(c_shape)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[View, View, View]:
    """Layouts of a step that sums something and has rows or columns; any order of axes."""
    groups = [draw(st.integers(low, 2)) for low in (0, 0, 0, 1)]
    n = sum(groups)
    extents = [draw(st.integers(2, 4)) for _ in range(n)]
    labels = iter(range(n))
    batch, rows, columns, sums = ([next(labels) for _ in range(count)] for count in groups)
    if not rows and not columns:
        rows.append(n)
        extents.append(draw(st.integers(2, 4)))
    views = []
    for members in (batch + rows + sums, batch + columns + sums, batch + rows + columns):
        order = tuple(draw(st.permutations(members)))
        views.append(View.contiguous(order, tuple(extents[i] for i in order), F64))
    return views[0], views[1], views[2]


@settings(max_examples=60)
@given(pairs(), st.integers(0, 2**32 - 1))
def test_the_strides_of_a_step_reach_every_element(
    views: tuple[View, View, View], seed: int
) -> None:
    a, b, c = views
    problem = MatmulProblem.from_step(Pair.of(a, b, c, F64))
    rng = np.random.default_rng(seed)
    left = rng.integers(-5, 5, a.extents).astype(F64)
    right = rng.integers(-5, 5, b.extents).astype(F64)
    expected = summed(left, a.indices, right, b.indices, c.indices)
    assert np.array_equal(gathered(problem, left, right, c.extents), expected)
    extents = dict(zip(a.indices, a.extents, strict=True))
    extents.update(zip(b.indices, b.extents, strict=True))
    assert problem.macs == prod(extents.values())
    assert MatmulProblem.from_json(problem.to_json()) == problem
    assert problem.canonical.macs == problem.macs


def step(text: str, *shapes: tuple[int, ...], dtype: Any = "float64") -> Any:
    return eb.plan(text, *shapes, dtype=dtype).meter().steps[0].way


@pytest.mark.parametrize(
    ("text", "layout"),
    [("ij,jk->ik", "plain"), ("ij,kj->ik", "transposed"), ("ij,jkl->ikl", "plain")],
)
def test_the_layout_of_b_is_read_from_its_strides(text: str, layout: str) -> None:
    shapes = [(3, 4), *(tuple({"j": 4, "k": 5, "l": 6}[x] for x in text[3 : text.index("-")]),)]
    assert MatmulProblem.from_step(step(text, *shapes)).b_layout == layout


def test_a_layout_with_neither_columns_nor_depth_side_by_side_is_unknown() -> None:
    a, c = View.contiguous((0, 1), (3, 4), F64), View.contiguous((0, 2), (3, 5), F64)
    every_second = View((1, 2), (4, 5), (80, 16), F64)
    assert MatmulProblem.from_step(Pair.of(a, every_second, c, F64)).b_layout is BLayout.UNKNOWN


def test_a_batch_and_several_sums_become_loops_around_the_matrix() -> None:
    problem = MatmulProblem.from_step(step("bikl,blkj->bij", (2, 3, 4, 5), (2, 5, 4, 6)))
    assert problem.batch == (2,)
    assert (problem.m, problem.n) == (3, 6)
    assert problem.outer_k == (4,)
    assert problem.k == 5


def test_a_vector_is_a_matrix_of_one_column() -> None:
    problem = MatmulProblem.from_step(step("ij,j->i", (3, 4), (4,)))
    assert (problem.m, problem.n, problem.k) == (3, 1, 4)


def test_a_step_that_adds_does_not_zero_its_result() -> None:
    a, b = View.contiguous((0, 1), (3, 4), F64), View.contiguous((1, 2), (4, 5), F64)
    c = View.contiguous((0, 2), (3, 5), F64)
    for adds in (False, True):
        way = pair_way(a, b, c, F64, accumulate=adds, buffer_bytes=2**20)
        assert MatmulProblem.from_step(way).zeroed is not adds


def test_what_the_caller_knows_about_a_step_is_kept() -> None:
    way = step("ij,jk->ik", (3, 4), (4, 5), dtype="float32")
    problem = MatmulProblem.from_step(way, hoistable="B", epilogue="relu")
    assert problem.hoistable == {"B"}
    assert problem.epilogue == "relu"
    assert problem.a_dtype is Precision.FLOAT32


@pytest.mark.parametrize(
    ("text", "shapes", "message"),
    [
        (
            "i,j->ij",
            [(3,), (4,)],
            "it sums nothing, with axes batch none, row 3",
        ),
        ("ij,ij->ij", [(3, 4), (3, 4)], "no matrix product: it sums nothing"),
        ("i,i->", [(3,), (3,)], "it has neither rows nor columns, with axes .* sum 3"),
        ("bi,bi->b", [(2, 3), (2, 3)], "it has neither rows nor columns, with axes batch 2"),
        ("ij,jk->ik", [(3, 0), (0, 4)], "the step is empty"),
    ],
)
def test_a_step_that_is_no_matrix_product_is_told_what_it_is(
    text: str, shapes: list[tuple[int, ...]], message: str
) -> None:
    with pytest.raises(KernelError, match=message):
        MatmulProblem.from_step(step(text, *shapes))


def test_a_sum_of_one_operand_is_no_matrix_product() -> None:
    a, c = View.contiguous((0, 1), (3, 4), F64), View.contiguous((0,), (3,), F64)
    way = sum_way(a, c, F64, accumulate=False, buffer_bytes=2**20)
    with pytest.raises(KernelError, match="no matrix product: it has one operand"):
        MatmulProblem.from_step(way)


def test_elements_that_no_kernel_knows_are_refused() -> None:
    with pytest.raises(KernelError, match=r"array a of the step: dtype\('int64'\) is no number f"):
        MatmulProblem.from_step(step("ij,jk->ik", (3, 4), (4, 5), dtype="int64"))


def test_strides_between_elements_are_refused() -> None:
    a, b = View((0, 1), (3, 4), (36, 9), F64), View.contiguous((1, 2), (4, 5), F64)
    c = View.contiguous((0, 2), (3, 5), F64)
    with pytest.raises(KernelError, match=r"a stride is .* bytes between elements of 8 bytes"):
        MatmulProblem.from_step(Pair.of(a, b, c, F64))


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(KernelError, match="'ij' is no step that runs; expected one of a plan, for"):
        MatmulProblem.from_step("ij")  # type: ignore[arg-type]


def test_a_step_its_way_and_its_axes_pose_one_problem() -> None:
    counted = eb.plan("bik,bkj->bij", (3, 8, 4), (3, 4, 6)).meter().steps[0]
    assert counted.way is not None
    problem = MatmulProblem.from_step(counted)
    assert problem == MatmulProblem.from_step(counted.way)
    assert problem == MatmulProblem.from_step(counted.way.pair)
    assert sorted((problem.m, problem.n)) == [6, 8]


def test_whole_numbers_of_numpy_become_those_of_python() -> None:
    one, two = np.int64(1), np.int32(2)
    problem = made(m=two, batch=np.array([2, 3]), b_strides=(two + 1, one))
    assert problem == made(m=2, batch=(2, 3), b_strides=(3, 1))
    assert type(problem.m) is type(problem.batch[0]) is int
    assert MatmulProblem.from_json(problem.to_json()) == problem
    assert type(GroupAxis(two, a=one).a) is int  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (5, "groups are 5; expected a mapping of batch, m, n, k"),
        ({"x": []}, "groups are .*; expected a mapping of batch, m, n, k"),
        ({"m": 5}, "group m is 5; expected axes"),
        ({"m": [5]}, "an axis is 5; expected extent, a, b, c"),
        ({"m": [{"q": 1}]}, "an axis is .*; expected extent, a, b, c"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: object, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        MatmulProblem.from_json(json.dumps({"m": 2, "n": 3, "k": 4, "groups": groups}))


def test_only_persistent_operands_that_are_read_where_they_lie_are_packed_once() -> None:
    inputs = ((0, 1), (1, 2, 4), (2, 3))
    network = Network(tuple("abcde"), (8,) * 5, inputs, (0, 3), ())
    tree = Tree.from_path(network, [(0, 1), (0, 1)])
    everything = {0, 1, 2, 3, 4}
    # Operand 1 is summed over e first; value 3 is made by the first step.
    assert [persistent_sides(tree, each, everything) for each in (0, 1)] == [{"A"}, {"A"}]
    assert persistent_sides(tree, 0, {2}) == frozenset()
