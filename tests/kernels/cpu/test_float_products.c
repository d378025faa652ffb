// Products of float weights, of every set of loops but the plain ones: eight interleaved sums, then those in one order,
// bit by bit, at the edges of vectors, rows and tokens.
#include "kernels/cpu/x86/simd_avx2.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_NF4};
static const int64_t COLS[] = {1, 7, 8, 9, 16, 65, 100, 160, 576}, ROWS[] = {1, 3, 7, 8, 9, 17};
static const int32_t BACKWARDS[] = {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

enum { MANY = sizeof BACKWARDS / sizeof *BACKWARDS, FIRST = 1 }; // FIRST: a row before it is not asked for

typedef void (*Multiply)(const Gemm *gemm, void *scratch);

#ifdef __x86_64__
static void with_avx2(const Gemm *p, void *scratch) {
    avx2_gemm_float(p, 0, p->x->n, scratch);
}
static void with_avx512(const Gemm *p, void *scratch) {
    avx512_gemm_float(p, 0, p->x->n, scratch);
}
#endif

// All that this machine has; returns how many.
static int all_of_them(Multiply all[4]) {
    int n = 0;
    if (!loops_fast()) return 0;
    all[n++] = loops_fast()->gemm;
    if (loops_neon(false)) all[n++] = loops_neon(false)->gemm;
#ifdef __x86_64__
    all[n++] = with_avx2;
    if (avx512_has_float()) all[n++] = with_avx512;
#endif
    return n;
}

// By definition; before: what it is added to.
static float promised(const float *w, const float *x, int64_t cols, const float *before) {
    float s[8] = {0};
    for (int64_t i = 0; i < cols; i++) s[i % 8] = fmaf(w[i], x[i], s[i % 8]);
    float sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    return before ? *before + sum : sum;
}

static void check(const Matrix *w, const Activations *x, int variant, void *scratch) {
    const int64_t stride = w->rows + 1, n = (x->n > MANY ? x->n : MANY) * stride,
                  first = w->rows > FIRST ? FIRST : 0;
    float *expected = malloc((size_t)n * sizeof *expected), *y = malloc((size_t)n * sizeof *y);
    const float before = GUARD;
    Gemm p = {.w = w,
              .x = x,
              .first = first,
              .end = w->rows,
              .y = expected,
              .y_stride = stride,
              .add = variant & 1};
    if (variant & 2) p.to = BACKWARDS;
    for (int64_t i = 0; i < n; i++) expected[i] = before;
    for (int64_t r = p.first; r < p.end; r++) {
        float *weights = matrix_row(w, r);
        for (int64_t t = 0; t < x->n; t++)
            gemm_row(&p, t)[r] = promised(weights, x->x + t * w->cols, w->cols, p.add ? &before : NULL);
        free(weights);
    }
    Multiply all[4];
    const int n_all = all_of_them(all);
    p.y = y;
    for (int i = 0; i < n_all; i++) {
        for (int64_t j = 0; j < n; j++) y[j] = before;
        all[i](&p, scratch);
        for (int64_t j = 0; j < n; j++)
            if (memcmp(&y[j], &expected[j], sizeof *y) != 0)
                fail_msg("%s, %lld columns, %lld tokens, set %d: y[%lld] is %a, promised %a",
                         dtype_name(w->type), (long long)w->cols, (long long)x->n, i, (long long)j,
                         (double)y[j], (double)expected[j]);
    }
    free(expected), free(y);
}

static void products(void **state) {
    (void)state;
    if (!loops_fast()) skip();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
                if (dtype_row_bytes(TYPES[k], COLS[c]) < 0) continue;
                TestMatrix w = random_matrix(TYPES[k], ROWS[r], COLS[c], 3 + k + 10 * c + 100 * r);
                void *scratch =
                    aligned_alloc(64, (size_t)(loops_fast()->gemm_scratch(COLS[c]) + 63) / 64 * 64);
                for (int n = 1; n <= MANY; n++) {
                    float *x = random_floats(7 + (uint64_t)n, n * COLS[c]);
                    for (int variant = 0; variant < 4; variant++)
                        check(&w.matrix, &(Activations){.n = n, .cols = COLS[c], .x = x}, variant, scratch);
                    free(x);
                }
                free(scratch), free(w.memory);
            }
}

// Rows that are multiplied in parts of columns, by more tokens and rows than a block has.
static void long_rows(void **state) {
    (void)state;
    static const struct {
        int64_t rows, cols;
        int n;
    } SIZES[] = {{17, 776, 13}, {9, 1541, 131}, {9, 2304, 7}, {139, 2307, 261}};
    if (!loops_fast()) skip();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            const int64_t cols = SIZES[i].cols;
            if (dtype_row_bytes(TYPES[k], cols) < 0 || (SIZES[i].rows > 100 && TYPES[k] != DTYPE_F16))
                continue;
            TestMatrix w = random_matrix(TYPES[k], SIZES[i].rows, cols, 5 + k);
            void *scratch = aligned_alloc(64, (size_t)(loops_fast()->gemm_scratch(cols) + 63) / 64 * 64);
            float *x = random_floats(9, SIZES[i].n * cols);
            for (int variant = 0; variant < (SIZES[i].rows > 100 ? 1 : 2); variant++)
                check(&w.matrix, &(Activations){.n = SIZES[i].n, .cols = cols, .x = x}, variant, scratch);
            free(x), free(scratch), free(w.memory);
        }
}

// What is no number stays where it is: in its token.
static void not_a_number(void **state) {
    (void)state;
    enum { WIDTH = 24, TOKENS = 6, HEIGHT = 8 };
    Multiply all[4];
    const int n_all = all_of_them(all);
    float *x = random_floats(1, TOKENS * WIDTH), y[TOKENS * HEIGHT];
    TestMatrix w = random_matrix(DTYPE_F16, HEIGHT, WIDTH, 2);
    void *scratch = aligned_alloc(64, 1 << 14);
    x[2 * WIDTH + 9] = NAN;
    Activations a = {.n = TOKENS, .cols = WIDTH, .x = x};
    Gemm p = {.w = &w.matrix, .x = &a, .end = HEIGHT, .y = y, .y_stride = HEIGHT};
    for (int k = 0; k < n_all; k++) {
        all[k](&p, scratch);
        for (int i = 0; i < TOKENS * HEIGHT; i++) assert_int_equal(isnan(y[i]) != 0, i / HEIGHT == 2);
    }
    free(scratch), free(x), free(w.memory);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(long_rows),
                                       cmocka_unit_test(not_a_number)};
    return test_main("float_products", argc, argv, tests);
}
