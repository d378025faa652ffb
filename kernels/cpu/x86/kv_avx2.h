// Reading rows of a KV cache of any type with AVX2. A value is the same float, however it is read: an element of int8
// or int4 is rounded once after its scale, as in kv_load().
#ifndef PALAVER_KERNELS_CPU_X86_KV_AVX2_H
#define PALAVER_KERNELS_CPU_X86_KV_AVX2_H

#include "kernels/cpu/cache/kv.h"
#include "kernels/cpu/x86/simd_avx2.h"

#ifdef __AVX2__
#include <string.h>

// f(type, …) with the type as a constant, so that each type has loops of its own.
#define FOR_TYPE(type, f, ...)                                                                               \
    switch (type) {                                                                                          \
    case DTYPE_F16:                                                                                          \
        f(DTYPE_F16, __VA_ARGS__);                                                                           \
        break;                                                                                               \
    case DTYPE_BF16:                                                                                         \
        f(DTYPE_BF16, __VA_ARGS__);                                                                          \
        break;                                                                                               \
    case DTYPE_INT8:                                                                                         \
        f(DTYPE_INT8, __VA_ARGS__);                                                                          \
        break;                                                                                               \
    case DTYPE_INT4:                                                                                         \
        f(DTYPE_INT4, __VA_ARGS__);                                                                          \
        break;                                                                                               \
    default:                                                                                                 \
        f(DTYPE_F32, __VA_ARGS__);                                                                           \
    }

INLINE bool in_groups(DType type) {
    return type == DTYPE_INT8 || type == DTYPE_INT4;
}

// Bytes of n elements, an even number with int4.
INLINE int64_t kv_bytes(DType type, int64_t n) {
    return type == DTYPE_F32 ? n * 4 : type == DTYPE_INT8 ? n : type == DTYPE_INT4 ? n / 2 : n * 2;
}

// Elements d … d+7 of a row, without their scale.
INLINE __m256 kv_load8(DType type, const char *row, int d) {
    row += kv_bytes(type, d);
    if (type == DTYPE_F32) return _mm256_loadu_ps((const float *)(const void *)row);
    if (type == DTYPE_F16) return load_halves(row);
    if (type == DTYPE_BF16) {
        __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)row));
        return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
    }
    if (type == DTYPE_INT8)
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)row)));
    int32_t nibbles; // element i in bits 4i … 4i+3
    memcpy(&nibbles, row, sizeof nibbles);
    const __m256i up = _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(nibbles), up), 28));
}

INLINE float kv_scale(DType type, const char *scales, int64_t i) {
    if (type == DTYPE_F16) return _cvtsh_ss(((const uint16_t *)(const void *)scales)[i]);
    return ((const float *)(const void *)scales)[i];
}

// to [n] = a row, for n and groups that are multiples of 8.
INLINE void kv_copy_row(DType type, const char *row, const char *scales, const KvLayer *kv, int n,
                        float *to) {
    const int group = in_groups(type) ? kv->group : n;
    for (int g = 0, d = 0; d < n; g++) {
        __m256 scale = _mm256_set1_ps(in_groups(type) ? kv_scale(kv->scale_type, scales, g) : 1);
        for (int end = d + group; d < end; d += 8) {
            __m256 values = kv_load8(type, row, d);
            _mm256_storeu_ps(to + d, in_groups(type) ? _mm256_mul_ps(values, scale) : values);
        }
    }
}

#endif
#endif
