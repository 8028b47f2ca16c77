"""Tile geometries, each with exactly the sizes that its pipeline uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from einbound.errors import KernelError
from einbound.kernels.ordered import AbstractOrdered


def require_sizes(what: str, least: int = 1, **sizes: object) -> None:
    """Refuse what is no size.

    Raises:
        KernelError: A size is no integer, or below `least`.
    """
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < least:
            raise KernelError(
                f"{name} of {what} is {size!r}; expected a whole number of at least {least}"
            )


@dataclass(frozen=True, slots=True)
class GpuBlocktile(AbstractOrdered):
    """Block (bm, bn, bk) of a workgroup, with (tm, tn) results per thread; both tiles staged.

    Elsewhere: two-level tiling, thread block and thread tile. Refuted where tm or tn does not
    divide its block, or threads, staged bytes or the launch pass a cap; extents are padded::

        for i, j, k: C[i, j] += A[i, k] B[k, j]
        ->
        grid (m / bm, n / bn), threads (bm / tm, bn / tn):
            for ko in k / bk:
                stage A (bm, bk) and B (bk, bn)
                for k in bk: c (tm, tn) += a (tm) b (tn)
    """

    rank: ClassVar[int] = 0
    bm: int
    bn: int
    bk: int
    tm: int
    tn: int

    def __post_init__(self) -> None:
        require_sizes("GpuBlocktile", bm=self.bm, bn=self.bn, bk=self.bk, tm=self.tm, tn=self.tn)

    @property
    def label(self) -> str:
        """All sizes."""
        return f"bm{self.bm} bn{self.bn} bk{self.bk} tm{self.tm} tn{self.tn}"


@dataclass(frozen=True, slots=True)
class GpuMma(AbstractOrdered):
    """Block (bm, bn, bk) of matrix instructions; bk = 0 is the unstaged full depth.

    Elsewhere: tensor cores, warp-level tiles. Refuted where a size is no multiple of the
    instruction's, staged bytes pass the cap, or, unstaged, where an extent is not divided::

        grid (m / bm, n / bn), one group of lanes:
            for ko in k / bk:
                stage A (bm, bk) and B (bk, bn)
                C (bm, bn) += A B by instructions
    """

    rank: ClassVar[int] = 1
    bm: int
    bn: int
    bk: int

    def __post_init__(self) -> None:
        require_sizes("GpuMma", bm=self.bm, bn=self.bn)
        require_sizes("GpuMma", 0, bk=self.bk)

    @property
    def label(self) -> str:
        """All sizes."""
        return f"bm{self.bm} bn{self.bn} bk{self.bk}"


@dataclass(frozen=True, slots=True)
class CpuBlocktile(AbstractOrdered):
    """One block size for m, n and k.

    Elsewhere: square cache blocking. Refuted where it does not divide all three::

        for io, jo, ko: pack A (b, b) and B (b, b); for k, i, j in b: c[i, j] += a[i, k] b[k, j]
    """

    rank: ClassVar[int] = 2
    b: int

    def __post_init__(self) -> None:
        require_sizes("CpuBlocktile", b=self.b)

    @property
    def label(self) -> str:
        """The size."""
        return f"b{self.b}"


@dataclass(frozen=True, slots=True)
class CpuPacked(AbstractOrdered):
    """Panels of A (bm, bk) and of B (bk, bn); bn = 0 is the full width.

    Elsewhere: GEBP, the blocking of GotoBLAS and BLIS with sizes MC, NC and KC. Refuted where the
    panel of B holds no vector, and by what the shape of the packing asks for::

        for jo, ko: pack B (bk, bn); for io: pack A (bm, bk); micro-kernel (bm, bn, bk)
    """

    rank: ClassVar[int] = 3
    bm: int
    bn: int
    bk: int

    def __post_init__(self) -> None:
        require_sizes("CpuPacked", bm=self.bm, bk=self.bk)
        require_sizes("CpuPacked", 0, bn=self.bn)

    @property
    def label(self) -> str:
        """All sizes."""
        return f"bm{self.bm} bn{self.bn} bk{self.bk}"


@dataclass(frozen=True, slots=True)
class Lattice(AbstractOrdered):
    """All tile sizes beyond the menu, refined box by box."""

    rank: ClassVar[int] = 4

    @property
    def label(self) -> str:
        """The word."""
        return "lattice"


GeometryChoice: TypeAlias = GpuBlocktile | GpuMma | CpuBlocktile | CpuPacked | Lattice
