// What the AVX2 loops share: sums across lanes, exp, conversions; and each other's entry points.
#ifndef PALAVER_KERNELS_CPU_X86_SIMD_AVX2_H
#define PALAVER_KERNELS_CPU_X86_SIMD_AVX2_H

#include "kernels/cpu/loops/loops.h"

#ifdef __AVX2__
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __m256 load_halves(const void *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)halves));
}

INLINE __m256i load32(const uint8_t *bytes) {
    return _mm256_loadu_si256((const __m256i *)bytes);
}

// The sum of the eight lanes, always in the order ((0+4)+(2+6))+((1+5)+(3+7)).
INLINE float sum_lanes(__m256 v) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}

// The sums of four vectors, each in the order ((0+1)+(2+3))+((4+5)+(6+7)).
INLINE __m128 sum_lanes4(__m256 a, __m256 b, __m256 c, __m256 d) {
    __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

INLINE float max_lanes(__m256 v) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}

// Bits of the largest magnitude of `vectors` times eight floats: they compare like the numbers, where NaN is above infinity.
INLINE int32_t largest_bits(const __m256 *x, int vectors) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(x[0]), magnitude);
    for (int i = 1; i < vectors; i++)
        m = _mm256_max_epi32(m, _mm256_and_si256(_mm256_castps_si256(x[i]), magnitude));
    __m128i h = _mm_max_epi32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
    return _mm_cvtsi128_si32(h);
}

// v[r] holds eight elements of 32 bits of row r; becomes element j of all rows at j.
INLINE void transpose(__m256i v[8]) {
    __m256i t[8], u[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        u[4 * i] = _mm256_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm256_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm256_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm256_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
    }
}

INLINE float float_of_bits(int32_t bits) {
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
}

// exp(x - n ln 2), where that is near 0.
INLINE __m256 exp_rest(__m256 x, __m256 n) {
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.38888889e-3f); // 1/6!, then Horner down to 1
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.33333333e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.16666667e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.66666667e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
    return _mm256_fmadd_ps(p, r, _mm256_set1_ps(1));
}

// exp with a relative error below 2e-7: x = n ln 2 + r, exp(r) as a polynomial. Below -87.3 it is 0, above
// 88.7 infinite; NaN stays NaN.
INLINE __m256 exp_lanes(__m256 x) {
    const __m256 lowest = _mm256_set1_ps(-87.33654f), highest = _mm256_set1_ps(88.72283f);
    __m256 tiny = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ), huge = _mm256_cmp_ps(x, highest, _CMP_GT_OQ);
    __m256 clamped =
        _mm256_min_ps(highest, _mm256_max_ps(lowest, x)); // a NaN is the second operand: it stays
    __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 p = exp_rest(clamped, n);
    // 2^n in two halves, because n = 128 has no float of its own.
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    __m256 b =
        _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23));
    p = _mm256_mul_ps(_mm256_mul_ps(p, a), b);
    p = _mm256_blendv_ps(p, _mm256_set1_ps(__builtin_inff()), huge);
    return _mm256_andnot_ps(tiny, p);
}

// exp_lanes() of what is not above 0, to the same bits: nothing is infinite, and 2^n has a float of its own.
INLINE __m256 exp_falling(__m256 x) {
    const __m256 lowest = _mm256_set1_ps(-87.33654f);
    __m256 tiny = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ);
    __m256 clamped = _mm256_max_ps(lowest, x); // a NaN is the second operand: it stays
    // The last bit of a float near this one is 1, so that a sum is rounded to n, which its low bits hold.
    const __m256 whole = _mm256_set1_ps(0x1.8p23f);
    __m256 sum = _mm256_add_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504f)), whole);
    __m256i exponent = _mm256_add_epi32(_mm256_castps_si256(sum), _mm256_set1_epi32(127));
    __m256 power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    return _mm256_andnot_ps(tiny, _mm256_mul_ps(exp_rest(clamped, _mm256_sub_ps(sum, whole)), power));
}
#endif

// ---- gemm_avx2.c: the GEMM loop of every type ---------------------------------------------------------

// How bytes are multiplied and added up, all to the same bits: by pairs in 16 bits, by AVX-VNNI, by AVX512-VNNI.
typedef enum W8Dot { W8_PAIRS, W8_VNNI, W8_VNNI_512 } W8Dot;

// What a machine has beside AVX2, of which every result has the same bits.
typedef struct Extras {
    W8Dot dot;
    bool wide; // AVX-512: registers twice as wide for floats, and with W8_VNNI_512 for blocks
} Extras;

void avx2_gemm(Extras extras, const Gemm *gemm, void *scratch);
int64_t avx2_gemm_scratch(int64_t cols);

// ---- float_avx2.c: f32, f16, bf16, e4m3 and nf4 weights with float activations -----------------------------------

// Rows of a matrix, first to end, with the activations [first_token, end_token).
void avx2_gemm_float(const Gemm *gemm, int64_t first_token, int64_t end_token, float *scratch);

// ---- float_avx512.c: the same in wider registers ---------------------------------------------------------

bool avx512_has_float(void); // whether this machine and the compiler can

// To the same bits. scratch: avx512_gemm_scratch(columns) bytes, 64-byte aligned
void avx512_gemm_float(const Gemm *gemm, int64_t first_token, int64_t end_token, void *scratch);
int64_t avx512_gemm_scratch(int64_t cols);

// ---- blocks_avx512.c: types of blocks with quantised activations, to the bits of gemm_avx2.c ------------------------

bool avx512_has_blocks(void); // whether this machine and the compiler can

// scratch: avx512_blocks_scratch(columns) bytes, 64-byte aligned
void avx512_gemm_blocks(const Gemm *gemm, int64_t first_token, int64_t end_token, void *scratch);
int64_t avx512_blocks_scratch(int64_t cols);

// ---- fixed_avx2.c: fixed.h, of rows [first, end) with the activations [first_token, end_token) -------------------

void avx2_fixed_quantize(const float *x, int64_t n, int16_t *q, float *scale);
void avx2_fixed_fill(const Matrix *w, int64_t number, void *panel);
// scratch: a panel, 64-byte aligned
void avx2_gemm_fixed(W8Dot dot, const Gemm *gemm, int64_t first_token, int64_t end_token, void *scratch);

// ---- fixed_avx512.c: the same where avx512_has_blocks() ------------------------------------------------------------

// scratch: two panels, 64-byte aligned
void avx512_gemm_fixed(const Gemm *gemm, int64_t first_token, int64_t end_token, void *scratch);

// ---- activate_avx512.c: to the bits of what has AVX2 only, where avx512_has_float() -------------------------------

// g [n] = silu(g) · u
void avx512_gate_silu(float *g, const float *u, int64_t n);

// ---- w8_avx2.c: DTYPE_W8 with activations of its kind ---------------------------------------------------

bool avx2_has_w8(W8Dot dot); // whether this machine can: to be asked seldom, a virtual one takes its time

// As avx2_gemm_float().
void avx2_gemm_w8(W8Dot dot, const Gemm *gemm, int64_t first_token, int64_t end_token, void *scratch);
W8Scale avx2_quantize_w8(const float *x, int64_t n, int8_t *q);

// ---- attend_avx2.c ------------------------------------------------------------------------------------

void avx2_attend(const AttendTile *tile, void *scratch);
// The same, to the same bits, with attend_avx512.c where that can: where avx512_has_float().
void avx2_attend_wide(const AttendTile *tile, void *scratch);
int64_t avx2_attend_scratch(int n_rows, int head_dim);

#endif
