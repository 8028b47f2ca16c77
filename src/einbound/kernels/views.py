"""The same product seen otherwise: transposed, or with its contracted loops in another order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from einbound.kernels.decisions import Decision, IndexOrder, Roles, RolesKind
from einbound.kernels.problem import BLayout, MatmulProblem

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
            problem = reordered(problem, decision.order)
    return problem


def swapped(problem: MatmulProblem) -> MatmulProblem:
    """The product of the transposes, B^T A^T, which is the transpose of the result."""
    a_row, a_column = a_strides(problem)
    strides = b_strides(problem)
    return replace(
        problem,
        m=problem.n,
        n=problem.m,
        a_dtype=problem.b_dtype,
        b_dtype=problem.a_dtype,
        hoistable=frozenset(_OTHER[each] for each in problem.hoistable),
        b_layout=_layout(a_column, a_row),
        a_strides=strides and strides[::-1],
        b_strides=(a_column, a_row),
        c_strides=c_strides(problem)[::-1],
    )


def reordered(problem: MatmulProblem, order: tuple[int, ...]) -> MatmulProblem:
    """The product with its contracted loops nested in another order.

    Args:
        problem: A product whose operands are contiguous, so that the strides follow.
        order: Places in (`outer_k`..., `k`), outermost first.
    """
    extents = (*problem.outer_k, problem.k)
    inner = order[-1]
    step = prod(extents[inner + 1 :])
    a_row, a_column = a_strides(problem)
    given = b_strides(problem)
    strides = given and (given[0] * step, given[1])
    return replace(
        problem,
        k=extents[inner],
        outer_k=tuple(extents[place] for place in order[:-1]),
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


def _layout(row: int, column: int) -> BLayout:
    if column == 1:
        return BLayout.PLAIN
    return BLayout.TRANSPOSED if row == 1 else BLayout.UNKNOWN
