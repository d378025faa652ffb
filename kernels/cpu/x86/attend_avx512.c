// Steps of attend_avx2.c in registers of 512 bits, for many rows over float32 keys and values, to the same bits.
//
// A score is eight interleaved sums over dimensions: a register has those of two keys side by side, and a query's eight
// numbers twice, as in float_avx512.c; where keys were turned, one sum of sixteen keys (attend_turned.h). Weighted values
// are added index after index, for each dimension by itself: a register has sixteen of these. Four registers by six rows
// keep 24 sums in 32 registers, two of turned keys by six rows twelve.
#include "kernels/cpu/x86/attend_work.h"
#include "kernels/cpu/x86/simd_avx512.h"

#ifdef __AVX512F__

#define KEYS 8    // of a step of scores
#define VECTORS 4 // of eight keys; of values

// ---- scores -------------------------------------------------------------------------------------------

// weights = q·k of WIDE_ROWS rows and the KEYS keys from s on.
INLINE void score_keys(const Work *w, const float *q, int row, int s) {
    __m512 acc[WIDE_ROWS][VECTORS];
    const float *keys[KEYS]; // beyond the last: that one again, masked
    for (int j = 0; j < KEYS; j++)
        keys[j] =
            (const float *)(const void *)(w->k + (s + j < w->n_slots ? s + j : w->n_slots - 1) * w->stride);
    for (int r = 0; r < WIDE_ROWS; r++)
        for (int i = 0; i < VECTORS; i++) acc[r][i] = _mm512_setzero_ps();
    for (int d = 0; d < w->width; d += 8) {
        __m512 k[VECTORS];
        for (int i = 0; i < VECTORS; i++)
            k[i] = both_halves(_mm256_loadu_ps(keys[i] + d), _mm256_loadu_ps(keys[i + VECTORS] + d));
        for (int r = 0; r < WIDE_ROWS; r++) {
            const __m512 x = twice(_mm256_loadu_ps(q + (int64_t)r * w->width + d));
            for (int i = 0; i < VECTORS; i++) acc[r][i] = _mm512_fmadd_ps(x, k[i], acc[r][i]);
        }
    }
    for (int r = 0; r < WIDE_ROWS; r++)
        _mm256_storeu_ps(w->weights + (int64_t)(row + r) * BLOCK + s, sum_rows(acc[r]));
}

// The registers of attend_turned.h.
#define LANES 16
#define TURNED_ROWS WIDE_ROWS
typedef __m512 Lanes;
#define lanes_zero _mm512_setzero_ps
#define lanes_set _mm512_set1_ps
#define lanes_load _mm512_loadu_ps
#define lanes_store _mm512_storeu_ps
#define lanes_fma _mm512_fmadd_ps
#define lanes_add _mm512_add_ps
#include "kernels/cpu/x86/attend_turned.h"

// The last rows go together with some before them once more.
void avx512_score_block(const Work *w) {
    if (w->turned) {
        score_turned(w);
        return;
    }
    const float *q = w->is_sink ? w->sinks : w->q;
    for (int done = 0; done < w->n_rows; done += WIDE_ROWS) {
        const int row = done + WIDE_ROWS <= w->n_rows ? done : w->n_rows - WIDE_ROWS;
        for (int s = 0; s < w->n_slots; s += KEYS)
            if (rows_see(w->visible + row, WIDE_ROWS, s, KEYS))
                score_keys(w, q + (int64_t)row * w->width, row, s);
    }
}

// ---- weights ------------------------------------------------------------------------------------------

// `vectors` have all that the row sees.
INLINE void weigh_vectors(Work *w, int row, int vectors) {
    float *weights = w->weights + (int64_t)row * BLOCK;
    const __m512 lowest = _mm512_set1_ps(-INFINITY);
    __m512 scores[BLOCK / 16];
    __m256 m = _mm512_castps512_ps256(lowest), total = _mm256_setzero_ps();
    for (int i = 0; i < vectors; i++) {
        scores[i] = _mm512_mask_mov_ps(lowest, (__mmask16)(w->visible[row] >> 16 * i),
                                       _mm512_loadu_ps(weights + 16 * i));
        m = _mm256_max_ps(_mm256_max_ps(m, _mm512_castps512_ps256(scores[i])), high_half(scores[i]));
    }
    float before = largest_before(w, row), largest = fmaxf(before, max_lanes(m));
    for (int i = 0; i < vectors; i++) {
        const __m512 weight = exp_both_falling(_mm512_sub_ps(scores[i], _mm512_set1_ps(largest)));
        _mm512_storeu_ps(weights + 16 * i, weight);
        total = _mm256_add_ps(_mm256_add_ps(total, _mm512_castps512_ps256(weight)), high_half(weight));
    }
    settle_row(w, row, before, largest, sum_lanes(total));
}

void avx512_weigh_row(Work *w, int row) {
    const int vectors = (BLOCK - __builtin_clzll(w->visible[row]) + 15) / 16; // it sees something
    if (vectors == BLOCK / 16)
        weigh_vectors(w, row, BLOCK / 16); // with scores in registers
    else
        weigh_vectors(w, row, vectors);
}

// ---- values -------------------------------------------------------------------------------------------

// Rows of a tile, and of a block's indexes those from first_slot to end_slot, of which a row adds what `visible` has.
typedef struct Range {
    int row, first_slot, end_slot;
    uint64_t visible;
} Range;

// sums += weights·values for n rows and `vectors` times sixteen dimensions from d on.
INLINE void add_values(const Work *w, Range range, int n, int d, int vectors) {
    __m512 acc[WIDE_ROWS][VECTORS];
    float *sums = w->sums + (int64_t)range.row * w->width + d;
    const float *weight = w->weights + (int64_t)range.row * BLOCK;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) acc[r][i] = _mm512_loadu_ps(sums + (int64_t)r * w->width + 16 * i);
    for (int s = range.first_slot; s < range.end_slot; s++) {
        if (!(range.visible >> s & 1)) continue;
        const float *value = (const float *)(const void *)(w->v + s * w->stride) + d;
        __m512 v[VECTORS];
        for (int i = 0; i < vectors; i++) v[i] = _mm512_loadu_ps(value + 16 * i);
        for (int r = 0; r < n; r++) {
            const __m512 by = _mm512_set1_ps(weight[(int64_t)r * BLOCK + s]);
            for (int i = 0; i < vectors; i++) acc[r][i] = _mm512_fmadd_ps(by, v[i], acc[r][i]);
        }
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) _mm512_storeu_ps(sums + (int64_t)r * w->width + 16 * i, acc[r][i]);
}

INLINE void add_range(const Work *w, Range range, int n) {
    int d = 0;
    for (; d + 16 * VECTORS <= w->width; d += 16 * VECTORS) add_values(w, range, n, d, VECTORS);
    for (; d < w->width; d += 16) add_values(w, range, n, d, 1);
}

// How many of the block's first indexes a row sees without a gap.
static int seen_from_the_first(uint64_t visible) {
    return visible == ~UINT64_C(0) ? BLOCK : __builtin_ctzll(~visible);
}

// The indexes that all six rows see from the block's first one on are added to them together, the rest row by row.
void avx512_add_block(const Work *w) {
    int row = 0;
    for (; row + WIDE_ROWS <= w->n_rows; row += WIDE_ROWS) {
        uint64_t all = ~UINT64_C(0);
        for (int r = 0; r < WIDE_ROWS; r++) all &= w->visible[row + r];
        const int together = seen_from_the_first(all);
        if (together > 0) add_range(w, (Range){row, 0, together, ~UINT64_C(0)}, WIDE_ROWS);
        for (int r = row; r < row + WIDE_ROWS; r++)
            if (together < BLOCK && w->visible[r] >> together)
                add_range(w, (Range){r, together, w->n_slots, w->visible[r]}, 1);
    }
    for (; row < w->n_rows; row++)
        if (w->visible[row]) add_range(w, (Range){row, 0, w->n_slots, w->visible[row]}, 1);
}

#else

// Never called: avx512_has_float() is false then.
void avx512_score_block(const Work *w) {
    (void)w;
}
void avx512_add_block(const Work *w) {
    (void)w;
}
void avx512_weigh_row(Work *w, int row) {
    (void)w, (void)row;
}

#endif
