// GEMMs of float32, float16, bfloat16, e4m3 and nf4 weights with float activations.
//
// 16-bit floats come here where they are to be exact (see fixed.h for the others).
//
// Lanes are columns: a dot product is eight interleaved sums, added at the end. Tiles of four rows by up to
// three activations keep twelve of them in registers; the order of additions is the same in every tile.
#include "kernels/cpu/x86/weights_avx2.h"

#ifdef __AVX2__

#define ROWS 4
#define TOKENS 3
#define BYTES_AHEAD 3072
#define UNPACK_FROM 4 // so many rows of activations are worth converting the weights into scratch first

// acc[r] += of two rows the products with one row of activations. Memory is read almost in its order, and asked for so far
// ahead that it has come when it is wanted: four rows at a time, of which each is shorter than what a processor's
// prefetcher needs to find a stream, come a fifth to a quarter slower.
INLINE void two_rows(DType type, const uint8_t *const rows[2], const float *x, int64_t cols, __m256 acc[2]) {
    const int64_t size = weight_bytes(type);
    const char *ahead = (const char *)rows[0] + BYTES_AHEAD;
    int64_t i = 0;
    acc[0] = acc[1] = _mm256_setzero_ps();
    for (; i + 8 <= cols; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        _mm_prefetch(ahead + i * 2 * size, _MM_HINT_T0);
        for (int r = 0; r < 2; r++) acc[r] = _mm256_fmadd_ps(load_weights(type, rows[r], i), v, acc[r]);
    }
    if (i == cols) return;
    const __m256 v = load_rest(DTYPE_F32, (const uint8_t *)x, i, cols - i);
    for (int r = 0; r < 2; r++) acc[r] = _mm256_fmadd_ps(load_rest(type, rows[r], i, cols - i), v, acc[r]);
}

// Four rows times one row of activations.
INLINE __m128 dots_of_one(DType type, const uint8_t *const rows[ROWS], const float *x, int64_t cols) {
    __m256 acc[ROWS];
    for (int r = 0; r < ROWS; r += 2) two_rows(type, rows + r, x, cols, acc + r);
    return sum_lanes4(acc[0], acc[1], acc[2], acc[3]);
}

// sums[t] = four rows times each of TOKENS activations.
INLINE void dots(DType type, const uint8_t *const rows[ROWS], const float *x, int64_t cols,
                 __m128 sums[TOKENS]) {
    __m256 acc[TOKENS][ROWS];
    for (int t = 0; t < TOKENS; t++)
        for (int r = 0; r < ROWS; r++) acc[t][r] = _mm256_setzero_ps();
    int64_t i = 0;
    for (; i + 8 <= cols; i += 8) {
        __m256 w[ROWS];
        for (int r = 0; r < ROWS; r++) w[r] = load_weights(type, rows[r], i);
        for (int t = 0; t < TOKENS; t++) {
            __m256 v = _mm256_loadu_ps(x + t * cols + i);
            for (int r = 0; r < ROWS; r++) acc[t][r] = _mm256_fmadd_ps(w[r], v, acc[t][r]);
        }
    }
    if (i < cols)
        for (int t = 0; t < TOKENS; t++)
            for (int r = 0; r < ROWS; r++)
                acc[t][r] = _mm256_fmadd_ps(
                    load_rest(type, rows[r], i, cols - i),
                    load_rest(DTYPE_F32, (const uint8_t *)(x + t * cols), i, cols - i), acc[t][r]);
    for (int t = 0; t < TOKENS; t++) sums[t] = sum_lanes4(acc[t][0], acc[t][1], acc[t][2], acc[t][3]);
}

// Four rows of W, of which n_rows from `first` on are stored.
typedef struct FourRows {
    const uint8_t *rows[ROWS]; // beyond the last: that one again
    int64_t first;
    int n_rows;
} FourRows;

INLINE void four_rows(DType type, const Gemm *p, const FourRows *w, int64_t token, int64_t end_token) {
    const uint8_t *const *rows = w->rows;
    const int64_t first = w->first;
    const int n_rows = w->n_rows;
    while (token < end_token) {
        __m128 sums[TOKENS];
        int64_t left = end_token - token, cols = p->x->cols;
        const float *x = gemm_input(p) + token * cols;
        int n = left >= TOKENS ? TOKENS : 1;
        if (n == TOKENS)
            dots(type, rows, x, cols, sums);
        else
            sums[0] = dots_of_one(type, rows, x, cols);
        for (int t = 0; t < n; t++) {
            float values[ROWS], *y = gemm_row(p, token + t) + first;
            _mm_storeu_ps(values, sums[t]);
            for (int r = 0; r < n_rows; r++) y[r] = p->add ? y[r] + values[r] : values[r];
        }
        token += n;
    }
}

// Converts rows of other types once for all activations.
INLINE void unpack_rows(DType type, const uint8_t *rows[ROWS], int64_t cols, float *scratch) {
    int64_t padded = (cols + 7) / 8 * 8;
    for (int r = 0; r < ROWS; r++) {
        float *row = scratch + r * padded;
        int64_t i = 0;
        for (; i + 8 <= cols; i += 8) _mm256_storeu_ps(row + i, load_weights(type, rows[r], i));
        if (i < cols) _mm256_storeu_ps(row + i, load_rest(type, rows[r], i, cols - i));
        rows[r] = (const uint8_t *)row;
    }
}

INLINE void gemm_float(DType type, const Gemm *p, int64_t token, int64_t end_token, float *scratch) {
    const uint8_t *data = p->w->data;
    int64_t cols = p->w->cols, row_bytes = dtype_row_bytes(type, cols);
    for (int64_t first = p->first; first < p->end; first += ROWS) {
        FourRows w = {.first = first, .n_rows = p->end - first < ROWS ? (int)(p->end - first) : ROWS};
        for (int r = 0; r < ROWS; r++)
            w.rows[r] = data + (first + (r < w.n_rows ? r : w.n_rows - 1)) * row_bytes;
        if (type != DTYPE_F32 && end_token - token >= UNPACK_FROM) {
            unpack_rows(type, w.rows, cols, scratch);
            four_rows(DTYPE_F32, p, &w, token, end_token);
        } else {
            four_rows(type, p, &w, token, end_token);
        }
    }
}

void avx2_gemm_float(const Gemm *p, int64_t first_token, int64_t end_token, float *scratch) {
    switch (p->w->type) {
    case DTYPE_F16:
        gemm_float(DTYPE_F16, p, first_token, end_token, scratch);
        break;
    case DTYPE_BF16:
        gemm_float(DTYPE_BF16, p, first_token, end_token, scratch);
        break;
    case DTYPE_E4M3:
        gemm_float(DTYPE_E4M3, p, first_token, end_token, scratch);
        break;
    case DTYPE_NF4:
        gemm_float(DTYPE_NF4, p, first_token, end_token, scratch);
        break;
    default:
        gemm_float(DTYPE_F32, p, first_token, end_token, scratch);
    }
}

#endif
