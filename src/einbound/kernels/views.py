"""The same product seen otherwise: transposed, or with the axes of a group in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from einbound.kernels.decisions import Decision, Group, IndexOrder, Roles, RolesKind
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.problem import BLayout, MatmulProblem
from einbound.kernels.spec import KernelSpec

_OTHER = {"A": "B", "B": "A"}


def viewed(problem: MatmulProblem, path: Iterable[tuple[str, Decision]]) -> MatmulProblem:
    """The product that the rest of a path is about.

    Args:
        problem: The product that the tree was made for.
        path: Decisions, outermost first.

    Example:
        >>> viewed(MatmulProblem(m=2, n=3, k=4), [("roles", Roles("swapped"))]).m
        3
    """
    for _, decision in path:
        if isinstance(decision, Roles) and decision.kind is RolesKind.SWAPPED:
            problem = swapped(problem)
        if isinstance(decision, IndexOrder):
            problem = reordered(problem, decision)
    return problem


def seen_by(problem: MatmulProblem, spec: KernelSpec) -> MatmulProblem:
    """The product that a kernel's parameters are about.

    Example:
        >>> from einbound.kernels.kinds import PipelineKind
        >>> kernel = KernelSpec(gpu=False, pipeline=PipelineKind.TENSORIZED, k_order=(1, 0))
        >>> seen_by(MatmulProblem(m=2, n=3, k=4, outer_k=(5,)), kernel).k
        5
    """
    if spec.swapped:
        problem = swapped(problem)
    orders = {Group.M: spec.m_order, Group.N: spec.n_order, Group.K: spec.k_order}
    for group, order in orders.items():
        if order:
            problem = reordered(problem, IndexOrder(order, group))
    return problem


def swapped(problem: MatmulProblem) -> MatmulProblem:
    """The product of the transposes, B^T A^T, which is the transpose of the result.

    Law: swapped twice, it is the same but for strides that were left to be understood
    (tests/test_family_views.py).
    """
    a_row, a_column = a_strides(problem)
    strides = b_strides(problem)
    groups = problem.groups and problem.groups.swapped
    return replace(
        problem,
        m=problem.n,
        n=problem.m,
        a_dtype=problem.b_dtype,
        b_dtype=problem.a_dtype,
        hoistable=frozenset(_OTHER[each] for each in problem.hoistable),
        b_layout=BLayout(groups.b_layout) if groups else _layout(a_column, a_row),
        a_strides=strides and strides[::-1],
        b_strides=(a_column, a_row),
        c_strides=c_strides(problem)[::-1],
        groups=groups,
    )


def oriented(problem: MatmulProblem) -> MatmulProblem:
    """The product, or that of the transposes where only the result of that lies in rows.

    For menus without a level for the roles of the operands.

    Example:
        >>> by_columns = MatmulProblem(m=2, n=3, k=4, c_strides=(1, 2))
        >>> oriented(by_columns).m, oriented(oriented(by_columns)).m
        (3, 3)
    """
    is_by_columns = c_strides(problem)[1] != 1 and problem.n > 1
    other = swapped(problem)
    return other if is_by_columns and c_strides(other)[1] == 1 else problem


def n_axes(problem: MatmulProblem, group: Group) -> int:
    """How many axes of a group can be nested in any order; 1 where strides do not tell."""
    if problem.groups is not None:
        return max(1, len(_axes(problem.groups, group)))
    told = problem.a_strides is None and problem.b_strides is None
    return len(problem.outer_k) + 1 if group is Group.K and told else 1


def reordered(problem: MatmulProblem, order: IndexOrder) -> MatmulProblem:
    """The product with the axes of one group nested in another order.

    Args:
        problem: A product that has so many axes in this group (`n_axes`).
        order: The order.
    """
    if order.is_given:
        return problem
    if problem.groups is not None:
        return _regrouped(problem, problem.groups, order)
    extents = (*problem.outer_k, problem.k)
    inner = order.order[-1]
    step = prod(extents[inner + 1 :])
    a_row, a_column = a_strides(problem)
    given = b_strides(problem)
    strides = given and (given[0] * step, given[1])
    return replace(
        problem,
        k=extents[inner],
        outer_k=tuple(extents[place] for place in order.order[:-1]),
        b_layout=_layout(*strides) if strides else problem.b_layout,
        a_strides=(a_row, a_column * step),
        b_strides=strides,
    )


def a_strides(problem: MatmulProblem) -> tuple[int, int]:
    """Elements between neighbours of A along m and k."""
    return problem.a_strides or (problem.k * prod(problem.outer_k), 1)


def b_strides(problem: MatmulProblem) -> tuple[int, int] | None:
    """The same of B along k and n; None: not known."""
    if problem.b_strides or problem.b_layout is BLayout.UNKNOWN:
        return problem.b_strides
    if problem.b_layout is BLayout.PLAIN:
        return problem.n, 1
    return 1, problem.k * prod(problem.outer_k)


def c_strides(problem: MatmulProblem) -> tuple[int, int]:
    """The same of the result along m and n."""
    return problem.c_strides or (problem.n, 1)


def _regrouped(problem: MatmulProblem, groups: Groups, order: IndexOrder) -> MatmulProblem:
    axes = _axes(groups, Group(order.group))
    nested = {str(order.group): tuple(axes[place] for place in order.order)}
    groups = replace(groups, **nested)
    *outer_k, k = (axis.extent for axis in groups.k)
    layout = BLayout(groups.b_layout)
    return replace(problem, k=k, outer_k=tuple(outer_k), b_layout=layout, groups=groups)


def _axes(groups: Groups, group: Group) -> tuple[GroupAxis, ...]:
    return {Group.M: groups.m, Group.N: groups.n, Group.K: groups.k}[group]


def _layout(row: int, column: int) -> BLayout:
    if column == 1:
        return BLayout.PLAIN
    return BLayout.TRANSPOSED if row == 1 else BLayout.UNKNOWN
