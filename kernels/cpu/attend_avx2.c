// Attention of a tile of queries, by blocks of slots with a running softmax (Milakov & Gimelshein,
// arXiv:1805.02867).
//
// A row is one query head of one token. For each block of slots the tile computes all scores, takes each
// row's maximum, turns scores into weights, and adds the weighted values. What a row computes depends on its
// own visible slots only, so a token gives the same result in a tile of many as alone. Values of slots that a
// row does not see are left out, not multiplied by zero: they may be anything.
#include "kernels/cpu/simd_avx2.h"

#ifdef __AVX2__
#include <math.h>
#include <string.h>

#define BLOCK 64 // slots that are weighed together
#define KEYS 4   // KEYS times ROWS dot products keep their sums in registers
#define ROWS 3
#define COPY_ROWS 6 // so many rows still read 16-bit keys and values as they are

typedef struct Work {
    const AttendTile *tile;
    int n_rows, width; // width: head_dim rounded up to 8; the rest is zero
    float *q;          // [n_rows, width] times the scale
    float *sums;       // [n_rows, width] the weighted values so far
    float *weights;    // [n_rows, BLOCK] scores, then weights
    float *largest;    // [n_rows] the largest score so far
    float *total;      // [n_rows] the weights' sum so far
    uint64_t *visible; // [n_rows] bit s: the row sees slot s of the block
    float *copies;     // [2, BLOCK, width]
    bool copy;         // whether rows read float32 copies of keys and values, or the cache itself
    // The current block: slot s has its key at k + s*stride bytes.
    int n_slots;
    const int32_t *positions; // [n_slots]
    const char *k, *v;
    int64_t stride;
    bool half; // elements are float16
} Work;

// What a row sees when it sees the whole block.
static uint64_t everything(const Work *w) {
    return w->n_slots == BLOCK ? ~UINT64_C(0) : (UINT64_C(1) << w->n_slots) - 1;
}

// ---- scratch ------------------------------------------------------------------------------------------

static int padded(int head_dim) {
    return (head_dim + 7) / 8 * 8;
}

int64_t avx2_attend_scratch(int n_rows, int head_dim) {
    int64_t rows = n_rows, width = padded(head_dim);
    return (int64_t)sizeof(float) * (2 * rows * width + rows * BLOCK + 2 * BLOCK * width + 4 * rows);
}

static Work lay_out(const AttendTile *tile, float *scratch) {
    Work w = {.tile = tile, .n_rows = tile->n_tokens * tile->n_heads, .width = padded(tile->head_dim)};
    int64_t rows = w.n_rows, row_floats = rows * w.width;
    w.visible = (uint64_t *)(void *)scratch;
    scratch += 2 * rows; // the 64-bit masks come first, where alignment is right
    w.q = scratch;
    w.sums = w.q + row_floats;
    w.copies = w.sums + row_floats;
    w.weights = w.copies + 2 * BLOCK * w.width;
    w.largest = w.weights + rows * BLOCK;
    w.total = w.largest + rows;
    // Odd heads need the copy's padding.
    w.copy = w.width != tile->head_dim || (tile->kv->type == DTYPE_F16 && w.n_rows > COPY_ROWS);
    return w;
}

static void start_rows(Work *w) {
    const AttendTile *tile = w->tile;
    memset(w->sums, 0, (size_t)w->n_rows * (size_t)w->width * sizeof(float));
    for (int row = 0; row < w->n_rows; row++) {
        const float *q =
            tile->q + row / tile->n_heads * tile->q_stride + (int64_t)(row % tile->n_heads) * tile->head_dim;
        float *copy = w->q + (int64_t)row * w->width;
        for (int d = 0; d < w->width; d++) copy[d] = d < tile->head_dim ? q[d] * tile->scale : 0;
        w->largest[row] = -INFINITY;
        w->total[row] = 0;
    }
}

// ---- a block of slots ---------------------------------------------------------------------------------

// The slots of the block that a query at `position` sees: see slot_visible(). Positions are padded with -1.
static uint64_t visible_slots(const int32_t positions[BLOCK], int32_t position, int window) {
    const __m256i p = _mm256_set1_epi32(position), none = _mm256_set1_epi32(-1);
    const __m256i before = _mm256_set1_epi32(window > 0 && window <= position ? position - window : -1);
    uint64_t visible = 0;
    for (int s = 0; s < BLOCK; s += 8) {
        __m256i slots = _mm256_loadu_si256((const __m256i *)(positions + s));
        __m256i seen = _mm256_andnot_si256(_mm256_cmpgt_epi32(slots, p), _mm256_cmpgt_epi32(slots, before));
        seen = _mm256_and_si256(seen, _mm256_cmpgt_epi32(slots, none));
        visible |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(seen)) << s;
    }
    return visible;
}

// Returns whether any row sees any slot.
static bool find_visible(Work *w) {
    const AttendTile *tile = w->tile;
    int32_t positions[BLOCK];
    uint64_t any = 0;
    for (int s = 0; s < BLOCK; s++) positions[s] = s < w->n_slots ? w->positions[s] : -1;
    for (int t = 0; t < tile->n_tokens; t++) {
        uint64_t visible = visible_slots(positions, tile->positions[t], tile->window);
        for (int h = 0; h < tile->n_heads; h++) w->visible[t * tile->n_heads + h] = visible;
        any |= visible;
    }
    return any != 0;
}

// Copies the block's keys or values [n_slots, head_dim] as float32.
static const char *copy_block(const Work *w, const char *from, int64_t stride, float *to) {
    int head_dim = w->tile->head_dim;
    const char *copy = (const char *)to;
    for (int s = 0; s < w->n_slots; s++, from += stride, to += w->width) {
        int d = 0;
        if (w->tile->kv->type == DTYPE_F16) {
            for (; d + 8 <= head_dim; d += 8) _mm256_storeu_ps(to + d, load_halves(from + 2 * d));
            for (; d < head_dim; d++) to[d] = half_to_float(((const uint16_t *)from)[d]);
        } else {
            memcpy(to, from, (size_t)head_dim * sizeof *to);
            d = head_dim;
        }
        for (; d < w->width; d++) to[d] = 0;
    }
    return copy;
}

// Points the work at the block from first_slot on, or at its copy.
static void find_block(Work *w, int64_t first_slot) {
    const KvLayer *kv = w->tile->kv;
    int64_t size = kv->type == DTYPE_F16 ? 2 : 4,
            start = first_slot * kv->slot_stride + w->tile->kv_head * kv->head_stride;
    w->k = (const char *)kv->k + start * size;
    w->v = (const char *)kv->v + start * size;
    w->stride = kv->slot_stride * size;
    w->half = kv->type == DTYPE_F16;
    if (!w->copy) return;
    w->k = copy_block(w, w->k, w->stride, w->copies);
    w->v = copy_block(w, w->v, w->stride, w->copies + BLOCK * w->width);
    w->stride = w->width * (int64_t)sizeof(float);
    w->half = false;
}

// Eight elements from element d on.
INLINE __m256 load_kv(bool half, const char *row, int d) {
    return half ? load_halves(row + 2 * (int64_t)d) : _mm256_loadu_ps((const float *)row + d);
}

INLINE void prefetch_kv(const char *row, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T0);
}

// weights = q·k of n rows, for all slots, seen or not.
INLINE void score_rows(const Work *w, bool half, int row, int n) {
    const int64_t bytes = w->width * (half ? 2 : 4);
    for (int s = 0; s < w->n_slots; s += KEYS) {
        __m256 acc[ROWS][KEYS];
        const char *keys[KEYS]; // beyond the last: that one again, masked
        for (int j = 0; j < KEYS; j++)
            keys[j] = w->k + (s + j < w->n_slots ? s + j : w->n_slots - 1) * w->stride;
        for (int j = 0; !w->copy && j < KEYS && s + j < w->n_slots; j++)
            prefetch_kv(w->v + (s + j) * w->stride, bytes); // wanted when the scores are there
        for (int r = 0; r < n; r++)
            for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_setzero_ps();
        for (int d = 0; d < w->width; d += 8) {
            __m256 k[KEYS];
            for (int j = 0; j < KEYS; j++) k[j] = load_kv(half, keys[j], d);
            for (int r = 0; r < n; r++) {
                __m256 q = _mm256_loadu_ps(w->q + (int64_t)(row + r) * w->width + d);
                for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_fmadd_ps(q, k[j], acc[r][j]);
            }
        }
        for (int r = 0; r < n; r++) {
            float *weights = w->weights + (int64_t)(row + r) * BLOCK + s;
            _mm_storeu_ps(weights, sum_lanes4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
        }
    }
}

// All bits of the lanes whose bit is set in the low eight of `bits`.
INLINE __m256 lanes_of_bits(uint64_t bits) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits & 255)), bit), bit));
}

// Turns a row's scores into weights exp(score - largest), 0 where it sees nothing, and scales what it has so
// far to the new largest score. The score of an unseen slot may be anything.
static void weigh_row(Work *w, int row) {
    float *weights = w->weights + (int64_t)row * BLOCK, *sums = w->sums + (int64_t)row * w->width;
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 m = lowest, total = _mm256_setzero_ps();
    for (int s = 0; s < BLOCK; s += 8) {
        __m256 scores = _mm256_loadu_ps(weights + s);
        if (w->visible[row] != ~UINT64_C(0)) {
            scores = _mm256_blendv_ps(lowest, scores, lanes_of_bits(w->visible[row] >> s));
            _mm256_storeu_ps(weights + s, scores);
        }
        m = _mm256_max_ps(m, scores);
    }
    float before = w->largest[row], largest = fmaxf(before, max_lanes(m));
    __m256 largests = _mm256_set1_ps(largest);
    for (int s = 0; s < BLOCK; s += 8) {
        __m256 weight = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(weights + s), largests));
        _mm256_storeu_ps(weights + s, weight);
        total = _mm256_add_ps(total, weight);
    }
    w->largest[row] = largest;
    if (largest == before) {
        w->total[row] += sum_lanes(total);
        return;
    }
    float shrink = before == -INFINITY ? 0 : _mm256_cvtss_f32(exp_lanes(_mm256_set1_ps(before - largest)));
    w->total[row] = w->total[row] * shrink + sum_lanes(total);
    for (int d = 0; d < w->width; d += 8)
        _mm256_storeu_ps(sums + d, _mm256_mul_ps(_mm256_loadu_ps(sums + d), _mm256_set1_ps(shrink)));
}

// sums += weights·values for rows [row, row + n) and `vectors` times eight dimensions from d on. If `all`, the
// rows see the whole block; else n is 1, and slots that the row does not see are skipped.
INLINE void add_values(const Work *w, bool half, bool all, int row, int n, int d, int vectors) {
    __m256 acc[ROWS][4], weights[ROWS];
    float *sums = w->sums + (int64_t)row * w->width + d;
    const int64_t ahead = BLOCK * w->stride, bytes = d == 0 && !w->copy ? w->width * (half ? 2 : 4) : 0;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) acc[r][i] = _mm256_loadu_ps(sums + r * w->width + 8 * i);
    for (int s = 0; s < w->n_slots; s++) {
        prefetch_kv(w->k + s * w->stride + ahead, bytes); // the next block's key
        if (!all && !(w->visible[row] >> s & 1)) continue;
        for (int r = 0; r < n; r++)
            weights[r] = _mm256_broadcast_ss(w->weights + (int64_t)(row + r) * BLOCK + s);
        for (int i = 0; i < vectors; i++) {
            __m256 v = load_kv(half, w->v + s * w->stride, d + 8 * i);
            for (int r = 0; r < n; r++) acc[r][i] = _mm256_fmadd_ps(weights[r], v, acc[r][i]);
        }
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) _mm256_storeu_ps(sums + r * w->width + 8 * i, acc[r][i]);
}

INLINE void add_dimensions(const Work *w, bool half, bool all, int row, int n) {
    int d = 0;
    for (; d + 32 <= w->width; d += 32) add_values(w, half, all, row, n, d, 4);
    for (; d < w->width; d += 8) add_values(w, half, all, row, n, d, 1);
}

INLINE void add_rows(const Work *w, bool all, int row, int n) {
    w->half ? add_dimensions(w, true, all, row, n) : add_dimensions(w, false, all, row, n);
}

static void score_block(const Work *w) {
    for (int row = 0; row < w->n_rows;) {
        int n = row + ROWS <= w->n_rows ? ROWS : 1;
        if (n == ROWS)
            w->half ? score_rows(w, true, row, ROWS) : score_rows(w, false, row, ROWS);
        else
            w->half ? score_rows(w, true, row, 1) : score_rows(w, false, row, 1);
        row += n;
    }
}

// Rows that see the whole block go three at a time.
static void add_block(const Work *w) {
    for (int row = 0; row < w->n_rows;) {
        int full = 0;
        while (full < ROWS && row + full < w->n_rows && w->visible[row + full] == everything(w)) full++;
        if (full == ROWS)
            add_rows(w, true, row, ROWS);
        else if (full > 0)
            add_rows(w, true, row, 1);
        else if (w->visible[row] != 0)
            add_rows(w, false, row, 1);
        row += full == ROWS ? ROWS : 1;
    }
}

static void attend_block(Work *w, int64_t first_slot) {
    if (!find_visible(w)) return;
    find_block(w, first_slot);
    score_block(w);
    for (int row = 0; row < w->n_rows; row++)
        if (w->visible[row] != 0) weigh_row(w, row);
    add_block(w);
}

void avx2_attend(const AttendTile *tile, void *scratch) {
    Work w = lay_out(tile, scratch);
    start_rows(&w);
    for (int s = 0; s < tile->n_slots; s += BLOCK) {
        w.n_slots = tile->n_slots - s < BLOCK ? tile->n_slots - s : BLOCK;
        w.positions = tile->slot_positions + tile->first_slot + s;
        attend_block(&w, tile->first_slot + s);
    }
    for (int row = 0; row < w.n_rows; row++) {
        float *y =
            tile->y + row / tile->n_heads * tile->q_stride + (int64_t)(row % tile->n_heads) * tile->head_dim;
        const float *sums = w.sums + (int64_t)row * w.width;
        float inverse = w.total[row] == 0 ? 0 : 1 / w.total[row];
        for (int d = 0; d < tile->head_dim; d++) y[d] = sums[d] * inverse;
    }
}

#endif
