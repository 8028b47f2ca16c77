"""Our own menu for one product: what analytic blocking gives, the most promising first."""

from __future__ import annotations

from dataclasses import replace

from einbound.kernels.cpu_blocking import panels_for, register_tiles, row_blocks
from einbound.kernels.geometry import CpuPacked
from einbound.kernels.gpu_blocking import blocktiles_for, mma_blocks_for
from einbound.kernels.menu import Menu
from einbound.kernels.problem import MatmulProblem
from einbound.machine.limits import HardwareLimits


def fitted(menu: Menu, problem: MatmulProblem, limits: HardwareLimits) -> Menu:
    """The menu with the geometries of a product, if it leaves them to analytic blocking.

    Args:
        menu: What is proposed for all products.
        problem: One product, as kernels will see it.
        limits: The processor.

    Law: fitted twice, it is fitted once (tests/test_default_menu.py).

    Example:
        >>> problem, limits = MatmulProblem(m=8, n=8, k=8), HardwareLimits()
        >>> fitted(Menu.REFERENCE, problem, limits) == Menu.REFERENCE
        True
    """
    if not menu.analytic:
        return menu
    if limits.is_gpu:
        return replace(
            menu,
            blocktiles=blocktiles_for(problem, limits) or menu.blocktiles,
            mma_blocks=mma_blocks_for(problem, limits) or menu.mma_blocks,
        )
    native = limits.native_fp16_arithmetic
    number = menu.numerics.compute(problem.out_dtype, native_half=native)
    tiles = register_tiles(problem, limits, number)
    panels: dict[CpuPacked, None] = {}
    for tile in tiles:
        panels |= dict.fromkeys(panels_for(problem, limits, tile, number.n_bytes))
    return replace(
        menu,
        register_tiles=tiles,
        packed=tuple(panels) or menu.packed,
        row_blocks=row_blocks(problem.m, limits.n_cores or 1),
    )
