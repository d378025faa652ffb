// Linear layers in FP8 (e4m3) whose inputs are rounded to FP8 too, as the makers of most FP8 files compute them. This is
// the one definition of how an input is rounded, for every backend.
//
//   scale = absmax(x) / 448                    rounded to float32; of a row (a token), of each 128 columns of it, or fixed
//   q     = e4m3(x / scale)                    x / scale rounded to float32, then to the nearest e4m3, even ones at ties,
//                                              within ±448
//   y     = Σ q·scale · code·scale of W
//
// By rows: fbgemm and compressed-tensors' dynamic strategy "token". By groups of 128 columns: DeepSeek-V3
// (arXiv:2412.19437, 3.3), whose later files round the scale up to a power of two (scale_fmt "ue8m0"). Fixed: files that
// have an input_scale.
//
// A scale that is no normal float32 (absmax below 448·2^-126) becomes 0, and so do its elements. Where there is an
// infinity or NaN the scale is NaN, so that the error is seen.
#ifndef PALAVER_KERNELS_FP8_H
#define PALAVER_KERNELS_FP8_H

#include "kernels/philox.h" // PALAVER_SHARED

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    FP8_LARGEST = 448,
    FP8_GROUP = 128, // columns that share a scale
};

// How inputs of layers in DTYPE_E4M3 are rounded; those that have a fixed scale by that one, unless it is FP8_INPUTS_KEPT.
typedef enum Fp8Inputs {
    FP8_INPUTS_KEPT, // not at all
    FP8_INPUTS_ROWS,
    FP8_INPUTS_GROUPS,
    FP8_INPUTS_POWERS, // by groups, with powers of two
} Fp8Inputs;

// The scale of elements whose largest magnitude is absmax >= 0.
PALAVER_SHARED float fp8_scale(float absmax) {
    const float scale = absmax / (float)FP8_LARGEST;
    if (!(absmax <= 0x1.fffffep127f)) return NAN;
    return scale < 0x1p-126f ? 0 : scale;
}

// The power of two that is no smaller than a scale; 0 and NaN stay.
PALAVER_SHARED float fp8_power(float scale) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    if (!(scale > 0)) return scale;
    bits = (bits + 0x7fffff) & 0xff800000;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

// The e4m3 nearest to q, as a float; within ±448. From 2^e to twice that they are 2^(e - 3) apart, below 2^-6 as above it.
static inline float fp8_nearest(float q) {
    const float size = fabsf(q);
    float unit; // whose lowest bit is that distance
    uint32_t bits;
    if (!(size < FP8_LARGEST)) return isnan(q) ? q : copysignf(FP8_LARGEST, q);
    memcpy(&bits, &size, sizeof bits);
    bits &= 0x7f800000; // a power of two
    bits = (bits < 0x3c800000 ? 0x3c800000 : bits) + (20u << 23);
    memcpy(&unit, &bits, sizeof unit);
    unit *= 1.5f;
    return copysignf(size + unit - unit, q);
}

// y [n] = x as elements that share a scale are rounded; the plain loop.
static inline void fp8_round(const float *x, int64_t n, float scale, float *y) {
    for (int64_t i = 0; i < n; i++) {
        const float q = scale > 0 ? fp8_nearest(x[i] / scale) : 0;
        y[i] = q * scale; // NaN where the scale is
    }
}

// y [cols] = a row of x, rounded; fixed: its scale, 0: none. y may be x.
static inline void fp8_round_row(Fp8Inputs how, float fixed, const float *x, int64_t cols, float *y) {
    const int64_t size = how == FP8_INPUTS_ROWS || fixed > 0 ? cols : FP8_GROUP;
    for (int64_t first = 0; first < cols; first += size) {
        const int64_t n = cols - first < size ? cols - first : size;
        float absmax = 0;
        for (int64_t i = first; i < first + n; i++)
            if (fabsf(x[i]) > absmax || isnan(x[i])) absmax = fabsf(x[i]); // a NaN stays: nothing is above it
        float scale = fixed > 0 && absmax <= 0x1.fffffep127f ? fixed : fp8_scale(absmax);
        if (how == FP8_INPUTS_POWERS && !(fixed > 0)) scale = fp8_power(scale);
        fp8_round(x + first, n, scale, y + first);
    }
}

#endif
