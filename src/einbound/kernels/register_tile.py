"""The model of register tiles: which one a micro-kernel takes, and which others are worth a try.

Prices are in vector instructions per unit of m k, times the rows, so that they stay integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from einbound.kernels.decisions import RegisterTile

_ROWS = 4
# Below it no vector holds two numbers of any format that is computed in.
_LEAST_VECTOR_BYTES = 8
# Wider registers are also used in part, down to this width: its code is in every wider set.
_NARROWEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class MicroKernel:
    """The vectors and extents that a register tile has to fit.

    Attributes:
        vector_bytes: Bytes of one vector register.
        element_bytes: Bytes of one real number in it.
        m: Rows of the block.
        n: Columns of the block.
        parts: Vectors that hold one row of numbers: of complex ones, 2.
    """

    vector_bytes: int
    element_bytes: int
    m: int
    n: int
    parts: int = 1

    @property
    def ladder(self) -> tuple[int, ...]:
        """Lanes that the columns can fill, the most first."""
        lanes = lane_ladder(self.vector_bytes, self.element_bytes)
        return tuple(each for each in lanes if each <= self.n)

    @property
    def rows(self) -> int:
        """Rows of every tile but the two-row twin."""
        return min(_ROWS, self.m)

    @property
    def most_columns(self) -> int:
        """Vectors per row that the model's own tile may have; 16 registers hold 4 x 3."""
        most = 3 if self.vector_bytes == _NARROWEST_BYTES else 6
        return max(1, most // self.parts)

    @property
    def budget(self) -> int:
        """Registers that results, a column of A and a row of B may take together."""
        return _ROWS * self.most_columns + _ROWS + self.most_columns

    def affordable(self, rows: int) -> int:
        """Vectors per row within the budget."""
        return (self.budget - rows) // (rows + 1)

    def price(self, rn: int, lanes: int) -> int:
        """Multiply-adds and loads of B, then the splats of A that every pass repeats."""
        rows = self.rows
        return -(-self.n // lanes) * (rows + 1) + rows * -(-self.n // (rn * lanes))

    def tail(self, rn: int, lanes: int) -> int:
        """Columns that whole passes leave over."""
        return self.n % (rn * lanes)


def lane_ladder(vector_bytes: int, element_bytes: int) -> tuple[int, ...]:
    """Numbers per vector at every width that is used, the widest first.

    Example:
        >>> lane_ladder(64, 4), lane_ladder(16, 8)
        ((16, 8), (2,))
    """
    if vector_bytes < _LEAST_VECTOR_BYTES:
        return ()
    narrowest = min(vector_bytes, _NARROWEST_BYTES)
    found = []
    while vector_bytes >= narrowest:
        found.append(vector_bytes // element_bytes)
        vector_bytes //= 2
    return tuple(lanes for lanes in found if lanes >= 2)


def own_tile(kernel: MicroKernel) -> RegisterTile | None:
    """The model's own tile, of the least price; None where no vector fits the columns.

    Ties go to wider vectors, then to tiles that leave no columns over, then to fewer registers.

    Example:
        >>> own_tile(MicroKernel(vector_bytes=32, element_bytes=4, m=64, n=64)).label
        'rm4 rn3 lanes8'
    """
    tiles = [
        (kernel.price(rn, lanes), -lanes, kernel.tail(rn, lanes) > 0, rn)
        for lanes in kernel.ladder
        for rn in range(1, min(kernel.most_columns, kernel.n // lanes) + 1)
    ]
    if not tiles:
        return None
    _, lanes, _, rn = min(tiles)
    return RegisterTile(kernel.rows, rn, -lanes)


def alternatives(kernel: MicroKernel) -> tuple[RegisterTile, ...]:
    """Tiles that the model cannot tell from its own with confidence, most promising first.

    Example:
        >>> kernel = MicroKernel(vector_bytes=32, element_bytes=4, m=64, n=64)
        >>> [tile.label for tile in alternatives(kernel)]
        ['rm4 rn2 lanes8']
    """
    own = own_tile(kernel)
    if own is None:
        return ()
    lanes = kernel.ladder[0]
    # A dictionary keeps the order of those that two rules propose.
    columns = dict.fromkeys(_proposals(kernel, own, lanes))
    tiles = (RegisterTile(kernel.rows, rn, lanes) for rn in columns)
    return tuple(tile for tile in tiles if tile != own and _fits_budget(kernel, tile))


def two_row_twin(kernel: MicroKernel) -> RegisterTile | None:
    """Two rows with all the columns that registers afford; None where rows are few already."""
    own = own_tile(kernel)
    if own is None or own.rm != _ROWS:
        return None
    _, _, lanes = own.sizes
    return RegisterTile(2, min(kernel.affordable(2), kernel.n // lanes), lanes)


def _proposals(kernel: MicroKernel, own: RegisterTile, lanes: int) -> Iterator[int]:
    most = min(kernel.affordable(kernel.rows), kernel.n // lanes)
    whole = [rn for rn in range(2, most + 1) if not kernel.tail(rn, lanes)]
    yield from whole[-1:]
    if most >= 2 and most not in whole[-1:] and kernel.tail(most, lanes) <= lanes:
        yield most
    yield from _tied_larger(kernel, own, lanes)


def _tied_larger(kernel: MicroKernel, own: RegisterTile, lanes: int) -> list[int]:
    """The largest width at the same price, where the model's own leaves columns over."""
    _, own_rn, own_lanes = own.sizes
    if own_lanes != lanes or not kernel.tail(own_rn, lanes):
        return []
    widths = range(own_rn + 1, min(kernel.most_columns, kernel.n // lanes) + 1)
    price = kernel.price(own_rn, lanes)
    return [rn for rn in widths if kernel.price(rn, lanes) == price][-1:]


def _fits_budget(kernel: MicroKernel, tile: RegisterTile) -> bool:
    rm, rn, _ = tile.sizes
    return rm * rn + rm + rn <= kernel.budget
