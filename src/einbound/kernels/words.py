"""The decisions that choose one word of a closed set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from einbound.kernels.kinds import (
    BatchKind,
    FormKind,
    FusionKind,
    PackingKind,
    PipelineKind,
    RolesKind,
    ShapeKind,
    chosen,
)
from einbound.kernels.ordered import AbstractOrdered


class AbstractWord(AbstractOrdered):
    """A frozen dataclass with the one field `kind`, made a member of `kinds` at once."""

    __slots__ = ()

    kinds: ClassVar[type[StrEnum]]
    #: What its label starts with, where the word alone could be another decision's.
    prefix: ClassVar[str] = ""
    kind: StrEnum | str

    def __post_init__(self) -> None:
        kind = chosen(self.kinds, self.kind, type(self).__name__)
        object.__setattr__(self, "kind", kind)

    @property
    def label(self) -> str:
        """The word."""
        return self.prefix + self.kind.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Roles(AbstractWord):
    """Which operand is A: C = A B, or its transpose computed as B^T A^T.

    Refuted where the result that is computed does not lie in rows.

    Attributes:
        kind: Also as "as_given" or "swapped".
    """

    rank: ClassVar[int] = 0
    level: ClassVar[str] = "roles"
    kinds: ClassVar[type[StrEnum]] = RolesKind
    kind: RolesKind | str


@dataclass(frozen=True, slots=True)
class Fusion(AbstractWord):
    """The root: whether the elementwise tail is fused.

    Elsewhere: epilogue fusion. Refuted where no tail alone reads the product.

    Attributes:
        kind: Also as "unfused" or "fused".
    """

    rank: ClassVar[int] = 2
    level: ClassVar[str] = "fusion"
    kinds: ClassVar[type[StrEnum]] = FusionKind
    kind: FusionKind | str


@dataclass(frozen=True, slots=True)
class Pipeline(AbstractWord):
    """Which composed pipeline.

    Attributes:
        kind: Also as "blocktile" or "tensorized".
    """

    rank: ClassVar[int] = 3
    level: ClassVar[str] = "pipeline"
    kinds: ClassVar[type[StrEnum]] = PipelineKind
    kind: PipelineKind | str


@dataclass(frozen=True, slots=True)
class Batch(AbstractWord):
    """Where batch loops run; GPU only, and only where there are several products.

    Serial: every workgroup loops over the batch. Grid: each product has its own workgroups.

    Attributes:
        kind: Also as "serial" or "grid".
    """

    rank: ClassVar[int] = 4
    level: ClassVar[str] = "batch"
    kinds: ClassVar[type[StrEnum]] = BatchKind
    prefix: ClassVar[str] = "batch-"
    kind: BatchKind | str


@dataclass(frozen=True, slots=True)
class Packing(AbstractWord):
    """When the CPU blocktile pipeline packs.

    Hoisted: once, when the plan is prepared; refuted where no operand is persistent.

    Attributes:
        kind: Also as "in_kernel" or "hoisted".
    """

    rank: ClassVar[int] = 5
    level: ClassVar[str] = "packing"
    kinds: ClassVar[type[StrEnum]] = PackingKind
    kind: PackingKind | str


@dataclass(frozen=True, slots=True)
class TensorizedForm(AbstractWord):
    """The CPU tensorized composition: one micro-kernel over everything, or over packed panels.

    The whole triple reads both operands in place; refuted where the columns of B or C hold no
    vector.

    Attributes:
        kind: Also as "whole_triple" or "packed".
    """

    rank: ClassVar[int] = 6
    level: ClassVar[str] = "tensorized-form"
    kinds: ClassVar[type[StrEnum]] = FormKind
    kind: FormKind | str


@dataclass(frozen=True, slots=True)
class PackingShape(AbstractWord):
    """Which packed composition: where panels are made, and whether row blocks run in parallel.

    Serial packs inside the loops; hoisted packs persistent operands when the plan is prepared;
    grid runs row blocks in parallel and packs A in each; the shapes that pack the rest pack in
    each chunk what is not persistent. Refuted where there is nothing to hoist, fewer than two row
    blocks, or a chunk packs too much.

    Attributes:
        kind: Also as "serial", "hoisted", "hoisted_grid", "hoisted_grid_pack_rest",
            "grid_pack_rest" or "grid".
    """

    rank: ClassVar[int] = 8
    level: ClassVar[str] = "packing-shape"
    kinds: ClassVar[type[StrEnum]] = ShapeKind
    kind: ShapeKind | str
