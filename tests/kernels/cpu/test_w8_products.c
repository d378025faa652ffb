// Products of DTYPE_W8: the plain loops against sums in 64 bits, the fast ones against the plain ones bit by bit, with
// every instruction that this machine has, at the edges of vectors, rows and tokens.
#include "kernels/cpu/x86/simd_avx2.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t COLS[] = {1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 576};

enum { MANY = 1 << 16 };

// What rows are made of: anything, all of the largest magnitude (the sums of pairs are as large as they get), zeros.
typedef enum Content { ANYTHING, LARGEST, ZEROS, N_CONTENTS } Content;

static void fill(Content content, uint64_t seed, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++) {
        float value = random_float(&seed);
        x[i] = content == ANYTHING ? value : content == ZEROS ? 0 : value < 0 ? -1.0f : 1.0f;
    }
}

// A matrix in memory of exactly its size, each third row as one of the contents says.
static Matrix make_matrix(int64_t rows, int64_t cols) {
    int64_t bytes = dtype_row_bytes(DTYPE_W8, cols);
    char *data = aligned_alloc(W8_ALIGNMENT, (size_t)(rows * bytes));
    float *x = malloc((size_t)cols * sizeof *x);
    memset(data, 0, (size_t)(rows * bytes));
    for (int64_t r = 0; r < rows; r++) {
        fill((Content)(r % N_CONTENTS), 77 + (uint64_t)r, cols, x);
        float scale = w8_quantize_row(x, cols, (int8_t *)data + r * bytes);
        memcpy(data + r * bytes + w8_scale_offset(cols), &scale, sizeof scale);
    }
    free(x);
    return (Matrix){.type = DTYPE_W8, .rows = rows, .cols = cols, .data = data};
}

static Activations make_activations(const Loops *loops, int64_t n, int64_t cols) {
    float *x = malloc((size_t)(n * cols) * sizeof *x);
    int8_t *q = malloc((size_t)(n * w8_stride(cols)));
    W8Scale *scale = malloc((size_t)n * sizeof *scale);
    for (int64_t t = 0; t < n; t++) {
        fill((Content)(t % N_CONTENTS), 5 + (uint64_t)t, cols, x + t * cols);
        if (t == 4) x[t * cols + cols / 2] = NAN;
        scale[t] = loops->quantize_w8(x + t * cols, cols, q + t * w8_stride(cols));
    }
    return (Activations){.n = n, .cols = cols, .x = x, .w8 = q, .w8_scale = scale};
}

static void free_activations(Activations a) {
    free((void *)a.x), free((void *)a.w8), free((void *)a.w8_scale);
}

// By definition, with nothing of the loops: integers as they lie in memory, a sum that cannot overflow.
static float expected(const Matrix *w, int64_t row, const Activations *x, int64_t token) {
    const int8_t *q = (const int8_t *)w->data + row * dtype_row_bytes(DTYPE_W8, w->cols);
    int8_t *t = malloc((size_t)w->cols);
    float scale = w8_quantize_row(x->x + token * w->cols, w->cols, t), channel;
    int64_t sum = 0;
    memcpy(&channel, q + w8_scale_offset(w->cols), sizeof channel);
    for (int64_t i = 0; i < w->cols; i++) sum += q[i] * t[i];
    free(t);
    return (float)sum * scale * channel;
}

static bool same(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

static void check(const char *name, const Gemm *p, const float *before) {
    for (int64_t t = 0; t < p->x->n; t++)
        for (int64_t r = 0; r < p->y_stride; r++) {
            float y = p->y[t * p->y_stride + r], was = before[t * p->y_stride + r];
            bool inside = r >= p->first && r < p->end;
            float want = !inside ? was : expected(p->w, r, p->x, t);
            if (inside && p->add) // one rounding or two
                assert_true(isnan(want) ? isnan(y) : fabsf(y - (was + want)) <= 1e-6f * (fabsf(want) + 1));
            else if (!same(y, want))
                fail_msg("%s [%lld, %lld], %lld tokens: row %lld of token %lld is %a, expected %a", name,
                         (long long)p->w->rows, (long long)p->w->cols, (long long)p->x->n, (long long)r,
                         (long long)t, (double)y, (double)want);
        }
}

typedef void (*Run)(const Gemm *p, void *scratch);

static void products(const char *name, const Loops *loops, Run run) {
    static const int64_t ROWS[] = {1, 3, 8, 9, 21}, TOKENS[] = {1, 2, 4, 5, 7, 8, 9, 17};
    void *scratch = aligned_alloc(64, MANY);
    for (size_t c = 0; c < sizeof COLS / sizeof *COLS; c++)
        for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++)
            for (size_t t = 0; t < sizeof TOKENS / sizeof *TOKENS; t++) {
                Matrix w = make_matrix(ROWS[r], COLS[c]);
                Activations x = make_activations(loops, TOKENS[t], COLS[c]);
                int64_t first = w.rows > 9 ? 1 : 0, end = w.rows > 9 ? w.rows - 2 : w.rows,
                        stride = w.rows + 3;
                float *y = malloc((size_t)(x.n * stride) * sizeof *y),
                      *before = malloc((size_t)(x.n * stride) * sizeof *y);
                assert_true(loops->gemm_scratch(w.cols) <= MANY);
                for (int add = 0; add < 2; add++) {
                    for (int64_t i = 0; i < x.n * stride; i++) before[i] = y[i] = (float)(i % 7);
                    Gemm p = {
                        .w = &w, .x = &x, .first = first, .end = end, .y = y, .y_stride = stride, .add = add};
                    run(&p, scratch);
                    check(name, &p, before);
                }
                free(y), free(before), free((void *)w.data);
                free_activations(x);
            }
    free(scratch);
}

static void plain_products(void **state) {
    (void)state;
    products("plain loops", loops_reference(), loops_reference()->gemm);
}

#ifdef __x86_64__
static const W8Dot DOTS[] = {W8_PAIRS, W8_VNNI, W8_VNNI_512};
static W8Dot dot;

static void run_dot(const Gemm *p, void *scratch) {
    avx2_gemm_w8(dot, p, 0, p->x->n, scratch);
}

static void all_dots(void) {
    for (size_t i = 0; i < sizeof DOTS / sizeof *DOTS; i++) {
        dot = DOTS[i];
        if (avx2_has_w8(dot))
            products(i == 0 ? "pairs" : i == 1 ? "AVX-VNNI" : "AVX512-VNNI", loops_avx2(), run_dot);
    }
}
#else
static void all_dots(void) {
    const Loops *neon = loops_neon(false);
    if (neon) products("NEON", neon, neon->gemm);
}
#endif

static void fast_products(void **state) {
    (void)state;
    const Loops *fast = loops_fast();
    if (!fast) {
        skip();
        return;
    }
    products(fast->name, fast, fast->gemm);
    all_dots();
}

// Rows of every length, as large and as small as they come.
static void quantising_is_the_same_in_both(void **state) {
    (void)state;
    const Loops *fast = loops_fast();
    if (!fast) {
        skip();
        return;
    }
    static const float SIZES[] = {1, 1e-30f, 1e30f, 1e-37f, 1e-39f, 0, INFINITY, NAN};
    const Loops *sets[] = {loops_reference(), fast};
    for (int64_t n = 1; n < 70; n++)
        for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
            int8_t q[2][96];
            W8Scale scale[2];
            float *x = random_floats(3 + s, n);
            for (int64_t i = 0; i < n; i++) x[i] = isfinite(SIZES[s]) ? x[i] * SIZES[s] : x[i];
            if (!isfinite(SIZES[s])) x[n / 2] = SIZES[s];
            for (int i = 0; i < 2; i++) {
                memset(q[i], 99, sizeof q[i]);
                scale[i] = sets[i]->quantize_w8(x, n, q[i]);
            }
            assert_true(same(scale[0].scale, scale[1].scale));
            assert_int_equal(scale[0].sum, scale[1].sum);
            assert_memory_equal(q[0], q[1], sizeof q[0]);
            for (int64_t i = n; i < w8_stride(n); i++) assert_int_equal(q[0][i], 0);
            for (int64_t i = w8_stride(n); i < 96; i++) assert_int_equal(q[0][i], 99);
            free(x);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_products),
        cmocka_unit_test(fast_products),
        cmocka_unit_test(quantising_is_the_same_in_both),
    };
    return test_main("w8_products", argc, argv, tests);
}
