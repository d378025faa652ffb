// The ops of a decoder layer on the CPU: each against its formula in double precision, and all of them against
// themselves: results do not depend on threads, nor on how tokens are cut into steps.
#include "kernels/cpu/loops/fixed.h"
#include "tests/support/kernels/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const LayerCase CASES[] = {
    {"llama", DTYPE_F32, DTYPE_F32, 48, 6, 2, 8, 40, 8, ROPE_INTERLEAVED, ACTIVATION_SILU, false, false, 0, 1,
     .magnitude = 1},
    {"qwen2", DTYPE_F32, DTYPE_F32, 37, 4, 4, 10, 51, 10, ROPE_HALF_SPLIT, ACTIVATION_SILU, true, false, 0, 1,
     .magnitude = 1},
    {"qwen3", DTYPE_BF16, DTYPE_F16, 64, 4, 2, 24, 72, 24, ROPE_HALF_SPLIT, ACTIVATION_SILU, false, true, 0,
     1, .magnitude = 1.2},
    {"gemma", DTYPE_F16, DTYPE_F16, 40, 3, 1, 16, 33, 6, ROPE_HALF_SPLIT, ACTIVATION_GELU_TANH, true, true, 1,
     6.3f, .magnitude = 1},
    {"partial", DTYPE_F16, DTYPE_F32, 33, 2, 1, 9, 8, 4, ROPE_INTERLEAVED, ACTIVATION_SILU, true, true, 0, 1,
     .magnitude = 1},
    {"no rope", DTYPE_F32, DTYPE_F32, 16, 1, 1, 5, 9, 0, ROPE_HALF_SPLIT, ACTIVATION_SILU, false, false, 0, 1,
     .magnitude = 1},
    {"q4_1", DTYPE_Q4_1, DTYPE_F16, 96, 6, 2, 32, 64, 32, ROPE_INTERLEAVED, ACTIVATION_SILU, true, false, 0,
     1, .magnitude = 1},
    {"q8_0", DTYPE_Q8_0, DTYPE_F32, 64, 4, 1, 16, 160, 16, ROPE_HALF_SPLIT, ACTIVATION_SILU, false, false, 0,
     1, .magnitude = 1},
    {"q4_k", DTYPE_Q4_K, DTYPE_F16, 256, 4, 2, 64, 512, 64, ROPE_INTERLEAVED, ACTIVATION_SILU, false, false,
     0, 1, .magnitude = 1},
    {"q6_k", DTYPE_Q6_K, DTYPE_F16, 256, 4, 2, 64, 256, 64, ROPE_INTERLEAVED, ACTIVATION_SILU, false, true, 0,
     1, .magnitude = 1},
    {"q2_k", DTYPE_Q2_K, DTYPE_F16, 256, 4, 2, 64, 512, 64, ROPE_INTERLEAVED, ACTIVATION_SILU, true, false, 0,
     1, .magnitude = 1},
    {"q3_k", DTYPE_Q3_K, DTYPE_F16, 512, 4, 1, 64, 256, 64, ROPE_HALF_SPLIT, ACTIVATION_SILU, false, true, 0,
     1, .magnitude = 1},
    {"iq4_nl", DTYPE_IQ4_NL, DTYPE_F16, 96, 6, 2, 32, 160, 32, ROPE_INTERLEAVED, ACTIVATION_SILU, false,
     false, 0, 1, .magnitude = 1},
    {"iq4_xs", DTYPE_IQ4_XS, DTYPE_F16, 256, 4, 2, 64, 512, 64, ROPE_HALF_SPLIT, ACTIVATION_SILU, false,
     false, 0, 1, .magnitude = 1},
    {"mxfp4", DTYPE_MXFP4, DTYPE_F16, 64, 4, 2, 32, 96, 32, ROPE_HALF_SPLIT, ACTIVATION_GELU_TANH, true,
     false, 0, 1, .magnitude = 1},
    {"e4m3", DTYPE_E4M3, DTYPE_F16, 160, 4, 2, 32, 96, 32, ROPE_HALF_SPLIT, ACTIVATION_GELU_TANH, true, false,
     0, 1, .magnitude = 1},
    {"nf4", DTYPE_NF4, DTYPE_F16, 128, 4, 2, 32, 192, 32, ROPE_HALF_SPLIT, ACTIVATION_GELU_TANH, true, false,
     0, 1, .magnitude = 1},
    {"gpt-j",
     DTYPE_F32,
     DTYPE_F32,
     48,
     4,
     4,
     12,
     64,
     8,
     ROPE_INTERLEAVED,
     ACTIVATION_GELU_TANH,
     false,
     false,
     0,
     1,
     1,
     .norm = NORM_LAYER,
     .no_gate = true,
     .ffn_biases = true,
     .norm_biases = true,
     .output_bias = true},
    {"gpt-neox",
     DTYPE_F16,
     DTYPE_F16,
     57,
     3,
     3,
     19,
     83,
     6,
     ROPE_HALF_SPLIT,
     ACTIVATION_GELU,
     true,
     false,
     0,
     1,
     1,
     .norm = NORM_LAYER,
     .no_gate = true,
     .ffn_biases = true,
     .norm_biases = true},
    {"bloom",
     DTYPE_Q8_0,
     DTYPE_F32,
     64,
     4,
     4,
     16,
     256,
     0,
     ROPE_HALF_SPLIT,
     ACTIVATION_GELU_TANH,
     true,
     false,
     0,
     1,
     1,
     .norm = NORM_LAYER,
     .no_gate = true,
     .ffn_biases = true,
     .norm_biases = true,
     .embedding_norm = true},
    {"mpt", DTYPE_BF16, DTYPE_F32, 31, 1, 1, 31, 124, 0, ROPE_HALF_SPLIT, ACTIVATION_GELU, false, false, 0, 1,
     1, .norm = NORM_LAYER, .no_gate = true},
    {"opt",
     DTYPE_F32,
     DTYPE_F16,
     16,
     2,
     2,
     8,
     41,
     0,
     ROPE_HALF_SPLIT,
     ACTIVATION_RELU,
     true,
     false,
     0,
     1,
     1,
     .norm = NORM_LAYER,
     .no_gate = true,
     .ffn_biases = true,
     .norm_biases = true,
     .n_positions = 100001},
    {"apertus", DTYPE_F16, DTYPE_F32, 40, 4, 2, 10, 51, 10, ROPE_HALF_SPLIT, ACTIVATION_XIELU, false, true, 0,
     1, 1, .no_gate = true, .xielu = {0.7f, 1.3f, 0.5f, -0.02f}},
    {"gated with biases",
     DTYPE_F32,
     DTYPE_F32,
     24,
     2,
     1,
     12,
     20,
     12,
     ROPE_HALF_SPLIT,
     ACTIVATION_GELU,
     false,
     false,
     0,
     2,
     1,
     .ffn_biases = true,
     .embedding_norm = true,
     .output_bias = true,
     .n_positions = 100001},
};

// ---- formulas -----------------------------------------------------------------------------------------

// y [n] = rms_norm(x)·(w + offset), or of `kind` with bias b; absent w: x as it is.
static void norm_formula(const TestLayer *t, NormKind kind, const Matrix *w, const Matrix *b, const double *x,
                         int n, double *y) {
    double sum = 0, mean = 0;
    float *weights = w->data ? matrix_row(w, 0) : NULL, *bias = b && b->data ? matrix_row(b, 0) : NULL;
    for (int i = 0; i < n; i++) mean += kind == NORM_LAYER ? x[i] / n : 0;
    for (int i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    for (int i = 0; i < n; i++)
        y[i] = weights ? (x[i] - mean) / sqrt(sum / n + 1e-5) * (weights[i] + (double)t->shape.norm_offset) +
                             (bias ? (double)bias[i] : 0)
                       : x[i];
    free(weights), free(bias);
}

// W·x + b; *size: the largest Σ|w·x|, which errors are measured by.
static void linear_formula(const Matrix *w, const Matrix *b, const double *x, double *y, double *size) {
    float *bias = b && b->data ? matrix_row(b, 0) : NULL;
    *size = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        float *row = matrix_row(w, r);
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < w->cols; i++) sum += row[i] * x[i], magnitude += fabs(row[i] * x[i]);
        y[r] = sum + (bias ? bias[r] : 0);
        *size = fmax(*size, magnitude + 1);
        free(row);
    }
    free(bias);
}

static void rope_formula(const TestLayer *t, int32_t position, double *head) {
    const Rope *rope = &t->shape.rope;
    for (int i = 0; i < rope->rotary_dim / 2; i++) {
        bool split = rope->kind == ROPE_HALF_SPLIT;
        double *a = head + (split ? i : 2 * i), *b = head + (split ? i + rope->rotary_dim / 2 : 2 * i + 1);
        double angle = position * rope->inv_freq[i], x = *a, y = *b;
        *a = (x * cos(angle) - y * sin(angle)) * rope->magnitude;
        *b = (x * sin(angle) + y * cos(angle)) * rope->magnitude;
    }
}

static void widen(const float *x, int n, double *y) {
    for (int i = 0; i < n; i++) y[i] = x[i];
}

// Of the sum of the products' sizes. In integers of 16 bits (loops/fixed.h) weights are off by 2^-13 of the largest of 32,
// activations by 2^-14, and the product of the largest is four times the usual one here.
static double tolerance_of(const TestLayer *t, const char *device) {
    const bool fast = strcmp(device, "cpu:reference") != 0, fixed = strcmp(device, "cpu") == 0;
    if (quant_is_type(t->c->weights)) return fast ? 1e-2 : 3e-6;
    return fixed && fixed_is_type(t->c->weights) ? 4 * 0x1.8p-13 : 3e-6;
}

// The head's output is multiplied exactly.
static double head_tolerance(const TestLayer *t, const char *device) {
    return tolerance_of(t, fixed_is_type(t->c->weights) ? "cpu:exact" : device);
}

static float kv_value(const KvLayer *kv, const void *values, int64_t i) {
    return kv->type == DTYPE_F16 ? quant_from_half(((const uint16_t *)values)[i])
                                 : ((const float *)values)[i];
}

typedef struct Projection {
    const char *name;
    const Matrix *w, *b, *norm;
    int n_heads;
    bool turned;
} Projection;

// One projection of one token, all heads, into y; returns the tolerance.
static double project_formula(const TestLayer *t, const Projection *p, const double *h, int token,
                              double relative, double *y) {
    double size;
    linear_formula(p->w, p->b, h, y, &size);
    for (int head = 0; head < p->n_heads; head++) {
        double *row = y + head * t->c->head_dim;
        if (p->norm->data) norm_formula(t, NORM_RMS, p->norm, NULL, row, t->c->head_dim, row);
        if (p->turned) rope_formula(t, LAYER_POSITIONS[token], row);
    }
    return relative * size * (p->norm->data ? 20 : 1.3);
}

static void check_qkv(const TestLayer *t, const Results *r, const char *device) {
    const LayerCase *c = t->c;
    const LayerWeights *w = &t->weights;
    static const Matrix NONE;
    const Projection projections[] = {{"q", &w->wq, &w->bq, &w->q_norm, c->n_heads, true},
                                      {"k", &w->wk, &w->bk, &w->k_norm, c->n_kv_heads, true},
                                      {"v", &w->wv, &w->bv, &NONE, c->n_kv_heads, false}};
    int width = c->n_heads * c->head_dim;
    double *x = calloc((size_t)c->hidden_size, sizeof *x), *y = calloc((size_t)width, sizeof *y);
    for (int token = 0; token < TOKENS; token++) {
        for (int i = 0; i < 3; i++) {
            const Projection *p = &projections[i];
            widen(r->embedded + token * c->hidden_size, c->hidden_size, x);
            norm_formula(t, c->norm, &w->attn_norm, &w->attn_norm_bias, x, c->hidden_size, x);
            double tolerance = project_formula(t, p, x, token, tolerance_of(t, device), y);
            for (int j = 0; j < p->n_heads * c->head_dim; j++) {
                int64_t at = LAYER_SLOTS[token] * r->kv.slot_stride + j;
                bool half = i > 0 && c->cache == DTYPE_F16;
                float value =
                    i == 0 ? r->q[token * width + j] : kv_value(&r->kv, i == 1 ? r->kv.k : r->kv.v, at);
                assert_near(p->name, token * width + j, value, y[j],
                            tolerance + (half ? 1e-3 * fabs(y[j]) : 0));
            }
        }
    }
    free(x), free(y);
}

static double activation_formula(const LayerCase *c, double x) {
    const Activation activation = c->activation;
    const Xielu *by = &c->xielu;
    if (activation == ACTIVATION_XIELU)
        return x > 0 ? (double)by->alpha_p * x * x + (double)by->beta * x
                     : (double)by->alpha_n * (expm1(fmin(x, (double)by->eps)) - x) + (double)by->beta * x;
    if (activation == ACTIVATION_SILU) return x / (1 + exp(-x));
    if (activation == ACTIVATION_GELU) return 0.5 * x * erfc(-x / sqrt(2));
    if (activation == ACTIVATION_RELU) return fmax(x, 0);
    if (activation == ACTIVATION_RELU2) return fmax(x, 0) * fmax(x, 0);
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static void check_feed_forward(const TestLayer *t, const Results *r, const char *device) {
    const LayerCase *c = t->c;
    int hidden = c->hidden_size, wide = c->intermediate_size, width = c->n_heads * c->head_dim;
    double *in = calloc((size_t)hidden + wide + width, sizeof *in), size, up_size,
           relative = tolerance_of(t, device);
    double *y = calloc((size_t)hidden + wide + VOCABULARY, sizeof *y), *up = calloc((size_t)wide, sizeof *up);
    for (int token = 0; token < TOKENS; token++) {
        widen(r->attended + token * width, width, in);
        linear_formula(&t->weights.wo, &t->weights.bo, in, y, &size);
        for (int i = 0; i < hidden; i++)
            assert_near("out", i, r->after_out[token * hidden + i],
                        y[i] + (double)r->embedded[token * hidden + i], relative * size);
        widen(r->after_out + token * hidden, hidden, in);
        norm_formula(t, c->norm, &t->weights.ffn_norm, &t->weights.ffn_norm_bias, in, hidden, in);
        if (c->no_gate) {
            linear_formula(&t->weights.w_up, &t->weights.b_up, in, y, &size);
            for (int i = 0; i < wide; i++) up[i] = 1, up_size = 0;
        } else {
            linear_formula(&t->weights.w_gate, &t->weights.b_gate, in, y, &size);
            linear_formula(&t->weights.w_up, &t->weights.b_up, in, up, &up_size);
        }
        for (int i = 0; i < wide; i++)
            assert_near("gate_up", i, r->g[token * wide + i], activation_formula(c, y[i]) * up[i],
                        1.2 * relative * (size * fabs(up[i]) + up_size * fabs(y[i])) +
                            relative * relative * size * up_size);
        widen(r->g + token * wide, wide, in);
        linear_formula(&t->weights.w_down, &t->weights.b_down, in, y, &size);
        for (int i = 0; i < hidden; i++)
            assert_near("down", i, r->x[token * hidden + i], y[i] + (double)r->after_out[token * hidden + i],
                        relative * size);
        widen(r->x + token * hidden, hidden, in);
        norm_formula(t, c->norm, &t->head.norm, &t->head.norm_bias, in, hidden, in);
        linear_formula(&t->head.output, &t->head.output_bias, in, y, &size);
        for (int i = 0; i < VOCABULARY; i++)
            assert_near("logits", i, r->logits[token * VOCABULARY + i], y[i],
                        head_tolerance(t, device) * size);
    }
    free(in), free(y), free(up);
}

static void check_embedding(const TestLayer *t, const Results *r) {
    const LayerCase *c = t->c;
    double *x = calloc((size_t)c->hidden_size, sizeof *x);
    for (int token = 0; token < TOKENS; token++) {
        float *row = matrix_row(&t->head.embedding, LAYER_IDS[token]), *position = NULL;
        if (c->n_positions > 0) position = matrix_row(&t->head.positions, LAYER_POSITIONS[token]);
        for (int i = 0; i < c->hidden_size; i++)
            x[i] = row[i] * c->embedding_scale + (position ? position[i] : 0);
        if (c->embedding_norm)
            norm_formula(t, c->norm, &t->head.embedding_norm, &t->head.embedding_norm_bias, x, c->hidden_size,
                         x);
        for (int i = 0; i < c->hidden_size; i++)
            assert_near("embed", i, r->embedded[token * c->hidden_size + i], x[i],
                        c->embedding_norm ? 1e-5 : 0);
        free(row), free(position);
    }
    free(x);
}

static void ops_equal_their_formulas(void **state) {
    (void)state;
    const char *devices[] = {"cpu:reference", "cpu:exact", "cpu"};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestLayer *t = layer_open(&CASES[i]);
        for (int d = 0; d < 3; d++) {
            Results r = layer_run(t, devices[d], 2, true);
            check_embedding(t, &r);
            check_qkv(t, &r, devices[d]);
            check_feed_forward(t, &r, devices[d]);
            results_free(&r);
        }
        layer_close(t);
    }
}

// Bit by bit: any number of threads, all tokens at once or one after the other.
static void results_do_not_depend_on_threads_or_steps(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        TestLayer *t = layer_open(&CASES[i]);
        const LayerCase *c = t->c;
        Results first = layer_run(t, "cpu", 1, true);
        for (int n = 1; n <= 3; n++)
            for (int whole = 0; whole < 2; whole++) {
                Results r = layer_run(t, "cpu", n, whole);
                size_t hidden = (size_t)(TOKENS * c->hidden_size) * 4;
                assert_memory_equal(r.kv.k, first.kv.k,
                                    (size_t)r.kv_elements * (c->cache == DTYPE_F16 ? 2 : 4));
                assert_memory_equal(r.kv.v, first.kv.v,
                                    (size_t)r.kv_elements * (c->cache == DTYPE_F16 ? 2 : 4));
                assert_memory_equal(r.q, first.q, (size_t)(TOKENS * c->n_heads * c->head_dim) * 4);
                assert_memory_equal(r.after_out, first.after_out, hidden);
                assert_memory_equal(r.x, first.x, hidden);
                assert_memory_equal(r.logits, first.logits, TOKENS * VOCABULARY * 4);
                results_free(&r);
            }
        results_free(&first);
        layer_close(t);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_equal_their_formulas),
        cmocka_unit_test(results_do_not_depend_on_threads_or_steps),
    };
    return test_main("layer", argc, argv, tests);
}
