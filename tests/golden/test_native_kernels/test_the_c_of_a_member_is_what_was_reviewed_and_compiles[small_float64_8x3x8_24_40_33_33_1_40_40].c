/* C[m, n] += alpha sum over k of A[m, k] B[k, n], of a size that is compiled in.

   numbers   float64
   tile      8 rows of 3 vectors of 8
   size      m 24, n 40, k 33
   loops     for batch by 1, shared out to threads
               for m by RM
                 for n by COLUMNS
                   for k by 1
*/

#include <stdint.h>
#include <string.h>

#define PARTS 1
#define RM 8
#define LANES 8
#define COLUMNS 24
#define MOST_AXES 64

typedef double real;
typedef double vec8 __attribute__((vector_size(64)));
typedef double mem8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef double vec4 __attribute__((vector_size(32)));
typedef double mem4 __attribute__((vector_size(32), aligned(8), may_alias));
typedef double vec2 __attribute__((vector_size(16)));
typedef double mem2 __attribute__((vector_size(16), aligned(8), may_alias));
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

/* Asks for rows of an array before they are needed. */
static inline void fetch(const real *from, int64_t rows, int64_t step, int64_t count)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t x = 0; x < count; x += 64 / (int64_t)sizeof(real))
            __builtin_prefetch(from + row * step + x);
}

static inline void put8(real *to, vec8 x, real alpha, int64_t add)
{
    x *= alpha;
    if (add)
        x += *(const mem8 *)to;
    *(mem8 *)to = x;
}

static inline void tile_8x8_8_8(const real *a, const real *b, real *c,
                     real alpha, int64_t add)
{
    vec8 c0_0 = {0};
    vec8 c0_1 = {0};
    vec8 c0_2 = {0};
    vec8 c1_0 = {0};
    vec8 c1_1 = {0};
    vec8 c1_2 = {0};
    vec8 c2_0 = {0};
    vec8 c2_1 = {0};
    vec8 c2_2 = {0};
    vec8 c3_0 = {0};
    vec8 c3_1 = {0};
    vec8 c3_2 = {0};
    vec8 c4_0 = {0};
    vec8 c4_1 = {0};
    vec8 c4_2 = {0};
    vec8 c5_0 = {0};
    vec8 c5_1 = {0};
    vec8 c5_2 = {0};
    vec8 c6_0 = {0};
    vec8 c6_1 = {0};
    vec8 c6_2 = {0};
    vec8 c7_0 = {0};
    vec8 c7_1 = {0};
    vec8 c7_2 = {0};
    for (int64_t p = 0; p < 33; p++, a += 1, b += 40) {
        vec8 b0 = *(const mem8 *)(b + 0);
        vec8 b1 = *(const mem8 *)(b + 8);
        vec8 b2 = *(const mem8 *)(b + 16);
        KEEP(b0);
        KEEP(b1);
        KEEP(b2);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
        c0_2 += a[0] * b2;
        c1_0 += a[33] * b0;
        c1_1 += a[33] * b1;
        c1_2 += a[33] * b2;
        c2_0 += a[66] * b0;
        c2_1 += a[66] * b1;
        c2_2 += a[66] * b2;
        c3_0 += a[99] * b0;
        c3_1 += a[99] * b1;
        c3_2 += a[99] * b2;
        c4_0 += a[132] * b0;
        c4_1 += a[132] * b1;
        c4_2 += a[132] * b2;
        c5_0 += a[165] * b0;
        c5_1 += a[165] * b1;
        c5_2 += a[165] * b2;
        c6_0 += a[198] * b0;
        c6_1 += a[198] * b1;
        c6_2 += a[198] * b2;
        c7_0 += a[231] * b0;
        c7_1 += a[231] * b1;
        c7_2 += a[231] * b2;
    }
    put8(c + 0, c0_0, alpha, add);
    put8(c + 8, c0_1, alpha, add);
    put8(c + 16, c0_2, alpha, add);
    put8(c + 40, c1_0, alpha, add);
    put8(c + 48, c1_1, alpha, add);
    put8(c + 56, c1_2, alpha, add);
    put8(c + 80, c2_0, alpha, add);
    put8(c + 88, c2_1, alpha, add);
    put8(c + 96, c2_2, alpha, add);
    put8(c + 120, c3_0, alpha, add);
    put8(c + 128, c3_1, alpha, add);
    put8(c + 136, c3_2, alpha, add);
    put8(c + 160, c4_0, alpha, add);
    put8(c + 168, c4_1, alpha, add);
    put8(c + 176, c4_2, alpha, add);
    put8(c + 200, c5_0, alpha, add);
    put8(c + 208, c5_1, alpha, add);
    put8(c + 216, c5_2, alpha, add);
    put8(c + 240, c6_0, alpha, add);
    put8(c + 248, c6_1, alpha, add);
    put8(c + 256, c6_2, alpha, add);
    put8(c + 280, c7_0, alpha, add);
    put8(c + 288, c7_1, alpha, add);
    put8(c + 296, c7_2, alpha, add);
}

static inline void tile_8x8_8(const real *a, const real *b, real *c,
                     real alpha, int64_t add)
{
    vec8 c0_0 = {0};
    vec8 c0_1 = {0};
    vec8 c1_0 = {0};
    vec8 c1_1 = {0};
    vec8 c2_0 = {0};
    vec8 c2_1 = {0};
    vec8 c3_0 = {0};
    vec8 c3_1 = {0};
    vec8 c4_0 = {0};
    vec8 c4_1 = {0};
    vec8 c5_0 = {0};
    vec8 c5_1 = {0};
    vec8 c6_0 = {0};
    vec8 c6_1 = {0};
    vec8 c7_0 = {0};
    vec8 c7_1 = {0};
    for (int64_t p = 0; p < 33; p++, a += 1, b += 40) {
        vec8 b0 = *(const mem8 *)(b + 0);
        vec8 b1 = *(const mem8 *)(b + 8);
        KEEP(b0);
        KEEP(b1);
        c0_0 += a[0] * b0;
        c0_1 += a[0] * b1;
        c1_0 += a[33] * b0;
        c1_1 += a[33] * b1;
        c2_0 += a[66] * b0;
        c2_1 += a[66] * b1;
        c3_0 += a[99] * b0;
        c3_1 += a[99] * b1;
        c4_0 += a[132] * b0;
        c4_1 += a[132] * b1;
        c5_0 += a[165] * b0;
        c5_1 += a[165] * b1;
        c6_0 += a[198] * b0;
        c6_1 += a[198] * b1;
        c7_0 += a[231] * b0;
        c7_1 += a[231] * b1;
    }
    put8(c + 0, c0_0, alpha, add);
    put8(c + 8, c0_1, alpha, add);
    put8(c + 40, c1_0, alpha, add);
    put8(c + 48, c1_1, alpha, add);
    put8(c + 80, c2_0, alpha, add);
    put8(c + 88, c2_1, alpha, add);
    put8(c + 120, c3_0, alpha, add);
    put8(c + 128, c3_1, alpha, add);
    put8(c + 160, c4_0, alpha, add);
    put8(c + 168, c4_1, alpha, add);
    put8(c + 200, c5_0, alpha, add);
    put8(c + 208, c5_1, alpha, add);
    put8(c + 240, c6_0, alpha, add);
    put8(c + 248, c6_1, alpha, add);
    put8(c + 280, c7_0, alpha, add);
    put8(c + 288, c7_1, alpha, add);
}

/* One product of the batch. */
static void product_of(const real *a, const real *b, real *c, real alpha, int64_t add,
                       const real *next_a, const real *next_b, const real *next_c)
{
    fetch(next_a + 0, 8, 33, 33);
    fetch(next_b + 0, 11, 40, 40);
    fetch(next_c + 0, 8, 40, 40);
    tile_8x8_8_8(a + 0, b + 0, c + 0, alpha, add);
    tile_8x8_8(a + 0, b + 24, c + 24, alpha, add);
    fetch(next_a + 264, 8, 33, 33);
    fetch(next_b + 440, 11, 40, 40);
    fetch(next_c + 320, 8, 40, 40);
    tile_8x8_8_8(a + 264, b + 0, c + 320, alpha, add);
    tile_8x8_8(a + 264, b + 24, c + 344, alpha, add);
    fetch(next_a + 528, 8, 33, 33);
    fetch(next_b + 880, 11, 40, 40);
    fetch(next_c + 640, 8, 40, 40);
    tile_8x8_8_8(a + 528, b + 0, c + 640, alpha, add);
    tile_8x8_8(a + 528, b + 24, c + 664, alpha, add);
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
            const int64_t next = x + 1 < count;
            product_of(at.a, at.b, at.c, job.alpha, task[ACCUMULATE],
                       at.a + next * inner.stride[IN_A], at.b + next * inner.stride[IN_B],
                       at.c + next * inner.stride[IN_C]);
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
