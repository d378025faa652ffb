// Linear layers in integers of 16 bits (fixed.h) with AVX2: activations, panels of weights, and products.
//
// Eight rows of a panel are a register, a lane each, of which every lane has two columns: two activations, broadcast,
// meet all of them. Where the processor has AVX-VNNI or AVX512-VNNI, two products and their sum are one instruction.
#include "kernels/cpu/loops/fixed.h"
#include "kernels/cpu/x86/rows_avx2.h"
#include "kernels/cpu/x86/weights_avx2.h"

#ifdef __AVX2__

#define TOKENS 4 // rows of activations that pass over a panel together
#define BYTES_AHEAD 2048

// ---- numbers to integers --------------------------------------------------------------------------------

enum { VECTORS = FIXED_GROUP / 8 };

// to [FIXED_GROUP] = x·by, rounded to the nearest, even ones at ties.
INLINE void round_group(const __m256 x[VECTORS], float by, int16_t *to) {
    const __m256 factor = _mm256_set1_ps(by);
    __m256i q[VECTORS];
    for (int i = 0; i < VECTORS; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(x[i], factor));
    for (int i = 0; i < VECTORS; i += 2)
        _mm256_storeu_si256((__m256i *)(void *)(to + 8 * i),
                            _mm256_permute4x64_epi64(_mm256_packs_epi32(q[i], q[i + 1]), 0xd8));
}

// The scale of a group; 0: all count as zero, NaN: it has what is no finite number.
INLINE float scale_of(const __m256 x[VECTORS]) {
    enum { INFINITE = 0x7f800000 };
    const int32_t bits = largest_bits(x, VECTORS);
    const float largest = float_of_bits(bits), power = fixed_power(largest);
    if (bits >= INFINITE) return NAN;
    if (largest <= QUANT_TINY) return 0;
    __m256 squares[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = 0; i < VECTORS; i++) {
        const __m256 v = _mm256_mul_ps(x[i], _mm256_set1_ps(power));
        squares[i % 2] = _mm256_fmadd_ps(v, v, squares[i % 2]);
    }
    return fixed_scale(largest, sum_lanes(_mm256_add_ps(squares[0], squares[1])), power);
}

// to [FIXED_GROUP] = x·inverse, or zeros, for what is no number times 0 is none.
INLINE void round_some(bool some, const __m256 x[VECTORS], float inverse, int16_t *to) {
    if (some)
        round_group(x, inverse, to);
    else
        memset(to, 0, FIXED_GROUP * sizeof *to);
}

void avx2_fixed_quantize(const float *x, int64_t n, int16_t *q, float *scale) {
    for (int64_t i = 0; i < n; i += FIXED_GROUP, q += FIXED_GROUP, scale++) {
        __m256 v[VECTORS];
        if (n - i < FIXED_GROUP) { // zeros fill the last group: the plain loop knows how
            fixed_quantize(x + i, n - i, q, scale);
            return;
        }
        for (int j = 0; j < VECTORS; j++) v[j] = _mm256_loadu_ps(x + i + 8 * j);
        *scale = scale_of(v);
        round_some(*scale > 0, v, 1 / *scale, q);
    }
}

// ---- panels ---------------------------------------------------------------------------------------------

// A group of a row → q; returns the exponent.
INLINE uint8_t fill_group(DType type, const uint8_t *row, int64_t first, int64_t left, int16_t *q) {
    __m256 v[VECTORS];
    for (int j = 0; j < VECTORS; j++) {
        const int64_t rest = left - 8 * j;
        v[j] = rest >= 8  ? load_weights(type, row, first + 8 * j)
               : rest > 0 ? load_rest(type, row, first + 8 * j, rest)
                          : _mm256_setzero_ps();
    }
    const float scale = scale_of(v);
    const uint8_t exponent = scale > 0 ? fixed_exponent(scale) : scale == 0 ? 0 : FIXED_NO_NUMBER;
    round_some(scale > 0, v, fixed_inverse(exponent), q);
    return exponent;
}

// Pairs of sixteen rows: from one row's beside each other to all rows' of a pair beside each other.
INLINE void turn_pairs(const int16_t q[FIXED_ROWS][FIXED_GROUP], int16_t *to) {
    for (int rows = 0; rows < 2; rows++)
        for (int first = 0; first < FIXED_GROUP / 2; first += 8) {
            __m256i v[ROWS];
            for (int r = 0; r < ROWS; r++) v[r] = load32((const uint8_t *)(q[rows * ROWS + r] + 2 * first));
            transpose(v);
            for (int j = 0; j < ROWS; j++)
                _mm256_store_si256((__m256i *)(void *)(to + ((first + j) * FIXED_ROWS + rows * ROWS) * 2),
                                   v[j]);
        }
}

INLINE void fill_of(DType type, const Matrix *w, int64_t number, void *panel) {
    const int64_t cols = w->cols, row_bytes = dtype_row_bytes(type, cols), first_row = number * FIXED_ROWS;
    const uint8_t *data = (const uint8_t *)w->data + first_row * row_bytes;
    const int n_rows = w->rows - first_row < FIXED_ROWS ? (int)(w->rows - first_row) : FIXED_ROWS;
    uint8_t *exponents = (uint8_t *)panel + fixed_exponents(cols);
    int16_t q[FIXED_ROWS][FIXED_GROUP] = {{0}};
    for (int64_t g = 0; g < fixed_groups(cols); g++, exponents += FIXED_ROWS) {
        memset(exponents, 0, FIXED_ROWS);
        for (int r = 0; r < n_rows; r++)
            exponents[r] =
                fill_group(type, data + r * row_bytes, g * FIXED_GROUP, cols - g * FIXED_GROUP, q[r]);
        turn_pairs(q, (int16_t *)panel + g * FIXED_ROWS * FIXED_GROUP);
    }
}

void avx2_fixed_fill(const Matrix *w, int64_t number, void *panel) {
    if (w->type == DTYPE_F16)
        fill_of(DTYPE_F16, w, number, panel);
    else
        fill_of(DTYPE_BF16, w, number, panel);
}

// ---- products -------------------------------------------------------------------------------------------

// acc + the two products of each lane.
INLINE __m256i pair_sums(W8Dot dot, __m256i acc, __m256i w, __m256i x) {
    if (dot == W8_PAIRS) return kept(_mm256_add_epi32(acc, _mm256_madd_epi16(w, x)));
    if (dot == W8_VNNI)
        __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    else
        __asm__("%{evex%} vpdpwssd %2, %1, %0" : "+x"(acc) : "x"(w), "x"(x));
    return acc;
}

typedef struct Panel {
    const int16_t *q;
    const uint8_t *exponents;
    int64_t groups;
} Panel;

// The scales of eight rows.
INLINE __m256 scales_of(const uint8_t *exponents) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)exponents);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23));
}

// y[t] = sixteen rows times the activations of TOKENS tokens.
INLINE void panel_times(W8Dot dot, const Panel *w, const Activations *x, const int64_t tokens[TOKENS],
                        __m256 y[TOKENS][2]) {
    const int16_t *pairs = w->q, *q[TOKENS];
    for (int t = 0; t < TOKENS; t++) {
        q[t] = x->fixed + tokens[t] * w->groups * FIXED_GROUP;
        y[t][0] = y[t][1] = _mm256_setzero_ps();
    }
    for (int64_t g = 0; g < w->groups; g++) {
        __m256i sums[TOKENS][2];
        for (int t = 0; t < TOKENS; t++) sums[t][0] = sums[t][1] = _mm256_setzero_si256();
#pragma GCC unroll 32
        for (int j = 0; j < FIXED_GROUP / 2; j++, pairs += 2 * FIXED_ROWS) {
            const __m256i low = load32((const uint8_t *)pairs),
                          high = load32((const uint8_t *)(pairs + FIXED_ROWS));
            for (int t = 0; t < TOKENS; t++) {
                const __m256i v =
                    _mm256_set1_epi32(load_int((const uint8_t *)(q[t] + g * FIXED_GROUP + 2 * j)));
                sums[t][0] = pair_sums(dot, sums[t][0], low, v);
                sums[t][1] = pair_sums(dot, sums[t][1], high, v);
            }
        }
        for (int half = 0; half < 2; half++) {
            const __m256 scale = scales_of(w->exponents + g * FIXED_ROWS + half * ROWS);
            for (int t = 0; t < TOKENS; t++) {
                const __m256 by = _mm256_broadcast_ss(x->fixed_scale + tokens[t] * w->groups + g);
                y[t][half] =
                    _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[t][half]), _mm256_mul_ps(scale, by), y[t][half]);
            }
        }
    }
}

// The same of one token, which waits for memory: half a group at once is then faster than all of it.
INLINE void panel_times_one(W8Dot dot, const Panel *w, const Activations *x, int64_t token, __m256 y[2]) {
    const int16_t *pairs = w->q, *q = x->fixed + token * w->groups * FIXED_GROUP;
    const float *by = x->fixed_scale + token * w->groups;
    y[0] = y[1] = _mm256_setzero_ps();
    for (int64_t g = 0; g < w->groups; g++, q += FIXED_GROUP) {
        __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 16
        for (int j = 0; j < FIXED_GROUP / 2; j++, pairs += 2 * FIXED_ROWS) {
            const __m256i v = _mm256_set1_epi32(load_int((const uint8_t *)(q + 2 * j)));
            _mm_prefetch((const char *)pairs + BYTES_AHEAD, _MM_HINT_T1);
            sums[0] = pair_sums(dot, sums[0], load32((const uint8_t *)pairs), v);
            sums[1] = pair_sums(dot, sums[1], load32((const uint8_t *)(pairs + FIXED_ROWS)), v);
        }
        for (int half = 0; half < 2; half++) {
            const __m256 scale = scales_of(w->exponents + g * FIXED_ROWS + half * ROWS);
            y[half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[half]),
                                      _mm256_mul_ps(scale, _mm256_broadcast_ss(by + g)), y[half]);
        }
    }
}

// Of the eight rows from `row` on those that are asked for.
INLINE void store_some(const Gemm *p, int64_t token, int64_t row, __m256 y) {
    const int64_t left = p->end - row;
    if (row >= p->first) {
        if (left > 0) store_rows(p, token, row, left < ROWS ? (int)left : ROWS, y);
        return;
    }
    float values[ROWS], *to = gemm_row(p, token) + row;
    _mm256_storeu_ps(values, y);
    for (int64_t r = p->first - row; r < ROWS && r < left; r++)
        to[r] = p->add ? to[r] + values[r] : values[r];
}

INLINE void gemm_fixed(W8Dot dot, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    for (int64_t number = p->first / FIXED_ROWS; number * FIXED_ROWS < p->end; number++) {
        const char *panel = fixed_find(p->w, number);
        if (!panel) avx2_fixed_fill(p->w, number, scratch), panel = scratch;
        const Panel w = {(const int16_t *)(const void *)panel,
                         (const uint8_t *)panel + fixed_exponents(p->w->cols), fixed_groups(p->w->cols)};
        for (int64_t t = token; t < end; t += TOKENS) {
            int64_t tokens[TOKENS]; // beyond the last: that one again, not stored
            __m256 y[TOKENS][2];
            for (int i = 0; i < TOKENS; i++) {
                tokens[i] = t + i < end ? t + i : end - 1;
                // A store to a line that is not there holds up those behind it.
                __builtin_prefetch(gemm_row(p, tokens[i]) + number * FIXED_ROWS, 1);
            }
            if (end - t == 1)
                panel_times_one(dot, &w, p->x, t, y[0]);
            else
                panel_times(dot, &w, p->x, tokens, y);
            for (int i = 0; i < TOKENS && t + i < end; i++)
                for (int half = 0; half < 2; half++)
                    store_some(p, t + i, number * FIXED_ROWS + half * ROWS, y[i][half]);
        }
    }
}

void avx2_gemm_fixed(W8Dot dot, const Gemm *p, int64_t token, int64_t end, void *scratch) {
    switch (dot) {
    case W8_PAIRS:
        gemm_fixed(W8_PAIRS, p, token, end, scratch);
        break;
    case W8_VNNI:
        gemm_fixed(W8_VNNI, p, token, end, scratch);
        break;
    case W8_VNNI_512:
        gemm_fixed(W8_VNNI_512, p, token, end, scratch);
        break;
    }
}

#endif
