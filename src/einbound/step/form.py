"""Matrix forms of a step: which axes are the matrix, which are batch, and what BLAS takes as it is.

The rules were read in NumPy's matmul and measured with NumPy 2.4: a matrix that BLAS cannot take
is copied by NumPy with plain malloc, which tracing tools do not see, so such a form is refused.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np

from einbound.step.pair import CARRIERS, A, B, Group, Pair, nests

#: Element types that NumPy hands to BLAS; all others run in a plain loop on any strides.
BLAS_CHARS = frozenset("fdFD")
#: Of each group at most so many runs are tried as the matrix.
MAX_RUNS = 2
NONE: list[tuple[int, ...]] = [()]


class Kernel(Enum):
    """What NumPy does with one matrix of a product."""

    GEMM = "matrix by matrix"
    GEMV = "matrix by vector"
    DOT = "vector by vector"
    LOOP = "plain loop"


@dataclass(frozen=True, slots=True)
class Form:
    """The part of each axis in a batched matrix product, by axis number, outermost first.

    Attributes:
        batch: Axes outside the matrix, in any of the arrays.
        rows: Axes that make m.
        columns: Axes that make n.
        sums: Axes that make k.
        looped: Summed axes that are left to loops around the product.
    """

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    sums: tuple[int, ...]
    looped: tuple[int, ...] = ()

    def matrix(self, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First and second axes of the matrix in a, b or c."""
        return (
            (self.rows, self.sums),
            (self.sums, self.columns),
            (self.rows, self.columns),
        )[side]


def uses_blas(dtype: np.dtype) -> bool:
    """Whether NumPy multiplies matrices of this type with BLAS."""
    return dtype.char in BLAS_CHARS and dtype.isnative


def blas_takes(outer: int, n_outer: int, inner: int, n_inner: int, itemsize: int) -> bool:
    """Whether BLAS takes a matrix with these byte strides and extents without a copy."""
    if inner != itemsize:
        outer, inner, n_inner = inner, outer, n_outer
    return inner == itemsize and outer % itemsize == 0 and outer // itemsize >= n_inner


def runs(pair: Pair, members: tuple[int, ...], fixed: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The maximal runs of axes that nest in all arrays `fixed`; one run if there are none."""
    axes = pair.axes
    if not members:
        return []
    if not fixed:
        return [members]
    ordered = sorted(members, key=lambda i: [-abs(axes[i].strides[s]) for s in fixed])
    found = [[ordered[0]]]
    for i in ordered[1:]:
        if nests(axes[found[-1][-1]], axes[i], fixed):
            found[-1].append(i)
        else:
            found.append([i])
    return [tuple(run) for run in found]


def forms(pair: Pair, fixed: frozenset[int]) -> list[Form]:
    """The forms in which the arrays `fixed` can be used as they are; the others are arranged.

    Args:
        pair: The step.
        fixed: Which of a, b, c are used where they are; the others get a buffer in any order.
    """
    sums = _candidates(pair, Group.SUM, fixed)
    rows = _candidates(pair, Group.ROW, fixed)
    columns = _candidates(pair, Group.COLUMN, fixed)
    # A vector or a scalar as the matrix only where no real matrix is legal.
    for m_runs, n_runs in ((rows, columns), (NONE, columns), (rows, NONE), (NONE, NONE)):
        tried = [_form(pair, *run) for run in itertools.product(m_runs, n_runs, sums)]
        found = [form for form in tried if all(is_taken(pair, form, side) for side in fixed)]
        if found:
            return found
    return []


def is_taken(pair: Pair, form: Form, side: int) -> bool:
    """Whether matmul takes one array's matrices where they lie, without a copy.

    With an extent of 1 NumPy calls gemv, dot or its own loop, and none of them copies.
    """
    if not (form.rows and form.columns and form.sums and uses_blas(pair.work)):
        return True
    axes = pair.axes
    first, second = form.matrix(side)
    outer, inner = axes[first[-1]].strides[side], axes[second[-1]].strides[side]
    n_outer, n_inner = (prod([axes[i].extent for i in run]) for run in (first, second))
    return blas_takes(outer, n_outer, inner, n_inner, pair.work.itemsize)


def kernel(pair: Pair, form: Form, fixed: frozenset[int], m: int, n: int, k: int) -> Kernel:
    """What NumPy runs for matrices of these extents."""
    if not uses_blas(pair.work) or k == 1:
        return Kernel.LOOP
    if m > 1 and n > 1:
        return Kernel.GEMM
    axes, size = pair.axes, pair.work.itemsize
    if m == 1 and n == 1:
        units = (axes[form.sums[-1]].strides[s] == size for s in (A, B) if s in fixed)
        return Kernel.DOT if all(units) else Kernel.LOOP
    matrix, vector = (A, B) if n == 1 else (B, A)
    if vector in fixed and axes[form.sums[-1]].strides[vector] < size:
        return Kernel.LOOP
    if matrix in fixed:
        first, second = form.matrix(matrix)
        outer, inner = axes[first[-1]].strides[matrix], axes[second[-1]].strides[matrix]
        n_first, n_second = (m, k) if n == 1 else (k, n)
        if not blas_takes(outer, n_first, inner, n_second, size):
            return Kernel.LOOP
    return Kernel.GEMV


def check_form(pair: Pair, form: Form, fixed: frozenset[int]) -> None:
    """Nothing, if every array that matmul will see in place is one that it takes without a copy.

    Raises:
        AssertionError: One is not; such a way must not be built.
    """
    for side in fixed:
        assert pair.is_ready(side), f"array {side} is not {pair.work} and aligned: {pair.views}"
        assert is_taken(pair, form, side), (
            f"matmul would copy the matrices of array {side}: {pair.views[side]} in {form}"
        )
        for run in form.matrix(side):
            for outer, inner in itertools.pairwise(run):
                assert nests(pair.axes[outer], pair.axes[inner], (side,)), (
                    f"axes {outer}, {inner} do not nest in array {side}: {pair.views[side]}"
                )


def _candidates(pair: Pair, group: Group, fixed: frozenset[int]) -> list[tuple[int, ...]]:
    """Runs of one group that may be its side of the matrix; the empty one if there are none."""
    sides = tuple(s for s in CARRIERS[group] if s in fixed)
    found = runs(pair, pair.groups[group], sides)
    axes, size = pair.axes, pair.work.itemsize

    def rank(run: tuple[int, ...]) -> tuple[bool, int]:
        units = any(axes[run[-1]].strides[s] == size for s in sides)
        return units, prod(axes[i].extent for i in run)

    if len(found) > MAX_RUNS:
        largest = max(found, key=lambda run: prod(axes[i].extent for i in run))
        found = sorted(found, key=rank, reverse=True)[:MAX_RUNS]
        if largest not in found:
            found.append(largest)
    return found or NONE


def _form(
    pair: Pair, rows: tuple[int, ...], columns: tuple[int, ...], sums: tuple[int, ...]
) -> Form:
    inside = {*rows, *columns, *sums}
    batch: list[int] = []
    looped: list[int] = []
    for i, axis in enumerate(pair.axes):
        if i not in inside:
            (looped if axis.group is Group.SUM else batch).append(i)
    return Form(tuple(batch), rows, columns, sums, tuple(looped))
