"""Blocks of GPU kernels that fit the registers of multiprocessors and hardly pad."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from einbound.kernels.geometry import GpuBlocktile
from einbound.kernels.occupancy import blocktile_registers, mma_registers
from einbound.kernels.path_floor import smallest_tile
from einbound.kernels.problem import MatmulProblem
from einbound.machine.limits import HardwareLimits

#: Sides of workgroups of threads, and results of a thread along each axis.
SIDES = ((16, 16), (16, 8), (8, 16), (8, 8), (4, 8))
THREAD_TILES = ((8, 8), (8, 4), (4, 8), (4, 4), (2, 2))
#: Bytes of a row of a staged tile: what all banks serve at once, half and twice of it.
STAGED_ROWS = (128, 64, 256)
#: Most that a block may be longer than its extent, unless no other block is shorter.
MOST_PADDING = 2


def blocktiles_for(problem: MatmulProblem, limits: HardwareLimits) -> tuple[GpuBlocktile, ...]:
    """Blocks whose threads fit the registers and that hardly reach past the extents.

    The largest come first where all multiprocessors get one, the smallest where they do not.

    Args:
        problem: The product.
        limits: The processor.
    """
    n_bytes = max(4, problem.out_dtype.n_bytes)
    found = [
        GpuBlocktile(rows * tm, columns * tn, bk, tm, tn)
        for (tm, tn), (rows, columns), bk in product(THREAD_TILES, SIDES, (8, 16))
        if _fits(blocktile_registers(tm, tn, n_bytes) * rows * columns, limits.registers_per_sm)
        and _fits(blocktile_registers(tm, tn, n_bytes), limits.max_registers_per_thread)
    ]
    return tuple(_reaching(found, problem, limits))


def _reaching(
    blocks: Iterable[GpuBlocktile], problem: MatmulProblem, limits: HardwareLimits
) -> list[GpuBlocktile]:
    kept = list(blocks)
    for axis, extent in (("bm", problem.m), ("bn", problem.n)):
        least = min((getattr(block, axis) for block in kept), default=0)
        most = max(least, MOST_PADDING * extent - 1)
        kept = [block for block in kept if getattr(block, axis) <= most]

    def is_idle(block: GpuBlocktile) -> bool:
        n_blocks = -(-problem.m // block.bm) * -(-problem.n // block.bn) * problem.n_batch
        return n_blocks < (limits.n_sm or 1)

    return sorted(kept, key=lambda block: (is_idle(block), -block.bm * block.bn, -block.bk))


def mma_blocks_for(problem: MatmulProblem, limits: HardwareLimits) -> tuple[tuple[int, int], ...]:
    """Rows and depths of blocks of matrix instructions whose results fit the registers of a warp.

    Args:
        problem: The product.
        limits: The processor.

    Returns:
        (bm, bk), depth 0 being unstaged; none without matrix instructions.
    """
    if limits.mma is None:
        return ()
    tile_m, _, tile_k = smallest_tile(problem, limits)
    width, operand = limits.mma.width, problem.a_dtype.n_bytes
    result = max(4, problem.out_dtype.n_bytes)
    step = max(16, tile_m)
    rows = [
        bm
        for bm in (8 * step, 4 * step, 2 * step, step)
        if bm < MOST_PADDING * problem.m or bm == step
        if _fits(
            mma_registers(bm, width, tile_k, width, (operand, result)),
            limits.max_registers_per_thread,
        )
    ]
    depths = [max(tile_k, row // operand // tile_k * tile_k) for row in STAGED_ROWS]
    useful = [bk for bk in depths if bk < MOST_PADDING * problem.k] or [min(depths)]
    return tuple((bm, bk) for bm in rows for bk in (*dict.fromkeys(useful), 0))


def _fits(needed: int, room: int | None) -> bool:
    return room is None or needed <= room
