// The fast loops for x86-64 with AVX2, FMA and F16C: the table, and the loops over single rows.
#include "kernels/cpu/x86/simd_avx2.h"

#ifdef __AVX2__
#include "kernels/cpu/loops/recur.h"

#include <math.h>

// ---- norm, activation, conversion ---------------------------------------------------------------------

static void rms_norm(const float *x, const float *w, int64_t n, float eps, float *y) {
    __m256 a = _mm256_setzero_ps(), b = a;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 x0 = _mm256_loadu_ps(x + i), x1 = _mm256_loadu_ps(x + i + 8);
        a = _mm256_fmadd_ps(x0, x0, a);
        b = _mm256_fmadd_ps(x1, x1, b);
    }
    float sum = sum_lanes(_mm256_add_ps(a, b));
    for (; i < n; i++) sum += x[i] * x[i];
    float scale = 1 / sqrtf(sum / (float)n + eps);
    __m256 scales = _mm256_set1_ps(scale);
    for (i = 0; i + 8 <= n; i += 8)
        _mm256_storeu_ps(
            y + i, _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), scales), _mm256_loadu_ps(w + i)));
    for (; i < n; i++) y[i] = x[i] * scale * w[i];
}

INLINE __m256 add_differences(const float *x, __m256 mean, __m256 sums) {
    __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x), mean);
    return _mm256_fmadd_ps(d, d, sums);
}

static void layer_norm(const float *x, const float *w, const float *b, int64_t n, float eps, float *y) {
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, squares[2] = {sums[0], sums[0]};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 2; j++) sums[j] = _mm256_add_ps(sums[j], _mm256_loadu_ps(x + i + j * 8));
    float sum = sum_lanes(_mm256_add_ps(sums[0], sums[1]));
    for (; i < n; i++) sum += x[i];
    float mean = sum / (float)n;
    __m256 means = _mm256_set1_ps(mean);
    for (i = 0; i + 16 <= n; i += 16)
        for (int j = 0; j < 2; j++) squares[j] = add_differences(x + i + j * 8, means, squares[j]);
    float square = sum_lanes(_mm256_add_ps(squares[0], squares[1]));
    for (; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    float scale = 1 / sqrtf(square / (float)n + eps);
    __m256 scales = _mm256_set1_ps(scale);
    for (i = 0; i + 8 <= n; i += 8) {
        __m256 normed = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), means), scales);
        __m256 bias = b ? _mm256_loadu_ps(b + i) : _mm256_setzero_ps();
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(normed, _mm256_loadu_ps(w + i), bias));
    }
    for (; i < n; i++) y[i] = (x[i] - mean) * scale * w[i] + (b ? b[i] : 0);
}

// x / (1 + exp(-x))
INLINE __m256 silu(__m256 x) {
    const __m256 one = _mm256_set1_ps(1);
    return _mm256_div_ps(x, _mm256_add_ps(one, exp_lanes(_mm256_sub_ps(_mm256_setzero_ps(), x))));
}

// x/2 (1 + tanh z) = x / (1 + exp(-2z)), z = sqrt(2/pi) (x + 0.044715 x³)
INLINE __m256 gelu_tanh(__m256 x) {
    const __m256 one = _mm256_set1_ps(1);
    __m256 cubic = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f), one);
    __m256 z = _mm256_mul_ps(_mm256_mul_ps(x, cubic), _mm256_set1_ps(-1.5957691216f));
    return _mm256_div_ps(x, _mm256_add_ps(one, exp_lanes(z)));
}

// x·Φ(x). With z = |x|/√2 and t = 1/(1 + 0.3275911 z), 1 − erf(z) is a polynomial in t times exp(-z²), up to 1.5e-7
// (Abramowitz & Stegun 7.1.26).
INLINE __m256 gelu(__m256 x) {
    const __m256 one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
    __m256 z = _mm256_mul_ps(_mm256_max_ps(_mm256_sub_ps(zero, x), x), _mm256_set1_ps(0.7071067812f));
    __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(0.3275911f), one));
    __m256 p = _mm256_set1_ps(1.061405429f);
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-1.453152027f));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(1.421413741f));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(-0.284496736f));
    p = _mm256_mul_ps(_mm256_fmadd_ps(p, t, _mm256_set1_ps(0.254829592f)), t);
    __m256 tail = _mm256_mul_ps(p, exp_lanes(_mm256_sub_ps(zero, _mm256_mul_ps(z, z))));
    tail = _mm256_mul_ps(tail, _mm256_set1_ps(0.5f)); // Φ(-|x|)
    __m256 negative = _mm256_cmp_ps(x, zero, _CMP_LT_OQ);
    return _mm256_mul_ps(x, _mm256_blendv_ps(_mm256_sub_ps(one, tail), tail, negative));
}

INLINE __m256 activated(Activation activation, __m256 x) {
    switch (activation) {
    case ACTIVATION_GELU_TANH:
        return gelu_tanh(x);
    case ACTIVATION_GELU:
        return gelu(x);
    case ACTIVATION_RELU:
        return _mm256_max_ps(_mm256_setzero_ps(), x); // a NaN is the second operand: it stays
    case ACTIVATION_RELU2:
        x = _mm256_max_ps(_mm256_setzero_ps(), x); // NaN stays: it is the second
        return _mm256_mul_ps(x, x);
    case ACTIVATION_SILU:
    case ACTIVATION_CLAMPED_SWIGLU:
    case ACTIVATION_XIELU:
        break;
    }
    return silu(x);
}

// NaN are second operands: they stay.
INLINE __m256 clamped_swiglu(__m256 g, __m256 u) {
    const __m256 limit = _mm256_set1_ps(CLAMPED_SWIGLU_LIMIT), one = _mm256_set1_ps(1);
    g = _mm256_min_ps(limit, g);
    u = _mm256_max_ps(_mm256_set1_ps(-CLAMPED_SWIGLU_LIMIT), _mm256_min_ps(limit, u));
    __m256 e = exp_lanes(_mm256_mul_ps(g, _mm256_set1_ps(-CLAMPED_SWIGLU_ALPHA)));
    return _mm256_mul_ps(_mm256_div_ps(g, _mm256_add_ps(one, e)), _mm256_add_ps(u, one));
}

INLINE __m256 gated(Activation activation, __m256 g, __m256 u) {
    return activation == ACTIVATION_CLAMPED_SWIGLU ? clamped_swiglu(g, u)
                                                   : _mm256_mul_ps(activated(activation, g), u);
}

static void activate(Activation activation, float *g, const float *u, int64_t n) {
    const __m256 one = _mm256_set1_ps(1);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(g + i, gated(activation, _mm256_loadu_ps(g + i), u ? _mm256_loadu_ps(u + i) : one));
    if (i == n) return;
    float last_g[8] = {0}, last_u[8] = {0};
    for (int64_t j = i; j < n; j++) last_g[j - i] = g[j], last_u[j - i] = u ? u[j] : 1;
    _mm256_storeu_ps(last_g, gated(activation, _mm256_loadu_ps(last_g), _mm256_loadu_ps(last_u)));
    for (int64_t j = i; j < n; j++) g[j] = last_g[j - i];
}

static void activate_wide(Activation activation, float *g, const float *u, int64_t n) {
    if (activation == ACTIVATION_SILU && u)
        avx512_gate_silu(g, u, n);
    else
        activate(activation, g, u, n);
}

// e^x − 1 − x of x <= 0: near 0, where its terms all but cancel each other, as a polynomial, the series up to x^8 / 8!.
INLINE __m256 exp_beyond_linear(__m256 x) {
    const __m256 one = _mm256_set1_ps(1);
    __m256 p = _mm256_set1_ps(2.48015873e-5f);
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(1.98412698e-4f));
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(1.38888889e-3f));
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(8.33333333e-3f));
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(4.16666667e-2f));
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(1.66666667e-1f));
    p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(0.5f));
    const __m256 near = _mm256_mul_ps(p, _mm256_mul_ps(x, x)),
                 far = _mm256_sub_ps(_mm256_sub_ps(exp_lanes(x), one), x);
    return _mm256_blendv_ps(far, near, _mm256_cmp_ps(x, _mm256_set1_ps(-0.5f), _CMP_GT_OQ));
}

// e^m − 1 − x, m = min(x, eps), is what e^m has beyond 1 + m, and m − x.
INLINE __m256 xielu_lanes(const Xielu *by, __m256 x) {
    const __m256 m = _mm256_min_ps(_mm256_set1_ps(by->eps), x); // NaN stays: it is the second
    const __m256 curved = _mm256_add_ps(exp_beyond_linear(m), _mm256_sub_ps(m, x)),
                 below = _mm256_mul_ps(_mm256_set1_ps(by->alpha_n), curved),
                 above = _mm256_mul_ps(_mm256_mul_ps(_mm256_set1_ps(by->alpha_p), x), x),
                 positive = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ);
    return _mm256_fmadd_ps(_mm256_set1_ps(by->beta), x, _mm256_blendv_ps(below, above, positive));
}

static void recur(const RecurToken *token) {
    recur_token(token);
}

static void xielu(const Xielu *by, float *g, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(g + i, xielu_lanes(by, _mm256_loadu_ps(g + i)));
    if (i == n) return;
    float last[8] = {0};
    for (int64_t j = i; j < n; j++) last[j - i] = g[j];
    _mm256_storeu_ps(last, xielu_lanes(by, _mm256_loadu_ps(last)));
    for (int64_t j = i; j < n; j++) g[j] = last[j - i];
}

static void to_half(const float *x, int64_t n, uint16_t *half) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(half + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) half[i] = quant_to_half(x[i]);
}

// ---- activations as integers --------------------------------------------------------------------------

INLINE float largest_magnitude(const __m256 x[4]) {
    return float_of_bits(largest_bits(x, 4));
}

static void quantize(const float *x, int64_t n, const QuantRow *out) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), ones = _mm256_set1_epi16(1);
    for (int64_t g = 0; g < n / QUANT_GROUP; g++) {
        __m256 v[4];
        for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_ps(x + g * QUANT_GROUP + i * 8);
        float largest = largest_magnitude(v);
        if (!isfinite(largest)) { // a rare branch: the reference knows what to do
            QuantRow row = {out->q + g * QUANT_GROUP, out->scale + g, out->sum + g, out->sums + g * 2};
            quant_store_row(x + g * QUANT_GROUP, QUANT_GROUP, &row);
            continue;
        }
        __m256 inverse = _mm256_set1_ps(largest > QUANT_TINY ? 127 / largest : 0);
        __m256i q[4];
        for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        __m256i low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
        __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        _mm256_storeu_si256((__m256i *)(out->q + g * QUANT_GROUP), bytes);

        // low holds elements 0..15, high 16..31: sums of each.
        __m256i sums = _mm256_hadd_epi32(_mm256_madd_epi16(low, ones), _mm256_madd_epi16(high, ones));
        __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
        s = _mm_hadd_epi32(s, s);
        int first = _mm_cvtsi128_si32(s), second = _mm_extract_epi32(s, 1);
        out->sums[g * 2] = (int16_t)first;
        out->sums[g * 2 + 1] = (int16_t)second;
        out->scale[g] = largest / 127;
        out->sum[g] = out->scale[g] * (float)(first + second);
    }
}

#define GEMM_WITH(name, ...)                                                                                 \
    static void name(const Gemm *p, void *scratch) {                                                         \
        avx2_gemm((Extras){__VA_ARGS__}, p, scratch);                                                        \
    }
GEMM_WITH(gemm_by_pairs, W8_PAIRS, false)
GEMM_WITH(gemm_by_pairs_wide, W8_PAIRS, true)
GEMM_WITH(gemm_by_vnni, W8_VNNI, false)
GEMM_WITH(gemm_by_vnni_wide, W8_VNNI, true)
GEMM_WITH(gemm_by_vnni_512, W8_VNNI_512, false)
GEMM_WITH(gemm_by_vnni_512_wide, W8_VNNI_512, true)

#define LOOPS_WITH(multiply, ...)                                                                            \
    {                                                                                                        \
        .name = "AVX2", .quantized_activations = true, .rms_norm = rms_norm, .layer_norm = layer_norm,       \
        .quantize = quantize, .quantize_fixed = avx2_fixed_quantize, .fill_fixed = avx2_fixed_fill,          \
        .quantize_w8 = avx2_quantize_w8, .xielu = xielu, .recur = recur, .to_half = to_half,                 \
        .gemm = (multiply), .gemm_scratch = avx2_gemm_scratch, .attend_scratch = avx2_attend_scratch,        \
        __VA_ARGS__                                                                                          \
    }
#define NARROW(multiply) LOOPS_WITH(multiply, .activate = activate, .attend_rows = 96, .attend = avx2_attend)
#define WIDE(multiply)                                                                                       \
    LOOPS_WITH(multiply, .activate = activate_wide, .attend_rows = 96, .attend = avx2_attend_wide)

const Loops *loops_avx2(void) {
    static const Loops LOOPS[][2] = {
        [W8_PAIRS] = {NARROW(gemm_by_pairs), WIDE(gemm_by_pairs_wide)},
        [W8_VNNI] = {NARROW(gemm_by_vnni), WIDE(gemm_by_vnni_wide)},
        [W8_VNNI_512] = {NARROW(gemm_by_vnni_512), WIDE(gemm_by_vnni_512_wide)},
    };
    W8Dot dot = avx2_has_w8(W8_VNNI_512) && avx512_has_blocks() ? W8_VNNI_512
                : avx2_has_w8(W8_VNNI)                          ? W8_VNNI
                                                                : W8_PAIRS;
    return &LOOPS[dot][avx512_has_float()];
}

#else

const Loops *loops_avx2(void) {
    return NULL;
}

#endif
