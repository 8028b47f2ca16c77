"""Pieces of C that copy blocks of operands to panels, along whatever lies side by side."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.kernels.member import Member
from einbound.kernels.nest import Nest

_PANEL = """\
/* A row of a panel whose numbers lie side by side. */
static inline void pack_row(const real *from, int64_t count, const int64_t width, real *to)
{{
    const int64_t whole = count / LANES * LANES;
{copies}
    for (int64_t i = whole; i < count; i++)
        for (int64_t part = 0; part < PARTS; part++)
            to[part * width + i] = from[i * PARTS + part];
}}

/* One step over k of a panel, number by number. */
static inline void pack_step(const real *from, const int64_t *across, int64_t count,
                             const int64_t width, real *to)
{{
    for (int64_t i = 0; i < count; i++)
        for (int64_t part = 0; part < PARTS; part++)
            to[part * width + i] = from[across[i] + part];
}}

/* A panel of `width` rows of A, or columns of B: step after step over k, filled up with zeros.
   across, across_run: offsets of these, and how many lie side by side; down, down_run: along k. */
static inline __attribute__((always_inline)) void pack(
    const real *from, const int64_t *across, const int64_t *across_run, int64_t count,
    const int64_t *down, const int64_t *down_run, int64_t depth, const int64_t width,{square}
    real *restrict to)
{{
{runs}    const int64_t step = PARTS * width;
    if (count < width)
        memset(to, 0, sizeof(real) * step * depth);
    if (across_run[0] >= count) {{
        from += across[0];
        if (count == width)
            for (int64_t p = 0; p < depth; p++)
                pack_row(from + down[p], width, width, to + p * step);
        else
            for (int64_t p = 0; p < depth; p++)
                pack_row(from + down[p], count, width, to + p * step);
        return;
    }}
    for (int64_t p = 0; p < depth;) {{
{turns}        pack_step(from + down[p], across, count, width, to + p * step);
        p++;
    }}
}}

"""

_TURNS = """\
        if (square == {size} && down_run[p] >= {size}) {{
            int64_t i = 0;
            for (; i + {size} <= count; i += {size})
                turn_{size}(from + down[p], across + i, width, to + p * step + i);
            for (; i < count; i++)
                for (int64_t q = 0; q < {size}; q++)
                    to[(p + q) * step + i] = from[across[i] + down[p] + q];
            p += {size};
            continue;
        }}
"""

_PACK_ONE = """\
static void pack_{name}(const real *from, const int64_t *across, const int64_t *across_run,
                   int64_t count, const int64_t *down, const int64_t *down_run, int64_t depth,
                   real *to)
{{
    pack(from, across, across_run, count, down, down_run, depth, {width},{square} to);
}}
"""


_ACROSS = """
/* Whether as many panels of B as a square is wide lie side by side, number by number. */
static int is_across(const int64_t *across)
{{
    for (int64_t q = 1; q < {size}; q++)
        for (int64_t i = 0; i < COLUMNS; i++)
            if (across[q * COLUMNS + i] != across[i] + q)
                return 0;
    return 1;
}}

/* These panels, `apart` numbers from each other, by squares that are turned in registers. */
static void pack_across(const real *from, const int64_t *across, const int64_t *down,
                        int64_t depth, int64_t apart, real *to)
{{
    for (int64_t p = 0; p < depth; p++)
        for (int64_t i = 0; i < COLUMNS; i += {size})
            turn_{size}(from + down[p], across + i, apart, to + p * COLUMNS + i);
}}

/* All panels of a block of B. */
static void pack_columns(const real *from, const int64_t *across, const int64_t *across_run,
                         int64_t count, const int64_t *down, const int64_t *down_run,
                         int64_t depth, real *to)
{{
    for (int64_t j = 0; j < count;) {{
        if (count - j >= {size} * COLUMNS && across_run[j] == 1 && is_across(across + j)) {{
            pack_across(from, across + j, down, depth, COLUMNS * depth, to + j * depth);
            j += {size} * COLUMNS;
            continue;
        }}
        pack_b(from, across + j, across_run + j, least(COLUMNS, count - j), down, down_run, depth,
               to + PARTS * j * depth);
        j += COLUMNS;
    }}
}}
"""

_COLUMNS = """
/* All panels of a block of B. */
static void pack_columns(const real *from, const int64_t *across, const int64_t *across_run,
                         int64_t count, const int64_t *down, const int64_t *down_run,
                         int64_t depth, real *to)
{
    for (int64_t j = 0; j < count; j += COLUMNS)
        pack_b(from, across + j, across_run + j, least(COLUMNS, count - j), down, down_run, depth,
               to + PARTS * j * depth);
}
"""


def packing(nest: Nest) -> str:
    """Squares that are turned in registers, then the packing of each operand."""
    squares = "".join(_square(size) for size in nest.squares)
    ones = "\n".join(
        _PACK_ONE.format(
            name=pack.operand.lower(),
            width=pack.width,
            square=f" {pack.square}," if nest.squares else "",
        )
        for pack in nest.packs
    )
    turns = "".join(_TURNS.format(size=size) for size in nest.squares)
    panel = _PANEL.format(
        copies=_copies(nest.member),
        turns=turns,
        square=" const int64_t square," if turns else "",
        runs="" if turns else "    (void)down_run; /* numbers along k are not turned */\n",
    )
    square = next((pack.square for pack in nest.packs if pack.operand == "B"), 1)
    columns = _ACROSS.format(size=square) if square > 1 else _COLUMNS
    return f"{squares}{panel}{ones}{columns}"


def _copies(member: Member) -> str:
    """Whole vectors of a row; the parts of complex numbers are told apart on the way."""
    if member.parts == 1:
        return """\
    for (int64_t i = 0; i < whole; i += LANES)
        store(to + i, load(from + i));"""
    evens = ", ".join(str(2 * lane) for lane in range(member.lanes))
    odds = ", ".join(str(2 * lane + 1) for lane in range(member.lanes))
    return f"""\
    for (int64_t i = 0; i < whole; i += LANES) {{
        const vec x = load(from + 2 * i), y = load(from + 2 * i + LANES);
        store(to + i, __builtin_shufflevector(x, y, {evens}));
        store(to + width + i, __builtin_shufflevector(x, y, {odds}));
    }}"""


def _square(size: int) -> str:
    """A square transposed by exchanges of ever smaller blocks off its diagonal."""
    lines = [
        f"/* {size} runs along k, of {size} numbers each, as {size} steps over k. */",
        f"static inline void turn_{size}(const real *from, const int64_t *across, int64_t width,",
        "                          real *to)",
        "{",
        *(
            f"    vec{size} x{row} = *(const mem{size} *)(from + across[{row}]);"
            for row in range(size)
        ),
        f"    vec{size} y;",
        *_exchanges(size),
        *(f"    *(mem{size} *)(to + {row} * width) = x{row};" for row in range(size)),
        "}",
        "",
        "",
    ]
    return "\n".join(lines)


def _exchanges(size: int) -> Iterator[str]:
    half = size // 2
    while half:
        low = [lane if not lane & half else size + lane - half for lane in range(size)]
        high = [lane + half if not lane & half else size + lane for lane in range(size)]
        yield f"    /* blocks of {half} */"
        for row in range(size):
            if row & half:
                continue
            x, z = f"x{row}", f"x{row + half}"
            yield f"    y = __builtin_shufflevector({x}, {z}, {_listed(low)});"
            yield f"    {z} = __builtin_shufflevector({x}, {z}, {_listed(high)});"
            yield f"    {x} = y;"
        half //= 2


def _listed(lanes: list[int]) -> str:
    return ", ".join(map(str, lanes))
