"""What an object is told when it runs: every number of a product, as 64-bit words.

The words are laid out as `WORDS` says; C reads them by the same names, and the axes follow.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod

from einbound.errors import KernelError
from einbound.kernels.cpu_blocking import balanced
from einbound.kernels.groups import GroupAxis, Groups
from einbound.kernels.layout import nested, told
from einbound.kernels.member import Form, Member
from einbound.kernels.problem import MatmulProblem
from einbound.kernels.shares import Chunks, shared
from einbound.kernels.spec import KernelSpec
from einbound.kernels.views import seen_by

#: The words before the axes. Rooms are places in the workspace, in bytes.
WORDS = (
    "DATA",
    "CHUNKS",
    "M",
    "N",
    "K",
    "BM",
    "BN",
    "BK",
    "ROW_BLOCKS",
    "COLUMN_BLOCKS",
    "ACCUMULATE",
    "ALPHA",
    "ALPHA_IM",
    "N_BATCH_AXES",
    "N_M_AXES",
    "N_N_AXES",
    "N_K_AXES",
    "ROOM_A",
    "ROOM_B",
    "ROOM_TILE",
    "ROOM_ROWS",
    "ROOM_COLUMNS",
    "ROOM_DEPTH",
    "AXES",
)
#: Words of one axis: its extent, and its strides in A, B and C in elements.
AXIS_WORDS = 4
#: Tables that a row, a column and a step over k have: offsets in two arrays, and runs of both.
TABLES = 4
#: A line of a cache; panels and tables start at one.
LINE_BYTES = 64
#: Sizes of blocks that a spec leaves open: tables of offsets are as long as these.
OPEN_BM, OPEN_BN, OPEN_BK = 512, 1024, 512
#: Bytes before the data pointer of an array of NumPy: those of an object without fields.
DATA_BYTES = object.__basicsize__


@dataclass(frozen=True, slots=True)
class Task:
    """One product, ready to be run by its member's object.

    Attributes:
        words: What `einbound_run` and `einbound_call` are given first, as int64.
        workspace_bytes: Exact bytes of workspace that each call of them needs; a start at a
            multiple of 64 is fastest.
        n_chunks: Disjoint parts of the result.
        swapped: Whether the second operand is to be given as `a`, and the first one as `b`.
        cuts: Where the chunks of each worker start, and where the last one's stop.
    """

    words: tuple[int, ...]
    workspace_bytes: int
    n_chunks: int
    swapped: bool
    cuts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Sizes of the blocks of a nest."""

    bm: int
    bn: int
    bk: int


def task_of(
    problem: MatmulProblem,
    spec: KernelSpec,
    member: Member,
    *,
    accumulate: bool,
    alpha: complex = 1,
    workspace_limit: int | None = None,
    n_workers: int = 1,
) -> Task:
    """The numbers that a member needs for one product.

    Args:
        problem: The product that the tree was made for.
        spec: A leaf of its tree.
        member: Its object, `member_of(problem, spec, limits)`.
        accumulate: Whether the product is added to the result, or overwrites it.
        alpha: What the product is multiplied by.
        workspace_limit: Bytes that the workspace may have; blocks shrink until they fit.
        n_workers: Workers that share it, each with a workspace of its own.

    Raises:
        KernelError: Not even the least blocks fit, or `alpha` is complex and the product real.

    Example:
        >>> from einbound.kernels.kinds import PipelineKind
        >>> from einbound.machine.precision import Precision
        >>> spec = KernelSpec(gpu=False, pipeline=PipelineKind.TENSORIZED, mma=True, packed=True,
        ...                   bm=64, bn=0, bk=64)
        >>> member = Member(form=Form.PACKED, dtype=Precision.FLOAT64, rm=8, rn=3, lanes=8)
        >>> task = task_of(MatmulProblem(m=128, n=96, k=64), spec, member, accumulate=False)
        >>> task.n_chunks, task.workspace_bytes
        (2, 90624)
    """
    groups = told(seen_by(told(problem), spec)).groups
    assert groups is not None, "strides are told"
    groups = nested(groups, member.columns)
    alpha = complex(alpha)
    if alpha.imag and member.parts == 1:
        raise KernelError(
            f"alpha is {alpha} of a product of {member.dtype}; expected a real number"
        )
    m, n, k = (prod(axis.extent for axis in axes) for axes in (groups.m, groups.n, groups.k))
    blocks = _within(_blocks(m, n, k, spec, member), member, workspace_limit)
    # After a cut, as few blocks may be made of less workspace.
    blocks = _even(m, n, k, blocks, member)
    n_batch = prod(axis.extent for axis in groups.batch)
    chunks = Chunks(m, n, blocks.bm, blocks.bn, n_batch)
    if member.form is Form.SMALL:
        chunks = Chunks(m, n, m, n, n_batch)
    else:
        chunks = shared(chunks, n_workers, (member.rm, member.columns), member.lanes)
    blocks = Blocks(chunks.bm, chunks.bn, blocks.bk)
    rooms, workspace_bytes = _rooms(blocks, member)
    words = {
        "DATA": DATA_BYTES,
        "CHUNKS": chunks.number,
        "M": m,
        "N": n,
        "K": k,
        "BM": blocks.bm,
        "BN": blocks.bn,
        "BK": blocks.bk,
        "ROW_BLOCKS": chunks.row_blocks,
        "COLUMN_BLOCKS": chunks.column_blocks,
        "ACCUMULATE": int(accumulate),
        "ALPHA": _bits(alpha.real),
        "ALPHA_IM": _bits(alpha.imag),
        "N_BATCH_AXES": len(groups.batch),
        "N_M_AXES": len(groups.m),
        "N_N_AXES": len(groups.n),
        "N_K_AXES": len(groups.k),
        **rooms,
    }
    head = tuple(words[name] for name in WORDS[:-1])
    return Task(
        (*head, *_axis_words(groups)),
        workspace_bytes,
        chunks.number,
        spec.swapped,
        chunks.cuts(n_workers),
    )


def _axis_words(groups: Groups) -> tuple[int, ...]:
    axes: tuple[GroupAxis, ...] = (*groups.batch, *groups.m, *groups.n, *groups.k)
    return tuple(word for axis in axes for word in (axis.extent, axis.a, axis.b, axis.c))


def _blocks(m: int, n: int, k: int, spec: KernelSpec, member: Member) -> Blocks:
    """The blocks of a spec, none larger than the extents and all about equal."""
    if member.form is Form.PACKED or member.form is Form.BLOCKTILE:
        bm, bn, bk = spec.bm or m, spec.bn or n, spec.bk or k
    else:
        bm, bn, bk = spec.bm or OPEN_BM, OPEN_BN, OPEN_BK
    return _even(m, n, k, Blocks(bm, bn, bk), member)


def _even(m: int, n: int, k: int, most: Blocks, member: Member) -> Blocks:
    """Equal blocks of about the sizes given."""
    bm, bn = balanced(m, most.bm, member.rm), balanced(n, most.bn, member.columns)
    return Blocks(bm, bn, balanced(k, most.bk, 1))


def _within(blocks: Blocks, member: Member, limit: int | None) -> Blocks:
    """Blocks whose workspace fits a limit: the largest part of it is cut until it does.

    Raises:
        KernelError: One register tile and one step over k do not fit.
    """
    while limit is not None and _rooms(blocks, member)[1] > limit:
        smaller = _smaller(blocks, member)
        if smaller == blocks:
            raise KernelError(
                f"workspace_limit is {limit}; the least blocks of {member.name} need "
                f"{_rooms(blocks, member)[1]} bytes"
            )
        blocks = smaller
    return blocks


def _smaller(blocks: Blocks, member: Member) -> Blocks:
    """Blocks with their largest extent cut by a quarter, in units of the register tile."""
    units = {"bn": member.columns, "bm": member.rm, "bk": 1}
    sizes = {"bn": blocks.bn, "bm": blocks.bm, "bk": blocks.bk}
    open_ = [name for name, size in sizes.items() if size > units[name]]
    if open_:
        # Depth is kept longest: results are read and written once a block of it.
        name = max(open_, key=lambda each: sizes[each] * (1 if each == "bk" else 2))
        # By halves, the largest blocks that fit were missed by nearly a factor of two.
        less = sizes[name] * 3 // 4
        sizes[name] = max(units[name], less // units[name] * units[name])
    return Blocks(sizes["bm"], sizes["bn"], sizes["bk"])


def _rooms(blocks: Blocks, member: Member) -> tuple[dict[str, int], int]:
    """Where each part of the workspace starts, and the bytes of all."""
    if member.form is Form.SMALL:
        return dict.fromkeys(WORDS[WORDS.index("ROOM_A") : -1], 0), 0
    element = member.dtype.n_bytes
    rows, columns = (
        -(-size // unit) * unit
        for size, unit in ((blocks.bm, member.rm), (blocks.bn, member.columns))
    )
    padded = (rows, columns)
    tile = member.rm * member.columns
    if member.form is Form.IN_PLACE:
        rows, columns = 0, member.columns
    if member.form is Form.BLOCKTILE:
        tile = rows * columns
    sizes = {
        "ROOM_A": rows * blocks.bk * element,
        "ROOM_B": columns * blocks.bk * element,
        "ROOM_TILE": tile * element,
        "ROOM_ROWS": TABLES * padded[0] * 8,
        "ROOM_COLUMNS": TABLES * padded[1] * 8,
        "ROOM_DEPTH": TABLES * blocks.bk * 8,
    }
    rooms, start = {}, 0
    for name, size in sizes.items():
        rooms[name] = start
        start += -(-size // LINE_BYTES) * LINE_BYTES
    return rooms, start


def _bits(number: float) -> int:
    """A double as the integer of the same bits."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])
