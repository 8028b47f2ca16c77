"""Pieces of C for products of one small size: every extent and stride is a number in the code."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.kernels.member import Member
from einbound.kernels.nest import Nest

_PUT = """\
static inline void put{lanes}(real *to, vec{lanes} x, real alpha, int64_t add)
{{
    x *= alpha;
    if (add)
        x += *(const mem{lanes} *)to;
    *(mem{lanes} *)to = x;
}}

"""


def small(nest: Nest) -> str:
    """Tiles that cover a product, and the product."""
    member = nest.member
    m, n, _ = member.extents
    rows = _cut(m, member.rm)
    columns = _columns(n, member)
    widths = sorted({width for group in columns for _, width in group})
    puts = "".join(_put(width) for width in widths)
    kinds = dict.fromkeys((count, _shape(group)) for _, count in rows for group in columns)
    tiles = "\n".join(_tile(count, list(shape), member) for count, shape in kinds)
    return f"{puts}{tiles}\n{_product(rows, columns, member)}"


def _cut(extent: int, most: int) -> list[tuple[int, int]]:
    """Starts and sizes of pieces of at most so many.

    Example:
        >>> _cut(10, 4)
        [(0, 4), (4, 4), (8, 2)]
    """
    return [(start, min(most, extent - start)) for start in range(0, extent, most)]


def _columns(n: int, member: Member) -> list[list[tuple[int, int]]]:
    """Vectors, as start and lanes, that cover all columns exactly, in groups of one tile each."""
    vectors, start, lanes = [], 0, member.lanes
    while start < n:
        while lanes > n - start:
            lanes //= 2
        vectors.append((start, lanes))
        start += lanes
    return [vectors[at : at + member.rn] for at in range(0, len(vectors), member.rn)]


def _shape(group: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(width for _, width in group)


def _name(rows: int, shape: tuple[int, ...]) -> str:
    return f"tile_{rows}x{'_'.join(map(str, shape))}"


def _put(width: int) -> str:
    if width > 1:
        return _PUT.format(lanes=width)
    return """\
static inline void put1(real *to, real x, real alpha, int64_t add)
{
    *to = add ? *to + alpha * x : alpha * x;
}

"""


def _tile(rows: int, shape: list[int], member: Member) -> str:
    depth = member.extents[2]
    a_m, a_k, b_k, c_m = member.steps
    starts = [sum(shape[:v]) for v in range(len(shape))]
    lines = [
        f"static inline void {_name(rows, tuple(shape))}(const real *a, const real *b, real *c,",
        "                     real alpha, int64_t add)",
        "{",
        *(
            f"    {_vector(width)} c{row}_{v} = {_zero(width)};"
            for row in range(rows)
            for v, width in enumerate(shape)
        ),
        f"    for (int64_t p = 0; p < {depth}; p++, a += {a_k}, b += {b_k}) {{",
        *(
            f"        {_vector(width)} b{v} = {_load(width, start)};"
            for v, (width, start) in enumerate(zip(shape, starts, strict=True))
        ),
        *(f"        KEEP(b{v});" for v, width in enumerate(shape) if width > 1),
        *(
            f"        c{row}_{v} += a[{row * a_m}] * b{v};"
            for row in range(rows)
            for v in range(len(shape))
        ),
        "    }",
        *(
            f"    put{width}(c + {row * c_m + start}, c{row}_{v}, alpha, add);"
            for row in range(rows)
            for v, (width, start) in enumerate(zip(shape, starts, strict=True))
        ),
        "}",
        "",
    ]
    return "\n".join(lines)


def _vector(width: int) -> str:
    return f"vec{width}" if width > 1 else "real"


def _zero(width: int) -> str:
    return "{0}" if width > 1 else "0"


def _load(width: int, start: int) -> str:
    return f"*(const mem{width} *)(b + {start})" if width > 1 else f"b[{start}]"


def _product(
    rows: list[tuple[int, int]], columns: list[list[tuple[int, int]]], member: Member
) -> str:
    def calls() -> Iterator[str]:
        a_m, _, _, c_m = member.steps
        for first, count in rows:
            for group in columns:
                column = group[0][0]
                name = _name(count, _shape(group))
                at = f"a + {first * a_m}, b + {column}, c + {first * c_m + column}"
                yield f"    {name}({at}, alpha, add);"

    lines = [
        "/* One product of the batch. */",
        "static void product_of(const real *a, const real *b, real *c, real alpha, int64_t add)",
        "{",
        *calls(),
        "}",
        "",
        "",
    ]
    return "\n".join(lines)
