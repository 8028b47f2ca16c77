"""What a commitment on the matmul family's tree is.

A decision is identified by its data alone; `level` and `label` are derived from it and printed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class FusionKind(StrEnum):
    """Whether an elementwise tail is computed in the kernel."""

    UNFUSED = "unfused"
    FUSED = "fused"


class PipelineKind(StrEnum):
    """Which composed pipeline."""

    BLOCKTILE = "blocktile"
    TENSORIZED = "tensorized"


class BatchKind(StrEnum):
    """Where batch loops run on a GPU."""

    SERIAL = "serial"
    GRID = "grid"


class PackingKind(StrEnum):
    """When the CPU blocktile pipeline packs."""

    IN_KERNEL = "in_kernel"
    HOISTED = "hoisted"


class FormKind(StrEnum):
    """The CPU tensorized composition."""

    WHOLE_TRIPLE = "whole_triple"
    PACKED = "packed"


class ShapeKind(StrEnum):
    """Where the panels of a packed composition are made."""

    SERIAL = "serial"
    HOISTED = "hoisted"
    HOISTED_GRID = "hoisted_grid"
    HOISTED_GRID_PACK_REST = "hoisted_grid_pack_rest"
    GRID_PACK_REST = "grid_pack_rest"
    GRID = "grid"


class TwinKind(StrEnum):
    """Variants of a staged geometry besides pipelined depths."""

    PLAIN = "plain"
    SWIZZLED = "swizzled"


class Axis(StrEnum):
    """An axis of the tile lattice."""

    BM = "bm"
    BK = "bk"


@dataclass(frozen=True, slots=True, order=True)
class GpuBlocktile:
    """Block (bm, bn, bk) of a workgroup, with (tm, tn) results per thread; both tiles staged."""

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int


@dataclass(frozen=True, slots=True, order=True)
class GpuMma:
    """Block (bm, bn, bk) of matrix instructions; bk = 0 is the unstaged full depth."""

    bm: int
    bn: int
    bk: int


@dataclass(frozen=True, slots=True, order=True)
class CpuBlocktile:
    """One block size for m, n and k."""

    b: int


@dataclass(frozen=True, slots=True, order=True)
class CpuPacked:
    """Panels of A (bm, bk) and of B (bk, bn); bn = 0 is the full width."""

    bm: int
    bn: int
    bk: int


@dataclass(frozen=True, slots=True, order=True)
class Lattice:
    """All tile sizes beyond the menu, refined box by box."""


GeometryChoice: TypeAlias = GpuBlocktile | GpuMma | CpuBlocktile | CpuPacked | Lattice


@dataclass(frozen=True, slots=True)
class Fusion:
    """The root: whether the elementwise tail is fused."""

    kind: FusionKind


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Which composed pipeline."""

    kind: PipelineKind


@dataclass(frozen=True, slots=True)
class Batch:
    """Where batch loops run; GPU only."""

    kind: BatchKind


@dataclass(frozen=True, slots=True)
class Packing:
    """When the CPU blocktile pipeline packs."""

    kind: PackingKind


@dataclass(frozen=True, slots=True)
class Geometry:
    """The tile geometry, per the pipeline's own menu."""

    choice: GeometryChoice


@dataclass(frozen=True, slots=True)
class LatticeBox:
    """The values lo..hi of one axis that are still open; lo = hi at a single one."""

    axis: Axis
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Twin:
    """Plain, swizzled, or a depth of pipelining."""

    kind: TwinKind | int


@dataclass(frozen=True, slots=True)
class TensorizedForm:
    """The CPU tensorized composition."""

    kind: FormKind


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Rows of a block of the whole triple that threads share out; 0: not split."""

    bm: int


@dataclass(frozen=True, slots=True)
class PackingShape:
    """Which packed composition: where panels are made."""

    kind: ShapeKind


@dataclass(frozen=True, slots=True)
class RegisterTile:
    """Results kept in registers: rm rows of rn vectors of `lanes`; all None: the model's own."""

    rm: int | None = None
    rn: int | None = None
    lanes: int | None = None


Decision: TypeAlias = (
    Fusion
    | Pipeline
    | Batch
    | Packing
    | Geometry
    | LatticeBox
    | Twin
    | TensorizedForm
    | RowBlock
    | PackingShape
    | RegisterTile
)
