"""Pieces of C for products of one small size: every extent and stride is a number in the code."""

from __future__ import annotations

from collections.abc import Iterator

from einbound.kernels.member import Member
from einbound.kernels.nest import Cover, Nest, Run
from einbound.kernels.task import LINE_BYTES

#: What the next product needs is on its way while this one is computed: prefetchers of hardware
#: learn little from so few rows.
_FETCH = """\
/* Asks for rows of an array before they are needed. */
static inline void fetch(const real *from, int64_t rows, int64_t step, int64_t count)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t x = 0; x < count; x += LINE_BYTES / (int64_t)sizeof(real))
            __builtin_prefetch(from + row * step + x);
}

"""

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
    cover = nest.cover
    assert cover is not None, "the size of the product is known"
    widths = sorted({run.count for group in cover.columns for run in group})
    puts = "".join(_put(width) for width in widths)
    kinds = dict.fromkeys(
        (run.count, _shape(group)) for run in cover.rows for group in cover.columns
    )
    tiles = "\n".join(_tile(count, shape, nest.member) for count, shape in kinds)
    fetch = _FETCH.replace("LINE_BYTES", str(LINE_BYTES)) if cover.is_fetched else ""
    return f"{fetch}{puts}{tiles}\n{_product(cover, nest.member)}"


def _shape(group: tuple[Run, ...]) -> tuple[int, ...]:
    return tuple(run.count for run in group)


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


def _tile(rows: int, shape: tuple[int, ...], member: Member) -> str:
    depth = member.extents[2]
    a_m, a_k, b_k, c_m = member.steps
    starts = [sum(shape[:v]) for v in range(len(shape))]
    lines = [
        f"static inline void {_name(rows, shape)}(const real *a, const real *b, real *c,",
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


def _product(cover: Cover, member: Member) -> str:
    def calls() -> Iterator[str]:
        a_m, _, _, c_m = member.steps
        for number, rows in enumerate(cover.rows):
            if cover.is_fetched:
                yield from _fetches(number, len(cover.rows), member)
            for group in cover.columns:
                name, column = _name(rows.count, _shape(group)), group[0].start
                at = f"a + {rows.start * a_m}, b + {column}, c + {rows.start * c_m + column}"
                yield f"    {name}({at}, alpha, add);"

    arguments = ["const real *a, const real *b, real *c, real alpha, int64_t add)"]
    if cover.is_fetched:
        after = "const real *next_a, const real *next_b, const real *next_c)"
        arguments = [arguments[0].replace(")", ","), f"                       {after}"]
    lines = [
        "/* One product of the batch. */",
        f"static void product_of({arguments[0]}",
        *arguments[1:],
        "{",
        *calls(),
        "}",
        "",
        "",
    ]
    return "\n".join(lines)


def _fetches(number: int, n_parts: int, member: Member) -> Iterator[str]:
    """Statements that ask for one of equal parts of the next product's arrays."""
    m, n, depth = member.extents
    a_m, a_k, b_k, c_m = member.steps
    a = (m, a_m, depth) if abs(a_m) >= abs(a_k) else (depth, a_k, m)
    for name, (rows, step, count) in (("a", a), ("b", (depth, b_k, n)), ("c", (m, c_m, n))):
        start, stop = (rows * each // n_parts for each in (number, number + 1))
        if start < stop:
            yield f"    fetch(next_{name} + {start * step}, {stop - start}, {step}, {count});"
