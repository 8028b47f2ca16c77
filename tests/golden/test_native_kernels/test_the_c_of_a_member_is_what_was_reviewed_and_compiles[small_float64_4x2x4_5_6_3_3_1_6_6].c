/* C[m, n] += alpha sum over k of A[m, k] B[k, n], of a size that is compiled in.

   numbers   float64
   tile      4 rows of 2 vectors of 4
   size      m 5, n 6, k 3
   loops     for batch by 1, shared out to threads
               for m by RM
                 for n by COLUMNS
                   for k by 1
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

static inline void put2(real *to, vec2 x, real alpha, int64_t add)
{
    x *= alpha;
    if (add)
        x += *(const mem2 *)to;
    *(mem2 *)to = x;
}

static inline void put4(real *to, vec4 x, real alpha, int64_t add)
{
    x *= alpha;
    if (add)
        x += *(const mem4 *)to;
    *(mem4 *)to = x;
}

static inline void tile_4x4_2(const real *a, const real *b, real *c,
                     real alpha, int64_t add)
{
    vec4 c0_0 = {0};
    vec2 c0_1 = {0};
    vec4 c1_0 = {0};
    vec2 c1_1 = {0};
    vec4 c2_0 = {0};
    vec2 c2_1 = {0};
    vec4 c3_0 = {0};
    vec2 c3_1 = {0};
    for (int64_t p = 0; p < 3; p++, a += 1, b += 6) {
        vec4 b0 = *(const mem4 *)(b + 0);
        vec2 b1 = *(const mem2 *)(b + 4);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
        c1_0 += a[3] * b0;
        c1_1 += a[3] * b1;
        c2_0 += a[6] * b0;
        c2_1 += a[6] * b1;
        c3_0 += a[9] * b0;
        c3_1 += a[9] * b1;
    }
    put4(c + 0, c0_0, alpha, add);
    put2(c + 4, c0_1, alpha, add);
    put4(c + 6, c1_0, alpha, add);
    put2(c + 10, c1_1, alpha, add);
    put4(c + 12, c2_0, alpha, add);
    put2(c + 16, c2_1, alpha, add);
    put4(c + 18, c3_0, alpha, add);
    put2(c + 22, c3_1, alpha, add);
}

static inline void tile_1x4_2(const real *a, const real *b, real *c,
                     real alpha, int64_t add)
{
    vec4 c0_0 = {0};
    vec2 c0_1 = {0};
    for (int64_t p = 0; p < 3; p++, a += 1, b += 6) {
        vec4 b0 = *(const mem4 *)(b + 0);
        vec2 b1 = *(const mem2 *)(b + 4);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
    }
    put4(c + 0, c0_0, alpha, add);
    put2(c + 4, c0_1, alpha, add);
}

/* One product of the batch. */
static void product_of(const real *a, const real *b, real *c, real alpha, int64_t add)
{
    tile_4x4_2(a + 0, b + 0, c + 0, alpha, add);
    tile_1x4_2(a + 12, b + 0, c + 24, alpha, add);
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
            product_of(at.a, at.b, at.c, job.alpha, task[ACCUMULATE]);
            at.a += inner.stride[IN_A];
            at.b += inner.stride[IN_B];
            at.c += inner.stride[IN_C];
        }
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
