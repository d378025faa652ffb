// Products of 16-bit floats in integers (loops/fixed.h), of every set of loops but the plain ones: what the header
// promises, bit by bit, at the edges of groups, panels and tokens; and how far that is from the exact products.
#include "kernels/cpu/x86/simd_avx2.h"
#include "tests/support/kernels/products.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

static const DType TYPES[] = {DTYPE_F16, DTYPE_BF16};
static const int64_t COLS[] = {1, 7, 31, 32, 33, 64, 100, 160, 576}, ROWS[] = {1, 3, 15, 16, 17, 33, 50};

#ifdef __x86_64__
static void by_pairs(const Gemm *p, void *scratch) {
    avx2_gemm_fixed(W8_PAIRS, p, 0, p->x->n, scratch);
}
static void by_vnni(const Gemm *p, void *scratch) {
    avx2_gemm_fixed(W8_VNNI, p, 0, p->x->n, scratch);
}
static void by_vnni_512(const Gemm *p, void *scratch) {
    avx2_gemm_fixed(W8_VNNI_512, p, 0, p->x->n, scratch);
}
static void wide(const Gemm *p, void *scratch) {
    avx512_gemm_fixed(p, 0, p->x->n, scratch);
}
#endif

// Rows of activations in both forms.
typedef struct TestRows {
    Activations a;
    float *x, *scale;
    int16_t *q;
} TestRows;

static TestRows rows_of(float *x, int64_t n, int64_t cols) {
    TestRows t = {.x = x,
                  .scale = malloc((size_t)(n * fixed_groups(cols)) * sizeof *t.scale),
                  .q = malloc((size_t)(n * fixed_stride(cols)) * sizeof *t.q)};
    for (int64_t i = 0; i < n; i++)
        fixed_quantize(x + i * cols, cols, t.q + i * fixed_stride(cols), t.scale + i * fixed_groups(cols));
    t.a = (Activations){.n = n, .cols = cols, .x = x, .fixed = t.q, .fixed_scale = t.scale};
    return t;
}

static void free_rows(TestRows *t) {
    free(t->x), free(t->scale), free(t->q);
}

// All panels of a matrix; to free.
static void *panels_of(const Matrix *w) {
    char *panels = aligned_alloc(64, (size_t)(fixed_panels(w->rows) * fixed_panel_bytes(w->cols)));
    for (int64_t i = 0; i < fixed_panels(w->rows); i++)
        fixed_fill(w, i, panels + i * fixed_panel_bytes(w->cols));
    return panels;
}

// By definition, a weight at a time; before: what it is added to.
static float promised(const float *w, const Activations *x, int64_t token, const float *before) {
    float y = 0;
    for (int64_t g = 0; g < fixed_groups(x->cols); g++) {
        const int64_t first = g * FIXED_GROUP, at = token * fixed_groups(x->cols) + g;
        int64_t end = first + FIXED_GROUP < x->cols ? first + FIXED_GROUP : x->cols, sum = 0;
        double largest = 0, squares = 0;
        for (int64_t i = first; i < end; i++)
            largest = fmax(largest, fabsf(w[i])), squares += (double)w[i] * w[i];
        const double scale = fmax(largest / 32767, sqrt(squares) / 46334);
        const int e =
            scale > 0 ? ilogb(scale) + 1 : 0; // random numbers: no scale is that of its neighbours in float32
        for (int64_t i = first; i < end; i++)
            sum += (int64_t)rintf(ldexpf(w[i], -e)) * x->fixed[token * fixed_stride(x->cols) + i];
        assert_true(sum <= INT32_MAX && sum >= INT32_MIN);
        y = fmaf((float)sum, ldexpf(1, e) * x->fixed_scale[at], y);
    }
    return before ? *before + y : y;
}

// All that this machine has.
static ProductSets sets_here(void) {
    ProductSets sets = {.promised = promised};
    if (!loops_fast()) return sets;
    sets.all[sets.n++] = loops_fast()->gemm;
    if (loops_neon(false)) sets.all[sets.n++] = loops_neon(false)->gemm;
#ifdef __x86_64__
    sets.all[sets.n++] = by_pairs;
    if (avx2_has_w8(W8_VNNI)) sets.all[sets.n++] = by_vnni;
    if (avx2_has_w8(W8_VNNI_512)) sets.all[sets.n++] = by_vnni_512;
    if (avx512_has_blocks()) sets.all[sets.n++] = wide;
#endif
    return sets;
}

// Of a matrix with and without its panels.
static void check_both(TestMatrix *w, const Activations *x, int variants, void *scratch) {
    const ProductSets sets = sets_here();
    void *panels = panels_of(&w->matrix);
    for (int variant = 0; variant < variants; variant++) {
        w->matrix.fixed = variant & 1 ? panels : NULL;
        products_check(&sets, &w->matrix, x, variant, scratch);
        w->matrix.fixed = variant & 1 ? NULL : panels;
        products_check(&sets, &w->matrix, x, variant, scratch);
    }
    w->matrix.fixed = NULL;
    free(panels);
}

static void products(void **state) {
    (void)state;
    if (!loops_fast()) skip();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
                TestMatrix w = random_matrix(TYPES[k], ROWS[r], COLS[c], 3 + k + 10 * c + 100 * r);
                void *scratch = products_scratch(COLS[c]);
                for (int n = 1; n <= PRODUCTS_TOKENS; n++) {
                    TestRows x = rows_of(random_floats(7 + (uint64_t)n, n * COLS[c]), n, COLS[c]);
                    check_both(&w, &x.a, 4, scratch);
                    free_rows(&x);
                }
                free(scratch), free(w.memory);
            }
}

// More tokens than a block has, and rows that are no multiple of anything.
static void many_tokens(void **state) {
    (void)state;
    enum { HEIGHT = 37, WIDTH = 1541, TOKENS = 347 };
    if (!loops_fast()) skip();
    TestMatrix w = random_matrix(DTYPE_F16, HEIGHT, WIDTH, 5);
    TestRows x = rows_of(random_floats(9, (int64_t)TOKENS * WIDTH), TOKENS, WIDTH);
    void *scratch = products_scratch(WIDTH);
    check_both(&w, &x.a, 1, scratch);
    free_rows(&x), free(scratch), free(w.memory);
}

// The largest numbers of both kinds in every column: the sum of a group fits.
static void the_largest_sums(void **state) {
    (void)state;
    enum { WIDTH = 2 * FIXED_GROUP, TOKENS = 7, HEIGHT = 16 };
    if (!loops_fast()) skip();
    uint16_t weights[HEIGHT * WIDTH];
    float *x = malloc(TOKENS * WIDTH * sizeof *x);
    for (int i = 0; i < HEIGHT * WIDTH; i++) weights[i] = i / WIDTH % 2 ? 0xfbff : 0x7bff; // ∓65504
    for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = i / WIDTH % 2 ? -3e4f : 3e4f;
    TestMatrix w = {.matrix = {.type = DTYPE_F16, .rows = HEIGHT, .cols = WIDTH, .data = weights}};
    TestRows rows = rows_of(x, TOKENS, WIDTH);
    void *scratch = products_scratch(WIDTH);
    check_both(&w, &rows.a, 2, scratch);
    free_rows(&rows), free(scratch);
}

// Σ w·x and how far the promise may be from it: half a step of each number of a group times the largest of the others,
// and what 9 additions in float32 cost.
static void near_the_exact_products(void **state) {
    (void)state;
    enum { HEIGHT = 32, WIDTH = 576, TOKENS = 8 };
    if (!loops_fast()) skip();
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++) {
        TestMatrix w = random_matrix(TYPES[k], HEIGHT, WIDTH, 21 + k);
        TestRows x = rows_of(random_floats(22, TOKENS * WIDTH), TOKENS, WIDTH);
        float y[TOKENS * HEIGHT];
        for (int t = 0; t < TOKENS; t++) x.x[t * WIDTH + 40 * t] *= 1000; // one that stands out
        for (int t = 0; t < TOKENS; t++)
            fixed_quantize(x.x + t * WIDTH, WIDTH, x.q + t * WIDTH, x.scale + t * fixed_groups(WIDTH));
        void *scratch = products_scratch(WIDTH);
        loops_fast()->gemm(&(Gemm){.w = &w.matrix, .x = &x.a, .end = HEIGHT, .y = y, .y_stride = HEIGHT},
                           scratch);
        for (int r = 0; r < HEIGHT; r++) {
            float *row = matrix_row(&w.matrix, r);
            for (int t = 0; t < TOKENS; t++) {
                double exact = 0, bound = 0, size = 0;
                for (int g = 0; g < WIDTH; g += FIXED_GROUP) {
                    double of_w = 0, of_x = 0;
                    for (int i = g; i < g + FIXED_GROUP; i++) {
                        exact += (double)row[i] * x.x[t * WIDTH + i];
                        size += fabs((double)row[i] * x.x[t * WIDTH + i]);
                        of_w = fmax(of_w, fabsf(row[i])), of_x = fmax(of_x, fabsf(x.x[t * WIDTH + i]));
                    }
                    bound += FIXED_GROUP * of_w * of_x * 0x1.01p-12; // 2^-13 of either
                }
                assert_near(dtype_name(TYPES[k]), r, y[t * HEIGHT + r], exact, bound + size * 1e-6);
            }
            free(row);
        }
        free_rows(&x), free(scratch), free(w.memory);
    }
}

// ---- conversions ------------------------------------------------------------------------------------------

static void same_conversions(void **state) {
    (void)state;
    enum { GROUPS = 9, WIDTH = GROUPS * FIXED_GROUP - 5 };
    const Loops *fast = loops_fast();
    if (!fast) skip();
    float *x = random_floats(3, WIDTH), scale[2][GROUPS];
    int16_t q[2][GROUPS * FIXED_GROUP];
    float *group[GROUPS];
    for (int g = 0; g < GROUPS; g++) group[g] = x + (size_t)g * FIXED_GROUP;
    for (int i = 0; i < FIXED_GROUP; i++) {
        group[0][i] = 0, group[1][i] *= 1e38f, group[2][i] *= 1e-31f;
        group[3][i] = (float)(i - 16) + 0.5f, group[4][i] *= 1e-29f;
    }
    group[5][5] = NAN, group[6][FIXED_GROUP - 1] = -INFINITY, group[7][0] = INFINITY, group[7][1] = NAN;
    fixed_quantize(x, WIDTH, q[0], scale[0]);
    fast->quantize_fixed(x, WIDTH, q[1], scale[1]);
    assert_memory_equal(q[0], q[1], sizeof q[0]);
    for (int g = 0; g < GROUPS; g++) {
        const bool finite = g < 5 || g > 7;
        assert_int_equal(!isnan(scale[0][g]), finite);
        assert_true(finite ? scale[0][g] == scale[1][g] : isnan(scale[1][g]) != 0);
        for (int i = 0; finite && i < FIXED_GROUP && g * FIXED_GROUP + i < WIDTH; i++)
            assert_near("fixed", g * FIXED_GROUP + i, q[0][g * FIXED_GROUP + i] * (double)scale[0][g],
                        x[g * FIXED_GROUP + i], scale[0][g] * 0.503 + QUANT_TINY);
    }
    free(x);
}

// Numbers are as long as their squares allow, and no longer: one of them is `alone` times as large as the others at most.
static void as_long_as_fits(void **state) {
    (void)state;
    for (int k = 0; k < 32; k++) {
        const float alone = powf(1.7f, (float)k) / 2; // up to 7 million
        float *x = random_floats(17, FIXED_GROUP), scale;
        int16_t q[FIXED_GROUP];
        int64_t squares = 0;
        int largest = 0;
        x[11] = -alone;
        fixed_quantize(x, FIXED_GROUP, q, &scale);
        for (int i = 0; i < FIXED_GROUP; i++) {
            squares += q[i] * q[i];
            largest = abs(q[i]) > largest ? abs(q[i]) : largest;
            assert_near("fixed", i, q[i] * (double)scale, x[i], scale * 0.503);
        }
        assert_true(squares <= INT32_MAX);
        assert_true(squares > INT32_MAX / 1000 * 999 || largest == FIXED_LARGEST);
        free(x);
    }
}

// Every 16-bit float, some rows of them with infinities and NaN.
static void same_panels(void **state) {
    (void)state;
    enum { HEIGHT = 65536 / 96, WIDTH = 96 };
    const Loops *fast = loops_fast();
    if (!fast) skip();
    uint16_t *bits = malloc(sizeof *bits * HEIGHT * WIDTH);
    for (int i = 0; i < HEIGHT * WIDTH; i++) bits[i] = (uint16_t)i;
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
        for (int64_t cols = WIDTH - 9; cols <= WIDTH; cols += 9) {
            const Matrix w = {.type = TYPES[k], .rows = HEIGHT, .cols = cols, .data = bits};
            const size_t used = (size_t)(fixed_exponents(cols) + fixed_groups(cols) * FIXED_ROWS);
            char *plain = aligned_alloc(64, (size_t)fixed_panel_bytes(cols)),
                 *made = aligned_alloc(64, (size_t)fixed_panel_bytes(cols));
            for (int64_t i = 0; i < fixed_panels(HEIGHT); i++) {
                fixed_fill(&w, i, plain);
                fast->fill_fixed(&w, i, made);
                // Beyond the last row the scales are of zeros, whatever they are.
                assert_memory_equal(plain, made,
                                    (i + 1) * FIXED_ROWS > HEIGHT ? (size_t)fixed_exponents(cols) : used);
            }
            free(plain), free(made);
        }
    free(bits);
}

// Weights of f16 above 0.36 of a group's largest, of bf16 above 0.045, are what they were.
static void large_weights_are_exact(void **state) {
    (void)state;
    enum { WIDTH = FIXED_GROUP };
    for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++) {
        TestMatrix w = random_matrix(TYPES[k], FIXED_ROWS, WIDTH, 31 + k);
        char *panel = aligned_alloc(64, (size_t)fixed_panel_bytes(WIDTH));
        fixed_fill(&w.matrix, 0, panel);
        const int16_t *q = (const int16_t *)(const void *)panel;
        const uint8_t *exponents = (const uint8_t *)panel + fixed_exponents(WIDTH);
        int n = 0;
        for (int r = 0; r < FIXED_ROWS; r++) {
            float *row = matrix_row(&w.matrix, r), largest = 0;
            for (int i = 0; i < WIDTH; i++) largest = fmaxf(largest, fabsf(row[i]));
            for (int i = 0; i < WIDTH; i++) {
                const int pair = i / 2 * FIXED_ROWS + r, integer = q[2 * pair + i % 2];
                const float held = ldexpf((float)integer, exponents[r] - 127);
                if (fabsf(row[i]) < largest * (TYPES[k] == DTYPE_F16 ? 0.36f : 0.045f)) continue;
                n++;
                assert_true(held == row[i]);
            }
            free(row);
        }
        assert_true(n > FIXED_ROWS);
        free(panel), free(w.memory);
    }
}

// What is no number stays where it is: a token's in its token, a weight's in its row.
static void not_a_number(void **state) {
    (void)state;
    enum { WIDTH = 40, TOKENS = 7, HEIGHT = 18 };
    const ProductSets sets = sets_here();
    float *x = random_floats(1, TOKENS * WIDTH), y[TOKENS * HEIGHT];
    uint16_t weights[HEIGHT * WIDTH];
    for (int i = 0; i < HEIGHT * WIDTH; i++) weights[i] = (uint16_t)(0x3c00 + i);
    weights[3 * WIDTH + 33] = 0x7c00, weights[17 * WIDTH + 2] = 0x7e00;
    x[2 * WIDTH + 9] = NAN, x[4 * WIDTH + 35] = INFINITY;
    for (int i = 0; i < WIDTH; i++) x[5 * WIDTH + i] = 0; // not even zeros hide it
    const Matrix w = {.type = DTYPE_F16, .rows = HEIGHT, .cols = WIDTH, .data = weights};
    TestRows rows = rows_of(x, TOKENS, WIDTH);
    void *scratch = aligned_alloc(64, 1 << 14);
    const Gemm p = {.w = &w, .x = &rows.a, .end = HEIGHT, .y = y, .y_stride = HEIGHT};
    for (int k = 0; k < sets.n; k++) {
        sets.all[k](&p, scratch);
        for (int i = 0; i < TOKENS * HEIGHT; i++) {
            const int token = i / HEIGHT, row = i % HEIGHT;
            assert_int_equal(isnan(y[i]) != 0, token == 2 || token == 4 || row == 3 || row == 17);
        }
    }
    free(scratch), free_rows(&rows);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),         cmocka_unit_test(many_tokens),
        cmocka_unit_test(the_largest_sums), cmocka_unit_test(near_the_exact_products),
        cmocka_unit_test(same_conversions), cmocka_unit_test(as_long_as_fits),
        cmocka_unit_test(same_panels),      cmocka_unit_test(large_weights_are_exact),
        cmocka_unit_test(not_a_number),
    };
    return test_main("fixed_products", argc, argv, tests);
}
