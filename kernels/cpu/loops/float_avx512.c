// GEMMs of weights of float_avx2.c's types with several rows of float activations, in registers of 512 bits.
//
// Eight rows of W are converted once into a panel. A vector of it holds eight columns of row r and the same columns of
// row r + 4; it is multiplied with eight activations, loaded twice side by side. Each half is what float_avx2.c has in
// a register of its own: the same eight interleaved sums, added in the same order in the end, so that both give the same
// bits. Four vectors of weights by six rows of activations keep 24 sums in 32 registers:
//
//     panel[0..3]   [ row 0 | row 4 ]  [ row 1 | row 5 ]  [ row 2 | row 6 ]  [ row 3 | row 7 ]
//     times         [ x     | x     ]  for each of six rows of activations, eight columns a step
#include "kernels/cpu/loops/simd_avx512.h"
#include "kernels/cpu/loops/weights_avx2.h"

#ifdef __AVX512F__

#define ROWS 8
#define VECTORS 4 // of eight columns of eight rows
#define TOKENS 6  // rows of activations that pass over a panel together

// Eight rows of W, of which n_rows from `first` on are stored.
typedef struct EightRows {
    const uint8_t *row[ROWS]; // beyond the last: that one again
    int64_t first;
    int n_rows;
} EightRows;

INLINE void fill_panel(DType type, const EightRows *w, int64_t cols, __m512 *panel) {
    const char *next = (const char *)w->row[0] + ROWS * (w->row[1] - w->row[0]);
    const int64_t size = type == DTYPE_F32 ? 4 : type == DTYPE_E4M3 || type == DTYPE_NF4 ? 1 : 2;
    int64_t i = 0;
    for (; i + 8 <= cols; i += 8, panel += VECTORS) {
        for (int64_t at = 0; at < 8 * ROWS * size; at += 64)
            _mm_prefetch(next + i * ROWS * size + at, _MM_HINT_T0);
        for (int r = 0; r < VECTORS; r++)
            panel[r] =
                both_halves(load_weights(type, w->row[r], i), load_weights(type, w->row[r + VECTORS], i));
    }
    for (int r = 0; i < cols && r < VECTORS; r++)
        panel[r] = both_halves(load_rest(type, w->row[r], i, cols - i),
                               load_rest(type, w->row[r + VECTORS], i, cols - i));
}

// How many tokens at a time, and whether columns are no multiple of eight: constants, since sums that no rest is added to
// never leave their registers.
typedef struct Shape {
    int n;
    bool rest;
} Shape;

// sums[t] = the panel's eight rows times each of n activations.
INLINE void panel_times(Shape shape, const __m512 *panel, const float *const x[TOKENS], int64_t cols,
                        __m256 sums[TOKENS]) {
    const int n = shape.n;
    __m512 acc[TOKENS][VECTORS];
    for (int t = 0; t < n; t++)
        for (int r = 0; r < VECTORS; r++) acc[t][r] = _mm512_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= cols; i += 8, panel += VECTORS)
        for (int t = 0; t < n; t++) {
            const __m512 v = twice(_mm256_loadu_ps(x[t] + i));
            for (int r = 0; r < VECTORS; r++) acc[t][r] = _mm512_fmadd_ps(panel[r], v, acc[t][r]);
        }
    for (int t = 0; shape.rest && t < n; t++) {
        const __m512 v = twice(load_rest(DTYPE_F32, (const uint8_t *)x[t], i, cols - i));
        for (int r = 0; r < VECTORS; r++) acc[t][r] = _mm512_fmadd_ps(panel[r], v, acc[t][r]);
    }
    for (int t = 0; t < n; t++) sums[t] = sum_rows(acc[t]);
}

INLINE void store_sums(const Gemm *p, const EightRows *w, int64_t token, __m256 sums) {
    float *y = gemm_row(p, token) + w->first, values[ROWS];
    if (w->n_rows == ROWS) {
        _mm256_storeu_ps(y, p->add ? _mm256_add_ps(_mm256_loadu_ps(y), sums) : sums);
        return;
    }
    _mm256_storeu_ps(values, sums);
    for (int r = 0; r < w->n_rows; r++) y[r] = p->add ? y[r] + values[r] : values[r];
}

// n tokens from `token` on, of which those from `end` on are the last one again, not stored.
INLINE void some_tokens(Shape shape, const Gemm *p, const EightRows *w, const __m512 *panel, int64_t token,
                        int64_t end) {
    const float *x[TOKENS];
    __m256 sums[TOKENS];
    const int n = shape.n;
    for (int t = 0; t < n; t++) x[t] = gemm_input(p) + (token + t < end ? token + t : end - 1) * p->x->cols;
    panel_times(shape, panel, x, p->x->cols, sums);
    for (int t = 0; t < n && token + t < end; t++) store_sums(p, w, token + t, sums[t]);
}

INLINE void all_tokens(bool rest, const Gemm *p, const EightRows *w, const __m512 *panel, int64_t token,
                       int64_t end) {
    for (; end - token > TOKENS / 2; token += TOKENS)
        some_tokens((Shape){TOKENS, rest}, p, w, panel, token, end);
    if (token < end) some_tokens((Shape){TOKENS / 2, rest}, p, w, panel, token, end);
}

INLINE void gemm_float(DType type, const Gemm *p, int64_t token, int64_t end, __m512 *panel) {
    const uint8_t *data = p->w->data;
    const int64_t cols = p->w->cols, row_bytes = dtype_row_bytes(type, cols);
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        EightRows w = {.first = first, .n_rows = p->end - first < ROWS ? (int)(p->end - first) : ROWS};
        for (int r = 0; r < ROWS; r++)
            w.row[r] = data + (first + (r < w.n_rows ? r : w.n_rows - 1)) * row_bytes;
        fill_panel(type, &w, cols, panel);
        if (cols % 8)
            all_tokens(true, p, &w, panel, token, end);
        else
            all_tokens(false, p, &w, panel, token, end);
    }
}

bool avx512_has_float(void) {
    return __builtin_cpu_supports("avx512f");
}

void avx512_gemm_float(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    switch (p->w->type) {
    case DTYPE_F16:
        gemm_float(DTYPE_F16, p, token, end, scratch);
        break;
    case DTYPE_BF16:
        gemm_float(DTYPE_BF16, p, token, end, scratch);
        break;
    case DTYPE_E4M3:
        gemm_float(DTYPE_E4M3, p, token, end, scratch);
        break;
    case DTYPE_NF4:
        gemm_float(DTYPE_NF4, p, token, end, scratch);
        break;
    default:
        gemm_float(DTYPE_F32, p, token, end, scratch);
    }
}

#else

bool avx512_has_float(void) {
    return false;
}

void avx512_gemm_float(const Gemm *p, int64_t token, int64_t end, void *scratch) {
    avx2_gemm_float(p, token, end, scratch);
}

#endif
