#include "kernels/cpu/kv.h"

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
    return type == DTYPE_F16 ? half_to_float(((const uint16_t *)scales)[i]) : ((const float *)scales)[i];
}

// Stores max(absmax/most, 1e-5) and returns it as stored; NaN for a group that is not finite.
static float store_scale(DType type, void *scales, int64_t i, const float *x, int n, int most) {
    float largest = 0;
    bool finite = true;
    for (int j = 0; j < n; j++) {
        finite = finite && isfinite(x[j]);
        largest = fmaxf(largest, fabsf(x[j]));
    }
    float scale = finite ? fmaxf(largest / (float)most, SMALLEST_SCALE) : NAN;
    if (type == DTYPE_F16)
        ((uint16_t *)scales)[i] = float_to_half(scale);
    else
        ((float *)scales)[i] = scale;
    return scale_at(type, scales, i);
}

static int quantised(float x, float scale, int most) {
    long q = scale > 0 ? lrintf(x / scale) : 0; // not so where it is NaN
    return (int)(q > most ? most : q < -most ? -most : q);
}

// Element `at` of the cache and the following n, a multiple of the group.
static void store_groups(const KvLayer *kv, void *values, void *scales, int64_t at, const float *x, int n) {
    bool nibbles = kv->type == DTYPE_INT4;
    int most = nibbles ? 7 : 127;
    int8_t *bytes = (int8_t *)values + (nibbles ? at / 2 : at);
    for (int g = 0; g < n; g += kv->group) {
        float scale = store_scale(kv->scale_type, scales, (at + g) / kv->group, x + g, kv->group, most);
        for (int i = g; i < g + kv->group; i++) {
            int q = quantised(x[i], scale, most);
            if (!nibbles)
                bytes[i] = (int8_t)q;
            else if (i % 2 == 0)
                bytes[i / 2] = (int8_t)(q & 15);
            else
                bytes[i / 2] = (int8_t)((uint8_t)bytes[i / 2] | (uint8_t)((q & 15) << 4));
        }
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

void kv_store(const Loops *loops, const KvLayer *kv, KvPlane plane, int64_t slot, int head, int head_dim,
              float *row) {
    int64_t at = slot * kv->slot_stride + head * kv->head_stride;
    void *values = plane == KV_KEYS ? kv->k : kv->v, *scales = plane == KV_KEYS ? kv->k_scale : kv->v_scale;
    if (plane == KV_KEYS && kv->rotate_keys) hadamard_turn(row, head_dim);
    switch (kv->type) {
    case DTYPE_F16:
        loops->to_half(row, head_dim, (uint16_t *)values + at);
        break;
    case DTYPE_BF16:
        for (int d = 0; d < head_dim; d++) ((uint16_t *)values)[at + d] = float_to_bfloat(row[d]);
        break;
    case DTYPE_INT8:
    case DTYPE_INT4:
        store_groups(kv, values, scales, at, row, head_dim);
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
        dequantize(kv->type, values, at, head_dim, row);
}
