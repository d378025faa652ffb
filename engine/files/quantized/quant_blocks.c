// Rows of a quantised weight as the kernels read them.
#include "engine/files/quantized/quantized.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <string.h>

enum { GROUP = 32 };

static bool to_half(float value, uint8_t *to) {
    uint16_t half = quant_to_half(value);
    memcpy(to, &half, sizeof half);
    return (half & 0x7c00) != 0x7c00;
}

// Elements i and i + 16 share a byte.
static void put_nibbles(const QuantIntegers *from, int offset, uint8_t *to) {
    for (int i = 0; i < GROUP / 2; i++)
        to[i] = (uint8_t)((from->q[i] + offset) | (from->q[i + GROUP / 2] + offset) << 4);
}

static bool put_integers(const QuantIntegers *from, DType type, uint8_t *to) {
    const int zero = from->zero;
    bool fits = to_half(from->scale, to);
    if (type == DTYPE_Q4_0) {
        put_nibbles(from, 8 - zero, to + 2);
    } else if (type == DTYPE_Q4_1) {
        fits = to_half(-(float)zero * from->scale, to + 2) && fits;
        put_nibbles(from, 0, to + 4);
    } else {
        for (int i = 0; i < GROUP; i++) to[2 + i] = (uint8_t)(int8_t)(from->q[i] - zero);
    }
    return fits;
}

// Q8_0: absmax/127 as f16 has it, and the nearest integers, even ones at ties.
static bool put_bytes(const float *x, uint8_t *to) {
    const float whole = 0x1.8p23f; // adding and taking it off rounds to the nearest integer
    float absmax = 0;
    for (int i = 0; i < GROUP; i++) absmax = fabsf(x[i]) > absmax || isnan(x[i]) ? fabsf(x[i]) : absmax;
    const float scale = quant_from_half(quant_to_half(absmax / 127));
    if (!to_half(scale, to)) return false; // also where a number is infinite or none
    const float divisor = scale > 0 ? scale : INFINITY;
    for (int i = 0; i < GROUP; i++) {
        float q = x[i] / divisor + whole - whole;
        q = q > 127 ? 127 : q;
        to[2 + i] = (uint8_t)(int8_t)(q < -127 ? -127 : q);
    }
    return true;
}

static bool put_numbers(const float *x, int64_t n, DType type, uint8_t *to) {
    if (type == DTYPE_Q8_0) return put_bytes(x, to);
    bool fits = true;
    for (int64_t i = 0; i < n; i++) {
        uint16_t half = type == DTYPE_F16 ? quant_to_half(x[i]) : quant_to_bfloat(x[i]);
        int exponent = type == DTYPE_F16 ? 0x7c00 : 0x7f80;
        fits = fits && (half & exponent) != exponent;
        memcpy(to + 2 * i, &half, sizeof half);
    }
    return fits;
}

int64_t quant_blocks_write(const QuantWeight *w, int64_t first, int64_t n) {
    const DType type = w->tensor.type;
    const int64_t step = dtype_block_size(type) > GROUP ? dtype_block_size(type) : GROUP, // columns at a time
        row_bytes = dtype_row_bytes(type, w->cols), block = dtype_row_bytes(type, step);
    uint8_t *data = (uint8_t *)w->tensor.data;
    int64_t bad = -1;
    // Columns outside, rows within: the words of GPTQ and AWQ that neighbouring rows need lie side by side.
    for (int64_t col = 0; col < w->cols; col += step)
        for (int64_t row = first; row < first + n; row++) {
            uint8_t *to = data + row * row_bytes + col / step * block;
            int64_t size = w->cols - col < GROUP ? w->cols - col : GROUP;
            bool fits = true;
            if (w->block) {
                fits = w->block(w, row, col, to);
            } else if (w->integers) {
                QuantIntegers group;
                w->integers(w, row, col, &group);
                fits = put_integers(&group, type, to);
            } else {
                float values[GROUP];
                w->numbers(w, row, col, size, values);
                fits = put_numbers(values, size, type, to);
            }
            if (!fits && (bad < 0 || row < bad)) bad = row;
        }
    return bad;
}
