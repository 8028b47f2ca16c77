"""Matrix instructions of a GPU, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from einbound.errors import MachineError
from einbound.machine.fields import count, counts, listed, member, ordered, pairs
from einbound.machine.precision import Precision

#: Formats of A, of B and of the accumulator.
Triple: TypeAlias = tuple[Precision, Precision, Precision]
#: Rows, columns and depth of one matrix instruction.
MmaTile: TypeAlias = tuple[int, int, int]


class Scope(StrEnum):
    """How long an accumulator of matrix instructions lives."""

    PER_STATEMENT = "per_statement"
    PERSISTENT_FRAGMENT = "persistent_fragment"


class StagedLayout(StrEnum):
    """A layout of staged tiles against bank conflicts."""

    SWIZZLE_16_BYTES = "swizzle_16_bytes"


@dataclass(frozen=True, slots=True)
class MmaLimits:
    """Matrix instructions of one GPU.

    Formats may be given short ("f16") or long; mappings and lists become tuples sorted by their
    formats.

    Attributes:
        width: Lanes that execute one together.
        tile: The tile that is meant where formats are not told apart.
        tiles: Tiles of each triple of formats, the preferred first.
        wide_scopes: Scopes that may accumulate a narrow format in a wide one, by format.
        layouts: Staged layouts that each triple may use besides the plain one.
        depths: Depths of pipelining.

    Example:
        >>> mma = MmaLimits(32, (8, 8, 8), {("f32", "f32", "f32"): (8, 8, 8)})
        >>> mma.tile_of("float32", "float32", "float32")
        (8, 8, 8)
    """

    width: int
    tile: MmaTile
    tiles: tuple[tuple[Triple, MmaTile], ...]
    wide_scopes: tuple[tuple[Precision, tuple[Scope, ...]], ...] = ()
    layouts: tuple[tuple[Triple, StagedLayout], ...] = ()
    depths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", count("width of matrix instructions", self.width))
        tiles = [
            (_triple(key), counts("a tile", tile, 3)) for key, tile in pairs("tiles", self.tiles)
        ]
        scopes = [
            (Precision.of(key), tuple(member(Scope, scope) for scope in listed(given)))
            for key, given in pairs("wide_scopes", self.wide_scopes)
        ]
        layouts = [
            (_triple(key), member(StagedLayout, each))
            for key, each in pairs("layouts", self.layouts)
        ]
        object.__setattr__(self, "tile", counts("the tile", self.tile, 3))
        # Sorting is stable: of one triple, the preferred tile stays first.
        object.__setattr__(self, "tiles", ordered(tiles))
        object.__setattr__(self, "wide_scopes", ordered(scopes))
        object.__setattr__(self, "layouts", ordered(layouts))
        object.__setattr__(self, "depths", counts("depths", self.depths))

    def tile_of(self, a: object, b: object, accumulator: object) -> MmaTile | None:
        """The preferred tile of these formats; None: there is no such instruction."""
        wanted = _triple((a, b, accumulator))
        return next((tile for triple, tile in self.tiles if triple == wanted), None)


def _triple(given: Any) -> Triple:
    if isinstance(given, str) or not isinstance(given, Iterable) or len(tuple(given)) != 3:
        raise MachineError(f"{given!r} are no formats of A, B and the accumulator; give three")
    a, b, accumulator = (Precision.of(each) for each in given)
    return a, b, accumulator
