"""Pieces of C that every object has: types, words, offsets of axes, runs of neighbours."""

from __future__ import annotations

from einbound.kernels.member import Member
from einbound.kernels.task import WORDS

#: Vectors in a register, and all widths below for what does not fill one.
_VECTOR = """\
typedef {real} vec{n} __attribute__((vector_size({n_bytes})));
typedef {real} mem{n} __attribute__((vector_size({n_bytes}), aligned({align}), may_alias));
"""

#: An empty statement that needs its operand in a vector register. Without it GCC reads B anew in
#: every multiply-add (GCC 12: a quarter of the speed of some tiles).
_KEEP = """\
#if defined(__AVX512F__)
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define KEEP(x) __asm__ volatile("" : "+w"(x))
#else
#define KEEP(x)
#endif
"""

_AXES = """\
/* One loop of a group of axes: its extent, and elements between neighbours in A, B and C. */
struct axis {
    int64_t extent, stride[3];
};
enum { IN_A, IN_B, IN_C };

static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
"""

_OFFSETS = """\
/* Offsets, in an array, of the elements first .. first + count - 1 of a group of axes. */
static void offsets_of(const struct axis *axes, int64_t n_axes, int array, int64_t first,
                       int64_t count, int64_t *restrict to)
{
    int64_t at[MOST_AXES], offset = 0;
    const int64_t last = n_axes - 1, step = axes[last].stride[array] * PARTS;
    for (int64_t x = last; x >= 0; x--) {
        at[x] = first % axes[x].extent;
        first /= axes[x].extent;
        offset += at[x] * axes[x].stride[array] * PARTS;
    }
    while (count > 0) {
        const int64_t run = least(count, axes[last].extent - at[last]);
        for (int64_t i = 0; i < run; i++)
            to[i] = offset + i * step;
        to += run;
        count -= run;
        at[last] += run;
        offset += run * step;
        for (int64_t x = last; x > 0 && at[x] == axes[x].extent; x--) {
            offset += (axes[x - 1].stride[array] - at[x] * axes[x].stride[array]) * PARTS;
            at[x] = 0;
            at[x - 1]++;
        }
    }
}

/* How many elements lie side by side from each one on. */
static void runs_of(const int64_t *offset, int64_t count, int64_t *run)
{
    run[count - 1] = 1;
    for (int64_t i = count - 2; i >= 0; i--)
        run[i] = offset[i + 1] - offset[i] == PARTS ? run[i + 1] + 1 : 1;
}
"""


def types(member: Member) -> str:
    """Types, vectors, and the constants of the member."""
    real = "double" if member.dtype.real.n_bytes == 8 else "float"
    align = member.dtype.real.n_bytes
    widths = []
    lanes = member.lanes
    while lanes > 1:
        widths.append(_VECTOR.format(real=real, n=lanes, n_bytes=lanes * align, align=align))
        lanes //= 2
    constants = {
        "PARTS": member.parts,
        "RM": member.rm,
        "LANES": member.lanes,
        "COLUMNS": member.columns,
        "MOST_AXES": 64,
    }
    defined = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    vectors = "".join(widths)
    vector = f"typedef vec{member.lanes} vec;\n" if member.lanes > 1 else ""
    return f"{defined}\ntypedef {real} real;\n{vectors}{vector}"


def words() -> str:
    """The places of a task's words."""
    lines = [", ".join(WORDS[at : at + 6]) for at in range(0, len(WORDS), 6)]
    return "enum {\n    " + ",\n    ".join(lines) + "\n};\n"


def accesses(member: Member) -> str:
    """Loads and stores of one vector of real numbers anywhere."""
    mem = f"mem{member.lanes}"
    return f"""\
static inline vec load(const real *from) {{ return *(const {mem} *)from; }}
static inline void store(real *to, vec x) {{ *({mem} *)to = x; }}
"""


def keep() -> str:
    """What keeps a vector in a register."""
    return _KEEP


def offsets() -> str:
    """Axes, and tables of offsets."""
    return f"{_AXES}\n{_OFFSETS}"


def axes() -> str:
    """Axes alone."""
    return _AXES
