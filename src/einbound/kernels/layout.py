"""A product with the strides of every axis told, and its axes nested as memory likes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import TypeAlias

from einbound.errors import KernelError
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.views import a_strides, b_strides, c_strides

Stride: TypeAlias = Callable[[GroupAxis], int]

#: How many times as much of B as of C makes it worth to write C number by number, so that B is
#: read in vectors.
MUCH_LARGER = 3


def told(problem: MatmulProblem) -> MatmulProblem:
    """The same product with the strides of all of its axes.

    Raises:
        KernelError: Some are not known.

    Example:
        >>> told(MatmulProblem(m=2, n=3, k=4)).groups.m
        (GroupAxis(extent=2, a=4, b=0, c=3),)
    """
    if problem.groups is not None:
        return problem
    of_b = b_strides(problem)
    is_strided = problem.a_strides or problem.b_strides or problem.c_strides
    if of_b is None or (is_strided and (problem.batch or problem.outer_k)):
        raise KernelError(
            f"strides of {problem} are not told for every axis; give the problem its groups"
        )
    (a_m, a_k), (b_k, b_n), (c_m, c_n) = a_strides(problem), of_b, c_strides(problem)
    m, n, depth = problem.m, problem.n, problem.k * prod(problem.outer_k)
    extents = (*problem.outer_k, problem.k)
    inside = [prod(extents[place + 1 :]) for place in range(len(extents))]
    within = [prod(problem.batch[place + 1 :]) for place in range(len(problem.batch))]
    groups = Groups(
        batch=tuple(
            GroupAxis(extent, m * depth * step, n * depth * step, m * n * step)
            for extent, step in zip(problem.batch, within, strict=True)
        ),
        m=(GroupAxis(m, a_m, 0, c_m),),
        n=(GroupAxis(n, 0, b_n, c_n),),
        k=tuple(
            GroupAxis(extent, a_k * step, b_k * step)
            for extent, step in zip(extents, inside, strict=True)
        ),
    )
    return replace(problem, groups=groups)


def nested(groups: Groups, columns: int) -> Groups:
    """The groups with axes that one array steps along closely next to the innermost ones.

    The innermost axes are decided and stay, unless B is much larger than C. Of the others, that
    along which the operand lies side by side comes next, so that what is read together is packed
    together: on Zen 3 this took a product whose columns are read and written along different axes
    from 9.8 to 18.1 GFLOP/s.
    Columns that are read across are cut to panels, so that neighbours in B are so in panels.

    Args:
        groups: Axes of all groups.
        columns: Columns of a panel of B.
    """
    groups = groups.without_units
    m, n, k = groups.m, groups.n, groups.k
    rows, depth = (prod(axis.extent for axis in axes) for axes in (m, k))
    if depth >= MUCH_LARGER * rows:
        # B is read far more than C is written: its own order goes first.
        n = _with_last(n, lambda axis: axis.b)
        return replace(groups, m=_nested(m, lambda axis: axis.a, 0), n=_nested(n, _in_c, columns))
    return replace(
        groups,
        m=_nested(m, lambda axis: axis.a, 0),
        n=_nested(n, lambda axis: axis.b, columns),
    )


def _in_c(axis: GroupAxis) -> int:
    return axis.c


def _with_last(axes: tuple[GroupAxis, ...], stride: Stride) -> tuple[GroupAxis, ...]:
    """The axes with that of stride 1 innermost, if there is one."""
    last = next((axis for axis in axes if abs(stride(axis)) == 1), axes[-1])
    return (*(axis for axis in axes if axis is not last), last)


def _nested(axes: tuple[GroupAxis, ...], stride: Stride, width: int) -> tuple[GroupAxis, ...]:
    """The axes with that of stride 1 next to the innermost one, which is cut to a width."""
    *outer, inner = axes
    near = next((axis for axis in outer if abs(stride(axis)) == 1), None)
    if near is None or abs(stride(inner)) == 1:
        return axes
    rest = [axis for axis in outer if axis is not near]
    if width and inner.extent > width and inner.extent % width == 0:
        a, b, c = inner.a * width, inner.b * width, inner.c * width
        rest.append(GroupAxis(inner.extent // width, a, b, c))
        inner = replace(inner, extent=width)
    return (*rest, near, inner)
