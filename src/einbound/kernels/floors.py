"""Lower counts: operations and bytes that no kernel of a problem can do without.

Counts only; seconds are made of them in `bounds`, and what one kernel really moves is in `cost`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt, prod

from einbound.errors import KernelError
from einbound.kernels.problem import MatmulProblem
from einbound.machine.limits import HardwareLimits


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of an array by a statement.

    Attributes:
        array: Name of the array.
        axes: The loops that select its cells; no two trips of these touch the same cell.
        n_bytes: Bytes of one cell.
        writes: Whether it is written.
    """

    array: str
    axes: frozenset[str]
    n_bytes: int
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment under loops.

    Attributes:
        loops: Names and extents.
        accesses: Arrays read and written by every trip.
        ops: Operations of one trip.
    """

    loops: tuple[tuple[str, int], ...]
    accesses: tuple[Access, ...]
    ops: int

    def n_cells(self, access: Access) -> int:
        """Distinct cells that all trips touch."""
        return prod(extent for axis, extent in self.loops if axis in access.axes)

    @property
    def n_trips(self) -> int:
        """Number of times that it runs."""
        return prod(extent for _, extent in self.loops)


@dataclass(frozen=True, slots=True)
class Floor:
    """Counts that every completion reaches.

    Attributes:
        flops: Operations, two per multiply-add.
        bytes: Bytes moved.
        flops_exact: Whether the operations are those of every completion, not only a lower count.
        bytes_exact: The same for bytes.
    """

    flops: int
    bytes: int
    flops_exact: bool = True
    bytes_exact: bool = True


def statement_floor(statement: Statement, undecided: Iterable[str] = ()) -> Floor:
    """What a statement must do, whatever becomes of the arrays that are `undecided`.

    An array whose placement is open may never be stored: reading it counts nothing, and neither
    does the statement that makes it. Accesses to one array in one direction may overlap, so that
    the largest of them counts alone.

    Args:
        statement: The statement.
        undecided: Names of arrays of which it is not decided where they live.

    Returns:
        Lower counts; fewer undecided arrays never lower them.

    Example:
        >>> x, row, y = (Access(*a) for a in [("x", frozenset("ij"), 4), ("row", frozenset("j"), 4),
        ...                                   ("y", frozenset("ij"), 4, True)])
        >>> statement_floor(Statement((("i", 4), ("j", 5)), (x, row, y), ops=1))
        Floor(flops=20, bytes=180, flops_exact=True, bytes_exact=True)
    """
    open_arrays = frozenset(undecided)
    if any(access.writes and access.array in open_arrays for access in statement.accesses):
        return Floor(0, 0, flops_exact=False, bytes_exact=False)
    largest: dict[tuple[str, bool], int] = {}
    exact = True
    for access in statement.accesses:
        key = (access.array, access.writes)
        exact = exact and key not in largest and access.array not in open_arrays
        if access.array not in open_arrays:
            moved = statement.n_cells(access) * access.n_bytes if statement.n_trips else 0
            largest[key] = max(largest.get(key, 0), moved)
    flops = statement.ops * statement.n_trips
    return Floor(flops, sum(largest.values()), bytes_exact=exact)


def statement_of(problem: MatmulProblem) -> Statement:
    """A product as one accumulating statement under all its loops."""
    batch = tuple((f"b{number}", extent) for number, extent in enumerate(problem.batch))
    outer = tuple((f"k{number}", extent) for number, extent in enumerate(problem.outer_k))
    shared = frozenset(name for name, _ in batch)
    depth = frozenset(name for name, _ in outer) | {"k"}
    result = shared | {"m", "n"}
    accesses = (
        Access("A", shared | depth | {"m"}, problem.a_dtype.n_bytes),
        Access("B", shared | depth | {"n"}, problem.b_dtype.n_bytes),
        Access("D", result, problem.out_dtype.n_bytes),
        Access("D", result, problem.out_dtype.n_bytes, writes=True),
    )
    loops = (*batch, *outer, ("m", problem.m), ("n", problem.n), ("k", problem.k))
    return Statement(loops, accesses, ops=2)


def floor(
    problem: MatmulProblem,
    limits: HardwareLimits | None = None,
    *,
    level: int | None = None,
    undecided: Iterable[str] = (),
) -> Floor:
    """Operations, and bytes that must enter one level of the memory hierarchy.

    Every array is moved at least once. A level of S numbers also sees at least
    2 mnk / sqrt(S) - 2 S of them, however the product is blocked (Smith, Lowery, Langou and van de
    Geijn, "A Tight I/O Lower Bound for Matrix Multiplication", arXiv:1702.02017); it holds for
    batches as well, since a phase that is shared out among products does no more multiply-adds.

    Args:
        problem: The product; it is taken to accumulate, so that the result "D" is read, too.
        limits: The processor; None: a single level without capacity, every array moved once.
        level: Which cache is filled, 0 the nearest; None: the farthest, filled from main memory.
        undecided: Which of "A", "B", "D" may never be stored.

    Returns:
        Lower counts of every completion.

    Raises:
        KernelError: There is no such level.

    Example:
        >>> floor(MatmulProblem(m=4, n=5, k=6))
        Floor(flops=240, bytes=376, flops_exact=True, bytes_exact=True)
        >>> floor(MatmulProblem(m=4, n=5, k=6), undecided="D").bytes
        0
    """
    least = statement_floor(statement_of(problem), undecided)
    levels = limits.levels if limits is not None else ()
    if level is not None and not 0 <= level < len(levels):
        raise KernelError(
            f"level {level} is no cache; the machine has {len(levels)} levels of them"
        )
    if not levels or frozenset(undecided):
        return least
    width = min(problem.a_dtype.n_bytes, problem.b_dtype.n_bytes, problem.out_dtype.n_bytes)
    capacity = levels[-1 if level is None else level].bytes
    moved = blocked_floor(problem.macs, capacity // width) * width
    if moved <= least.bytes:
        return least
    return Floor(least.flops, moved, least.flops_exact, bytes_exact=False)


def blocked_floor(macs: int, capacity: int) -> int:
    """Numbers that must enter a store of `capacity` numbers during `macs` multiply-adds."""
    if capacity < 1:
        return 0
    # The root is rounded up, so that the quotient stays a lower bound.
    root = isqrt(capacity - 1) + 1
    return max(0, 2 * macs // root - 2 * capacity)
