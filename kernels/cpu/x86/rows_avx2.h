// What the AVX2 products of integers share: eight rows of W are computed together, a lane each, from bytes.
#ifndef PALAVER_KERNELS_CPU_X86_ROWS_AVX2_H
#define PALAVER_KERNELS_CPU_X86_ROWS_AVX2_H

#include "kernels/cpu/x86/simd_avx2.h"

#ifdef __AVX2__
#include <string.h>

#define ROWS 8

INLINE int32_t load_int(const uint8_t *bytes) {
    int32_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

INLINE __m256i pair_products(bool is_signed, __m256i w, __m256i x) {
    return is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                     : _mm256_maddubs_epi16(w, x);
}

// acc + the four products of each lane, of unsigned w; by the encoding that the machine has.
INLINE __m256i vnni_products(W8Dot dot, __m256i acc, __m256i w, __m256i x) {
    if (dot == W8_VNNI)
        __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    else
        __asm__("%{evex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    return acc;
}

// A group's sums over each half (16 columns) of eight rows: lane r of a + b is row r's.
typedef struct HalfSums {
    __m256i a, b;
} HalfSums;

// The same of eight vectors of eight partial sums.
INLINE HalfSums transposing_sums(const __m256i p[ROWS]) {
    __m256i u = _mm256_hadd_epi32(_mm256_hadd_epi32(p[0], p[1]), _mm256_hadd_epi32(p[2], p[3]));
    __m256i v = _mm256_hadd_epi32(_mm256_hadd_epi32(p[4], p[5]), _mm256_hadd_epi32(p[6], p[7]));
    return (HalfSums){_mm256_permute2x128_si256(u, v, 0x20), _mm256_permute2x128_si256(u, v, 0x31)};
}

INLINE __m256i broadcast4(const int8_t *q) {
    return _mm256_set1_epi32(load_int((const uint8_t *)q));
}

// Keeps the compiler from turning a chain of sums into a tree, which needs more registers than there are.
INLINE __m256i kept(__m256i v) {
    __asm__("" : "+x"(v));
    return v;
}

// Stores the first n_rows lanes.
INLINE void store_rows(const Gemm *p, int64_t token, int64_t first, int n_rows, __m256 lanes) {
    float *y = gemm_row(p, token) + first, values[ROWS];
    if (n_rows == ROWS) {
        if (p->add) lanes = _mm256_add_ps(_mm256_loadu_ps(y), lanes);
        _mm256_storeu_ps(y, lanes);
        return;
    }
    _mm256_storeu_ps(values, lanes);
    for (int r = 0; r < n_rows; r++) y[r] = p->add ? y[r] + values[r] : values[r];
}

#endif
#endif
