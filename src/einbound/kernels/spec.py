"""What all decisions of one path commit to: the parameters a kernel is generated from."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.kernels.decisions import RegisterTile
from einbound.kernels.kinds import PipelineKind
from einbound.machine.precision import Precision


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """The payload of a leaf of the matmul family.

    Attributes:
        gpu: Whether it is a grid of workgroups.
        pipeline: Which composed pipeline.
        mma: Whether matrix instructions (GPU) or a register-tiled micro-kernel (CPU) do the work.
        simd: Lanes that execute a matrix instruction together; 0 without these.
        bm: Rows of a block; 0: all.
        bn: Columns of a block; 0: all.
        bk: Depth of a block; 0: all.
        tm: Rows per thread; 0 where threads have no tile of their own.
        tn: Columns per thread.
        packed: Whether operands are packed or staged.
        hoist: Whether persistent operands are packed when the plan is prepared.
        grid: Whether row blocks run in parallel on a CPU.
        pack_rest: Whether operands that are not persistent are packed in each parallel chunk.
        epilogue: Whether the elementwise tail is computed in the kernel.
        batch_grid: Whether batch loops are part of the grid.
        swizzle: Whether staged tiles are laid out against bank conflicts.
        depth: Staged tiles in flight; 1: no pipelining.
        pack_precision: Format of panels where it is not the stored one; None: as stored.
        tile: The register tile; None: none, or the model's own.
        swapped: Whether the transpose of the result is computed, with B^T as the first operand;
            all other fields are then about that product.
        k_order: How the contracted loops are nested, as places in the problem's own order; empty:
            as given.
        m_order: The same of the axes of which the rows are made.
        n_order: The same of the columns.
    """

    gpu: bool
    pipeline: PipelineKind
    mma: bool = False
    simd: int = 0
    bm: int = 0
    bn: int = 0
    bk: int = 0
    tm: int = 0
    tn: int = 0
    packed: bool = False
    hoist: bool = False
    grid: bool = False
    pack_rest: bool = False
    epilogue: bool = False
    batch_grid: bool = False
    swizzle: bool = False
    depth: int = 1
    pack_precision: Precision | None = None
    tile: RegisterTile | None = None
    swapped: bool = False
    k_order: tuple[int, ...] = ()
    m_order: tuple[int, ...] = ()
    n_order: tuple[int, ...] = ()
