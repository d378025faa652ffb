// The reference: each op as its formula says, one element after the other.
#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/loops/recur.h"
#include "kernels/cpu/loops/reference.h"

#include <math.h>

void reference_rms_norm(const float *x, const float *w, int64_t n, float eps, float *y) {
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

void reference_layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y) {
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
    case ACTIVATION_RELU2:
        return x < 0 ? 0 : x * x;
    case ACTIVATION_SILU:
    case ACTIVATION_CLAMPED_SWIGLU:
    case ACTIVATION_XIELU:
        break;
    }
    return silu(x);
}

static float clamped_swiglu(float g, float u) {
    const float limit = CLAMPED_SWIGLU_LIMIT;
    g = g > limit ? limit : g; // NaN stays
    u = u > limit ? limit : u < -limit ? -limit : u;
    return g / (1 + expf(-CLAMPED_SWIGLU_ALPHA * g)) * (u + 1);
}

void reference_activate(Activation activation, float *g, const float *u, int64_t n) {
    if (activation == ACTIVATION_CLAMPED_SWIGLU) {
        for (int64_t i = 0; i < n; i++) g[i] = clamped_swiglu(g[i], u[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++) g[i] = activated(activation, g[i]) * (u ? u[i] : 1);
}

void reference_recur(const RecurToken *token) {
    recur_token(token);
}

void reference_xielu(const Xielu *by, float *g, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float x = g[i], linear = by->beta * x;
        g[i] = x > 0 ? by->alpha_p * x * x + linear
                     : by->alpha_n * (expm1f(x > by->eps ? by->eps : x) - x) + linear; // NaN stays
    }
}

void reference_to_half(const float *x, int64_t n, uint16_t *half) {
    for (int64_t i = 0; i < n; i++) half[i] = quant_to_half(x[i]);
}

W8Scale reference_quantize_w8(const float *x, int64_t n, int8_t *q) {
    W8Scale row = {.scale = w8_quantize_row(x, n, q)};
    for (int64_t i = 0; i < n; i++) row.sum += q[i];
    memset(q + n, 0, (size_t)(w8_stride(n) - n));
    return row;
}

// ---- GEMM ---------------------------------------------------------------------------------------------

static int64_t gemm_scratch(int64_t cols) {
    return cols * (int64_t)sizeof(float);
}

static void gemm_w8(const Gemm *p) {
    int64_t cols = p->w->cols, row_bytes = dtype_row_bytes(DTYPE_W8, cols);
    for (int64_t r = p->first; r < p->end; r++) {
        const int8_t *row = (const int8_t *)p->w->data + r * row_bytes;
        float scale;
        memcpy(&scale, row + w8_scale_offset(cols), sizeof scale);
        for (int64_t t = 0; t < p->x->n; t++) {
            const int8_t *x = p->x->w8 + t * w8_stride(cols);
            int32_t sum = 0;
            for (int64_t i = 0; i < cols; i++) sum += row[i] * x[i];
            float *y = gemm_row(p, t) + r, result = w8_result(sum, p->x->w8_scale[t].scale, scale);
            *y = p->add ? *y + result : result;
        }
    }
}

static void gemm(const Gemm *p, void *scratch) {
    if (p->w->type == DTYPE_W8) {
        gemm_w8(p);
        return;
    }
    const uint8_t *data = p->w->data;
    int64_t cols = p->w->cols, row_bytes = dtype_row_bytes(p->w->type, cols);
    float *row = scratch;
    for (int64_t r = p->first; r < p->end; r++) {
        quant_load(p->w->type, data + r * row_bytes, 0, cols, row);
        for (int64_t t = 0; t < p->x->n; t++) {
            float sum = 0;
            for (int64_t i = 0; i < cols; i++) sum += row[i] * gemm_input(p)[t * cols + i];
            float *y = gemm_row(p, t) + r;
            *y = p->add ? *y + sum : sum;
        }
    }
}

// ---- attention ----------------------------------------------------------------------------------------

int64_t reference_attend_scratch(int n_rows, int head_dim) {
    (void)n_rows;
    return 5 * head_dim * (int64_t)sizeof(float);
}

// One query in its two forms (sinks: for the indexes below n_sinks, if tokens behind them were evicted), and a row of
// the cache.
typedef struct Query {
    const AttendTile *tile;
    int token, head, n_sinks;
    float *q, *sinks, *row;
} Query;

static float mask_at(const AttendMask *mask, int token, int head, int index) {
    float value;
    if (!mask->values) return 0;
    quant_load(mask->type, mask->values, token * mask->token_stride + head * mask->head_stride + index, 1,
               &value);
    return value;
}

// The score of an index; -INFINITY if it is not seen.
static float score(const Query *c, int index) {
    const AttendTile *tile = c->tile;
    bool is_sink = index < c->n_sinks;
    int32_t slot = attend_slot(tile, index), at = tile->slot_positions ? tile->slot_positions[slot] : index;
    SeenPositions seen = attend_seen(tile, c->token, is_sink);
    float mask = mask_at(&tile->mask, c->token, c->head, index), dot = 0;
    if (at < seen.low || at > seen.high || mask == -INFINITY) return -INFINITY;
    kv_load(tile->kv, KV_KEYS, slot, tile->kv_head, tile->head_dim, c->row);
    for (int d = 0; d < tile->head_dim; d++) dot += (is_sink ? c->sinks : c->q)[d] * c->row[d];
    if (tile->cap > 0) dot = tile->cap * tanhf(dot / tile->cap);
    if (tile->slopes) dot -= tile->slopes[c->head] * (float)(seen.high - at);
    return dot + mask;
}

// In two passes: the largest score, then the weighted mean of the values.
static void attend_one(const Query *c, float *sums, float *y) {
    const AttendTile *tile = c->tile;
    float largest = -INFINITY, weights = 0;
    for (int i = 0; i < tile->sequence->n_slots; i++) largest = fmaxf(largest, score(c, i));
    for (int d = 0; d < tile->head_dim; d++) sums[d] = 0;
    for (int i = 0; i < tile->sequence->n_slots; i++) {
        float s = score(c, i);
        if (s == -INFINITY) continue;
        float weight = expf(s - largest);
        weights += weight;
        kv_load(tile->kv, KV_VALUES, attend_slot(tile, i), tile->kv_head, tile->head_dim, c->row);
        for (int d = 0; d < tile->head_dim; d++) sums[d] += weight * c->row[d];
    }
    weights = attend_divisor(tile, c->head, largest, weights);
    for (int d = 0; d < tile->head_dim; d++) y[d] = weights == 0 ? 0 : sums[d] / weights;
}

// Weights and weighted values of some indexes, relative to e^base.
typedef struct Part {
    float base, weight, *sums; // sums [head_dim]
} Part;

// Adds indexes [first, end) to a part, whatever that makes of it.
static void add_split(const Query *c, int first, int end, Part *part) {
    const int dim = c->tile->head_dim;
    for (int i = first; i < end; i++) {
        float s = score(c, i);
        if (s == -INFINITY) continue;
        float weight = expf(s - part->base);
        part->weight += weight;
        kv_load(c->tile->kv, KV_VALUES, attend_slot(c->tile, i), c->tile->kv_head, dim, c->row);
        for (int d = 0; d < dim; d++) part->sums[d] += weight * c->row[d];
    }
}

static void clear(Part *part, float base, int dim) {
    part->base = base, part->weight = 0;
    for (int d = 0; d < dim; d++) part->sums[d] = 0;
}

// In splits, each relative to the head's base, or, where that is not safe, to its own largest score. Those of the first
// kind just add up; a larger base makes what there is so far shrink.
static void attend_in_splits(const Query *c, Part *whole, Part *part, float *y) {
    const AttendTile *tile = c->tile;
    const int n = tile->sequence->n_slots, dim = tile->head_dim;
    int64_t parts = 0, again = 0;
    clear(whole, -INFINITY, dim);
    for (int first = 0; first < n; first += ATTEND_SPLIT) {
        int end = n - first < ATTEND_SPLIT ? n : first + ATTEND_SPLIT;
        float largest = -INFINITY;
        bool seen = false; // else it is no part, which is not the same as one of no weight
        for (int i = first; i < end; i++) {
            float s = score(c, i);
            seen |= s != -INFINITY;
            largest = fmaxf(largest, s);
        }
        if (!seen) continue;
        clear(part, tile->bases[c->head] * LN_2, dim);
        add_split(c, first, end, part);
        parts++;
        if (!attend_is_safe(part->weight)) {
            clear(part, largest, dim);
            add_split(c, first, end, part);
            again++;
        }
        float base = fmaxf(whole->base, part->base), old = expf(whole->base - base),
              new = expf(part->base - base);
        whole->base = base;
        whole->weight = whole->weight * old + part->weight * new;
        for (int d = 0; d < dim; d++) whole->sums[d] = whole->sums[d] * old + part->sums[d] * new;
    }
    const float divisor = attend_divisor(tile, c->head, whole->base, whole->weight);
    for (int d = 0; d < dim; d++) y[d] = divisor == 0 ? 0 : whole->sums[d] / divisor;
    attend_count(tile, parts, again);
}

void reference_attend(const AttendTile *tile, void *scratch) {
    float *q = scratch, *sinks = q + tile->head_dim, *row = sinks + tile->head_dim,
          *sums = row + tile->head_dim;
    int n_sinks = tile->sequence->n_evicted > 0 ? tile->sequence->n_sinks : 0;
    for (int r = 0; r < tile->n_tokens * tile->n_heads; r++) {
        Query c = {tile, r / tile->n_heads, r % tile->n_heads, n_sinks, q, sinks, row};
        attention_query(tile, r, false, q);
        if (n_sinks > 0) attention_query(tile, r, true, sinks);
        float *y = tile->y + attend_row_offset(tile, r);
        if (tile->bases)
            attend_in_splits(&c, &(Part){.sums = sums}, &(Part){.sums = sums + tile->head_dim}, y);
        else
            attend_one(&c, sums, y);
    }
}

const Loops *loops_reference(void) {
    static const Loops LOOPS = {
        .name = "reference loops",
        .quantized_activations = false,
        .rms_norm = reference_rms_norm,
        .layer_norm = reference_layer_norm,
        .quantize = quant_store_row,
        .quantize_w8 = reference_quantize_w8,
        .activate = reference_activate,
        .xielu = reference_xielu,
        .recur = reference_recur,
        .to_half = reference_to_half,
        .gemm = gemm,
        .gemm_scratch = gemm_scratch,
        .attend_rows = 8,
        .attend = reference_attend,
        .attend_scratch = reference_attend_scratch,
    };
    return &LOOPS;
}
