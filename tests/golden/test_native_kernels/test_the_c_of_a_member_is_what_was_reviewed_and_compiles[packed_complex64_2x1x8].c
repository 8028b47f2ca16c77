/* C[m, n] += alpha sum over k of A[m, k] B[k, n], over packed panels of A and B.

   numbers   complex64
   tile      2 rows of 1 vectors of 8
   loops     for batch by 1, shared out to threads
               for n by BN, shared out to threads
                 for m by BM, shared out to threads
                   for k by BK
                     for m by BM
                       for n by COLUMNS
                         for m by RM
*/

#include <stdint.h>
#include <string.h>

#define PARTS 2
#define RM 2
#define LANES 8
#define COLUMNS 8
#define MOST_AXES 64

typedef float real;
typedef float vec8 __attribute__((vector_size(32)));
typedef float mem8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float vec4 __attribute__((vector_size(16)));
typedef float mem4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float vec2 __attribute__((vector_size(8)));
typedef float mem2 __attribute__((vector_size(8), aligned(4), may_alias));
typedef vec8 vec;

enum {
    DATA, CHUNKS, M, N, K, BM,
    BN, BK, ROW_BLOCKS, COLUMN_BLOCKS, ACCUMULATE, ALPHA,
    ALPHA_IM, N_BATCH_AXES, N_M_AXES, N_N_AXES, N_K_AXES, ROOM_A,
    ROOM_B, ROOM_TILE, ROOM_ROWS, ROOM_COLUMNS, ROOM_DEPTH, AXES
};

#if defined(__AVX512F__)
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#elif defined(__x86_64__)
#define KEEP(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define KEEP(x) __asm__ volatile("" : "+w"(x))
#else
#define KEEP(x)
#endif

/* One loop of a group of axes: its extent, and elements between neighbours in A, B and C. */
struct axis {
    int64_t extent, stride[3];
};
enum { IN_A, IN_B, IN_C };

static inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

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

static inline vec load(const real *from) { return *(const mem8 *)from; }
static inline void store(real *to, vec x) { *(mem8 *)to = x; }

/* A row of a panel whose numbers lie side by side. */
static inline void pack_row(const real *from, int64_t count, const int64_t width, real *to)
{
    const int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        const vec x = load(from + 2 * i), y = load(from + 2 * i + LANES);
        store(to + i, __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14));
        store(to + width + i, __builtin_shufflevector(x, y, 1, 3, 5, 7, 9, 11, 13, 15));
    }
    for (int64_t i = whole; i < count; i++)
        for (int64_t part = 0; part < PARTS; part++)
            to[part * width + i] = from[i * PARTS + part];
}

/* One step over k of a panel, number by number. */
static inline void pack_step(const real *from, const int64_t *across, int64_t count,
                             const int64_t width, real *to)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t part = 0; part < PARTS; part++)
            to[part * width + i] = from[across[i] + part];
}

/* A panel of `width` rows of A, or columns of B: step after step over k, filled up with zeros.
   across, across_run: offsets of these, and how many lie side by side; down, down_run: along k. */
static inline __attribute__((always_inline)) void pack(
    const real *from, const int64_t *across, const int64_t *across_run, int64_t count,
    const int64_t *down, const int64_t *down_run, int64_t depth, const int64_t width,
    real *restrict to)
{
    (void)down_run; /* numbers along k are not turned */
    const int64_t step = PARTS * width;
    if (count < width)
        memset(to, 0, sizeof(real) * step * depth);
    if (across_run[0] >= count) {
        from += across[0];
        if (count == width)
            for (int64_t p = 0; p < depth; p++)
                pack_row(from + down[p], width, width, to + p * step);
        else
            for (int64_t p = 0; p < depth; p++)
                pack_row(from + down[p], count, width, to + p * step);
        return;
    }
    for (int64_t p = 0; p < depth;) {
        pack_step(from + down[p], across, count, width, to + p * step);
        p++;
    }
}

static void pack_a(const real *from, const int64_t *across, const int64_t *across_run,
                   int64_t count, const int64_t *down, const int64_t *down_run, int64_t depth,
                   real *to)
{
    pack(from, across, across_run, count, down, down_run, depth, 2, to);
}

static void pack_b(const real *from, const int64_t *across, const int64_t *across_run,
                   int64_t count, const int64_t *down, const int64_t *down_run, int64_t depth,
                   real *to)
{
    pack(from, across, across_run, count, down, down_run, depth, 8, to);
}

/* All panels of a block of B. */
static void pack_columns(const real *from, const int64_t *across, const int64_t *across_run,
                         int64_t count, const int64_t *down, const int64_t *down_run,
                         int64_t depth, real *to)
{
    for (int64_t j = 0; j < count; j += COLUMNS)
        pack_b(from, across + j, across_run + j, least(COLUMNS, count - j), down, down_run, depth,
               to + PARTS * j * depth);
}

/* Where a tile goes: to rows of C, or to a tile in the workspace that is shared out by runs. */
struct target {
    real *to;            /* the first column */
    const int64_t *row;  /* offsets of the rows */
    int64_t add;         /* whether C is added to */
    real alpha, alpha_im;
};

/* Numbers that lie side by side in C, from a tile. */
static inline void put_run(real *to, const real *from, int64_t count, int64_t add)
{
    for (; count >= 8; count -= 8, to += 8, from += 8) {
        vec8 x = *(const mem8 *)from;
        if (add)
            x += *(const mem8 *)to;
        *(mem8 *)to = x;
    }
    if (count >= 4) {
        vec4 x = *(const mem4 *)from;
        if (add)
            x += *(const mem4 *)to;
        *(mem4 *)to = x;
        count -= 4, to += 4, from += 4;
    }
    if (count >= 2) {
        vec2 x = *(const mem2 *)from;
        if (add)
            x += *(const mem2 *)to;
        *(mem2 *)to = x;
        count -= 2, to += 2, from += 2;
    }
    for (; count > 0; count--, to++, from++)
        *to = add ? *to + *from : *from;
}

/* The valid part of a tile, run by run. */
static void put_tile(real *c, const int64_t *row, int64_t rows, const int64_t *column,
                     const int64_t *run, int64_t columns, const real *tile, int64_t add)
{
    for (int64_t i = 0; i < rows; i++, tile += PARTS * COLUMNS)
        for (int64_t j = 0; j < columns;) {
            const int64_t count = least(run[j], columns - j);
            put_run(c + row[i] + column[j], tile + PARTS * j, PARTS * count, add);
            j += count;
        }
}

static inline void put(real *to, vec re, vec im, const struct target *target)
{
    const vec x = target->alpha * re - target->alpha_im * im;
    const vec y = target->alpha * im + target->alpha_im * re;
    const vec low = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
    const vec high = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
    store(to, target->add ? load(to) + low : low);
    store(to + LANES, target->add ? load(to + LANES) + high : high);
}

/* 2 rows of 8 columns. */
static void tile_2x1(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0r = {0}, c0_0i = {0};
    vec c1_0r = {0}, c1_0i = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[0] + 8, 1);
    __builtin_prefetch(target->to + target->row[1], 1);
    __builtin_prefetch(target->to + target->row[1] + 8, 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0r = load(b + 0 * COLUMNS + 0 * LANES);
        vec b0i = load(b + 1 * COLUMNS + 0 * LANES);
        KEEP(b0r);
        KEEP(b0i);
        c0_0r += a[0] * b0r;
        c0_0i += a[0] * b0i;
        c0_0r -= a[RM + 0] * b0i;
        c0_0i += a[RM + 0] * b0r;
        c1_0r += a[1] * b0r;
        c1_0i += a[1] * b0i;
        c1_0r -= a[RM + 1] * b0i;
        c1_0i += a[RM + 1] * b0r;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0r, c0_0i, target);
    put(target->to + target->row[1] + 0 * PARTS * LANES, c1_0r, c1_0i, target);
}

/* 1 rows of 8 columns. */
static void tile_1x1(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0r = {0}, c0_0i = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[0] + 8, 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0r = load(b + 0 * COLUMNS + 0 * LANES);
        vec b0i = load(b + 1 * COLUMNS + 0 * LANES);
        KEEP(b0r);
        KEEP(b0i);
        c0_0r += a[0] * b0r;
        c0_0i += a[0] * b0i;
        c0_0r -= a[RM + 0] * b0i;
        c0_0i += a[RM + 0] * b0r;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0r, c0_0i, target);
}

#define ROW_KINDS 2
static const int64_t row_kinds[ROW_KINDS] = {2, 1};
static void (*const tiles[ROW_KINDS][COLUMNS / LANES])(int64_t, const real *, const real *, const struct target *) = {
    {tile_2x1},
    {tile_1x1},
};

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

/* Offsets of a block of a group in two arrays, and the runs of both, as four tables. */
static void tables_of(const struct axis *axes, int64_t n_axes, int one, int other, int64_t first,
                      int64_t count, int64_t most, int64_t *table)
{
    offsets_of(axes, n_axes, one, first, count, table);
    offsets_of(axes, n_axes, other, first, count, table + most);
    runs_of(table, count, table + 2 * most);
    runs_of(table + most, count, table + 3 * most);
}

/* Panels of A times panels of B, tile by tile. */
static void block_of_c(const struct job *job, int64_t bm, int64_t bn, int64_t bk, int64_t add)
{
    const int64_t *row = job->rows + job->task[BM];
    const int64_t *column = job->columns + job->task[BN], *run = column + 2 * job->task[BN];
    static const int64_t tile_row[RM] = {0 * PARTS * COLUMNS, 1 * PARTS * COLUMNS};
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

/* All of the result, for objects of Python that are arrays: their data pointer has a place. */
void einbound_call(const int64_t *task, void *a, void *b, void *c, void *workspace)
{
    const int64_t at = task[DATA];
    einbound_run(task, *(void **)((char *)a + at), *(void **)((char *)b + at),
                 *(void **)((char *)c + at), *(void **)((char *)workspace + at), 0, task[CHUNKS]);
}
