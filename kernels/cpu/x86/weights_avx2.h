// How weights of the types that are multiplied as floats become them, eight at a time.
#ifndef PALAVER_KERNELS_CPU_X86_WEIGHTS_AVX2_H
#define PALAVER_KERNELS_CPU_X86_WEIGHTS_AVX2_H

#include "kernels/cpu/x86/simd_avx2.h"

#ifdef __AVX2__
#include <string.h>

// Of one weight, where what is asked for ahead need not be exact: blocks' scales are left out.
INLINE int64_t weight_bytes(DType type) {
    return type == DTYPE_F32 ? 4 : type == DTYPE_E4M3 || type == DTYPE_NF4 ? 1 : 2;
}

enum { E4M3_BLOCK = 128, E4M3_BYTES = 4 + E4M3_BLOCK };

// A byte's exponent and fraction are those of a half, whose exponent counts from 15 instead of 7.
INLINE __m256 load_e4m3(const uint8_t *row, int64_t i) {
    const uint8_t *block = row + i / E4M3_BLOCK * E4M3_BYTES, *from = block + 4 + i % E4M3_BLOCK;
    float scale;
    memcpy(&scale, block, sizeof scale);
    __m128i codes =
        _mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)from)); // their signs fill the upper halves
    __m128i halves = _mm_and_si128(_mm_slli_epi16(codes, 7), _mm_set1_epi16((short)0xbf80));
    return _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(scale * 256));
}

enum { NF4_BLOCK = 64, NF4_BYTES = 4 + NF4_BLOCK / 2 };

INLINE __m256 load_nf4(const uint8_t *row, int64_t i) {
    const uint8_t *block = row + i / NF4_BLOCK * NF4_BYTES;
    int32_t word;
    memcpy(&word, block + 4 + i % NF4_BLOCK / 2, sizeof word);
    __m256i codes =
        _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(QUANT_NF4_BOOK), codes); // by three bits
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(QUANT_NF4_BOOK + 8), codes);
    __m256 value = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28)));
    return _mm256_mul_ps(value, _mm256_broadcast_ss((const float *)(const void *)block));
}

INLINE __m256 load_weights(DType type, const uint8_t *row, int64_t i) {
    const uint8_t *from = row + i * (type == DTYPE_F32 ? 4 : 2);
    if (type == DTYPE_E4M3) return load_e4m3(row, i);
    if (type == DTYPE_NF4) return load_nf4(row, i);
    if (type == DTYPE_F32) return _mm256_loadu_ps((const float *)(const void *)from);
    if (type == DTYPE_F16) return load_halves(from);
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

// The last n < 8 elements of a row, and zeros.
INLINE __m256 load_rest(DType type, const uint8_t *row, int64_t i, int64_t n) {
    uint8_t part[32] = {0};
    const int64_t size = type == DTYPE_F32 ? 4 : 2;
    memcpy(part, row + i * size, (size_t)(n * size));
    return load_weights(type, part, 0);
}

#endif
#endif
