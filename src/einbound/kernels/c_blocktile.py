"""Pieces of C of the pipeline without a register tile: copies of blocks, and three plain loops."""

from __future__ import annotations

from einbound.kernels.member import Member

_COPY = """\
/* A block of an operand, row after row. */
static void copy_block(const real *from, const int64_t *down, int64_t rows, const int64_t *across,
                       int64_t columns, real *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t part = 0; part < PARTS; part++)
                *to++ = from[down[i] + across[j] + part];
}

"""

_REAL = """\
/* A row of a block of C, added to: c += x b. */
static inline void add_row(real *restrict c, const real *x, const real *restrict b, int64_t columns)
{
    for (int64_t j = 0; j < columns; j++)
        c[j] += x[0] * b[j];
}

/* One number of C from the sum of a block. */
static inline void put(real *to, const real *sum, const struct job *job, int64_t add)
{
    *to = add ? *to + job->alpha * *sum : job->alpha * *sum;
}

"""

_COMPLEX = """\
/* A row of a block of C, added to: c += x b. */
static inline void add_row(real *restrict c, const real *x, const real *restrict b, int64_t columns)
{
    for (int64_t j = 0; j < 2 * columns; j += 2) {
        c[j] += x[0] * b[j] - x[1] * b[j + 1];
        c[j + 1] += x[0] * b[j + 1] + x[1] * b[j];
    }
}

/* One number of C from the sum of a block. */
static inline void put(real *to, const real *sum, const struct job *job, int64_t add)
{
    const real re = job->alpha * sum[0] - job->alpha_im * sum[1];
    const real im = job->alpha * sum[1] + job->alpha_im * sum[0];
    to[0] = add ? to[0] + re : re;
    to[1] = add ? to[1] + im : im;
}

"""

_BLOCKS = """\
/* Columns j .. of rows first .. stop - 1: every block of C is summed beside copies of A and B. */
static void columns_of_c(const struct job *job, int64_t j, int64_t first, int64_t stop)
{
    const int64_t *task = job->task, most_m = task[BM], most_n = task[BN], most_k = task[BK];
    const int64_t bn = least(most_n, task[N] - j);
    const int64_t *row = job->rows, *column = job->columns, *depth = job->depth;
    tables_of(job->n, task[N_N_AXES], IN_B, IN_C, j, bn, most_n, job->columns);
    for (int64_t k = 0; k < task[K]; k += most_k) {
        const int64_t bk = least(most_k, task[K] - k), add = k > 0 || task[ACCUMULATE];
        tables_of(job->k, task[N_K_AXES], IN_A, IN_B, k, bk, most_k, job->depth);
        copy_block(job->b, depth + most_k, bk, column, bn, job->panel_b);
        for (int64_t i = first; i < stop; i += most_m) {
            const int64_t bm = least(most_m, stop - i);
            tables_of(job->m, task[N_M_AXES], IN_A, IN_C, i, bm, most_m, job->rows);
            copy_block(job->a, depth, bk, row, bm, job->panel_a);
            memset(job->tile, 0, sizeof(real) * PARTS * bm * bn);
            for (int64_t p = 0; p < bk; p++)
                for (int64_t x = 0; x < bm; x++)
                    add_row(job->tile + PARTS * x * bn, job->panel_a + PARTS * (p * bm + x),
                            job->panel_b + PARTS * p * bn, bn);
            for (int64_t x = 0; x < bm; x++)
                for (int64_t y = 0; y < bn; y++)
                    put(job->c + row[most_m + x] + column[most_n + y],
                        job->tile + PARTS * (x * bn + y), job, add);
        }
    }
}

"""


def blocktile(member: Member) -> str:
    """The walk over blocks that are copied and summed by plain loops."""
    return _COPY + (_REAL if member.parts == 1 else _COMPLEX) + _BLOCKS
