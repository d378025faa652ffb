// What the AVX-512 loops share. A register holds what two of simd_avx2.h do, side by side.
#ifndef PALAVER_KERNELS_CPU_X86_SIMD_AVX512_H
#define PALAVER_KERNELS_CPU_X86_SIMD_AVX512_H

#include "kernels/cpu/x86/simd_avx2.h"

#ifdef __AVX512F__

INLINE __m512 both_halves(__m256 low, __m256 high) {
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}

INLINE __m512 twice(__m256 v) {
    return _mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_castps_pd(v)));
}

INLINE __m256 high_half(__m512 v) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

// hadd of 256 bits, in each half.
INLINE __m512 add_neighbours(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

// The sums of the eight halves, the low ones first, each in the order of sum_lanes4().
INLINE __m256 sum_rows(const __m512 acc[4]) {
    __m512 sums = add_neighbours(add_neighbours(acc[0], acc[1]), add_neighbours(acc[2], acc[3]));
    __m256 low = _mm512_castps512_ps256(sums), high = high_half(sums);
    return _mm256_add_ps(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

// exp_rest(), in each half.
INLINE __m512 exp_rest_both(__m512 x, __m512 n) {
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.38888889e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.33333333e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.16666667e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.66666667e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
}

// exp_falling(), in each half.
INLINE __m512 exp_both_falling(__m512 x) {
    const __m512 lowest = _mm512_set1_ps(-87.33654f);
    const __mmask16 tiny = _mm512_cmp_ps_mask(x, lowest, _CMP_LT_OQ);
    const __m512 clamped = _mm512_max_ps(lowest, x);
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.44269504f)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    // No denormal comes of it, so that it is what multiplications give there.
    return _mm512_maskz_scalef_ps((__mmask16)~tiny, exp_rest_both(clamped, n), n);
}

// exp_lanes(), in each half.
INLINE __m512 exp_both(__m512 x) {
    const __m512 highest = _mm512_set1_ps(88.72283f);
    const __mmask16 huge = _mm512_cmp_ps_mask(x, highest, _CMP_GT_OQ);
    const __m512 e = exp_both_falling(_mm512_min_ps(highest, x)); // a NaN is the second operand: it stays
    return _mm512_mask_mov_ps(e, huge, _mm512_set1_ps(__builtin_inff()));
}

#endif
#endif
