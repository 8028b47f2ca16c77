"""The same product seen otherwise is the same product."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from einbound.kernels.decisions import Group, IndexOrder, Roles
from einbound.kernels.family import family_tree
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.menu import Menu
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.views import n_axes, oriented, reordered, seen_by, swapped, viewed
from einbound.machine.limits import HardwareLimits
from einbound.machine.precision import Precision
from einbound.space.traversal import enumerate_leaves, leaves
from family_sites import CPU, GPU

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


@given(problems)
def test_a_product_is_oriented_so_that_its_result_lies_in_rows(problem: MatmulProblem) -> None:
    problem = replace(problem, m=problem.m + 1, zeroed=True)
    by_columns = swapped(problem)
    assert oriented(problem) == problem
    assert oriented(by_columns) == swapped(by_columns)
    there = leaves(family_tree(problem, CPU, Menu.REFERENCE))
    assert len(leaves(family_tree(oriented(by_columns), CPU, Menu.REFERENCE))) == len(there)
    assert not leaves(family_tree(by_columns, CPU, Menu.REFERENCE))


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


@st.composite
def grouped(draw: st.DrawFn) -> MatmulProblem:
    """A product of contiguous arrays whose axes stand in any order."""
    extents = {
        name: draw(st.lists(st.sampled_from([1, 8, 16, 20]), min_size=1, max_size=2))
        for name in ("m", "n", "k")
    }
    axes = [(name, place) for name, sizes in extents.items() for place in range(len(sizes))]
    strides = {}
    for array, names in (("a", "mk"), ("b", "kn"), ("c", "mn")):
        step = 1
        for name, place in draw(st.permutations([axis for axis in axes if axis[0] in names])):
            strides[array, name, place] = step
            step *= extents[name][place]
    groups = Groups(
        **{
            name: tuple(
                GroupAxis(size, *(strides.get((array, name, place), 0) for array in "abc"))
                for place, size in enumerate(sizes)
            )
            for name, sizes in extents.items()
        }
    )
    *outer_k, k = extents["k"]
    return MatmulProblem(
        m=prod(extents["m"]),
        n=prod(extents["n"]),
        k=k,
        outer_k=tuple(outer_k),
        b_layout=BLayout(groups.b_layout),
        hoistable=draw(st.sampled_from([frozenset(), frozenset("A")])),
        groups=groups,
    )


@settings(max_examples=30, deadline=None)
@given(grouped(), st.sampled_from([CPU, GPU]))
def test_roles_and_orders_give_the_trees_of_all_views_whose_rows_can_be_written(
    problem: MatmulProblem, limits: HardwareLimits
) -> None:
    tree = family_tree(problem, limits, Menu(roles=True, index_orders=True))
    expected = {}
    for is_swapped in (False, True):
        start = swapped(problem) if is_swapped else problem
        for orders in product(*(innermost(start, group) for group in Group)):
            other = viewed(start, [("", order) for order in orders])
            strides = other.c_strides
            assert strides is not None
            if strides[1] == 1 or other.n == 1:
                decided: dict[str, Any] = {
                    f"{order.group}_order": order.order for order in orders if not order.is_given
                }
                for spec in leaves(family_tree(other, limits, Menu.REFERENCE)):
                    expected[replace(spec, swapped=is_swapped, **decided)] = other
    found = leaves(tree)
    assert len(set(found)) == len(found)
    assert set(found) == set(expected)
    for path, spec in enumerate_leaves(tree):
        assert viewed(problem, path) == seen_by(problem, spec) == expected[spec]


def innermost(problem: MatmulProblem, group: Group) -> list[IndexOrder]:
    """All orders of a group that move one axis inside."""
    n = n_axes(problem, group)
    rest = [tuple(each for each in range(n) if each != last) for last in range(n)]
    return [IndexOrder((*others, last), group) for last, others in enumerate(rest)]


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
