#include "tests/support/kernels/random.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t seeded_bits(uint64_t *seed) {
    *seed ^= *seed >> 12, *seed ^= *seed << 25, *seed ^= *seed >> 27;
    return *seed * 0x2545F4914F6CDD1DULL;
}

float random_float(uint64_t *seed) {
    return (float)((double)(seeded_bits(seed) >> 11) * 0x1p-52 - 1);
}

float *random_floats(uint64_t seed, int64_t n) {
    float *x = calloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = random_float(&seed);
    return x;
}

TestMatrix random_matrix(DType type, int64_t rows, int64_t cols, uint64_t seed) {
    static const int SCALES[DTYPE_COUNT][2] = {
        [DTYPE_Q8_0] = {0, 0},   [DTYPE_Q4_0] = {0, 0},    [DTYPE_Q4_1] = {0, 2}, [DTYPE_Q5_0] = {0, 0},
        [DTYPE_Q5_1] = {0, 2},   [DTYPE_Q4_K] = {0, 2},    [DTYPE_Q5_K] = {0, 2}, [DTYPE_Q6_K] = {208, 208},
        [DTYPE_Q2_K] = {80, 82}, [DTYPE_Q3_K] = {108, 108}};
    int64_t bytes = rows * dtype_row_bytes(type, cols), block = dtype_block_bytes(type);
    TestMatrix m = {.memory = calloc((size_t)bytes + 1, 1)};
    uint8_t *data = m.memory + 1;
    m.matrix = (Matrix){.type = type, .rows = rows, .cols = cols, .data = data};
    for (int64_t i = 0; i < bytes; i++) data[i] = (uint8_t)seeded_bits(&seed);
    for (int64_t i = 0; i < bytes; i += block) {
        if (type == DTYPE_F32) {
            float value = random_float(&seed);
            memcpy(data + i, &value, 4);
            continue;
        }
        if (type == DTYPE_E4M3) { // without the codes of NaN
            float scale = random_float(&seed) / 256;
            for (int64_t j = sizeof scale; j < block; j++)
                data[i + j] &= (data[i + j] & 127) == 127 ? 0xfe : 0xff;
            memcpy(data + i, &scale, sizeof scale);
            continue;
        }
        if (type == DTYPE_NF4) {
            float scale = random_float(&seed);
            memcpy(data + i, &scale, sizeof scale);
            continue;
        }
        if (type == DTYPE_MXFP4) { // its scale is an exponent; far apart, one group would be all of a sum
            data[i] = (uint8_t)(122 + data[i] % 3);
            continue;
        }
        for (int j = 0; j < (quant_is_type(type) ? 2 : 1); j++) {
            float value = random_float(&seed) / (quant_is_type(type) ? 16 : 1);
            uint32_t bits;
            memcpy(&bits, &value, 4);
            uint16_t half = type == DTYPE_BF16 ? (uint16_t)(bits >> 16) : quant_to_half(value);
            memcpy(data + i + SCALES[type][j], &half, 2);
        }
    }
    return m;
}

void assert_near(const char *what, int64_t i, double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%s, element %lld: %.9g, expected %.9g ± %.3g", what, (long long)i, value, expected,
                 tolerance);
}

float *matrix_row(const Matrix *matrix, int64_t row) {
    float *values = malloc((size_t)matrix->cols * sizeof *values);
    const uint8_t *data = matrix->data;
    quant_load(matrix->type, data + row * dtype_row_bytes(matrix->type, matrix->cols), 0, matrix->cols,
               values);
    return values;
}

void assert_ok(Status status, const Error *error) {
    if (status != STATUS_OK) fail_msg("%s", error->message);
}

void random_rounding(const Rope *rope, int n_heads, int head_dim, float **balance, float **feedback) {
    int half = rope->rotary_dim / 2;
    *balance = random_floats(501, (int64_t)n_heads * head_dim);
    *feedback = random_floats(502, (int64_t)n_heads * head_dim * (head_dim & -head_dim) / 4);
    for (int i = 0; i < n_heads * head_dim; i++) (*balance)[i] = exp2f((*balance)[i]);
    for (int h = 0; h < n_heads; h++)
        for (int i = 0; i < half; i++) {
            float *head = *balance + (ptrdiff_t)h * head_dim;
            if (rope->kind == ROPE_INTERLEAVED)
                head[2 * i + 1] = head[2 * i];
            else
                head[half + i] = head[i];
        }
}

DecoderShape any_shape(void) {
    return (DecoderShape){.n_layers = 1,
                          .hidden_size = 8,
                          .n_heads = 1,
                          .n_kv_heads = 1,
                          .head_dim = 8,
                          .intermediate_size = 8,
                          .vocab_size = 1,
                          .embedding_scale = 1};
}

Backend *open_cpu(const char *device, int n_threads, const DecoderShape *shape, int max_tokens) {
    Error error = {0};
    Backend *backend = NULL;
    BackendOptions options = {.device = device,
                              .n_threads = n_threads,
                              .shape = shape,
                              .max_tokens = max_tokens,
                              .max_logits = max_tokens};
    assert_ok(ops_cpu()->open(&options, &backend, &error), &error);
    return backend;
}
