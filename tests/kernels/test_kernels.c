// Element types against golden data; the CPU's loops against formulas and against each other.
#include "tests/support/test.h"
#include "kernels/base/hash.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/x86/simd_avx2.h"
#include "tests/support/kernels/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- element types ------------------------------------------------------------------------------------

static void *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    void *bytes = malloc(*size);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

// Every type's values equal the gguf package's (e4m3: torch's, nf4: numpy's), bit by bit, at every alignment.
static void dequantize_equals_gguf(void **state) {
    (void)state;
    size_t size, at = 0;
    unsigned seen = 0;
    char *golden = read_file("tests/golden/kernels_dequant.bin", &size);
    while (at < size) {
        int32_t head[3]; // type, elements, bytes
        memcpy(head, golden + at, sizeof head);
        at += sizeof head;
        assert_int_equal(dtype_row_bytes(head[0], head[1]), head[2]);
        char *row = malloc((size_t)head[2] + 1);
        memcpy(row + 1, golden + at, (size_t)head[2]);
        at += (size_t)head[2];
        float *values = malloc((size_t)head[1] * sizeof *values);
        quant_load(head[0], row + 1, 0, head[1], values);
        for (int i = 0; i < head[1]; i++) {
            uint32_t bits, expected;
            memcpy(&bits, &values[i], 4);
            memcpy(&expected, golden + at + (size_t)i * 4, 4);
            if (bits != expected)
                fail_msg("%s, element %d: bits %08x, expected %08x", dtype_name(head[0]), i, bits, expected);
        }
        at += (size_t)head[1] * 4;
        seen |= 1u << head[0];
        free(values);
        free(row);
    }
    assert_int_equal(seen, (1u << DTYPE_INT8) - 1); // all that layers of files become
    free(golden);
}

static void halves_round_trip(void **state) {
    (void)state;
    for (unsigned h = 0; h < 0x10000; h++) {
        float value = quant_from_half((uint16_t)h);
        if (isnan(value))
            assert_true(isnan(quant_from_half(quant_to_half(value))));
        else
            assert_int_equal(quant_to_half(value), h);
    }
    assert_int_equal(quant_to_half(65519.996f), 0x7bff);
    assert_int_equal(quant_to_half(65520), 0x7c00);
    assert_int_equal(quant_to_half(1 + 0x1p-11f), 0x3c00); // halfway: to even
    assert_int_equal(quant_to_half(1 + 0x3p-11f), 0x3c02);
    assert_int_equal(quant_to_half(0x1p-25f), 0);
    assert_int_equal(quant_to_half(0x1.8p-24f), 2);
    assert_int_equal(quant_to_half(-0x1.002p-25f), 0x8001);
}

// ---- products -----------------------------------------------------------------------------------------

static const Loops *fast_loops(void) {
    const Loops *fast = loops_fast();
    if (!fast) skip();
    return fast;
}

typedef struct TestActivations {
    Activations a;
    float *x, *scale, *sum;
    int8_t *q;
    int16_t *sums;
} TestActivations;

static TestActivations quantized(const Loops *loops, int64_t n, int64_t cols, uint64_t seed) {
    int64_t groups = cols / QUANT_GROUP;
    TestActivations t = {.x = random_floats(seed, n * cols),
                         .scale = malloc((size_t)(n * groups) * 4 + 1),
                         .sum = malloc((size_t)(n * groups) * 4 + 1),
                         .q = malloc((size_t)(n * cols) + 1),
                         .sums = malloc((size_t)(n * groups) * 4 + 1)};
    for (int64_t i = 0; i < n && cols % QUANT_GROUP == 0; i++) {
        QuantRow row = {t.q + i * cols, t.scale + i * groups, t.sum + i * groups, t.sums + i * groups * 2};
        loops->quantize(t.x + i * cols, cols, &row);
    }
    t.a = (Activations){.n = n,
                        .cols = cols,
                        .x = t.x,
                        .quantized = true,
                        .q = t.q,
                        .scale = t.scale,
                        .sum = t.sum,
                        .sums = t.sums};
    return t;
}

static void free_activations(TestActivations *t) {
    free(t->x), free(t->scale), free(t->sum), free(t->q), free(t->sums);
}

// What the fast loops promise for quantised weights, to the last bit: exact integer sums of 32 columns (of 16
// where scales differ), added up in float in the order of the columns.
static float promised_product(const Matrix *w, int64_t row, const Activations *x, int64_t token) {
    const uint8_t *data = (const uint8_t *)w->data + row * dtype_row_bytes(w->type, w->cols);
    float y = 0;
    for (int64_t g = 0; g < w->cols / QUANT_GROUP; g++) {
        QuantGroup group;
        quant_unpack(w->type, data, g, &group);
        const int8_t *q = x->q + token * w->cols + g * QUANT_GROUP;
        int64_t at = token * (w->cols / QUANT_GROUP) + g;
        int sums[2] = {0, 0};
        for (int i = 0; i < QUANT_GROUP; i++) sums[i / 16] += group.q[i] * q[i];
        if (w->type == DTYPE_Q6_K || w->type == DTYPE_Q2_K || w->type == DTYPE_Q3_K) {
            for (int i = 0; i < 2; i++) y = fmaf(group.scale[i] * x->scale[at], (float)sums[i], y);
        } else {
            y = fmaf(group.scale[0] * x->scale[at], (float)(sums[0] + sums[1]), y);
        }
        if (w->type == DTYPE_Q2_K) {
            for (int i = 0; i < 2; i++) y = fmaf(group.min[i] * x->scale[at], (float)x->sums[at * 2 + i], y);
        } else if (group.min[0] != 0) {
            y = fmaf(group.min[0], x->sum[at], y);
        }
    }
    return y;
}

typedef struct Reference {
    float value, size; // Σ w·x and Σ |w·x|
} Reference;

static Reference reference_product(const Matrix *w, int64_t row, const float *x) {
    float *weights = malloc((size_t)w->cols * sizeof *weights);
    quant_load(w->type, (const uint8_t *)w->data + row * dtype_row_bytes(w->type, w->cols), 0, w->cols,
               weights);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < w->cols; i++)
        sum += (double)weights[i] * x[i], size += fabs((double)weights[i] * x[i]);
    free(weights);
    return (Reference){(float)sum, (float)size};
}

static void check_product(const Loops *loops, DType type, int64_t rows, int64_t cols, int64_t n) {
    TestMatrix w = random_matrix(type, rows, cols, 7 + (uint64_t)(rows * 1000 + cols));
    TestActivations x = quantized(loops, n, cols, 99 + (uint64_t)n);
    int64_t first = rows > 9 ? 1 : 0, end = rows > 9 ? rows - 2 : rows, stride = rows + 3;
    float *y = malloc((size_t)(n * stride) * sizeof *y);
    void *scratch = aligned_alloc(64, (size_t)(loops->gemm_scratch(cols) + 63) / 64 * 64);
    for (int add = 0; add < 2; add++) {
        for (int64_t i = 0; i < n * stride; i++) y[i] = GUARD;
        for (int64_t t = 0; add && t < n; t++)
            for (int64_t r = first; r < end; r++) y[t * stride + r] = 1;
        Gemm product = {
            .w = &w.matrix, .x = &x.a, .first = first, .end = end, .y = y, .y_stride = stride, .add = add};
        loops->gemm(&product, scratch);
        for (int64_t i = 0; i < n * stride; i++) {
            int64_t t = i / stride, r = i % stride;
            if (r < first || r >= end) {
                if (y[i] != GUARD)
                    fail_msg("%s: wrote outside rows, at %lld", dtype_name(type), (long long)i);
                continue;
            }
            Reference reference = reference_product(&w.matrix, r, x.x + t * cols);
            double error = quant_is_type(type) && loops->quantized_activations ? 6e-3 : 1e-6;
            assert_near(dtype_name(type), i, y[i] - (float)add, reference.value,
                        reference.size * error + 1e-6 * add);
            if (!quant_is_type(type) || !loops->quantized_activations) continue;
            float promised = promised_product(&w.matrix, r, &x.a, t);
            if (y[i] != (add ? 1 + promised : promised))
                fail_msg("%s [%lld, %lld], %lld tokens: row %lld of token %lld is %a, promised %a",
                         dtype_name(type), (long long)rows, (long long)cols, (long long)n, (long long)r,
                         (long long)t, y[i], promised);
        }
    }
    free(scratch), free(y), free(w.memory);
    free_activations(&x);
}

#ifdef __x86_64__
static void by_pairs(const Gemm *p, void *scratch) {
    avx2_gemm((Extras){W8_PAIRS, false}, p, scratch);
}
static void by_vnni(const Gemm *p, void *scratch) {
    avx2_gemm((Extras){W8_VNNI, false}, p, scratch);
}
static void by_vnni_512(const Gemm *p, void *scratch) {
    avx2_gemm((Extras){W8_VNNI_512, false}, p, scratch);
}
#endif

// What this machine takes, and what it would take with less; returns how many.
static int all_loops(Loops all[7]) {
    const Loops *sets[] = {loops_reference(), fast_loops(), loops_neon(false)};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (sets[i]) all[n++] = *sets[i];
#ifdef __x86_64__
    void (*const gemms[])(const Gemm *, void *) = {by_pairs, by_vnni, by_vnni_512};
    for (int dot = W8_PAIRS; loops_fast() && dot <= W8_VNNI_512; dot++)
        if (avx2_has_w8((W8Dot)dot)) all[n] = *loops_fast(), all[n++].gemm = gemms[dot];
#endif
    return n;
}

static void products_of_all_types(void **state) {
    (void)state;
    static const int64_t ROWS[] = {1, 3, 4, 8, 21}, TOKENS[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 64};
    Loops sets[7];
    const int n = all_loops(sets);
    for (int set = 0; set < n; set++)
        for (DType type = 0; type < DTYPE_INT8; type++)
            for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++)
                for (size_t t = 0; t < sizeof TOKENS / sizeof *TOKENS; t++) {
                    int64_t block = dtype_block_size(type), cols = type == DTYPE_E4M3 ? 96 + 32 * (int64_t)r
                                                                   : block == 1       ? 37 + 8 * (int64_t)r
                                                                                : block * (1 + (int64_t)r);
                    check_product(&sets[set], type, ROWS[r], cols, TOKENS[t]);
                }
    for (int set = 0; set < n; set++)
        check_product(&sets[set], DTYPE_Q4_K, 1, 1 << 16, 2); // a panel of megabytes
}

// And whatever machine it is: these are the sums that one with AVX-512 has computed.
static void products_are_the_same_everywhere(void **state) {
    (void)state;
    static const uint32_t SUMS[DTYPE_INT8] = {
        [DTYPE_F32] = 0x4e742409,   [DTYPE_F16] = 0xf9539124,    [DTYPE_BF16] = 0x2536041c,
        [DTYPE_Q8_0] = 0xb91f0697,  [DTYPE_Q4_0] = 0x1cc9d8b1,   [DTYPE_Q4_1] = 0x97709e1a,
        [DTYPE_Q5_0] = 0x4491cb54,  [DTYPE_Q5_1] = 0xe68a631a,   [DTYPE_Q4_K] = 0xeeac732a,
        [DTYPE_Q5_K] = 0x7a053207,  [DTYPE_Q6_K] = 0x72f857c5,   [DTYPE_Q2_K] = 0x425a60a8,
        [DTYPE_Q3_K] = 0x68b15b56,  [DTYPE_IQ4_NL] = 0xa9684fda, [DTYPE_IQ4_XS] = 0xa62187a8,
        [DTYPE_MXFP4] = 0xd3a6d232, [DTYPE_E4M3] = 0x145af8cc,   [DTYPE_NF4] = 0xf721a970};
    enum { HEIGHT = 21, TOKENS = 9, WIDTH = 768 };
    Loops sets[7];
    const int n = all_loops(sets);
    for (int set = 0; set < n; set++)
        for (DType type = 0; type < DTYPE_INT8; type++) {
            if (!sets[set].quantized_activations) continue; // the plain loops promise no order
            TestMatrix w = random_matrix(type, HEIGHT, WIDTH, 11 + type);
            TestActivations x = quantized(&sets[set], TOKENS, WIDTH, 12);
            void *scratch = aligned_alloc(64, (size_t)(sets[set].gemm_scratch(WIDTH) + 63) / 64 * 64);
            float y[TOKENS * HEIGHT];
            sets[set].gemm(&(Gemm){&w.matrix, &x.a, 0, HEIGHT, y, HEIGHT, false, NULL}, scratch);
            const uint32_t sum = (uint32_t)hash_bytes(HASH_START, y, sizeof y);
            if (sum != SUMS[type])
                fail_msg("%s, %s: the products' bits sum up to %08x, not %08x", sets[set].name,
                         dtype_name(type), (unsigned)sum, (unsigned)SUMS[type]);
            free(scratch), free(w.memory);
            free_activations(&x);
        }
}

// Results of a float product are the same bits, however many activations pass together.
static void float_products_do_not_depend_on_tokens(void **state) {
    (void)state;
    const Loops *loops = fast_loops();
    for (DType type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        TestMatrix w = random_matrix(type, 6, 75, 5);
        TestActivations x = quantized(loops, 8, 75, 6);
        void *scratch = aligned_alloc(64, (size_t)(loops->gemm_scratch(75) + 63) / 64 * 64);
        float all[8 * 6], one[6];
        Gemm product = {.w = &w.matrix, .x = &x.a, .end = 6, .y = all, .y_stride = 6};
        loops->gemm(&product, scratch);
        for (int t = 0; t < 8; t++) {
            Activations single = x.a;
            single.n = 1;
            single.x += t * 75;
            product = (Gemm){&w.matrix, &single, 0, 6, one, 6, false, NULL};
            loops->gemm(&product, scratch);
            assert_memory_equal(one, all + t * 6, sizeof one);
        }
        free(scratch), free(w.memory);
        free_activations(&x);
    }
}

// ---- activations as integers --------------------------------------------------------------------------

static void quantize_is_the_same_in_both(void **state) {
    (void)state;
    const int64_t n = 32 * 40;
    float *x = random_floats(3, n);
    for (int i = 0; i < 32; i++) {
        x[32 + i] = 0;
        x[64 + i] *= 1e30f;
        x[96 + i] *= 1e-37f;
        x[128 + i] = (float)(i - 16) + 0.5f; // 127/15.5 apart: some halves
        x[256 + i] = (float)(i * 8 - 127) * 0.5f;
    }
    x[160 + 5] = NAN;
    x[192 + 31] = -INFINITY;
    x[224] = INFINITY, x[224 + 1] = NAN;
    float scale[2][40], sum[2][40];
    int16_t sums[2][80];
    int8_t q[2][32 * 40];
    const Loops *sets[] = {loops_reference(), fast_loops()};
    for (int i = 0; i < 2; i++) {
        QuantRow row = {q[i], scale[i], sum[i], sums[i]};
        sets[i]->quantize(x, n, &row);
    }
    assert_memory_equal(q[0], q[1], sizeof q[0]);
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    for (int g = 0; g < 40; g++) {
        bool finite = g < 5 || g > 7;
        assert_int_equal(!isnan(scale[0][g]), finite);
        assert_true(finite ? scale[0][g] == scale[1][g] && sum[0][g] == sum[1][g]
                           : isnan(scale[1][g]) && isnan(sum[1][g]));
        for (int i = 0; finite && i < 32; i++)
            assert_near("quantised", g * 32 + i, q[0][g * 32 + i] * (double)scale[0][g], x[g * 32 + i],
                        scale[0][g] * 0.501 + QUANT_TINY);
    }
    free(x);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dequantize_equals_gguf),
        cmocka_unit_test(halves_round_trip),
        cmocka_unit_test(quantize_is_the_same_in_both),
        cmocka_unit_test(products_of_all_types),
        cmocka_unit_test(products_are_the_same_everywhere),
        cmocka_unit_test(float_products_do_not_depend_on_tokens),
    };
    return test_main("kernels", argc, argv, tests);
}
