/* C[m, n] += alpha sum over k of A[m, k] B[k, n], over packed panels of A and B.

   numbers   float64
   tile      4 rows of 2 vectors of 4
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

#define PARTS 1
#define RM 4
#define LANES 4
#define COLUMNS 8
#define MOST_AXES 64

typedef double real;
typedef double vec4 __attribute__((vector_size(32)));
typedef double mem4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double vec2 __attribute__((vector_size(16)));
typedef double mem2 __attribute__((vector_size(16), aligned(8), may_alias));
typedef vec4 vec;

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

static inline vec load(const real *from) { return *(const mem4 *)from; }
static inline void store(real *to, vec x) { *(mem4 *)to = x; }

/* 4 runs along k, of 4 numbers each, as 4 steps over k. */
static inline void turn_4(const real *from, const int64_t *across, int64_t width,
                          real *to)
{
    vec4 x0 = *(const mem4 *)(from + across[0]);
    vec4 x1 = *(const mem4 *)(from + across[1]);
    vec4 x2 = *(const mem4 *)(from + across[2]);
    vec4 x3 = *(const mem4 *)(from + across[3]);
    vec4 y;
    /* blocks of 2 */
    y = __builtin_shufflevector(x0, x2, 0, 1, 4, 5);
    x2 = __builtin_shufflevector(x0, x2, 2, 3, 6, 7);
    x0 = y;
    y = __builtin_shufflevector(x1, x3, 0, 1, 4, 5);
    x3 = __builtin_shufflevector(x1, x3, 2, 3, 6, 7);
    x1 = y;
    /* blocks of 1 */
    y = __builtin_shufflevector(x0, x1, 0, 4, 2, 6);
    x1 = __builtin_shufflevector(x0, x1, 1, 5, 3, 7);
    x0 = y;
    y = __builtin_shufflevector(x2, x3, 0, 4, 2, 6);
    x3 = __builtin_shufflevector(x2, x3, 1, 5, 3, 7);
    x2 = y;
    *(mem4 *)(to + 0 * width) = x0;
    *(mem4 *)(to + 1 * width) = x1;
    *(mem4 *)(to + 2 * width) = x2;
    *(mem4 *)(to + 3 * width) = x3;
}

/* A row of a panel whose numbers lie side by side. */
static inline void pack_row(const real *from, int64_t count, const int64_t width, real *to)
{
    const int64_t whole = count / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES)
        store(to + i, load(from + i));
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
    const int64_t *down, const int64_t *down_run, int64_t depth, const int64_t width, const int64_t square,
    real *restrict to)
{
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
        if (square == 4 && down_run[p] >= 4) {
            int64_t i = 0;
            for (; i + 4 <= count; i += 4)
                turn_4(from + down[p], across + i, width, to + p * step + i);
            for (; i < count; i++)
                for (int64_t q = 0; q < 4; q++)
                    to[(p + q) * step + i] = from[across[i] + down[p] + q];
            p += 4;
            continue;
        }
        pack_step(from + down[p], across, count, width, to + p * step);
        p++;
    }
}

static void pack_a(const real *from, const int64_t *across, const int64_t *across_run,
                   int64_t count, const int64_t *down, const int64_t *down_run, int64_t depth,
                   real *to)
{
    pack(from, across, across_run, count, down, down_run, depth, 4, 4, to);
}

static void pack_b(const real *from, const int64_t *across, const int64_t *across_run,
                   int64_t count, const int64_t *down, const int64_t *down_run, int64_t depth,
                   real *to)
{
    pack(from, across, across_run, count, down, down_run, depth, 8, 4, to);
}

/* Whether as many panels of B as a square is wide lie side by side, number by number. */
static int is_across(const int64_t *across)
{
    for (int64_t q = 1; q < 4; q++)
        for (int64_t i = 0; i < COLUMNS; i++)
            if (across[q * COLUMNS + i] != across[i] + q)
                return 0;
    return 1;
}

/* These panels, `apart` numbers from each other, by squares that are turned in registers. */
static void pack_across(const real *from, const int64_t *across, const int64_t *down,
                        int64_t depth, int64_t apart, real *to)
{
    for (int64_t p = 0; p < depth; p++)
        for (int64_t i = 0; i < COLUMNS; i += 4)
            turn_4(from + down[p], across + i, apart, to + p * COLUMNS + i);
}

/* All panels of a block of B. */
static void pack_columns(const real *from, const int64_t *across, const int64_t *across_run,
                         int64_t count, const int64_t *down, const int64_t *down_run,
                         int64_t depth, real *to)
{
    for (int64_t j = 0; j < count;) {
        if (count - j >= 4 * COLUMNS && across_run[j] == 1 && is_across(across + j)) {
            pack_across(from, across + j, down, depth, COLUMNS * depth, to + j * depth);
            j += 4 * COLUMNS;
            continue;
        }
        pack_b(from, across + j, across_run + j, least(COLUMNS, count - j), down, down_run, depth,
               to + PARTS * j * depth);
        j += COLUMNS;
    }
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
    for (; count >= 4; count -= 4, to += 4, from += 4) {
        vec4 x = *(const mem4 *)from;
        if (add)
            x += *(const mem4 *)to;
        *(mem4 *)to = x;
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

static inline void put(real *to, vec x, const struct target *target)
{
    x *= target->alpha;
    store(to, target->add ? load(to) + x : x);
}

/* 4 rows of 4 columns. */
static void tile_4x1(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0};
    vec c1_0 = {0};
    vec c2_0 = {0};
    vec c3_0 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[1], 1);
    __builtin_prefetch(target->to + target->row[2], 1);
    __builtin_prefetch(target->to + target->row[3], 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        KEEP(b0);
        c0_0 += a[0] * b0;
        c1_0 += a[1] * b0;
        c2_0 += a[2] * b0;
        c3_0 += a[3] * b0;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
    put(target->to + target->row[1] + 0 * PARTS * LANES, c1_0, target);
    put(target->to + target->row[2] + 0 * PARTS * LANES, c2_0, target);
    put(target->to + target->row[3] + 0 * PARTS * LANES, c3_0, target);
}

/* 4 rows of 8 columns. */
static void tile_4x2(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    vec c2_0 = {0}, c2_1 = {0};
    vec c3_0 = {0}, c3_1 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[0] + 4, 1);
    __builtin_prefetch(target->to + target->row[1], 1);
    __builtin_prefetch(target->to + target->row[1] + 4, 1);
    __builtin_prefetch(target->to + target->row[2], 1);
    __builtin_prefetch(target->to + target->row[2] + 4, 1);
    __builtin_prefetch(target->to + target->row[3], 1);
    __builtin_prefetch(target->to + target->row[3] + 4, 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        vec b1 = load(b + 0 * COLUMNS + 1 * LANES);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
        c1_0 += a[1] * b0;
        c1_1 += a[1] * b1;
        c2_0 += a[2] * b0;
        c2_1 += a[2] * b1;
        c3_0 += a[3] * b0;
        c3_1 += a[3] * b1;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
    put(target->to + target->row[0] + 1 * PARTS * LANES, c0_1, target);
    put(target->to + target->row[1] + 0 * PARTS * LANES, c1_0, target);
    put(target->to + target->row[1] + 1 * PARTS * LANES, c1_1, target);
    put(target->to + target->row[2] + 0 * PARTS * LANES, c2_0, target);
    put(target->to + target->row[2] + 1 * PARTS * LANES, c2_1, target);
    put(target->to + target->row[3] + 0 * PARTS * LANES, c3_0, target);
    put(target->to + target->row[3] + 1 * PARTS * LANES, c3_1, target);
}

/* 2 rows of 4 columns. */
static void tile_2x1(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0};
    vec c1_0 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[1], 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        KEEP(b0);
        c0_0 += a[0] * b0;
        c1_0 += a[1] * b0;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
    put(target->to + target->row[1] + 0 * PARTS * LANES, c1_0, target);
}

/* 2 rows of 8 columns. */
static void tile_2x2(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[0] + 4, 1);
    __builtin_prefetch(target->to + target->row[1], 1);
    __builtin_prefetch(target->to + target->row[1] + 4, 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        vec b1 = load(b + 0 * COLUMNS + 1 * LANES);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
        c1_0 += a[1] * b0;
        c1_1 += a[1] * b1;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
    put(target->to + target->row[0] + 1 * PARTS * LANES, c0_1, target);
    put(target->to + target->row[1] + 0 * PARTS * LANES, c1_0, target);
    put(target->to + target->row[1] + 1 * PARTS * LANES, c1_1, target);
}

/* 1 rows of 4 columns. */
static void tile_1x1(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        KEEP(b0);
        c0_0 += a[0] * b0;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
}

/* 1 rows of 8 columns. */
static void tile_1x2(int64_t depth, const real *a, const real *b,
                     const struct target *target)
{
    vec c0_0 = {0}, c0_1 = {0};
    __builtin_prefetch(target->to + target->row[0], 1);
    __builtin_prefetch(target->to + target->row[0] + 4, 1);
    for (; depth > 0; depth--, a += PARTS * RM, b += PARTS * COLUMNS) {
        vec b0 = load(b + 0 * COLUMNS + 0 * LANES);
        vec b1 = load(b + 0 * COLUMNS + 1 * LANES);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
    }
    put(target->to + target->row[0] + 0 * PARTS * LANES, c0_0, target);
    put(target->to + target->row[0] + 1 * PARTS * LANES, c0_1, target);
}

#define ROW_KINDS 3
static const int64_t row_kinds[ROW_KINDS] = {4, 2, 1};
static void (*const tiles[ROW_KINDS][COLUMNS / LANES])(int64_t, const real *, const real *, const struct target *) = {
    {tile_4x1, tile_4x2},
    {tile_2x1, tile_2x2},
    {tile_1x1, tile_1x2},
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
    static const int64_t tile_row[RM] = {0 * PARTS * COLUMNS, 1 * PARTS * COLUMNS, 2 * PARTS * COLUMNS, 3 * PARTS * COLUMNS};
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
