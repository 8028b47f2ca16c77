"""Pieces of C that walk blocks: the chunks of a task, their panels, and tiles over them."""

from __future__ import annotations

_JOB = """\
/* One product, and the rooms of the workspace. */
struct job {
    const int64_t *task;
    const struct axis *batch, *m, *n, *k;
    const real *a, *b;
    real *c;
    real *panel_a, *panel_b, *tile;
    int64_t *rows, *columns, *depth;   /* four tables each */
    real alpha, alpha_im;
};

static real as_real(int64_t bits)
{
    double number;
    memcpy(&number, &bits, sizeof number);
    return (real)number;
}

static struct job job_of(const int64_t *task, const void *a, const void *b, void *c, void *room)
{
    struct job job = {.task = task, .a = a, .b = b, .c = c};
    char *at = room;
    job.batch = (const struct axis *)(task + AXES);
    job.m = job.batch + task[N_BATCH_AXES];
    job.n = job.m + task[N_M_AXES];
    job.k = job.n + task[N_N_AXES];
    job.panel_a = (real *)(at + task[ROOM_A]);
    job.panel_b = (real *)(at + task[ROOM_B]);
    job.tile = (real *)(at + task[ROOM_TILE]);
    job.rows = (int64_t *)(at + task[ROOM_ROWS]);
    job.columns = (int64_t *)(at + task[ROOM_COLUMNS]);
    job.depth = (int64_t *)(at + task[ROOM_DEPTH]);
    job.alpha = as_real(task[ALPHA]);
    job.alpha_im = as_real(task[ALPHA_IM]);
    return job;
}

/* The same with arrays that start at one element of the batch. */
static struct job within_batch(struct job job, int64_t element)
{
    for (int64_t x = job.task[N_BATCH_AXES] - 1; x >= 0; x--) {
        const struct axis axis = job.batch[x];
        const int64_t at = element % axis.extent * PARTS;
        element /= axis.extent;
        job.a += at * axis.stride[IN_A];
        job.b += at * axis.stride[IN_B];
        job.c += at * axis.stride[IN_C];
    }
    return job;
}

"""

_TABLES = """\
/* Offsets of a block of a group in two arrays, and the runs of both, as four tables. */
static void tables_of(const struct axis *axes, int64_t n_axes, int one, int other, int64_t first,
                      int64_t count, int64_t most, int64_t *table)
{
    offsets_of(axes, n_axes, one, first, count, table);
    offsets_of(axes, n_axes, other, first, count, table + most);
    runs_of(table, count, table + 2 * most);
    runs_of(table + most, count, table + 3 * most);
}

"""

_CHUNKS = """\
/* Chunks first .. stop - 1 of the result; these share panels of B where they are neighbours. */
void einbound_run(const int64_t *task, const void *a, const void *b, void *c, void *workspace,
                  int64_t first, int64_t stop)
{
    const struct job job = job_of(task, a, b, c, workspace);
    const int64_t bm = task[BM], rows = task[ROW_BLOCKS], columns = task[COLUMN_BLOCKS];
    while (first < stop) {
        const int64_t row = first % rows, column = first / rows % columns;
        const int64_t count = least(stop - first, rows - row);
        const struct job here = within_batch(job, first / rows / columns);
        columns_of_c(&here, column * task[BN], row * bm, least(task[M], (row + count) * bm));
        first += count;
    }
}
"""

_CALL = """\

/* All of the result, for objects of Python that are arrays: their data pointer has a place. */
void einbound_call(const int64_t *task, void *a, void *b, void *c, void *workspace)
{
    const int64_t at = task[DATA];
    einbound_run(task, *(void **)((char *)a + at), *(void **)((char *)b + at),
                 *(void **)((char *)c + at), *(void **)((char *)workspace + at), 0, task[CHUNKS]);
}
"""

_PACKED = """\
/* Panels of A times panels of B, tile by tile. */
static void block_of_c(const struct job *job, int64_t bm, int64_t bn, int64_t bk, int64_t add)
{
    const int64_t *row = job->rows + job->task[BM];
    const int64_t *column = job->columns + job->task[BN], *run = column + 2 * job->task[BN];
    static const int64_t tile_row[RM] = {TILE_ROWS};
    for (int64_t j = 0; j < bn; j += COLUMNS) {
        const int64_t columns = least(bn - j, COLUMNS), vectors = (columns + LANES - 1) / LANES;
        const int is_run = columns == vectors * LANES && run[j] >= columns;
        const real *b = job->panel_b + PARTS * j * bk;
        for (int64_t i = 0, kind = 0; i < bm; i += RM) {
            const int64_t rows = least(bm - i, RM);
            while (kind + 1 < ROW_KINDS && row_kinds[kind + 1] >= rows)
                kind++;
            const int is_direct = is_run && rows == row_kinds[kind];
            const struct target target = {
                is_direct ? job->c + column[j] : job->tile, is_direct ? row + i : tile_row,
                is_direct && add, job->alpha, job->alpha_im,
            };
            tiles[kind][vectors - 1](bk, job->panel_a + PARTS * i * bk, b, &target);
            if (!is_direct)
                put_tile(job->c, row + i, rows, column + j, run + j, columns, job->tile, add);
        }
    }
}

/* Columns j .. of rows first .. stop - 1: panels of B are packed once for all of these. */
static void columns_of_c(const struct job *job, int64_t j, int64_t first, int64_t stop)
{
    const int64_t *task = job->task, most_m = task[BM], most_n = task[BN], most_k = task[BK];
    const int64_t bn = least(most_n, task[N] - j);
    int64_t *rows = job->rows, *columns = job->columns, *depth = job->depth;
    tables_of(job->n, task[N_N_AXES], IN_B, IN_C, j, bn, most_n, columns);
    for (int64_t k = 0; k < task[K]; k += most_k) {
        const int64_t bk = least(most_k, task[K] - k), add = k > 0 || task[ACCUMULATE];
        tables_of(job->k, task[N_K_AXES], IN_A, IN_B, k, bk, most_k, depth);
        pack_columns(job->b, columns, columns + 2 * most_n, bn, depth + most_k,
                     depth + 3 * most_k, bk, job->panel_b);
        for (int64_t i = first; i < stop; i += most_m) {
            const int64_t bm = least(most_m, stop - i);
            tables_of(job->m, task[N_M_AXES], IN_A, IN_C, i, bm, most_m, rows);
            for (int64_t x = 0; x < bm; x += RM)
                pack_a(job->a, rows + x, rows + 2 * most_m + x, least(RM, bm - x), depth,
                       depth + 2 * most_k, bk, job->panel_a + PARTS * x * bk);
            block_of_c(job, bm, bn, bk, add);
        }
    }
}

"""

_IN_PLACE = """\
/* Columns that do not fill vectors, or do not lie side by side, copied so that they do. */
static void copy_columns(const real *from, const int64_t *column, int64_t columns,
                         const int64_t *down, int64_t depth, real *to)
{
    memset(to, 0, sizeof(real) * PARTS * COLUMNS * depth);
    for (int64_t p = 0; p < depth; p++, to += PARTS * COLUMNS)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t part = 0; part < PARTS; part++)
                to[PARTS * j + part] = from[column[j] + down[p] + part];
}

/* A block of C, tile by tile; rows beyond its last one are read from that one. */
static void block_of_c(const struct job *job, int64_t bm, int64_t bn, int64_t bk, int64_t add)
{
    const int64_t most_m = (job->task[BM] + RM - 1) / RM * RM, most_n = job->task[BN];
    const int64_t most_k = job->task[BK];
    const int64_t *of_b = job->columns, *of_c = of_b + most_n;
    const int64_t *run_b = of_c + most_n, *run_c = run_b + most_n;
    const int64_t *row = job->rows + most_m;
    static const int64_t tile_row[RM] = {TILE_ROWS};
    for (int64_t j = 0; j < bn; j += COLUMNS) {
        const int64_t columns = least(bn - j, COLUMNS), vectors = (columns + LANES - 1) / LANES;
        const int is_whole = columns == vectors * LANES, is_run = is_whole && run_c[j] >= columns;
        struct source from = {
            job->a, job->b + of_b[j], job->rows, job->depth, job->depth + most_k
        };
        if (!is_whole || run_b[j] < columns) {
            copy_columns(job->b, of_b + j, columns, job->depth + most_k, bk, job->panel_b);
            from.b = job->panel_b;
            from.down_b = job->depth + 2 * most_k;
        }
        for (int64_t i = 0, kind = 0; i < bm; i += RM, from.row += RM) {
            const int64_t rows = least(bm - i, RM);
            while (kind + 1 < ROW_KINDS && row_kinds[kind + 1] >= rows)
                kind++;
            const int is_direct = is_run && rows == row_kinds[kind];
            const struct target target = {
                is_direct ? job->c + of_c[j] : job->tile, is_direct ? row + i : tile_row,
                is_direct && add, job->alpha, job->alpha_im,
            };
            tiles[kind][vectors - 1](bk, &from, &target);
            if (!is_direct)
                put_tile(job->c, row + i, rows, of_c + j, run_c + j, columns, job->tile, add);
        }
    }
}

/* Columns j .. of rows first .. stop - 1. */
static void columns_of_c(const struct job *job, int64_t j, int64_t first, int64_t stop)
{
    const int64_t *task = job->task, most_k = task[BK];
    const int64_t bn = least(task[BN], task[N] - j), most_m = (task[BM] + RM - 1) / RM * RM;
    tables_of(job->n, task[N_N_AXES], IN_B, IN_C, j, bn, task[BN], job->columns);
    for (int64_t k = 0; k < task[K]; k += most_k) {
        const int64_t bk = least(most_k, task[K] - k), add = k > 0 || task[ACCUMULATE];
        tables_of(job->k, task[N_K_AXES], IN_A, IN_B, k, bk, most_k, job->depth);
        for (int64_t p = 0; p < bk; p++)
            job->depth[2 * most_k + p] = p * PARTS * COLUMNS;
        for (int64_t i = first; i < stop; i += task[BM]) {
            const int64_t bm = least(task[BM], stop - i);
            tables_of(job->m, task[N_M_AXES], IN_A, IN_C, i, bm, most_m, job->rows);
            for (int64_t x = bm; x < most_m; x++)
                job->rows[x] = job->rows[bm - 1];
            block_of_c(job, bm, bn, bk, add);
        }
    }
}

"""

_SMALL_CHUNKS = """\
/* Products first .. stop - 1 of the batch. */
void einbound_run(const int64_t *task, const void *a, const void *b, void *c, void *workspace,
                  int64_t first, int64_t stop)
{
    const struct job job = job_of(task, a, b, c, workspace);
    const struct axis none = {1, {0, 0, 0}};
    const struct axis inner = job.m > job.batch ? job.m[-1] : none;
    while (first < stop) {
        struct job at = within_batch(job, first);
        const int64_t count = least(stop - first, inner.extent - first % inner.extent);
        for (int64_t x = 0; x < count; x++) {
PRODUCT            at.a += inner.stride[IN_A];
            at.b += inner.stride[IN_B];
            at.c += inner.stride[IN_C];
        }
        first += count;
    }
}
"""

_PRODUCT = """\
            product_of(at.a, at.b, at.c, job.alpha, task[ACCUMULATE]);
"""

_PRODUCT_AND_NEXT = """\
            const int64_t next = x + 1 < count;
            product_of(at.a, at.b, at.c, job.alpha, task[ACCUMULATE],
                       at.a + next * inner.stride[IN_A], at.b + next * inner.stride[IN_B],
                       at.c + next * inner.stride[IN_C]);
"""


def job() -> str:
    """What all pieces read: the product, and rooms of the workspace."""
    return _JOB


def tables() -> str:
    """Tables of offsets of a block."""
    return _TABLES


def packed(rows: int) -> str:
    """The walk over blocks with panels of both operands."""
    places = ", ".join(f"{row} * PARTS * COLUMNS" for row in range(rows))
    return _PACKED.replace("TILE_ROWS", places)


def in_place(rows: int) -> str:
    """The walk over blocks of operands that stay where they are."""
    places = ", ".join(f"{row} * PARTS * COLUMNS" for row in range(rows))
    return _IN_PLACE.replace("TILE_ROWS", places)


def entries() -> str:
    """The two functions that an object has."""
    return _CHUNKS + _CALL


def small_entries(is_fetched: bool) -> str:
    """The same where a chunk is a product of the batch, and the next one may be asked for."""
    product = _PRODUCT_AND_NEXT if is_fetched else _PRODUCT
    return _SMALL_CHUNKS.replace("PRODUCT", product) + _CALL
