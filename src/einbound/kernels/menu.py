"""What the tree of kernels proposes: geometries, caps of policies and optional levels, as data.

A menu proposes and prefers; what is legal does not depend on it, but for the two caps on memory
that a generated kernel is promised to keep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from einbound.errors import KernelError
from einbound.kernels.decisions import RegisterTile
from einbound.kernels.geometry import CpuPacked, GpuBlocktile
from einbound.kernels.numerics import Numerics
from einbound.machine.limits import HardwareLimits

#: Rows that every usual register tile divides, full width, and depths that the panels of a
#: first-level cache are made of: steps of a lattice of some thousand sizes for 4096 x 4096.
_PANEL_STEPS = CpuPacked(24, 0, 64)
_256_KIB = 256 * 1024
_AS_STORED = Numerics()


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """Everything that a tree of kernels may propose.

    Geometries are proposed in the order in which they stand here.

    Attributes:
        blocktiles: Blocks of the GPU blocktile pipeline.
        mma_blocks: (bm, bk) of GPU matrix instructions, as wide as these are; bk = 0: unstaged.
        mma_lattice: Whether the lattice of all staged (bm, bk) is a child, excluded until lifted.
        swizzle: Whether swizzled twins are proposed where the processor has the layout.
        depths: Depths of pipelining that can be generated; others that are advertised are refused.
        cpu_blocks: Block sizes of the CPU blocktile pipeline.
        row_blocks: Rows of the parallel blocks of the whole triple; 0: not split.
        packed: Panels of the packed composition.
        packed_lattice: Steps (bm, bk) and width bn (0: full) of a lattice of panels, which is a
            child of every packing shape, excluded until lifted; None: no such child.
        packing_cap_bytes: Panels above it are excluded; None: none are.
        chunk_cap_bytes: Panels that every parallel chunk packs must stay within it; None: no cap.
        grid_rendering: Whether row blocks of CPU kernels can run in parallel.
        register_tiles: Tiles besides the model's own; None: those that the model proposes.
        two_row_twin: Whether the model proposes a tile of two rows as well.
        numerics: Formats that may be computed in.
        roles: Whether there is a level for the roles of the operands.
        index_orders: Whether there are levels for the nesting of the axes of each group.
        predict_spills: Whether a blocktile whose registers are predicted to spill is unknown.
        pad_factor: Geometries whose padded volume is above this multiple of the problem's are
            excluded; None: none are.
        unknown_layouts: Whether an unknown layout of B makes a branch unknown, not refuted.
        analytic: Whether geometries, row blocks and register tiles are those that analytic blocking
            gives for each product; the ones that stand here are then what is left where it gives
            none.

    Example:
        >>> Menu.REFERENCE.cpu_blocks
        (16, 8)
    """

    #: The menu whose trees have published counts.
    REFERENCE: ClassVar[Menu]

    blocktiles: tuple[GpuBlocktile, ...] = (
        GpuBlocktile(64, 64, 8, 4, 4),
        GpuBlocktile(32, 32, 8, 4, 4),
        GpuBlocktile(16, 16, 8, 4, 4),
        GpuBlocktile(32, 32, 16, 2, 2),
        GpuBlocktile(16, 16, 8, 2, 2),
    )
    mma_blocks: tuple[tuple[int, int], ...] = ((16, 0), (32, 0), (16, 32), (32, 32), (32, 16))
    mma_lattice: bool = True
    swizzle: bool = True
    depths: tuple[int, ...] = (1, 2)
    cpu_blocks: tuple[int, ...] = (16, 8)
    row_blocks: tuple[int, ...] = (0, 64, 16)
    packed: tuple[CpuPacked, ...] = (
        CpuPacked(64, 0, 64),
        CpuPacked(64, 0, 256),
        CpuPacked(128, 128, 128),
        CpuPacked(64, 128, 256),
        CpuPacked(16, 0, 16),
    )
    packed_lattice: CpuPacked | None = None
    packing_cap_bytes: int | None = _256_KIB
    chunk_cap_bytes: int | None = _256_KIB
    grid_rendering: bool = True
    register_tiles: tuple[RegisterTile, ...] | None = None
    two_row_twin: bool = False
    numerics: Numerics = _AS_STORED
    roles: bool = False
    index_orders: bool = False
    predict_spills: bool = False
    pad_factor: float | None = None
    unknown_layouts: bool = False
    analytic: bool = False

    @classmethod
    def default(cls, limits: HardwareLimits) -> Menu:
        """Our own menu for a processor: nothing is left out that the cost model can price.

        Geometries come from analytic blocking of each product; padding is priced instead of
        excluded, and what is predicted to spill or not known to lie in rows is unknown. Panels
        that parallel chunks pack may take their share of the last cache, and their lattice of
        sizes can be lifted.

        Args:
            limits: The processor.

        Example:
            >>> Menu.default(HardwareLimits(simd_vector_bytes=32)).roles
            True
        """
        share = limits.levels[-1].bytes // (limits.n_cores or 1) if limits.levels else _256_KIB
        return cls(
            cpu_blocks=(32, 16, 8),
            packing_cap_bytes=None,
            packed_lattice=None if limits.is_gpu else _PANEL_STEPS,
            chunk_cap_bytes=share,
            roles=True,
            index_orders=True,
            predict_spills=True,
            unknown_layouts=True,
            analytic=True,
        )

    def __post_init__(self) -> None:
        for name, kind in _SEVERAL.items():
            object.__setattr__(self, name, _all_of(kind, name, getattr(self, name)))
        blocks = tuple(_pair(each) for each in _listed("mma_blocks", self.mma_blocks))
        object.__setattr__(self, "mma_blocks", blocks)
        if self.register_tiles is not None:
            tiles = _all_of(RegisterTile, "register_tiles", self.register_tiles)
            object.__setattr__(self, "register_tiles", tiles)
        for name, kinds in _SINGLE.items():
            given = getattr(self, name)
            # A flag is a number in Python.
            if not isinstance(given, kinds) or (isinstance(given, bool) and bool not in kinds):
                known = ", ".join(each.__name__ for each in kinds).replace("NoneType", "None")
                raise KernelError(f"{name} of a menu is {given!r}; expected one of: {known}")


_SEVERAL: Mapping[str, type] = {
    "blocktiles": GpuBlocktile,
    "depths": int,
    "cpu_blocks": int,
    "row_blocks": int,
    "packed": CpuPacked,
}
_NO = type(None)
_FLAGS = (
    "mma_lattice",
    "swizzle",
    "grid_rendering",
    "two_row_twin",
    "roles",
    "index_orders",
    "predict_spills",
    "unknown_layouts",
    "analytic",
)
_SINGLE: Mapping[str, tuple[type, ...]] = {
    "packed_lattice": (CpuPacked, _NO),
    "packing_cap_bytes": (int, _NO),
    "chunk_cap_bytes": (int, _NO),
    "pad_factor": (float, int, _NO),
    "numerics": (Numerics,),
    **dict.fromkeys(_FLAGS, (bool,)),
}


def _listed(name: str, given: object) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise KernelError(f"{name} of a menu is {given!r}; expected a list")
    return tuple(given)


def _all_of(kind: type, name: str, given: object) -> tuple[Any, ...]:
    found = _listed(name, given)
    for each in found:
        if not isinstance(each, kind) or isinstance(each, bool):
            raise KernelError(f"{name} of a menu has {each!r}; expected {kind.__name__}s")
    return found


def _pair(given: Any) -> tuple[int, int]:
    found = _all_of(int, "mma_blocks", given) if isinstance(given, Iterable) else ()
    if len(found) != 2:
        raise KernelError(f"mma_blocks of a menu has {given!r}; expected pairs (bm, bk)")
    return found[0], found[1]


Menu.REFERENCE = Menu()
