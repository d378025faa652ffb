// SiLU and its gate in registers of 512 bits, to the bits that loops_avx2.c gives.
#include "kernels/cpu/x86/simd_avx512.h"

#ifdef __AVX512F__

// x / (1 + exp(-x)) · u
INLINE __m512 gated_silu(__m512 x, __m512 u) {
    const __m512 e = exp_both(_mm512_sub_ps(_mm512_setzero_ps(), x));
    return _mm512_mul_ps(_mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), e)), u);
}

void avx512_gate_silu(float *g, const float *u, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        const __mmask16 lanes = (__mmask16)(n - i < 16 ? (1 << (n - i)) - 1 : 0xffff);
        const __m512 gated =
            gated_silu(_mm512_maskz_loadu_ps(lanes, g + i), _mm512_maskz_loadu_ps(lanes, u + i));
        _mm512_mask_storeu_ps(g + i, lanes, gated);
    }
}

#else

// Never called: avx512_has_float() is false then.
void avx512_gate_silu(float *g, const float *u, int64_t n) {
    (void)g, (void)u, (void)n;
}

#endif
