// Linear layers of 16-bit floats by integers of 16 bits: two products of these are one instruction on many machines, and
// their sums are exact, so that results have the same bits on all of them, in whatever order the sums come about.
//
// Columns go in groups of 32. In a group a row of weights is q·2^e, with |q| up to 2^13: e is that of its largest weight,
// of which q has 13 bits, so that weights of f16 down to a quarter of it, of bf16 down to a thirty-second, are exact, and
// smaller ones are off by 2^-13 of it at most. A row of activations is q·scale, with |q| up to 8191 for its largest, so
// that each is off by 2^-14 of that. 32 products then fit in an int32, whatever they are:
//
//   y = Σ over groups, in their order:  y = fma((float)Σ q_w·q_x, 2^e·scale, y)
//
// What is lost is about what rounding activations to f16 loses, as makers of such models and llama.cpp do, and far less
// than rounding them to bf16 does. Where a sum is dominated by one large activation, f16 is off by up to 2^-11 of its
// product; here 32 numbers are off by 2^-14 of it each, which adds up to as much, some one way, some the other. Where all
// are of a size, the largest of 32 is 2 to 3 times the usual one, and the two are even again.
//
// A group with what is no finite number is NaN as a whole. Groups of activations that are all below QUANT_TINY, and
// weights below 2^-126, count as zero.
#ifndef PALAVER_KERNELS_CPU_LOOPS_FIXED_H
#define PALAVER_KERNELS_CPU_LOOPS_FIXED_H

#include "kernels/cpu/loops/quant.h"
#include "kernels/weights.h"

enum {
    FIXED_GROUP = 32,      // columns
    FIXED_ROWS = 16,       // of a panel
    FIXED_BITS = 13,       // of a group's largest weight
    FIXED_LARGEST = 8191,  // of a group's activations
    FIXED_NO_NUMBER = 255, // the exponent of a group of weights that has an infinity or NaN
    FIXED_LEAST_LOG2 =
        -113 // of a group's largest weight, so that its scale and its inverse are normal floats
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

// x [n] → q [fixed_stride(n)], scale [fixed_groups(n)]
void fixed_quantize(const float *x, int64_t n, int16_t *q, float *scale);

// Rows of weights as they are multiplied: panels of sixteen, of which each has, group after group, the sixteen pairs of
// columns, each of all rows [groups][16 pairs][16 rows][2], then the scales' exponents, as floats have them, [groups][16].
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
