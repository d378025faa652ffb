// Linear layers in 8 bits (W8A8): rows of small integers with one scale each, for weights an output channel, for
// activations a token. This is the one definition of how a row is quantised, for every backend.
//
//   scale = absmax(x) / 127          rounded to float32
//   q     = x / scale                rounded to float32, then to the nearest integer, even ones at ties, within ±127
//   y     = acc · scale of the token · scale of the channel, acc = Σ q_token·q_channel, an exact int32
//
// A row of zeros, or one whose scale is no normal float32 (absmax below 127·2^-126), has scale 0 and zeros: no
// arithmetic of the smallest floats is asked of any backend. A row that holds an infinity or NaN has scale NaN and
// zeros, so that all of its results are NaN and the error is seen; weights like that are refused when they are
// converted.
//
// In memory a row of DTYPE_W8 is int8 q[cols], zeros up to a multiple of 16 bytes, then 16 bytes of which the first
// four are the scale as float32 and the others zero. Rows begin at multiples of 16 bytes.
#ifndef PALAVER_KERNELS_W8_H
#define PALAVER_KERNELS_W8_H

#include "kernels/philox.h" // PALAVER_SHARED

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    W8_LARGEST = 127,
    W8_ALIGNMENT = 16,    // bytes: of rows, of their padding, and of what stands behind the integers
    W8_MAX_COLS = 133144, // so many products of ±127·127 always fit in an int32
};

// Where the scale of a row of `cols` elements stands: the bytes of its integers and their padding.
PALAVER_SHARED int64_t w8_scale_offset(int64_t cols) {
    return (cols + W8_ALIGNMENT - 1) / W8_ALIGNMENT * W8_ALIGNMENT;
}

// Bytes of a row; -1: sums of so many columns may not fit.
PALAVER_SHARED int64_t w8_row_bytes(int64_t cols) {
    return cols < 0 || cols > W8_MAX_COLS ? -1 : w8_scale_offset(cols) + W8_ALIGNMENT;
}

// The scale of a row whose largest magnitude is absmax >= 0; NaN where that is infinite or NaN.
PALAVER_SHARED float w8_scale(float absmax) {
    float scale = absmax / (float)W8_LARGEST;
    if (!(absmax <= 0x1.fffffep127f)) return NAN;
    return scale < 0x1p-126f ? 0 : scale;
}

// One element of a row that has this scale: -127 … 127.
PALAVER_SHARED int8_t w8_quantize(float x, float scale) {
    if (!(scale > 0)) return 0;
    float q = rintf(x / scale);
    return (int8_t)(q > W8_LARGEST ? W8_LARGEST : q < -W8_LARGEST ? -W8_LARGEST : q);
}

// What the linear layer gives for one token and one channel.
PALAVER_SHARED float w8_result(int32_t acc, float token_scale, float channel_scale) {
    return (float)acc * token_scale * channel_scale;
}

// x [cols] → q [cols]; returns the scale. The plain loop that faster ones equal bit by bit.
static inline float w8_quantize_row(const float *x, int64_t cols, int8_t *q) {
    float absmax = 0;
    for (int64_t i = 0; i < cols; i++)
        if (fabsf(x[i]) > absmax || isnan(x[i])) absmax = fabsf(x[i]); // a NaN stays: nothing is above it
    float scale = w8_scale(absmax);
    for (int64_t i = 0; i < cols; i++) q[i] = w8_quantize(x[i], scale);
    return scale;
}

#endif
