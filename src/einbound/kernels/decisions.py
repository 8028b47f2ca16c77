"""What a commitment on the matmul family's tree is.

A decision is identified by its data alone; `level` and `label` are derived from it and printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from einbound.errors import KernelError
from einbound.kernels.geometry import (
    CpuBlocktile,
    CpuPacked,
    GeometryChoice,
    GpuBlocktile,
    GpuMma,
    Lattice,
    require_sizes,
)
from einbound.kernels.kinds import (
    Axis,
    BatchKind,
    FormKind,
    FusionKind,
    Group,
    PackingKind,
    PipelineKind,
    RolesKind,
    ShapeKind,
    TwinKind,
    chosen,
)
from einbound.kernels.ordered import AbstractOrdered
from einbound.kernels.words import (
    Batch,
    Fusion,
    Packing,
    PackingShape,
    Pipeline,
    Roles,
    TensorizedForm,
)

__all__ = [
    "Axis",
    "Batch",
    "BatchKind",
    "CpuBlocktile",
    "CpuPacked",
    "Decision",
    "FormKind",
    "Fusion",
    "FusionKind",
    "Geometry",
    "GeometryChoice",
    "GpuBlocktile",
    "GpuMma",
    "Group",
    "IndexOrder",
    "Lattice",
    "LatticeBox",
    "Packing",
    "PackingKind",
    "PackingShape",
    "Pipeline",
    "PipelineKind",
    "RegisterTile",
    "Roles",
    "RolesKind",
    "RowBlock",
    "ShapeKind",
    "TensorizedForm",
    "Twin",
    "TwinKind",
    "render_path",
]

_AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class IndexOrder(AbstractOrdered):
    """How the loops of one group are nested.

    Attributes:
        order: Places of the group's axes, outermost first; of the contracted group, these are
            (`outer_k`..., `k`), and the last one is blocked.
        group: Also as "m", "n" or "k".
    """

    rank: ClassVar[int] = 1
    order: tuple[int, ...]
    group: Group | str = Group.K

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", chosen(Group, self.group, "group of IndexOrder"))
        order = self.order
        places = tuple(order) if isinstance(order, Iterable) else ()
        object.__setattr__(self, "order", places)
        if not places or set(places) != set(range(len(places))):
            raise KernelError(
                f"IndexOrder is {order!r}; expected every place from 0 to one below their "
                "number once"
            )

    @property
    def is_given(self) -> bool:
        """Whether the axes stay as they are."""
        return list(self.order) == sorted(self.order)

    @property
    def level(self) -> str:
        """The group."""
        return f"{self.group}-order"

    @property
    def label(self) -> str:
        """The places."""
        return " ".join(f"{self.group}{place}" for place in self.order)


@dataclass(frozen=True, slots=True)
class RowBlock(AbstractOrdered):
    """Rows of a block of the whole triple that threads share out; 0: not split.

    Refuted where it does not divide m, or makes fewer than two blocks.
    """

    rank: ClassVar[int] = 7
    level: ClassVar[str] = "row-block"
    bm: int

    def __post_init__(self) -> None:
        require_sizes("RowBlock", 0, bm=self.bm)

    @property
    def label(self) -> str:
        """The rows."""
        return f"bm{self.bm}"


@dataclass(frozen=True, slots=True)
class Geometry(AbstractOrdered):
    """The tile geometry, per the pipeline's own menu."""

    rank: ClassVar[int] = 9
    level: ClassVar[str] = "geometry"
    choice: GeometryChoice

    def __post_init__(self) -> None:
        if not isinstance(self.choice, GeometryChoice):
            raise KernelError(
                f"Geometry is {self.choice!r}; expected a GpuBlocktile, GpuMma, CpuBlocktile, "
                "CpuPacked or Lattice"
            )

    @property
    def label(self) -> str:
        """The sizes."""
        return self.choice.label


@dataclass(frozen=True, slots=True)
class LatticeBox(AbstractOrdered):
    """The values lo..hi of one axis that are still open; lo = hi at a single one.

    Refuted where the least of them already breaks a rule that only gets worse.

    Attributes:
        axis: Also as "bm" or "bk".
        lo: The least open value, which prices the box.
        hi: The greatest open value.
    """

    rank: ClassVar[int] = 10
    axis: Axis | str
    lo: int
    hi: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "axis", chosen(Axis, self.axis, "axis of LatticeBox"))
        require_sizes("LatticeBox", lo=self.lo)
        require_sizes("LatticeBox", self.lo, hi=self.hi)

    @property
    def level(self) -> str:
        """The axis."""
        return str(self.axis)

    @property
    def label(self) -> str:
        """The axis with its open values."""
        if self.lo == self.hi:
            return f"{self.axis}={self.lo}"
        return f"{self.axis} {self.lo}..{self.hi}"


@dataclass(frozen=True, slots=True)
class Twin(AbstractOrdered):
    """How staged tiles are laid out and filled: plainly, swizzled, or some deep.

    Elsewhere: shared-memory swizzle against bank conflicts; double buffering. Refuted where rows
    are no power of two of 16 bytes, or the tiles of all depths do not fit::

        for ko: stage ko; compute ko        ->        stage 0; for ko: stage ko + 1; compute ko

    Attributes:
        kind: Also as "plain" or "swizzled"; a number is a depth.
    """

    rank: ClassVar[int] = 11
    level: ClassVar[str] = "twin"
    kind: TwinKind | str | int

    def __post_init__(self) -> None:
        if isinstance(self.kind, int):
            require_sizes("Twin", depth=self.kind)
        else:
            kind = chosen(TwinKind, self.kind, "Twin, where it is no depth,")
            object.__setattr__(self, "kind", kind)

    @property
    def label(self) -> str:
        """The word, or the depth."""
        return f"depth{self.kind}" if isinstance(self.kind, int) else str(self.kind)


@dataclass(frozen=True, slots=True)
class RegisterTile(AbstractOrdered):
    """Results kept in registers: rm rows of rn vectors of `lanes`; "auto": the model's own.

    Elsewhere: micro-tile, MR and NR. Refuted where it is larger than the block, or the lanes are
    no width of the vectors::

        for k: for r in rm, v in rn: c[r, v] += a[r] b[v]        (all of c in registers)

    Attributes:
        rm: Rows; "auto" alone, or nothing at all, stands for the model's own tile.
        rn: Vectors in a row.
        lanes: Numbers in a vector.
    """

    rank: ClassVar[int] = 12
    level: ClassVar[str] = "register-tile"
    rm: int | Literal["auto"] | None = None
    rn: int | None = None
    lanes: int | None = None

    def __post_init__(self) -> None:
        if self.rm == _AUTO and self.rn is None and self.lanes is None:
            object.__setattr__(self, "rm", None)
        if not self.is_auto:
            require_sizes("RegisterTile", rm=self.rm, rn=self.rn, lanes=self.lanes)

    @property
    def is_auto(self) -> bool:
        """Whether the tile is the model's own."""
        return self.rm is None and self.rn is None and self.lanes is None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, vectors per row and lanes of a tile that is not the model's own."""
        assert isinstance(self.rm, int), "the model's own tile has no sizes here"
        assert self.rn is not None, "the model's own tile has no sizes here"
        assert self.lanes is not None, "the model's own tile has no sizes here"
        return self.rm, self.rn, self.lanes

    @property
    def label(self) -> str:
        """The sizes."""
        return _AUTO if self.is_auto else f"rm{self.rm} rn{self.rn} lanes{self.lanes}"


Decision: TypeAlias = (
    Roles
    | IndexOrder
    | Fusion
    | Pipeline
    | Batch
    | Packing
    | TensorizedForm
    | RowBlock
    | PackingShape
    | Geometry
    | LatticeBox
    | Twin
    | RegisterTile
)


def render_path(path: Iterable[tuple[str, Decision]]) -> str:
    """A path of decisions as "level=label > level=label".

    Example:
        >>> render_path([("pipeline", Pipeline("tensorized")), ("twin", Twin(2))])
        'pipeline=tensorized > twin=depth2'
    """
    return " > ".join(f"{level}={decision.label}" for level, decision in path)
