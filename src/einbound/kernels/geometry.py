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
    """Block (bm, bn, bk) of a workgroup, with (tm, tn) results per thread; both tiles staged."""

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
    """Block (bm, bn, bk) of matrix instructions; bk = 0 is the unstaged full depth."""

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
    """One block size for m, n and k."""

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
    """Panels of A (bm, bk) and of B (bk, bn); bn = 0 is the full width."""

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
