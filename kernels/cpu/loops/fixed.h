// Linear layers of 16-bit floats by integers of 16 bits: two products of these are one instruction on many machines, and
// their sums are exact, so that results have the same bits on all of them, in whatever order the sums come about.
//
// Columns go in groups of 64, in which numbers are q·scale, with Σq² below 2^31 and |q| below 2^15, as large as that allows;
// a row of weights' scale is 2^e. By Cauchy and Schwarz 64 products then fit in an int32, whatever they are, in whatever
// order they are added:
//
//   y = Σ over groups, in their order:  y = fma((float)Σ q_w·q_x, 2^e·scale, y)
//
// Of numbers that are spread as they mostly are (normally: the largest of 64 is two and a half times the usual one) the
// usual activation is 5,800, off by 2^-13.5 of itself at most, the usual weight half as much to as much; one that stands
// alone has 15 bits, and where all are of a size they have 12 to 13. Weights of f16, which have 11 bits, are exact where
// they are above 0.36 of a group's largest, and mostly down to an eighth of it, those of bf16 above 0.045. What is lost is
// less than what rounding activations to f16 loses, as makers of such models and llama.cpp do, and far less than
// rounding them to bf16 does.
//
// A group with what is no finite number is NaN as a whole, and so is a product of groups whose norms' product is beyond 2^159.
// Groups that are all below QUANT_TINY count as zero.
#ifndef PALAVER_KERNELS_CPU_LOOPS_FIXED_H
#define PALAVER_KERNELS_CPU_LOOPS_FIXED_H

#include "kernels/cpu/loops/quant.h"
#include "kernels/weights.h"

#include <math.h>
#include <string.h>

enum {
    FIXED_GROUP = 64,      // columns
    FIXED_ROWS = 16,       // of a panel
    FIXED_LARGEST = 32767, // integer
    FIXED_NORM = 46334,    // root of a group's sum of squares: 2^15.5, less what rounding 64 numbers adds
    FIXED_NO_NUMBER = 255, // the exponent of a group of weights that has an infinity or NaN
};

static inline int64_t fixed_groups(int64_t cols) {
    return (cols + FIXED_GROUP - 1) / FIXED_GROUP;
}

// Numbers from one row of activations to the next: zeros fill the last group.
static inline int64_t fixed_stride(int64_t cols) {
    return fixed_groups(cols) * FIXED_GROUP;
}

// Whether weights of a type are multiplied so.
static inline bool fixed_is_type(DType type) {
    return type == DTYPE_F16 || type == DTYPE_BF16;
}

// The power of two by which numbers are multiplied before they are squared: the largest is then from 2 to 4.
static inline float fixed_power(float largest) {
    uint32_t bits;
    memcpy(&bits, &largest, sizeof bits);
    bits = (255 - (bits >> 23)) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// 1/power, for powers that are normal numbers as their inverses are.
static inline float fixed_inverse_power(float power) {
    uint32_t bits;
    memcpy(&bits, &power, sizeof bits);
    bits = (254u << 23) - bits;
    memcpy(&power, &bits, sizeof power);
    return power;
}

// The scale of a group that is finite and has one above QUANT_TINY; squares: the sum of those of numbers·power.
static inline float fixed_scale(float largest, float squares, float power) {
    const float by_norm = sqrtf(squares) * (1.0f / FIXED_NORM) * fixed_inverse_power(power),
                by_largest = largest * (1.0f / FIXED_LARGEST);
    return by_norm > by_largest ? by_norm : by_largest;
}

// Weights' scale, as a float's exponent: the next power of two above.
static inline uint8_t fixed_exponent(float scale) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    return (uint8_t)((bits >> 23) + 1);
}

// 1/2^e
static inline float fixed_inverse(uint8_t exponent) {
    const uint32_t bits = (uint32_t)exponent << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return fixed_inverse_power(power);
}

// x [n] → q [fixed_stride(n)], scale [fixed_groups(n)]. A sum of squares is sixteen interleaved ones of every
// sixteenth number, to which those of i + 8, i + 4, i + 2, i + 1 are added in turn.
void fixed_quantize(const float *x, int64_t n, int16_t *q, float *scale);

// Rows of weights as they are multiplied: panels of sixteen, of which each has, group after group, the 32 pairs of
// columns, each of all rows [groups][32 pairs][16 rows][2], then the scales' exponents, as floats have them, [groups][16].
// Rows beyond a matrix's last are zeros.
static inline int64_t fixed_panel_bytes(int64_t cols) {
    return (fixed_groups(cols) * (FIXED_ROWS * (FIXED_GROUP * 2 + 1)) + 63) / 64 * 64;
}

static inline int64_t fixed_panels(int64_t rows) {
    return (rows + FIXED_ROWS - 1) / FIXED_ROWS;
}

// Where a panel's exponents begin.
static inline int64_t fixed_exponents(int64_t cols) {
    return fixed_groups(cols) * (FIXED_ROWS * FIXED_GROUP * 2);
}

// Panel `number` of a matrix, made of its data.
void fixed_fill(const Matrix *w, int64_t number, void *panel);

// The same where it was made already (Matrix.fixed); NULL: it was not.
static inline const char *fixed_find(const Matrix *w, int64_t number) {
    return w->fixed ? (const char *)w->fixed + number * fixed_panel_bytes(w->cols) : NULL;
}

#endif
