// Products of float weights: AVX2's against sums in double, and those in wider registers against AVX2's bit by bit, at
// the edges of vectors, rows and tokens.
#include "kernels/cpu/loops/simd_avx2.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_NF4};
static const int64_t COLS[] = {1, 7, 8, 9, 16, 65, 100, 160, 576}, ROWS[] = {1, 3, 7, 8, 9, 17};
static const int32_t BACKWARDS[] = {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

enum { MANY = sizeof BACKWARDS / sizeof *BACKWARDS, FIRST = 1 }; // FIRST: a row before it is not asked for

// Where a product lies: rows of MANY tokens, guards before, between and behind.
static float *guarded(const Matrix *w) {
    int64_t n = MANY * (w->rows + 1);
    float *y = malloc((size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = GUARD;
    return y;
}

static Gemm gemm_of(const Matrix *w, const Activations *x, float *y, int variant) {
    return (Gemm){.w = w,
                  .x = x,
                  .first = w->rows > FIRST ? FIRST : 0,
                  .end = w->rows,
                  .y = y,
                  .y_stride = w->rows + 1,
                  .add = variant & 1,
                  .to = variant & 2 ? BACKWARDS : NULL};
}

static void check_sums(const Gemm *p) {
    for (int64_t r = p->first; r < p->end; r++) {
        float *weights = matrix_row(p->w, r);
        for (int64_t t = 0; t < p->x->n; t++) {
            double sum = p->add ? (double)GUARD : 0, size = fabs(sum);
            for (int64_t i = 0; i < p->w->cols; i++) {
                double term = (double)weights[i] * (double)p->x->x[t * p->w->cols + i];
                sum += term, size += fabs(term);
            }
            assert_near("product", r, (double)gemm_row(p, t)[r], sum, 1e-6 * size + 1e-30);
        }
        free(weights);
    }
}

static void check(const Matrix *w, const Activations *x, int variant, void *scratch) {
    float *y = guarded(w), *wide = guarded(w);
    Gemm p = gemm_of(w, x, y, variant), q = gemm_of(w, x, wide, variant);
    const size_t bytes = (size_t)(MANY * p.y_stride) * sizeof *y;
    avx2_gemm_float(&p, 0, x->n, scratch);
    check_sums(&p);
    for (int64_t t = 0; t < MANY; t++)
        for (int64_t r = 0; r < p.y_stride; r++)
            if (r < p.first || r >= p.end || t < (p.to ? MANY - x->n : 0) || t >= (p.to ? MANY : x->n))
                assert_true(y[t * p.y_stride + r] == GUARD);
    if (avx512_has_float()) {
        avx512_gemm_float(&q, 0, x->n, scratch);
        assert_memory_equal(wide, y, bytes);
    }
    free(y), free(wide);
}

static void products(void **state) {
    (void)state;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2")) skip();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
                if (dtype_row_bytes(TYPES[k], COLS[c]) < 0) continue;
                TestMatrix w = random_matrix(TYPES[k], ROWS[r], COLS[c], 3 + k + 10 * c + 100 * r);
                void *scratch =
                    aligned_alloc(64, (size_t)(loops_avx2()->gemm_scratch(COLS[c]) + 63) / 64 * 64);
                for (int n = 1; n <= MANY; n++) {
                    float *x = random_floats(7 + (uint64_t)n, n * COLS[c]);
                    for (int variant = 0; variant < 4; variant++)
                        check(&w.matrix, &(Activations){.n = n, .cols = COLS[c], .x = x}, variant, scratch);
                    free(x);
                }
                free(scratch), free(w.memory);
            }
}

// What is no number stays where it is: in its row and its token.
static void not_a_number(void **state) {
    (void)state;
    __builtin_cpu_init();
    if (!avx512_has_float()) skip();
    enum { COLS_HERE = 24, TOKENS = 6, ROWS_HERE = 8 };
    float *x = random_floats(1, TOKENS * COLS_HERE), y[TOKENS * ROWS_HERE];
    TestMatrix w = random_matrix(DTYPE_F16, ROWS_HERE, COLS_HERE, 2);
    void *scratch = aligned_alloc(64, 1 << 14);
    x[2 * COLS_HERE + 9] = NAN;
    Activations a = {.n = TOKENS, .cols = COLS_HERE, .x = x};
    Gemm p = {.w = &w.matrix, .x = &a, .end = ROWS_HERE, .y = y, .y_stride = ROWS_HERE};
    avx512_gemm_float(&p, 0, TOKENS, scratch);
    for (int i = 0; i < TOKENS * ROWS_HERE; i++) assert_int_equal(isnan(y[i]) != 0, i / ROWS_HERE == 2);
    free(scratch), free(x), free(w.memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(not_a_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
