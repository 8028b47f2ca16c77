"""A loop nest as C that a person can read; every rule was decided before.

Vectors are extensions of GCC and Clang (`vector_size`): headers of intrinsics take as long to
compile as the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from einbound.kernels import c_blocks, c_blocktile, c_pack, c_prelude, c_small, c_tile
from einbound.kernels.member import Form
from einbound.kernels.nest import Nest

_WHAT = {
    Form.PACKED: "over packed panels of A and B",
    Form.IN_PLACE: "with A and B read where they lie",
    Form.BLOCKTILE: "of blocks copied side by side",
    Form.SMALL: "of a size that is compiled in",
}


def c_source(nest: Nest) -> str:
    """The C of one object file, the same text for the same nest.

    Args:
        nest: The loops of a member, `nest_of(member)`.

    Example:
        >>> from einbound.kernels.member import Member
        >>> from einbound.kernels.nest import nest_of
        >>> from einbound.machine.precision import Precision
        >>> member = Member(form=Form.PACKED, dtype=Precision.FLOAT32, rm=8, rn=2, lanes=8)
        >>> c_source(nest_of(member)).splitlines()[0]
        '/* C[m, n] += alpha sum over k of A[m, k] B[k, n], over packed panels of A and B.'
    """
    member = nest.member
    pieces = [
        _header(nest),
        "#include <stdint.h>\n#include <string.h>\n",
        c_prelude.types(member),
        c_prelude.words(),
        c_prelude.keep(),
        *_BODIES[member.form](nest),
    ]
    return "\n".join(pieces)


def _packed(nest: Nest) -> list[str]:
    member = nest.member
    return [
        c_prelude.offsets(),
        c_prelude.accesses(member),
        c_pack.packing(nest),
        c_tile.storing(member) + c_tile.put(member) + c_tile.packed_tiles(nest),
        c_blocks.job() + c_blocks.tables() + c_blocks.packed(member.rm) + c_blocks.entries(),
    ]


def _in_place(nest: Nest) -> list[str]:
    member = nest.member
    return [
        c_prelude.offsets(),
        c_prelude.accesses(member),
        c_tile.storing(member) + c_tile.put(member) + c_tile.tiles_in_place(nest),
        c_blocks.job() + c_blocks.tables() + c_blocks.in_place(member.rm) + c_blocks.entries(),
    ]


def _small(nest: Nest) -> list[str]:
    assert nest.cover is not None, "the size of the product is known"
    return [
        c_prelude.axes(),
        c_small.small(nest) + c_blocks.job() + c_blocks.small_entries(nest.cover.is_fetched),
    ]


def _blocktile(nest: Nest) -> list[str]:
    member = nest.member
    return [
        c_prelude.offsets(),
        c_blocks.job() + c_blocks.tables() + c_blocktile.blocktile(member) + c_blocks.entries(),
    ]


_BODIES: dict[Form, Callable[[Nest], list[str]]] = {
    Form.PACKED: _packed,
    Form.IN_PLACE: _in_place,
    Form.BLOCKTILE: _blocktile,
    Form.SMALL: _small,
}


def _header(nest: Nest) -> str:
    member = nest.member
    lines = [
        f"/* C[m, n] += alpha sum over k of A[m, k] B[k, n], {_WHAT[member.form]}.",
        "",
        f"   numbers   {member.dtype}",
    ]
    if member.form is not Form.BLOCKTILE:
        lines.append(f"   tile      {member.rm} rows of {member.rn} vectors of {member.lanes}")
    if member.extents:
        m, n, k = member.extents
        lines.append(f"   size      m {m}, n {n}, k {k}")

    for depth, loop in enumerate(nest.loops):
        shared = ", shared out to threads" if loop.chunks else ""
        label = "loops  " if not depth else "       "
        lines.append(f"   {label}   {'  ' * depth}for {loop.over} by {loop.block}{shared}")
    return "\n".join([*lines, "*/", ""])
