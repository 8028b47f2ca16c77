"""What is committed of a kernel, by a path or by all parameters: the input of its cost.

Whatever is still open is None, and the cost takes it at its best, so that the cost of fewer
commitments bounds that of more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from einbound.kernels.decisions import (
    Axis,
    Batch,
    BatchKind,
    CpuBlocktile,
    CpuPacked,
    Decision,
    FormKind,
    Geometry,
    GpuBlocktile,
    Lattice,
    LatticeBox,
    Packing,
    PackingKind,
    PackingShape,
    Pipeline,
    PipelineKind,
    RegisterTile,
    RowBlock,
    ShapeKind,
    TensorizedForm,
    Twin,
    TwinKind,
)
from einbound.kernels.spec import KernelSpec

_HOISTED = frozenset({ShapeKind.HOISTED, ShapeKind.HOISTED_GRID, ShapeKind.HOISTED_GRID_PACK_REST})
_PLAIN: dict[str, Any] = {"swizzle": False, "depth": 1}
_REST = frozenset({ShapeKind.HOISTED_GRID_PACK_REST, ShapeKind.GRID_PACK_REST})


@dataclass(frozen=True, slots=True)
class Span:
    """Values from `lo` to `hi` of which one will be chosen; one value where they are equal."""

    lo: int
    hi: int

    @property
    def is_one(self) -> bool:
        """Whether nothing is left to choose."""
        return self.lo == self.hi


@dataclass(frozen=True, slots=True, kw_only=True)
class Commitment:
    """The decisions that a cost depends on; None: open.

    Attributes:
        pipeline: Which composed pipeline.
        bm: Rows of a block; (0, 0): all.
        bn: Columns of a block; 0: all.
        bk: Depth of a block; (0, 0): all.
        tm: Rows per thread; 0 where threads have no tile of their own.
        tn: Columns per thread.
        packed: Whether operands are packed or staged.
        hoist: Whether persistent operands are packed when the plan is prepared.
        grid: Whether row blocks run in parallel on a CPU.
        pack_rest: Whether the other operands are packed in each parallel chunk.
        batch_grid: Whether batch loops are part of the grid.
        swizzle: Whether staged tiles are laid out against bank conflicts.
        depth: Staged tiles in flight.
        tile: The register tile; all None in it: the model's own.
    """

    pipeline: PipelineKind | None = None
    bm: Span | None = None
    bn: int | None = None
    bk: Span | None = None
    tm: int | None = None
    tn: int | None = None
    packed: bool | None = None
    hoist: bool | None = None
    grid: bool | None = None
    pack_rest: bool | None = None
    batch_grid: bool | None = None
    swizzle: bool | None = None
    depth: int | None = None
    tile: RegisterTile | None = None


def committed_by(
    path: Iterable[tuple[str, Decision]], lattice_width: int | None = None
) -> Commitment:
    """What the decisions of a path commit to; the names of its levels are not looked at.

    Args:
        path: What was decided so far, outermost first.
        lattice_width: The width of all blocks of the lattice; 0: all columns; None: not known.

    Example:
        >>> committed_by([("tensorized-form", TensorizedForm(FormKind.WHOLE_TRIPLE))]).packed
        False
    """
    so_far: dict[str, Any] = {}
    for _, decision in path:
        so_far |= _fields(decision)
        if isinstance(decision, Geometry) and isinstance(decision.choice, Lattice):
            so_far["bn"] = lattice_width
    return Commitment(**so_far)


def commitment_of(spec: KernelSpec) -> Commitment:
    """What a kernel's parameters commit to: everything."""
    # Row blocks of a whole triple are there to run in parallel.
    is_split = not spec.gpu and spec.mma and spec.bk == 0 and spec.bm > 0
    return Commitment(
        pipeline=spec.pipeline,
        bm=Span(spec.bm, spec.bm),
        bn=spec.bn,
        bk=Span(spec.bk, spec.bk),
        tm=spec.tm,
        tn=spec.tn,
        packed=spec.bk > 0,
        hoist=spec.hoist,
        grid=spec.grid or is_split,
        pack_rest=spec.pack_rest,
        batch_grid=spec.batch_grid,
        swizzle=spec.swizzle,
        depth=spec.depth,
        tile=spec.tile or RegisterTile(),
    )


@singledispatch
def _fields(decision: Any) -> dict[str, Any]:
    """The fields that a decision fixes; one that no cost depends on fixes none."""
    return {}


@_fields.register
def _(decision: Pipeline) -> dict[str, Any]:
    return {"pipeline": decision.kind}


@_fields.register
def _(decision: Batch) -> dict[str, Any]:
    return {"batch_grid": decision.kind is BatchKind.GRID}


@_fields.register
def _(decision: Packing) -> dict[str, Any]:
    hoist = decision.kind is PackingKind.HOISTED
    return {"packed": True, "hoist": hoist, "grid": False, "pack_rest": False}


@_fields.register
def _(decision: TensorizedForm) -> dict[str, Any]:
    if decision.kind is FormKind.PACKED:
        return {"packed": True}
    return {"bn": 0, "bk": Span(0, 0), "packed": False, "hoist": False, "pack_rest": False}


@_fields.register
def _(decision: RowBlock) -> dict[str, Any]:
    return {"bm": Span(decision.bm, decision.bm), "grid": decision.bm > 0}


@_fields.register
def _(decision: PackingShape) -> dict[str, Any]:
    kind = ShapeKind(decision.kind)
    grid = kind not in (ShapeKind.SERIAL, ShapeKind.HOISTED)
    return {"hoist": kind in _HOISTED, "grid": grid, "pack_rest": kind in _REST}


@_fields.register
def _(decision: LatticeBox) -> dict[str, Any]:
    return {"bm" if decision.axis is Axis.BM else "bk": Span(decision.lo, decision.hi)}


@_fields.register
def _(decision: Twin) -> dict[str, Any]:
    depth = decision.kind if isinstance(decision.kind, int) else 1
    return {"swizzle": decision.kind is TwinKind.SWIZZLED, "depth": depth}


@_fields.register
def _(decision: RegisterTile) -> dict[str, Any]:
    return {"tile": decision}


@_fields.register
def _(decision: Geometry) -> dict[str, Any]:
    choice = decision.choice
    if isinstance(choice, Lattice):
        return {"packed": True, "tm": 0, "tn": 0} | _PLAIN
    if isinstance(choice, CpuBlocktile):
        return _blocks(choice.b, choice.b, choice.b) | {"tm": 0, "tn": 0}
    blocks = _blocks(choice.bm, choice.bn, choice.bk)
    if isinstance(choice, GpuBlocktile):
        return blocks | {"tm": choice.tm, "tn": choice.tn, "packed": True} | _PLAIN
    if isinstance(choice, CpuPacked):
        return blocks | {"tm": 0, "tn": 0}
    unstaged = {"packed": False} | _PLAIN
    return blocks | {"tm": 0, "tn": 0} | ({"packed": True} if choice.bk else unstaged)


def _blocks(bm: int, bn: int, bk: int) -> dict[str, Any]:
    return {"bm": Span(bm, bm), "bn": bn, "bk": Span(bk, bk)}
