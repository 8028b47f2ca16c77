/* C[m, n] += alpha sum over k of A[m, k] B[k, n], of blocks copied side by side.

   numbers   float64
   loops     for batch by 1, shared out to threads
               for n by BN, shared out to threads
                 for m by BM, shared out to threads
                   for k by BK
                     for m by BM
                       for k by 1
                         for m by 1
                           for n by 1
*/

#include <stdint.h>
#include <string.h>

#define PARTS 1
#define RM 1
#define LANES 1
#define COLUMNS 1
#define MOST_AXES 64

typedef double real;

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

/* A block of an operand, row after row. */
static void copy_block(const real *from, const int64_t *down, int64_t rows, const int64_t *across,
                       int64_t columns, real *to)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t part = 0; part < PARTS; part++)
                *to++ = from[down[i] + across[j] + part];
}

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
