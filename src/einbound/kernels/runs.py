"""How far the arrays of a product lie side by side, and what it costs to copy them to panels.

Cycles were measured on Zen 5 (512-bit vectors, GCC 12): panels of 4 to 64 rows or columns of both
real formats, along runs of either group and along none. They follow what the code does, so that
they hold for narrower vectors, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from einbound.errors import KernelError
from einbound.kernels.groups import GroupAxis
from einbound.kernels.layout import nested, told
from einbound.kernels.nest import square_of
from einbound.kernels.problem import MatmulProblem

#: Cycles of a row of a panel that is copied as it lies, of each 16 bytes of whole vectors in it,
#: and of each number beyond them.
ROW_CYCLES, SIXTEEN_BYTES_CYCLES, REST_CYCLES = 3.0, 1.0, 0.9
#: Cycles of each row of a square that is turned in registers.
TURNED_ROW_CYCLES = 4.0
#: Cycles of a number that is copied alone, from a run along the depth and from anywhere.
ALONG_CYCLES, ALONE_CYCLES = 1.7, 2.1


@dataclass(frozen=True, slots=True)
class Side:
    """How one array lies along the rows or columns of a panel, and along its other group.

    Attributes:
        across: Numbers side by side along the rows of A or the columns of B and C.
        along: The same along the depth of A and B.
        beside: Panels that lie side by side number by number.
    """

    across: int
    along: int = 1
    beside: int = 1


#: An array of which nothing is known.
SCATTERED = Side(1)


@dataclass(frozen=True, slots=True)
class Sides:
    """How the arrays of a product lie."""

    a: Side = SCATTERED
    b: Side = SCATTERED
    c: Side = SCATTERED


@lru_cache(maxsize=4096)
def sides(problem: MatmulProblem, columns: int) -> Sides:
    """How the arrays of a product lie for panels of B of so many columns.

    Example:
        >>> sides(MatmulProblem(m=4, n=6, k=8), 2).b
        Side(across=6, along=1, beside=1)
    """
    try:
        groups = told(problem).groups
    except KernelError:
        return Sides()
    assert groups is not None, "strides are told"
    groups = nested(groups, columns)
    *outer, inner = groups.n
    is_cut = bool(outer) and outer[-1].b == 1 and inner.extent == columns
    return Sides(
        Side(_run(groups.m, _in_a), _run(groups.k, _in_a)),
        Side(
            _run(groups.n, _in_b),
            _run(groups.k, _in_b),
            outer[-1].extent if is_cut else 1,
        ),
        Side(_run(groups.n, _in_c)),
    )


def _in_a(axis: GroupAxis) -> int:
    return axis.a


def _in_b(axis: GroupAxis) -> int:
    return axis.b


def _in_c(axis: GroupAxis) -> int:
    return axis.c


def _run(axes: tuple[GroupAxis, ...], stride: Callable[[GroupAxis], int]) -> int:
    """Numbers that lie side by side along the innermost axes."""
    run = 1
    for axis in reversed(axes):
        if axis.extent > 1 and stride(axis) != run:
            break
        run *= axis.extent
    return run


def whole_share(run: int, width: int) -> float:
    """The share of panels of a width that lie within runs.

    Example:
        >>> whole_share(24, 8), whole_share(4, 8), whole_share(20, 11)
        (1.0, 0.0, 0.5)
    """
    if run % width == 0:
        return 1.0
    return max(0, run - width + 1) / run


def pack_cycles(side: Side, width: int, lanes: int, n_bytes: int, parts: int = 1) -> float:
    """Cycles to copy one number to a panel.

    Args:
        side: How the operand lies.
        width: Rows or columns of the panel.
        lanes: Numbers in a vector.
        n_bytes: Bytes of a number.
        parts: Vectors that hold one row of numbers: of complex ones, 2.

    Law: it is no less than `least_pack_cycles` (tests/test_cost.py).
    """
    vectors, rest = divmod(width, lanes)
    row = ROW_CYCLES + vectors * lanes * n_bytes / 16 * SIXTEEN_BYTES_CYCLES + rest * REST_CYCLES
    square = square_of(width, lanes) if parts == 1 else 1
    if square > 1 and max(side.along, side.beside) >= square:
        other = TURNED_ROW_CYCLES / square
    else:
        other = ALONG_CYCLES if side.along > 1 else ALONE_CYCLES
    share = whole_share(side.across, width)
    return max(share * row / width + (1 - share) * other, least_pack_cycles(n_bytes))


def least_pack_cycles(n_bytes: int) -> float:
    """The same of any panel: its bytes are read and written."""
    return n_bytes / 16 * SIXTEEN_BYTES_CYCLES
