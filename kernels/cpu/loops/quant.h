// Element types of files as numbers: one group of 32 elements at a time, or a whole row.
//
// Every block format is, group by group, value[i] = scale[i / 16] * q[i] + min[i / 16] with small integers q:
// the formats with one scale per 32 elements repeat it, those without a minimum have min = 0, those whose bits
// count entries of a codebook have its entries as q, and the 256-element blocks are eight groups. All that follows knows nothing else about a format. The layouts
// are those of GGUF (ggml's quantisation types); rows need no alignment.
#ifndef PALAVER_KERNELS_CPU_LOOPS_QUANT_H
#define PALAVER_KERNELS_CPU_LOOPS_QUANT_H

#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

#define QUANT_GROUP 32

typedef struct QuantGroup {
    int8_t q[QUANT_GROUP]; // -128..127
    float scale[2];        // of elements 0..15 and 16..31
    float min[2];          // likewise
} QuantGroup;

// Whether the type is one whose rows are groups of integers (not f32, f16, bf16, e4m3, nf4, w8, nor a cache's int8 and int4).
bool quant_is_type(DType type);

// Entries of the codebooks: of IQ4_NL and IQ4_XS, and of MXFP4 (e2m1, twice its value).
extern const int8_t QUANT_IQ4_BOOK[16], QUANT_FP4_BOOK[16];
// Those of NF4, which are no integers.
extern const float QUANT_NF4_BOOK[16];

// Elements [32*group, 32*group + 32) of a row of a quantised type.
void quant_unpack(DType type, const void *row, int64_t group, QuantGroup *out);

// The number of an 8-bit float of FP8 weights (e4m3: bias 7, no infinities, NaN as 0x7f and 0xff).
float quant_from_e4m3(uint8_t code);

// values [n] = elements [first, first + n) of a row of any type. first and n are multiples of 32 for
// quantised types.
void quant_load(DType type, const void *row, int64_t first, int64_t n, float *values);

// IEEE half precision; to half rounds to nearest even, and keeps infinities and NaN.
float quant_from_half(uint16_t half);
uint16_t quant_to_half(float value);

// bfloat16, rounded to nearest even; keeps infinities and NaN.
uint16_t quant_to_bfloat(float value);

// ---- activations --------------------------------------------------------------------------------------

// A row of activations as 8-bit integers: x ≈ scale[g]*q for each group g of 32, scale = max|x| / 127.
// A group that holds an infinity or NaN has scale NaN, so that the error stays visible in every result.
typedef struct QuantRow {
    int8_t *q;     // [cols] -127..127
    float *scale;  // [cols/32]
    float *sum;    // [cols/32] scale[g] * Σq over the group: what a weight's minimum multiplies
    int16_t *sums; // [cols/16] Σq over each 16: what a weight's offset multiplies
} QuantRow;

// Groups whose largest magnitude is not above this become zeros, for its inverse may have no float.
#define QUANT_TINY 0x1p-100f

// x [n], n a multiple of 32.
void quant_store_row(const float *x, int64_t n, const QuantRow *out);

#endif
