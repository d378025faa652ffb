// Products of DTYPE_W8 with activations of its kind (kernels/w8.h): exact sums in 32 bits over a whole row, then the
// two scales.
//
// As in gemm_avx2.c eight rows of W are computed together, a lane each: for a few rows of activations straight from
// memory, for more from a panel, which holds columns 4j … 4j+3 of the eight rows at j. Sums are integers, so that every
// way of adding them up gives the same bits.
//
// Four products of bytes and their sum are one instruction where the processor has AVX-VNNI or AVX512-VNNI. It wants
// one side unsigned: that is w + 128, and 128 times the sum of the activations is taken off in the end. Elsewhere
// products of |w| and ±x are added in pairs, which fit in 16 bits because neither goes beyond 127.
#include "kernels/cpu/x86/rows_avx2.h"

#ifdef __AVX2__
#include <cpuid.h>
#include <math.h>

#define TOKENS 8 // rows of activations that pass over a panel together
#define FOR_A_PANEL                                                                                          \
    4 // fewer pass over the eight rows one after the other, which are in the nearest cache by then

// By cpuid, since not every compiler's own check knows AVX-VNNI: bit 4 of eax in leaf 7, subleaf 1. Its registers are
// those of AVX2, which the caller has found.
static bool has_avx_vnni(void) {
    unsigned subleaves, a, b, c, d;
    return __get_cpuid_count(7, 0, &subleaves, &b, &c, &d) && subleaves >= 1 &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

bool avx2_has_w8(W8Dot dot) {
    switch (dot) {
    case W8_VNNI:
        return has_avx_vnni();
    case W8_VNNI_512:
        return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
    case W8_PAIRS:
        break;
    }
    return true;
}

// w in the form that dot() wants: stored once where it is used often.
INLINE __m256i prepared(W8Dot dot, __m256i w) {
    return dot == W8_PAIRS ? w : _mm256_xor_si256(w, _mm256_set1_epi8(-128));
}

// acc + the four products of each lane.
INLINE __m256i dot_products(W8Dot dot, __m256i acc, __m256i w, __m256i x) {
    if (dot != W8_PAIRS) return vnni_products(dot, acc, w, x);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pair_products(true, w, x), _mm256_set1_epi16(1)));
}

// What the form of w added to every sum: modulo 2^32, as the sums are.
INLINE __m256i surplus(W8Dot dot, const Activations *x, int64_t token) {
    const uint32_t sum = dot == W8_PAIRS ? 0 : 128 * (uint32_t)x->w8_scale[token].sum;
    return _mm256_set1_epi32((int32_t)sum);
}

// Eight rows, and where their scales are.
typedef struct Rows {
    const uint8_t *row[ROWS]; // beyond the last: that one again, not stored
    int64_t first, vectors;
    int n;
    __m256 scale;
} Rows;

INLINE Rows find_rows(const Gemm *p, int64_t first) {
    const int64_t row_bytes = dtype_row_bytes(DTYPE_W8, p->w->cols), at = w8_scale_offset(p->w->cols);
    Rows rows = {.first = first, .vectors = w8_stride(p->w->cols) / 32};
    float scales[ROWS];
    rows.n = p->end - first < ROWS ? (int)(p->end - first) : ROWS;
    for (int r = 0; r < ROWS; r++) {
        rows.row[r] = (const uint8_t *)p->w->data + (first + (r < rows.n ? r : rows.n - 1)) * row_bytes;
        memcpy(&scales[r], rows.row[r] + at, sizeof *scales);
    }
    rows.scale = _mm256_loadu_ps(scales);
    return rows;
}

// w8_result() of eight rows, stored.
INLINE void finish(W8Dot dot, const Gemm *p, const Rows *rows, int64_t token, __m256i acc) {
    __m256 sums = _mm256_cvtepi32_ps(_mm256_sub_epi32(acc, surplus(dot, p->x, token)));
    __m256 scaled = _mm256_mul_ps(sums, _mm256_set1_ps(p->x->w8_scale[token].scale));
    store_rows(p, token, rows->first, rows->n, _mm256_mul_ps(scaled, rows->scale));
}

// ---- few rows of activations --------------------------------------------------------------------------

// Rows are whole vectors with what stands behind them: the last may hold the row's scale, and meets zeros.
INLINE void rows_times_one(W8Dot dot, const Gemm *p, const Rows *rows, int64_t token) {
    const uint8_t *x = (const uint8_t *)p->x->w8 + token * w8_stride(p->x->cols);
    const int64_t ahead = ROWS * (rows->row[1] - rows->row[0]);
    __m256i acc[ROWS];
    for (int r = 0; r < ROWS; r++) acc[r] = _mm256_setzero_si256();
    for (int64_t i = 0; i < rows->vectors; i++) {
        __m256i v = load32(x + 32 * i);
        for (int r = 0; r < ROWS; r++) {
            if (i % 2 == 0) _mm_prefetch((const char *)rows->row[r] + ahead + 32 * i, _MM_HINT_T0);
            acc[r] = dot_products(dot, acc[r], prepared(dot, load32(rows->row[r] + 32 * i)), v);
        }
    }
    HalfSums sums = transposing_sums(acc);
    finish(dot, p, rows, token, _mm256_add_epi32(sums.a, sums.b));
}

// ---- a panel, and several rows of activations ---------------------------------------------------------

INLINE void fill_panel(W8Dot dot, const Rows *rows, __m256i *panel) {
    const int64_t ahead = ROWS * (rows->row[1] - rows->row[0]);
    for (int64_t i = 0; i < rows->vectors; i++, panel += ROWS) {
        for (int r = 0; r < ROWS; r++) {
            if (i % 2 == 0) _mm_prefetch((const char *)rows->row[r] + ahead + 32 * i, _MM_HINT_T0);
            panel[r] = prepared(dot, load32(rows->row[r] + 32 * i));
        }
        transpose(panel);
    }
}

// n tokens from `token` on, of which those from `end` on are the last one again, not stored.
INLINE void panel_times(W8Dot dot, int n, const Gemm *p, const Rows *rows, const __m256i *panel,
                        int64_t token, int64_t end) {
    const int64_t stride = w8_stride(p->x->cols);
    const int8_t *x[TOKENS];
    __m256i acc[TOKENS];
    for (int t = 0; t < n; t++) {
        x[t] = p->x->w8 + (token + t < end ? token + t : end - 1) * stride;
        acc[t] = _mm256_setzero_si256();
    }
    for (int64_t j = 0; j < ROWS * rows->vectors; j++)
        for (int t = 0; t < n; t++) acc[t] = dot_products(dot, acc[t], panel[j], broadcast4(x[t] + 4 * j));
    for (int t = 0; t < n && token + t < end; t++) finish(dot, p, rows, token + t, acc[t]);
}

// ---- rows of a matrix ---------------------------------------------------------------------------------

INLINE void gemm(W8Dot dot, const Gemm *p, int64_t token, int64_t end, __m256i *panel) {
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        const Rows rows = find_rows(p, first);
        int64_t t = token;
        if (end - token >= FOR_A_PANEL) {
            fill_panel(dot, &rows, panel);
            for (; end - t > TOKENS / 2; t += TOKENS) panel_times(dot, TOKENS, p, &rows, panel, t, end);
            if (t < end) panel_times(dot, TOKENS / 2, p, &rows, panel, t, end);
        } else {
            for (; t < end; t++) rows_times_one(dot, p, &rows, t);
        }
    }
}

void avx2_gemm_w8(W8Dot dot, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    switch (dot) {
    case W8_VNNI:
        gemm(W8_VNNI, p, token, end, scratch);
        break;
    case W8_VNNI_512:
        gemm(W8_VNNI_512, p, token, end, scratch);
        break;
    case W8_PAIRS:
        gemm(W8_PAIRS, p, token, end, scratch);
        break;
    }
}

// ---- activations --------------------------------------------------------------------------------------

INLINE __m256 magnitudes(__m256 v) {
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

// Eight elements as integers in 32 bits.
INLINE __m256i quantized(const float *x, __m256 scale) {
    const __m256 most = _mm256_set1_ps(W8_LARGEST), least = _mm256_set1_ps(-W8_LARGEST);
    __m256 q = _mm256_div_ps(_mm256_loadu_ps(x), scale);
    return _mm256_cvtps_epi32(_mm256_max_ps(least, _mm256_min_ps(most, q)));
}

W8Scale avx2_quantize_w8(const float *x, int64_t n, int8_t *q) {
    // Magnitudes compare like their bits, where NaN is above infinity.
    __m256i most = _mm256_setzero_si256();
    uint32_t largest = 0, bits;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        most = _mm256_max_epi32(most, _mm256_castps_si256(magnitudes(_mm256_loadu_ps(x + i))));
    uint32_t lanes[8];
    _mm256_storeu_si256((__m256i *)lanes, most);
    for (int l = 0; l < 8; l++) largest = lanes[l] > largest ? lanes[l] : largest;
    for (; i < n; i++) {
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    float absmax;
    memcpy(&absmax, &largest, sizeof absmax);
    W8Scale row = {.scale = w8_scale(absmax)};
    memset(q, 0, (size_t)w8_stride(n));
    if (!(row.scale > 0)) return row;
    const __m256 scale = _mm256_set1_ps(row.scale);
    __m256i sums = _mm256_setzero_si256();
    for (i = 0; i + 8 <= n; i += 8) {
        __m256i v = quantized(x + i, scale);
        __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        sums = _mm256_add_epi32(sums, v);
        _mm_storel_epi64((__m128i *)(q + i), _mm_packs_epi16(words, words));
    }
    _mm256_storeu_si256((__m256i *)lanes, sums);
    for (int l = 0; l < 8; l++) row.sum += (int32_t)lanes[l];
    for (; i < n; i++) {
        q[i] = w8_quantize(x[i], row.scale);
        row.sum += q[i];
    }
    return row;
}

#endif
