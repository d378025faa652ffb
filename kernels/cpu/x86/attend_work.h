// What attention of a tile works with, block after block.
#ifndef PALAVER_KERNELS_CPU_X86_ATTEND_WORK_H
#define PALAVER_KERNELS_CPU_X86_ATTEND_WORK_H

#include "kernels/cpu/x86/simd_avx2.h"

#include <math.h>

#define BLOCK ATTEND_SPLIT // indexes, wherever their slots lie

typedef struct Work {
    const AttendTile *tile;
    int n_rows, width; // width: head_dim rounded up to 8; the rest is zero
    float *q,
        *sinks;  // [n_rows, width] queries; sinks: those for the attention sinks, where tokens were evicted
    float *sums; // [n_rows, width] the weighted values so far
    float *weights;           // [n_rows, BLOCK] scores, then weights
    float *largest;           // [n_rows] the largest score so far, or what weights are relative to instead
    float *total;             // [n_rows] the weights' sum so far
    uint64_t *visible;        // [n_rows] bit s: the row sees index s of the block
    float *copies;            // [2, BLOCK, width]
    float *turned;            // the block's keys, see below, in the place of their copies; NULL: as they lie
    float *scales;            // [2, BLOCK, n_groups] of keys and of values, where they are read as they are
    int64_t n_parts, n_again; // see SoftmaxCounts
    bool many;                // enough rows to read float32 copies of keys and values
    bool wide;                // by attend_avx512.c, where keys and values are float32
    // The current block: index s has its key at k + s*stride bytes.
    int first, n_slots;
    bool is_sink; // it holds attention sinks: indexes below n_sinks
    bool copied, contiguous;
    const int32_t *positions; // [BLOCK] that the indexes hold, -1 beyond n_slots
    int32_t gathered[BLOCK];  // where they are, unless in the cache's own table
    int32_t slots[BLOCK];     // where the indexes lie; only the first counts where contiguous
    const char *k, *v;
    int64_t stride;
    DType type;
    int n_groups; // of a row that is read with scales
} Work;

// Keys that are turned: thirty-two side by side, of which eight interleaved sums over dimensions are made one after the
// other: [BLOCK/TURNED_KEYS][dimensions % TURNED_SUMS][dimensions / TURNED_SUMS][TURNED_KEYS].
enum { TURNED_KEYS = 32, TURNED_SUMS = 8 };

// What a row sees when it sees the whole block.
static inline uint64_t everything(const Work *w) {
    return w->n_slots == BLOCK ? ~UINT64_C(0) : (UINT64_C(1) << w->n_slots) - 1;
}

// Whether any of n_rows rows sees any of the n_keys indexes from s on: of a prompt's triangle half a block nobody does.
static inline bool rows_see(const uint64_t *visible, int n_rows, int s, int n_keys) {
    uint64_t seen = 0;
    for (int r = 0; r < n_rows; r++) seen |= visible[r];
    return seen >> s & ((UINT64_C(1) << n_keys) - 1);
}

#ifdef __AVX2__
// The largest score of a row's blocks before. A base that nothing was summed with yet is nobody's.
INLINE float largest_before(const Work *w, int row) {
    return w->total[row] == 0 ? -INFINITY : w->largest[row];
}

// Takes a block's weights, relative to `largest` of it and of all before, into a row's total, and scales what the row has
// to that.
INLINE void settle_row(Work *w, int row, float before, float largest, float total) {
    float *sums = w->sums + (int64_t)row * w->width;
    w->largest[row] = largest;
    if (largest == before) {
        w->total[row] += total;
        return;
    }
    const float shrink =
        before == -INFINITY ? 0 : _mm256_cvtss_f32(exp_lanes(_mm256_set1_ps(before - largest)));
    w->total[row] = w->total[row] * shrink + total;
    for (int d = 0; d < w->width; d += 8)
        _mm256_storeu_ps(sums + d, _mm256_mul_ps(_mm256_loadu_ps(sums + d), _mm256_set1_ps(shrink)));
}
#endif

// ---- attend_avx512.c: the same steps in registers of 512 bits, to the same bits ------------------------------------

enum {
    WIDE_ROWS = 6,    // at least so many rows
    WIDE_FLOATS = 16, // of so many floats, or multiples
};

// weights = q·k, sums += weights·values, for all rows; keys and values are float32.
void avx512_score_block(const Work *work);
void avx512_add_block(const Work *work);
// Turns a row's scores into weights relative to running maxima.
void avx512_weigh_row(Work *work, int row);

#endif
