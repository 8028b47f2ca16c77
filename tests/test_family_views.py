"""The same product seen otherwise is the same product."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from einbound.kernels.decisions import Group, IndexOrder, Roles
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.views import n_axes, reordered, swapped, viewed
from einbound.machine.precision import Precision

problems = st.builds(
    MatmulProblem,
    m=st.integers(1, 9),
    n=st.integers(2, 9),
    k=st.integers(2, 9),
    outer_k=st.sampled_from([(), (3,), (2, 5)]),
    batch=st.sampled_from([(), (2,)]),
    a_dtype=st.sampled_from([Precision.FLOAT32, Precision.FLOAT16]),
    b_layout=st.sampled_from([BLayout.PLAIN, BLayout.TRANSPOSED]),
    hoistable=st.sampled_from([frozenset(), frozenset("A"), frozenset("B")]),
)


@given(problems)
def test_swapped_twice_is_the_same(problem: MatmulProblem) -> None:
    once = swapped(problem)
    twice = swapped(once)
    assert (once.m, once.n, once.macs) == (problem.n, problem.m, problem.macs)
    assert (once.a_dtype, once.b_dtype) == (problem.b_dtype, problem.a_dtype)
    assert replace(twice, a_strides=None, b_strides=None, c_strides=None) == problem
    assert swapped(swapped(twice)) == twice


@given(problems, st.data())
def test_an_order_keeps_the_product(problem: MatmulProblem, data: st.DataObject) -> None:
    places = tuple(range(len(problem.outer_k) + 1))
    order = data.draw(st.permutations(places))
    other = reordered(problem, IndexOrder(tuple(order)))
    extents = (*problem.outer_k, problem.k)
    assert (*other.outer_k, other.k) == tuple(extents[place] for place in order)
    assert other.macs == problem.macs
    if list(order) == list(places):
        assert other == problem
    if problem.b_layout is BLayout.PLAIN:
        assert other.b_layout is BLayout.PLAIN


def test_a_transposed_b_is_only_so_along_its_own_innermost_loop() -> None:
    problem = MatmulProblem(m=4, n=5, k=6, outer_k=(7,), b_layout=BLayout.TRANSPOSED)
    other = reordered(problem, IndexOrder((1, 0)))
    assert other.b_layout is BLayout.UNKNOWN
    assert (other.a_strides, other.b_strides) == ((42, 6), (6, 42))


def test_orders_are_open_only_where_strides_tell_what_they_mean() -> None:
    problem = MatmulProblem(m=4, n=5, k=6, outer_k=(7,))
    assert [n_axes(problem, group) for group in Group] == [1, 1, 2]
    assert n_axes(replace(problem, a_strides=(100, 1)), Group.K) == 1


def test_axes_of_groups_move_with_their_strides() -> None:
    groups = Groups(
        m=(GroupAxis(2, 100, 0, 1000), GroupAxis(3, 10, 0, 50)),
        n=(GroupAxis(5, 0, 1, 1),),
        k=(GroupAxis(7, 1, 5, 0),),
    )
    problem = MatmulProblem(m=6, n=5, k=7, groups=groups)
    path = (("", Roles("as_given")), ("", IndexOrder((1, 0), "m")))
    other = viewed(problem, path)
    assert other.m == 6
    assert other.a_strides == (100, 1)
    assert other.c_strides == (1000, 1)
    assert viewed(other, path[1:]) == problem
