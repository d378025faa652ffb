// The reference: each op as its formula says, one element after the other.
#include "kernels/cpu/loops.h"

#include <math.h>

static void rms_norm(const float *x, const float *w, int64_t n, float eps, float *y) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

static void layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y) {
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / (float)n;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1 / sqrtf(squares / (float)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + (b ? b[i] : 0);
}

static float silu(float x) {
    return x / (1 + expf(-x));
}

// The tanh approximation (Hendrycks & Gimpel, arXiv:1606.08415).
static float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

// x·Φ(x), Φ by the complementary error function, which keeps its digits where Φ is small.
static float gelu(float x) {
    return 0.5f * x * erfcf(-0.7071067812f * x);
}

static float activated(Activation activation, float x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case ACTIVATION_GELU:
        return gelu(x);
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x; // NaN stays
    case ACTIVATION_SILU:
        break;
    }
    return silu(x);
}

static void activate(Activation activation, float *g, const float *u, int64_t n) {
    for (int64_t i = 0; i < n; i++) g[i] = activated(activation, g[i]) * (u ? u[i] : 1);
}

static void to_half(const float *x, int64_t n, uint16_t *half) {
    for (int64_t i = 0; i < n; i++) half[i] = float_to_half(x[i]);
}

// ---- products -----------------------------------------------------------------------------------------

static int64_t product_scratch(int64_t cols) {
    return cols * (int64_t)sizeof(float);
}

static void product(const Product *p, void *scratch) {
    const uint8_t *data = p->w->data;
    int64_t cols = p->w->cols, row_bytes = dtype_row_bytes(p->w->type, cols);
    float *row = scratch;
    for (int64_t r = p->first; r < p->end; r++) {
        dequantize(p->w->type, data + r * row_bytes, 0, cols, row);
        for (int64_t t = 0; t < p->x->n; t++) {
            float sum = 0;
            for (int64_t i = 0; i < cols; i++) sum += row[i] * p->x->x[t * cols + i];
            float *y = &p->y[t * p->y_stride + r];
            *y = p->add ? *y + sum : sum;
        }
    }
}

// ---- attention ----------------------------------------------------------------------------------------

static float kv_at(const KvLayer *kv, const void *values, int64_t i) {
    return kv->type == DTYPE_F16 ? half_to_float(((const uint16_t *)values)[i]) : ((const float *)values)[i];
}

static int64_t attend_scratch(int n_rows, int head_dim) {
    (void)n_rows;
    return head_dim * (int64_t)sizeof(float);
}

static float score(const AttendTile *tile, const float *q, int64_t slot) {
    int64_t start = slot * tile->kv->slot_stride + tile->kv_head * tile->kv->head_stride;
    float dot = 0;
    for (int d = 0; d < tile->head_dim; d++) dot += q[d] * kv_at(tile->kv, tile->kv->k, start + d);
    return dot * tile->scale;
}

// One query in two passes: the largest score, then the weighted mean of the values.
static void attend_query(const AttendTile *tile, const float *q, int32_t position, float *sums, float *y) {
    int head_dim = tile->head_dim, end = tile->first_slot + tile->n_slots;
    float largest = -INFINITY, weights = 0;
    for (int slot = tile->first_slot; slot < end; slot++)
        if (slot_visible(tile->slot_positions[slot], position, tile->window))
            largest = fmaxf(largest, score(tile, q, slot));
    for (int d = 0; d < head_dim; d++) sums[d] = 0;
    for (int slot = tile->first_slot; slot < end; slot++) {
        if (!slot_visible(tile->slot_positions[slot], position, tile->window)) continue;
        float weight = expf(score(tile, q, slot) - largest);
        int64_t start = slot * tile->kv->slot_stride + tile->kv_head * tile->kv->head_stride;
        weights += weight;
        for (int d = 0; d < head_dim; d++) sums[d] += weight * kv_at(tile->kv, tile->kv->v, start + d);
    }
    for (int d = 0; d < head_dim; d++) y[d] = weights == 0 ? 0 : sums[d] / weights;
}

static void attend(const AttendTile *tile, void *scratch) {
    for (int t = 0; t < tile->n_tokens; t++)
        for (int h = 0; h < tile->n_heads; h++) {
            int64_t offset = t * tile->q_stride + (int64_t)h * tile->head_dim;
            attend_query(tile, tile->q + offset, tile->positions[t], scratch, tile->y + offset);
        }
}

const Loops *loops_reference(void) {
    static const Loops LOOPS = {
        .name = "reference loops",
        .quantized_activations = false,
        .rms_norm = rms_norm,
        .layer_norm = layer_norm,
        .quantize = quantize_row,
        .activate = activate,
        .to_half = to_half,
        .product = product,
        .product_scratch = product_scratch,
        .attend_rows = 8,
        .attend = attend,
        .attend_scratch = attend_scratch,
    };
    return &LOOPS;
}
