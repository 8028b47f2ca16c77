"""Pieces of C that compute register tiles, and put what they computed where it belongs."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.kernels.member import Member
from einbound.kernels.nest import Nest, Tile

_TARGET = """\
/* Where a tile goes: to rows of C, or to a tile in the workspace that is shared out by runs. */
struct target {
    real *to;            /* the first column */
    const int64_t *row;  /* offsets of the rows */
    int64_t add;         /* whether C is added to */
    real alpha, alpha_im;
};

"""

_RUN = """\
/* Numbers that lie side by side in C, from a tile. */
static inline void put_run(real *to, const real *from, int64_t count, int64_t add)
{{
{widths}    for (; count > 0; count--, to++, from++)
        *to = add ? *to + *from : *from;
}}

/* The valid part of a tile, run by run. */
static void put_tile(real *c, const int64_t *row, int64_t rows, const int64_t *column,
                     const int64_t *run, int64_t columns, const real *tile, int64_t add)
{{
    for (int64_t i = 0; i < rows; i++, tile += PARTS * COLUMNS)
        for (int64_t j = 0; j < columns;) {{
            const int64_t count = least(run[j], columns - j);
            put_run(c + row[i] + column[j], tile + PARTS * j, PARTS * count, add);
            j += count;
        }}
}}

"""


def storing(member: Member) -> str:
    """Targets of tiles, and the runs of those at edges."""
    widths = []
    lanes = member.lanes
    while lanes > 1:
        loop = "for" if lanes == member.lanes else "if"
        head = (
            f"for (; count >= {lanes}; count -= {lanes}, to += {lanes}, from += {lanes}) {{"
            if loop == "for"
            else f"if (count >= {lanes}) {{"
        )
        lines = [
            f"    {head}",
            f"        vec{lanes} x = *(const mem{lanes} *)from;",
            "        if (add)",
            f"            x += *(const mem{lanes} *)to;",
            f"        *(mem{lanes} *)to = x;",
        ]
        if loop == "if":
            lines.append(f"        count -= {lanes}, to += {lanes}, from += {lanes};")
        widths.append("\n".join([*lines, "    }\n"]))
        lanes //= 2
    return _TARGET + _RUN.format(widths="".join(widths))


def put(member: Member) -> str:
    """One vector of results, or one pair of vectors, multiplied by alpha and stored."""
    if member.parts == 1:
        return """\
static inline void put(real *to, vec x, const struct target *target)
{
    x *= target->alpha;
    store(to, target->add ? load(to) + x : x);
}

"""
    lanes = member.lanes
    low = ", ".join(f"{at // 2 + (at % 2) * lanes}" for at in range(lanes))
    high = ", ".join(f"{lanes // 2 + at // 2 + (at % 2) * lanes}" for at in range(lanes))
    return f"""\
static inline void put(real *to, vec re, vec im, const struct target *target)
{{
    const vec x = target->alpha * re - target->alpha_im * im;
    const vec y = target->alpha * im + target->alpha_im * re;
    const vec low = __builtin_shufflevector(x, y, {low});
    const vec high = __builtin_shufflevector(x, y, {high});
    store(to, target->add ? load(to) + low : low);
    store(to + LANES, target->add ? load(to + LANES) + high : high);
}}

"""


def packed_tiles(nest: Nest) -> str:
    """Tiles over packed panels, and the table that they are chosen from."""
    tiles = "\n".join(_packed(tile, nest.member) for tile in nest.tiles)
    return f"{tiles}\n{_table(nest, _PACKED_TYPE)}"


_PACKED_TYPE = "int64_t, const real *, const real *, const struct target *"
_IN_PLACE_TYPE = "int64_t, const struct source *, const struct target *"
_SOURCE = """\
/* Where a tile comes from: A by its rows, B by its columns, both by their steps over k. */
struct source {
    const real *a, *b;
    const int64_t *row, *down_a, *down_b;
};

"""


def tiles_in_place(nest: Nest) -> str:
    """Tiles that read A and B where they lie, and the table that they are chosen from."""
    tiles = "\n".join(_in_place(tile, nest.member) for tile in nest.tiles)
    return f"{_SOURCE}{tiles}\n{_table(nest, _IN_PLACE_TYPE)}"


def _table(nest: Nest, arguments: str) -> str:
    kinds = ", ".join(map(str, nest.row_kinds))
    rows = ",\n".join(
        "    {" + ", ".join(tile.name for tile in nest.tiles if tile.rows == rows) + "}"
        for rows in nest.row_kinds
    )
    count = len(nest.row_kinds)
    return f"""\
#define ROW_KINDS {count}
static const int64_t row_kinds[ROW_KINDS] = {{{kinds}}};
static void (*const tiles[ROW_KINDS][COLUMNS / LANES])({arguments}) = {{
{rows},
}};
"""


def _packed(tile: Tile, member: Member) -> str:
    lines = [
        f"/* {tile.rows} rows of {tile.vectors * member.lanes} columns. */",
        f"static void {tile.name}(int64_t depth, const real *a, const real *b,",
        "                     const struct target *target)",
        "{",
        *accumulators(tile, member),
        "    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {",
        *(f"        {line}" for line in _step(tile, member)),
        "    }",
        *results(tile, member),
        "}",
        "",
    ]
    return "\n".join(lines)


def _in_place(tile: Tile, member: Member) -> str:
    lines = [
        f"/* {tile.rows} rows of {tile.vectors * member.lanes} columns. */",
        f"static void {tile.name}(int64_t depth, const struct source *from,",
        "                     const struct target *target)",
        "{",
        "    const int64_t *down_a = from->down_a, *down_b = from->down_b;",
        *(f"    const real *a{row} = from->a + from->row[{row}];" for row in range(tile.rows)),
        *accumulators(tile, member),
        "    for (int64_t p = 0; p < depth; p++) {",
        "        const real *b = from->b + down_b[p];",
        "        const int64_t at = down_a[p];",
        *(f"        {line}" for line in _step_in_place(tile, member)),
        "    }",
        *results(tile, member),
        "}",
        "",
    ]
    return "\n".join(lines)


def _step_in_place(tile: Tile, member: Member) -> Iterator[str]:
    lanes = range(member.lanes)
    for v in range(tile.vectors):
        if member.parts == 1:
            yield f"vec b{v} = load(b + {v} * LANES);"
            continue
        # Real and imaginary parts lie alternately.
        yield f"vec x{v} = load(b + {2 * v} * LANES), y{v} = load(b + {2 * v + 1} * LANES);"
        for place, part in enumerate(_parts(member)):
            picked = ", ".join(str(2 * lane + place) for lane in lanes)
            yield f"vec b{v}{part} = __builtin_shufflevector(x{v}, y{v}, {picked});"
    for v in range(tile.vectors):
        for part in _parts(member):
            yield f"KEEP(b{v}{part});"
    for row in range(tile.rows):
        yield from multiply_adds(row, tile, member, [f"a{row}[at]", f"a{row}[at + 1]"])


def accumulators(tile: Tile, member: Member) -> Iterator[str]:
    """The results of a tile, zero; the rows of C that they go to are asked for early."""
    last = (member.parts * tile.vectors - 1) * member.lanes
    for row in range(tile.rows):
        names = [f"c{row}_{v}{part}" for v in range(tile.vectors) for part in _parts(member)]
        yield f"    vec {', '.join(f'{name} = {{0}}' for name in names)};"
    for row in range(tile.rows):
        yield f"    __builtin_prefetch(target->to + target->row[{row}], 1);"
        if last:
            yield f"    __builtin_prefetch(target->to + target->row[{row}] + {last}, 1);"


def _parts(member: Member) -> tuple[str, ...]:
    return ("",) if member.parts == 1 else ("r", "i")


def _step(tile: Tile, member: Member) -> Iterator[str]:
    for v in range(tile.vectors):
        for place, part in enumerate(_parts(member)):
            at = f"{place} * COLUMNS + {v} * LANES"
            yield f"vec b{v}{part} = load(b + {at});"
    for v in range(tile.vectors):
        for part in _parts(member):
            yield f"KEEP(b{v}{part});"
    for row in range(tile.rows):
        yield from multiply_adds(row, tile, member, [f"a[{row}]", f"a[RM + {row}]"])


def multiply_adds(row: int, tile: Tile, member: Member, a: list[str]) -> Iterator[str]:
    """All multiply-adds of one row of a tile in one step over k."""
    if member.parts == 1:
        for v in range(tile.vectors):
            yield f"c{row}_{v} += {a[0]} * b{v};"
        return
    for v in range(tile.vectors):
        yield f"c{row}_{v}r += {a[0]} * b{v}r;"
        yield f"c{row}_{v}i += {a[0]} * b{v}i;"
    for v in range(tile.vectors):
        yield f"c{row}_{v}r -= {a[1]} * b{v}i;"
        yield f"c{row}_{v}i += {a[1]} * b{v}r;"


def results(tile: Tile, member: Member) -> Iterator[str]:
    """The stores of a tile."""
    for row in range(tile.rows):
        for v in range(tile.vectors):
            names = ", ".join(f"c{row}_{v}{part}" for part in _parts(member))
            to = f"target->to + target->row[{row}] + {v} * PARTS * LANES"
            yield f"    put({to}, {names}, target);"
