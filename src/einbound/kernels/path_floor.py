"""Bytes that a path's own commitments add to the floor of its problem.

They are moved on the chip, so that they bound a model that prices them and never a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from einbound.kernels.decisions import (
    Axis,
    CpuPacked,
    Decision,
    Geometry,
    GeometryChoice,
    GpuBlocktile,
    GpuMma,
    Lattice,
    LatticeBox,
    PackingShape,
    ShapeKind,
)
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.views import viewed
from einbound.machine.limits import HardwareLimits, MmaTile
from einbound.machine.precision import Precision


def path_floor(
    path: Sequence[tuple[str, Decision]], problem: MatmulProblem, limits: HardwareLimits
) -> int:
    """Bytes that the tiles and panels on a path move in addition, at least.

    A staged tile is written and read once; a panel packed inside the kernel is written once. The
    level names of the path are not looked at.

    Args:
        path: What was decided so far, outermost first.
        problem: The product.
        limits: The processor.

    Returns:
        Bytes; a longer path never has fewer, and a whole one has those of its kernel.

    Example:
        >>> problem = MatmulProblem(m=64, n=64, k=64)
        >>> path_floor([("", Geometry(GpuMma(16, 32, 16)))], problem, HardwareLimits())
        6144
    """
    decisions = [decision for _, decision in path]
    problem = viewed(problem, path)
    choice = next((d.choice for d in decisions if isinstance(d, Geometry)), None)
    if isinstance(choice, CpuPacked):
        serial = PackingShape(ShapeKind.SERIAL) in decisions
        return tile_bytes(problem, choice.bm, choice.bn or problem.n, choice.bk) if serial else 0
    bm, bn, bk = _staged(choice, decisions, problem, limits)
    return 2 * tile_bytes(problem, bm, bn, bk)


def tile_bytes(problem: MatmulProblem, bm: int, bn: int, bk: int) -> int:
    """Bytes of a block of A and of a block of B, as stored."""
    return bm * bk * problem.a_dtype.n_bytes + bk * bn * problem.b_dtype.n_bytes


def smallest_tile(problem: MatmulProblem, limits: HardwareLimits) -> MmaTile:
    """The least rows, columns and depth of a matrix instruction that may serve a problem.

    Policies choose among the formats; the least of each extent is below all of them.
    """
    if limits.mma is None:
        return (1, 1, 1)
    wanted = [_formats(problem.a_dtype), _formats(problem.b_dtype), _formats(problem.out_dtype)]
    tiles = [
        tile
        for triple, tile in limits.mma.tiles
        if all(one in formats for one, formats in zip(triple, wanted, strict=True))
    ]
    rows, columns, depth = zip(*(tiles or [limits.mma.tile]), strict=True)
    return (min(rows), min(columns), min(depth))


def _formats(stored: Precision) -> frozenset[Precision]:
    if stored is Precision.FLOAT32:
        return frozenset({Precision.FLOAT32, Precision.TFLOAT32})
    return frozenset({stored})


def _staged(
    choice: GeometryChoice | None,
    decisions: Sequence[Decision],
    problem: MatmulProblem,
    limits: HardwareLimits,
) -> tuple[int, int, int]:
    """The block that is staged; a box of the lattice counts with its low corner."""
    if isinstance(choice, GpuBlocktile | GpuMma):
        return (choice.bm, choice.bn, choice.bk)
    if not isinstance(choice, Lattice) or limits.mma is None:
        return (0, 0, 0)
    rows, _, depth = smallest_tile(problem, limits)
    corner = {Axis.BM: rows, Axis.BK: depth}
    corner |= {Axis(box.axis): box.lo for box in decisions if isinstance(box, LatticeBox)}
    return (corner[Axis.BM], limits.mma.width, corner[Axis.BK])
