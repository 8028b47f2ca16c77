"""Decisions made concrete: the loops, copies and tiles that an emitter prints, and no rules."""

from __future__ import annotations

from dataclasses import dataclass

from einbound.kernels.member import Form, Member
from einbound.kernels.microkernel import ladder

#: Squares that are turned in registers: smaller ones save nothing, and larger ones are seldom
#: whole, since a side of them has to lie side by side in memory.
LEAST_SQUARE, MOST_SQUARE = 4, 8
#: Bytes of the three arrays of a product from which on those of the next one in the batch are asked
#: for ahead. Measured on Zen 5: batches of 1000 products of 64 x 64 float64 took 0.65 times as
#: long, of 32 x 32 0.9, but of 16 x 16 1.1 times.
LEAST_FETCHED_BYTES = 2**14


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over blocks of one extent.

    Attributes:
        over: "batch", "m", "n" or "k".
        block: The word or number that it steps by.
        chunks: Whether its trips are shared out to threads.
    """

    over: str
    block: str
    chunks: bool = False


@dataclass(frozen=True, slots=True)
class Pack:
    """A copy of an operand's block to panels that a register tile reads one after the other.

    Attributes:
        operand: "A" or "B".
        width: Rows or columns of a panel.
        square: Numbers of a square that is turned in registers where k lies side by side; 1:
            none fits the panel.
    """

    operand: str
    width: int
    square: int


@dataclass(frozen=True, slots=True)
class Tile:
    """A micro-kernel: results that stay in registers over a block of k."""

    rows: int
    vectors: int

    @property
    def name(self) -> str:
        """Its function."""
        return f"tile_{self.rows}x{self.vectors}"


@dataclass(frozen=True, slots=True)
class Run:
    """Rows, or the columns of one vector, that a tile of known place covers."""

    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Cover:
    """Tiles that cover a product of known size exactly: all pairs of its rows and its columns.

    Attributes:
        rows: Rows of each tile.
        columns: Vectors of each tile; those at the edge are shorter, down to one number.
        is_fetched: Whether the arrays of the next product are asked for meanwhile.
    """

    rows: tuple[Run, ...]
    columns: tuple[tuple[Run, ...], ...]
    is_fetched: bool


@dataclass(frozen=True, slots=True)
class Nest:
    """The loops of a member, outermost first, with what is copied and computed in them.

    Attributes:
        member: Whose loops they are.
        loops: The loops.
        packs: Copies of operands.
        tiles: The micro-kernels that cover blocks of any size.
        cover: Those of a size that is known; None: it is not.
    """

    member: Member
    loops: tuple[Loop, ...]
    packs: tuple[Pack, ...] = ()
    tiles: tuple[Tile, ...] = ()
    cover: Cover | None = None

    @property
    def row_kinds(self) -> tuple[int, ...]:
        """Rows of the tiles, the most first."""
        return tuple(dict.fromkeys(tile.rows for tile in self.tiles))

    @property
    def squares(self) -> tuple[int, ...]:
        """Sizes of the squares that are turned in registers."""
        return tuple(sorted({pack.square for pack in self.packs if pack.square > 1}))


def nest_of(member: Member) -> Nest:
    """The loop nest of an object file.

    Example:
        >>> from einbound.machine.precision import Precision
        >>> nest = nest_of(Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8))
        >>> [loop.over for loop in nest.loops], nest.row_kinds
        (['batch', 'n', 'm', 'k', 'm', 'n', 'm'], (8, 4, 2, 1))
    """
    if member.form is Form.SMALL:
        return _small(member)
    chunks = (Loop("batch", "1", True), Loop("n", "BN", True), Loop("m", "BM", True))
    around = (*chunks, Loop("k", "BK"), Loop("m", "BM"))
    if member.form is Form.BLOCKTILE:
        return Nest(member, (*around, Loop("k", "1"), Loop("m", "1"), Loop("n", "1")))
    return Nest(
        member,
        (*around, Loop("n", "COLUMNS"), Loop("m", "RM")),
        _packs(member),
        tuple(
            Tile(rows, vectors) for rows in ladder(member.rm) for vectors in range(1, member.rn + 1)
        ),
    )


def _packs(member: Member) -> tuple[Pack, ...]:
    if member.form is Form.IN_PLACE:
        return ()
    widths = {"A": member.rm, "B": member.columns}
    return tuple(
        Pack(operand, width, square_of(width, member.lanes) if member.parts == 1 else 1)
        for operand, width in widths.items()
    )


def _small(member: Member) -> Nest:
    m, n, k = member.extents
    n_bytes = (m * k + k * n + m * n) * member.dtype.n_bytes
    loops = (Loop("batch", "1", True), Loop("m", "RM"), Loop("n", "COLUMNS"), Loop("k", "1"))
    vectors = _vectors(n, member.lanes)
    columns = tuple(vectors[at : at + member.rn] for at in range(0, len(vectors), member.rn))
    return Nest(
        member, loops, cover=Cover(_cut(m, member.rm), columns, n_bytes >= LEAST_FETCHED_BYTES)
    )


def _cut(extent: int, most: int) -> tuple[Run, ...]:
    """Pieces of at most so many.

    Example:
        >>> [run.count for run in _cut(10, 4)]
        [4, 4, 2]
    """
    return tuple(Run(start, min(most, extent - start)) for start in range(0, extent, most))


def _vectors(extent: int, lanes: int) -> tuple[Run, ...]:
    """Vectors that cover columns exactly, halved where they would not fit.

    Example:
        >>> [run.count for run in _vectors(13, 8)]
        [8, 4, 1]
    """
    found, start = [], 0
    while start < extent:
        while lanes > extent - start:
            lanes //= 2
        found.append(Run(start, lanes))
        start += lanes
    return tuple(found)


def square_of(width: int, lanes: int) -> int:
    """The largest square that divides the width of a panel and fits a vector; 1: none of use."""
    square = 1
    while square < min(lanes, MOST_SQUARE) and width % (2 * square) == 0:
        square *= 2
    return square if square >= LEAST_SQUARE else 1
