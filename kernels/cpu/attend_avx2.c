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

#define BLOCK 64 // slots
#define KEYS 4   // keys and rows whose dot products are computed together
#define ROWS 3

typedef struct Work {
    const AttendTile *tile;
    int n_rows, width;        // width: head_dim rounded up to 8; the rest is zero
    float *q;                 // [n_rows, width] times the scale
    float *sums;              // [n_rows, width] the weighted values so far
    float *weights;           // [n_rows, BLOCK] scores, then weights; -INFINITY, then 0, where masked
    float *largest;           // [n_rows] the largest score so far
    float *total;             // [n_rows] the weights' sum so far
    int *seen;                // [n_rows] how many slots of the block the row sees
    float *k, *v;             // [BLOCK, width]
    int n_slots;              // of the block
    const int32_t *positions; // [n_slots]
} Work;

// ---- scratch
// -------------------------------------------------------------------------------------------------

static int padded(int head_dim) {
    return (head_dim + 7) / 8 * 8;
}

int64_t avx2_attend_scratch(int n_rows, int head_dim) {
    int64_t rows = n_rows, width = padded(head_dim);
    return (int64_t)sizeof(float) * (2 * rows * width + rows * BLOCK + 2 * BLOCK * width + 3 * (rows + 7));
}

static Work lay_out(const AttendTile *tile, float *scratch) {
    Work w = {.tile = tile, .n_rows = tile->n_tokens * tile->n_heads, .width = padded(tile->head_dim)};
    int64_t rows = w.n_rows, row_floats = rows * w.width;
    w.q = scratch;
    w.sums = w.q + row_floats;
    w.k = w.sums + row_floats;
    w.v = w.k + BLOCK * w.width;
    w.weights = w.v + BLOCK * w.width;
    w.largest = w.weights + rows * BLOCK;
    w.total = w.largest + rows;
    w.seen = (int *)(w.total + rows);
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

// ---- a block of slots
// ----------------------------------------------------------------------------------------

// Masks: weights 0 where a row sees a slot, -INFINITY where not. Returns whether any row sees any.
static bool mask_block(Work *w) {
    const AttendTile *tile = w->tile;
    bool any = false;
    for (int t = 0; t < tile->n_tokens; t++) {
        float *mask = w->weights + (int64_t)t * tile->n_heads * BLOCK;
        int seen = 0;
        for (int s = 0; s < BLOCK; s++) {
            bool visible = s < w->n_slots && slot_visible(w->positions[s], tile->positions[t], tile->window);
            mask[s] = visible ? 0 : -INFINITY;
            seen += visible;
        }
        for (int h = 0; h < tile->n_heads; h++) {
            if (h > 0) memcpy(mask + h * BLOCK, mask, BLOCK * sizeof(float));
            w->seen[t * tile->n_heads + h] = seen;
        }
        any = any || seen > 0;
    }
    return any;
}

// Copies the block's keys or values [n_slots, head_dim] as float32.
static void load_block(const Work *w, const void *from, int64_t first_slot, float *to) {
    const KvLayer *kv = w->tile->kv;
    int head_dim = w->tile->head_dim;
    for (int s = 0; s < w->n_slots; s++, to += w->width) {
        int64_t start = (first_slot + s) * kv->slot_stride + w->tile->kv_head * kv->head_stride;
        int d = 0;
        if (kv->type == DTYPE_F16) {
            const uint16_t *halves = (const uint16_t *)from + start;
            for (; d + 8 <= head_dim; d += 8) _mm256_storeu_ps(to + d, load_halves(halves + d));
            for (; d < head_dim; d++) to[d] = half_to_float(halves[d]);
        } else {
            memcpy(to, (const float *)from + start, (size_t)head_dim * sizeof *to);
            d = head_dim;
        }
        for (; d < w->width; d++) to[d] = 0;
    }
}

// Adds q·k to the masks of n rows, for all slots. A masked slot's key may be anything: -INFINITY stays.
INLINE void score_rows(const Work *w, int row, int n) {
    const __m128 minus_infinity = _mm_set1_ps(-INFINITY);
    for (int s = 0; s < w->n_slots; s += KEYS) {
        __m256 acc[ROWS][KEYS];
        for (int r = 0; r < n; r++)
            for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_setzero_ps();
        for (int d = 0; d < w->width; d += 8) {
            __m256 k[KEYS];
            for (int j = 0; j < KEYS; j++) k[j] = _mm256_loadu_ps(w->k + (int64_t)(s + j) * w->width + d);
            for (int r = 0; r < n; r++) {
                __m256 q = _mm256_loadu_ps(w->q + (int64_t)(row + r) * w->width + d);
                for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_fmadd_ps(q, k[j], acc[r][j]);
            }
        }
        for (int r = 0; r < n; r++) {
            float *weights = w->weights + (int64_t)(row + r) * BLOCK + s;
            __m128 scores = sum_lanes4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]),
                   mask = _mm_loadu_ps(weights);
            _mm_storeu_ps(weights, _mm_blendv_ps(scores, minus_infinity, mask)); // the mask's sign chooses
        }
    }
}

// Turns a row's scores into weights exp(score - largest), and scales what it has so far to the new largest.
static void weigh_row(Work *w, int row) {
    float *weights = w->weights + (int64_t)row * BLOCK, *sums = w->sums + (int64_t)row * w->width;
    __m256 m = _mm256_loadu_ps(weights), total = _mm256_setzero_ps();
    for (int s = 8; s < BLOCK; s += 8) m = _mm256_max_ps(m, _mm256_loadu_ps(weights + s));
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

// sums += weights·values for n rows and `vectors` times eight dimensions from d on. If `all`, the rows see
// every slot of the block; else n is 1, and slots that the row does not see are skipped.
INLINE void add_values(const Work *w, int row, int n, int d, int vectors, bool all, uint64_t visible) {
    __m256 acc[ROWS][4];
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++)
            acc[r][i] = _mm256_loadu_ps(w->sums + (int64_t)(row + r) * w->width + d + 8 * i);
    for (int s = 0; s < w->n_slots; s++) {
        if (!all && !(visible >> s & 1)) continue;
        __m256 v[4];
        for (int i = 0; i < vectors; i++) v[i] = _mm256_loadu_ps(w->v + (int64_t)s * w->width + d + 8 * i);
        for (int r = 0; r < n; r++) {
            __m256 weight = _mm256_broadcast_ss(w->weights + (int64_t)(row + r) * BLOCK + s);
            for (int i = 0; i < vectors; i++) acc[r][i] = _mm256_fmadd_ps(weight, v[i], acc[r][i]);
        }
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++)
            _mm256_storeu_ps(w->sums + (int64_t)(row + r) * w->width + d + 8 * i, acc[r][i]);
}

INLINE void add_all_values(const Work *w, int row, int n, bool all, uint64_t visible) {
    int d = 0;
    for (; d + 32 <= w->width; d += 32) add_values(w, row, n, d, 4, all, visible);
    for (; d < w->width; d += 8) add_values(w, row, n, d, 1, all, visible);
}

// Bit s: whether the row's token sees slot s of the block.
static uint64_t visible_slots(const Work *w, int row) {
    int32_t position = w->tile->positions[row / w->tile->n_heads];
    uint64_t visible = 0;
    for (int s = 0; s < w->n_slots; s++)
        visible |= (uint64_t)slot_visible(w->positions[s], position, w->tile->window) << s;
    return visible;
}

static void attend_block(Work *w, int64_t first_slot) {
    if (!mask_block(w)) return;
    load_block(w, w->tile->kv->k, first_slot, w->k);
    load_block(w, w->tile->kv->v, first_slot, w->v);
    for (int row = 0; row < w->n_rows;) {
        if (row + ROWS <= w->n_rows) {
            score_rows(w, row, ROWS);
            row += ROWS;
        } else {
            score_rows(w, row++, 1);
        }
    }
    for (int row = 0; row < w->n_rows; row++)
        if (w->seen[row] > 0) weigh_row(w, row);
    for (int row = 0; row < w->n_rows;) {
        int full = 0; // rows from here on that see everything
        while (full < ROWS && row + full < w->n_rows && w->seen[row + full] == w->n_slots) full++;
        if (full == ROWS) {
            add_all_values(w, row, ROWS, true, 0);
            row += ROWS;
        } else {
            if (full > 0)
                add_all_values(w, row, 1, true, 0);
            else if (w->seen[row] > 0)
                add_all_values(w, row, 1, false, visible_slots(w, row));
            row++;
        }
    }
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
