#include "kernels/cpu/loops/fixed.h"

#include <float.h>
#include <math.h>
#include <string.h>

// The largest magnitude of a group, NaN if it has one.
static float largest_of(const float x[FIXED_GROUP]) {
    float largest = 0;
    for (int i = 0; i < FIXED_GROUP; i++)
        if (fabsf(x[i]) > largest || isnan(x[i])) largest = fabsf(x[i]); // a NaN stays: nothing is above it
    return largest;
}

// The scale of a group; 0: all count as zero, NaN: it has what is no finite number.
static float scale_of(const float x[FIXED_GROUP]) {
    const float largest = largest_of(x), power = fixed_power(largest);
    float squares[16] = {0};
    if (!(largest <= FLT_MAX)) return NAN;
    if (largest <= QUANT_TINY) return 0;
    for (int i = 0; i < FIXED_GROUP; i++) squares[i % 16] = fmaf(x[i] * power, x[i] * power, squares[i % 16]);
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++) squares[i] += squares[n + i];
    return fixed_scale(largest, squares[0], power);
}

void fixed_quantize(const float *x, int64_t n, int16_t *q, float *scale) {
    for (int64_t g = 0; g < fixed_groups(n); g++, q += FIXED_GROUP) {
        const int64_t first = g * FIXED_GROUP, left = n - first < FIXED_GROUP ? n - first : FIXED_GROUP;
        float group[FIXED_GROUP] = {0};
        memcpy(group, x + first, (size_t)left * sizeof *x);
        scale[g] = scale_of(group);
        const bool some = scale[g] > 0;
        const float inverse = some ? 1 / scale[g] : 0;
        for (int i = 0; i < FIXED_GROUP; i++) q[i] = some ? (int16_t)rintf(group[i] * inverse) : 0;
    }
}

// A row's group of weights → q, of which the pairs lie FIXED_ROWS pairs apart. Returns the exponent.
static uint8_t fill_group(const float x[FIXED_GROUP], int16_t *q) {
    const float scale = scale_of(x);
    const bool some = scale > 0;
    const uint8_t exponent = some ? fixed_exponent(scale) : isnan(scale) ? FIXED_NO_NUMBER : 0;
    for (int i = 0; i < FIXED_GROUP; i++)
        q[i / 2 * (2 * FIXED_ROWS) + i % 2] = some ? (int16_t)rintf(x[i] * fixed_inverse(exponent)) : 0;
    return exponent;
}

void fixed_fill(const Matrix *w, int64_t number, void *panel) {
    const int64_t cols = w->cols, row_bytes = dtype_row_bytes(w->type, cols);
    uint8_t *exponents = (uint8_t *)panel + fixed_exponents(cols);
    int16_t *q = panel;
    for (int64_t g = 0; g < fixed_groups(cols); g++, q += FIXED_ROWS * FIXED_GROUP)
        for (int64_t r = 0; r < FIXED_ROWS; r++) {
            const int64_t row = number * FIXED_ROWS + r, first = g * FIXED_GROUP,
                          left = cols - first < FIXED_GROUP ? cols - first : FIXED_GROUP;
            float group[FIXED_GROUP] = {0};
            if (row < w->rows)
                quant_load(w->type, (const char *)w->data + row * row_bytes, first, left, group);
            exponents[g * FIXED_ROWS + r] = fill_group(group, q + 2 * r);
        }
}
