#include "kernels/cpu/cache/kv.h"

#include <math.h>
#include <string.h>

#define SMALLEST_SCALE 1e-5f

// ---- the Hadamard matrix ------------------------------------------------------------------------------

void hadamard_turn(float *x, int n) {
    int size = n & -n;
    float scale = 1 / sqrtf((float)size);
    for (int half = 1; half < size; half *= 2)
        for (int i = 0; i < n; i += 2 * half)
            for (int j = i; j < i + half; j++) {
                float a = x[j], b = x[j + half];
                x[j] = a + b, x[j + half] = a - b;
            }
    for (int i = 0; i < n; i++) x[i] *= scale;
}

// ---- groups of int8 and int4 ----------------------------------------------------------------------------

static float scale_at(DType type, const void *scales, int64_t i) {
    return type == DTYPE_F16 ? quant_from_half(((const uint16_t *)scales)[i]) : ((const float *)scales)[i];
}

// Stores max(absmax/most, 1e-5); NaN for a group that is not finite.
static void store_scale(DType type, void *scales, int64_t i, const float *x, int n, int most) {
    float largest = 0;
    bool finite = true;
    for (int j = 0; j < n; j++) {
        finite = finite && isfinite(x[j]);
        largest = fmaxf(largest, fabsf(x[j]));
    }
    float scale = finite ? fmaxf(largest / (float)most, SMALLEST_SCALE) : NAN;
    if (type == DTYPE_F16)
        ((uint16_t *)scales)[i] = quant_to_half(scale);
    else
        ((float *)scales)[i] = scale;
}

static int quantised(float x, float scale, int most) {
    long q = scale > 0 ? lrintf(x / scale) : 0; // not so where it is NaN
    return (int)(q > most ? most : q < -most ? -most : q);
}

// One head's groups as they are stored.
typedef struct Groups {
    const KvLayer *kv;
    void *values, *scales;
    int64_t at; // the head's first element
    int most;
} Groups;

// Stores element i and returns what rounding left of it: 0 where the group is not finite.
static float store_element(const Groups *g, int i, float x) {
    const float scale = scale_at(g->kv->scale_type, g->scales, (g->at + i) / g->kv->group);
    const int q = quantised(x, scale, g->most);
    if (g->kv->type == DTYPE_INT8) {
        ((int8_t *)g->values)[g->at + i] = (int8_t)q;
    } else {
        uint8_t *byte = (uint8_t *)g->values + (g->at + i) / 2;
        *byte = (uint8_t)(i % 2 ? (*byte & 15) | (q & 15) << 4 : (*byte & 0xf0) | (q & 15));
    }
    return scale > 0 ? x - scale * (float)q : 0;
}

// Stores x [n], n a multiple of the group. feedback: the head's; NULL: none. Changes x where there is one.
static void store_groups(const Groups *g, const float *feedback, float *x, int n) {
    const KvLayer *kv = g->kv;
    for (int i = 0; i < n; i += kv->group)
        store_scale(kv->scale_type, g->scales, (g->at + i) / kv->group, x + i, kv->group, g->most);
    if (!feedback) {
        for (int i = 0; i < n; i++) (void)store_element(g, i, x[i]);
        return;
    }
    const int size = n & -n, half = size / 2;
    const int step = kv->key_pairs == ROPE_INTERLEAVED ? 2 : 1, second = step == 2 ? 1 : half;
    for (int block = 0; block < n; block += size, feedback += (int64_t)half * half)
        for (int i = 0; i < half; i++)
            for (int row = block; row <= block + second; row += second) {
                float error = store_element(g, row + i * step, x[row + i * step]);
                for (int j = i + 1; j < half; j++) x[row + j * step] += feedback[i * half + j] * error;
            }
}

static void load_groups(const KvLayer *kv, const void *values, const void *scales, int64_t at, float *x,
                        int n) {
    const int8_t *bytes = (const int8_t *)values + (kv->type == DTYPE_INT4 ? at / 2 : at);
    for (int i = 0; i < n; i++) {
        float q;
        if (kv->type == DTYPE_INT8)
            q = (float)bytes[i];
        else
            q = (float)(i % 2 ? bytes[i / 2] >> 4 : (int8_t)((uint8_t)bytes[i / 2] << 4) >> 4);
        x[i] = q * scale_at(kv->scale_type, scales, (at + i) / kv->group);
    }
}

// ---- rows -----------------------------------------------------------------------------------------------

void kv_store(const Loops *loops, const KvLayer *kv, const KvRow *place, float *row) {
    const KvPlane plane = place->plane;
    const int head = place->head, head_dim = place->head_dim;
    int64_t at = place->slot * kv->slot_stride + head * kv->head_stride;
    void *values = plane == KV_KEYS ? kv->k : kv->v, *scales = plane == KV_KEYS ? kv->k_scale : kv->v_scale;
    const float *balance = plane == KV_KEYS && kv->key_balance ? kv->key_balance + head * head_dim : NULL;
    const int64_t feedback_floats = head_dim * (int64_t)(head_dim & -head_dim) / 4;
    for (int d = 0; balance && d < head_dim; d++) row[d] /= balance[d];
    if (plane == KV_KEYS && kv->rotate_keys) hadamard_turn(row, head_dim);
    switch (kv->type) {
    case DTYPE_F16:
        loops->to_half(row, head_dim, (uint16_t *)values + at);
        break;
    case DTYPE_BF16:
        for (int d = 0; d < head_dim; d++) ((uint16_t *)values)[at + d] = quant_to_bfloat(row[d]);
        break;
    case DTYPE_INT8:
    case DTYPE_INT4:
        store_groups(&(Groups){kv, values, scales, at, kv->type == DTYPE_INT4 ? 7 : 127},
                     balance ? kv->key_feedback + head * feedback_floats : NULL, row, head_dim);
        break;
    default:
        memcpy((float *)values + at, row, (size_t)head_dim * sizeof *row);
    }
}

void kv_load(const KvLayer *kv, KvPlane plane, int64_t slot, int head, int head_dim, float *row) {
    int64_t at = slot * kv->slot_stride + head * kv->head_stride;
    const void *values = plane == KV_KEYS ? kv->k : kv->v;
    if (kv->type == DTYPE_INT8 || kv->type == DTYPE_INT4)
        load_groups(kv, values, plane == KV_KEYS ? kv->k_scale : kv->v_scale, at, row, head_dim);
    else
        quant_load(kv->type, values, at, head_dim, row);
}

void kv_load_key(const KvLayer *kv, int64_t slot, int head, int head_dim, float *row) {
    kv_load(kv, KV_KEYS, slot, head, head_dim, row);
    if (kv->rotate_keys) hadamard_turn(row, head_dim); // its own inverse
    for (int d = 0; kv->key_balance && d < head_dim; d++) row[d] *= kv->key_balance[head * head_dim + d];
}
