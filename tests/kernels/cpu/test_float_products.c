// Products of float weights, of every set of loops but the plain ones: eight interleaved sums, then those in one order,
// bit by bit, at the edges of vectors, rows and tokens.
#include "kernels/cpu/x86/simd_avx2.h"
#include "tests/support/kernels/products.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_E4M3, DTYPE_NF4};
static const int64_t COLS[] = {1, 7, 8, 9, 16, 65, 100, 160, 576}, ROWS[] = {1, 3, 7, 8, 9, 17};

#ifdef __x86_64__
static void with_avx2(const Gemm *p, void *scratch) {
    avx2_gemm_float(p, 0, p->x->n, scratch);
}
static void with_avx512(const Gemm *p, void *scratch) {
    avx512_gemm_float(p, 0, p->x->n, scratch);
}
#endif

// By definition; before: what it is added to.
static float promised(const float *w, const Activations *x, int64_t token, const float *before) {
    const float *row = x->x + token * x->cols;
    float s[8] = {0};
    for (int64_t i = 0; i < x->cols; i++) s[i % 8] = fmaf(w[i], row[i], s[i % 8]);
    float sum = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
    return before ? *before + sum : sum;
}

// All that this machine has.
static ProductSets sets_here(void) {
    ProductSets sets = {.promised = promised};
    if (!loops_fast()) return sets;
    sets.all[sets.n++] = loops_fast()->gemm;
    if (loops_neon(false)) sets.all[sets.n++] = loops_neon(false)->gemm;
#ifdef __x86_64__
    sets.all[sets.n++] = with_avx2;
    if (avx512_has_float()) sets.all[sets.n++] = with_avx512;
#endif
    return sets;
}

static void products(void **state) {
    (void)state;
    if (!loops_fast()) skip();
    const ProductSets sets = sets_here();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
                if (dtype_row_bytes(TYPES[k], COLS[c]) < 0) continue;
                TestMatrix w = random_matrix(TYPES[k], ROWS[r], COLS[c], 3 + k + 10 * c + 100 * r);
                void *scratch = products_scratch(COLS[c]);
                for (int n = 1; n <= PRODUCTS_TOKENS; n++) {
                    float *x = random_floats(7 + (uint64_t)n, n * COLS[c]);
                    for (int variant = 0; variant < 4; variant++)
                        products_check(&sets, &w.matrix, &(Activations){.n = n, .cols = COLS[c], .x = x},
                                       variant, scratch);
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
    const ProductSets sets = sets_here();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
            const int64_t cols = SIZES[i].cols;
            if (dtype_row_bytes(TYPES[k], cols) < 0 || (SIZES[i].rows > 100 && TYPES[k] != DTYPE_F16))
                continue;
            TestMatrix w = random_matrix(TYPES[k], SIZES[i].rows, cols, 5 + k);
            void *scratch = products_scratch(cols);
            float *x = random_floats(9, SIZES[i].n * cols);
            for (int variant = 0; variant < (SIZES[i].rows > 100 ? 1 : 2); variant++)
                products_check(&sets, &w.matrix, &(Activations){.n = SIZES[i].n, .cols = cols, .x = x},
                               variant, scratch);
            free(x), free(scratch), free(w.memory);
        }
}

// What is no number stays where it is: in its token.
static void not_a_number(void **state) {
    (void)state;
    enum { WIDTH = 24, TOKENS = 6, HEIGHT = 8 };
    const ProductSets sets = sets_here();
    float *x = random_floats(1, TOKENS * WIDTH), y[TOKENS * HEIGHT];
    TestMatrix w = random_matrix(DTYPE_F16, HEIGHT, WIDTH, 2);
    void *scratch = aligned_alloc(64, 1 << 14);
    x[2 * WIDTH + 9] = NAN;
    Activations a = {.n = TOKENS, .cols = WIDTH, .x = x};
    Gemm p = {.w = &w.matrix, .x = &a, .end = HEIGHT, .y = y, .y_stride = HEIGHT};
    for (int k = 0; k < sets.n; k++) {
        sets.all[k](&p, scratch);
        for (int i = 0; i < TOKENS * HEIGHT; i++) assert_int_equal(isnan(y[i]) != 0, i / HEIGHT == 2);
    }
    free(scratch), free(x), free(w.memory);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(long_rows),
                                       cmocka_unit_test(not_a_number)};
    return test_main("float_products", argc, argv, tests);
}
