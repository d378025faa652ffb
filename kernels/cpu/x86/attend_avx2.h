// The blocks of attend_avx2.c: what a tile works with, where the indexes of a block lie, what is seen of them, and
// how they are read.
#ifndef PALAVER_KERNELS_CPU_X86_ATTEND_AVX2_H
#define PALAVER_KERNELS_CPU_X86_ATTEND_AVX2_H

#include "kernels/cpu/x86/attend_work.h"
#include "kernels/cpu/x86/kv_avx2.h"

#ifdef __AVX2__
#include <math.h>

#define KEYS 4 // KEYS times ROWS dot products keep their sums in registers
#define ROWS 3
#define COPY_ROWS 6  // so many rows still read 16-bit keys and values as they are; int8 and int4: ROWS
#define TURN_ROWS 16 // from so many on it pays to turn keys

// Functions kept apart, because all in one they run out of registers.
#define APART static __attribute__((noinline))

// ---- scratch ------------------------------------------------------------------------------------------

static int padded(int head_dim) {
    return (head_dim + 7) / 8 * 8;
}

int64_t avx2_attend_scratch(int n_rows, int head_dim) {
    int64_t rows = n_rows, width = padded(head_dim);
    return (int64_t)sizeof(float) *
           (3 * rows * width + rows * BLOCK + 2 * BLOCK * width + 2 * BLOCK * width / 8 + 4 * rows);
}

static Work lay_out(const AttendTile *tile, float *scratch, bool wide) {
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
    w.scales = w.total + rows;
    w.sinks = w.scales + 2 * BLOCK * w.width / 8;
    w.wide = wide && w.n_rows >= WIDE_ROWS && w.width % WIDE_FLOATS == 0;
    const KvLayer *kv = tile->kv;
    w.n_groups = in_groups(kv->type) ? tile->head_dim / kv->group : 1;
    w.turned = w.n_rows >= TURN_ROWS ? w.copies : NULL;
    // Odd heads need the copy's padding, and odd groups its care.
    w.many = w.width != tile->head_dim || (in_groups(kv->type) && kv->group % 8) ||
             (kv->type != DTYPE_F32 && w.n_rows > (in_groups(kv->type) ? ROWS : COPY_ROWS));
    return w;
}

static void start_rows(Work *w) {
    const AttendTile *tile = w->tile;
    memset(w->sums, 0, (size_t)w->n_rows * (size_t)w->width * sizeof(float));
    for (int row = 0; row < w->n_rows; row++) {
        for (int is_sink = 0; is_sink <= (tile->sequence->n_evicted > 0); is_sink++) {
            float *q = (is_sink ? w->sinks : w->q) + (int64_t)row * w->width;
            attention_query(tile, row, is_sink, q);
            for (int d = tile->head_dim; d < w->width; d++) q[d] = 0;
        }
        w->largest[row] = tile->bases ? tile->bases[row % tile->n_heads] * LN_2 : -INFINITY;
        w->total[row] = 0;
    }
}

// ---- a block of indexes -------------------------------------------------------------------------------

// Where the block's indexes lie, and the positions that they hold.
static void find_slots(Work *w) {
    const AttendTile *tile = w->tile;
    const int32_t *held = tile->slot_positions, *pages = tile->sequence->pages;
    int page = w->first / tile->page_size, offset = w->first - page * tile->page_size;
    w->slots[0] = pages[page] + offset;
    w->contiguous = tile->page_size - offset >= w->n_slots;
    w->positions = w->gathered;
    if (w->contiguous && w->n_slots == BLOCK && held) { // the usual one
        w->positions = held + w->slots[0];
        return;
    }
    for (int s = 0; s < BLOCK; s++) {
        if (s >= w->n_slots) {
            w->gathered[s] = -1;
            continue;
        }
        w->slots[s] = pages[page] + offset;
        w->gathered[s] = held ? held[w->slots[s]] : w->first + s;
        if (++offset == tile->page_size) page++, offset = 0;
    }
}

// The indexes of the block whose positions are seen.
static uint64_t visible_positions(const int32_t *positions, SeenPositions seen) {
    const __m256i low = _mm256_set1_epi32(seen.low - 1), high = _mm256_set1_epi32(seen.high);
    uint64_t visible = 0;
    for (int s = 0; s < BLOCK; s += 8) {
        __m256i at = _mm256_loadu_si256((const __m256i *)(positions + s));
        __m256i in = _mm256_andnot_si256(_mm256_cmpgt_epi32(at, high), _mm256_cmpgt_epi32(at, low));
        visible |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(in)) << s;
    }
    return visible;
}

// Returns whether any row sees any index.
static bool find_visible(Work *w) {
    const AttendTile *tile = w->tile;
    uint64_t any = 0;
    for (int t = 0; t < tile->n_tokens; t++) {
        uint64_t visible = visible_positions(w->positions, attend_seen(tile, t, w->is_sink));
        for (int h = 0; h < tile->n_heads; h++) w->visible[t * tile->n_heads + h] = visible;
        any |= visible;
    }
    return any != 0;
}

// Copies the block's keys or values [n_slots, head_dim] as float32.
INLINE void copy_rows(DType type, const Work *w, KvPlane plane, float *to) {
    const KvLayer *kv = w->tile->kv;
    const int head_dim = w->tile->head_dim, head = w->tile->kv_head;
    const char *values = plane == KV_KEYS ? kv->k : kv->v,
               *scales = plane == KV_KEYS ? kv->k_scale : kv->v_scale;
    const bool even = w->width == head_dim && (!in_groups(type) || kv->group % 8 == 0);
    const int64_t scale_size = kv->scale_type == DTYPE_F16 ? 2 : 4;
    for (int s = 0; s < w->n_slots; s++, to += w->width) {
        int64_t slot = w->contiguous ? w->slots[0] + s : w->slots[s];
        int64_t at = slot * kv->slot_stride + head * kv->head_stride;
        if (even) {
            const char *row_scales = in_groups(type) ? scales + at / kv->group * scale_size : NULL;
            kv_copy_row(type, values + kv_bytes(type, at), row_scales, kv, head_dim, to);
        } else {
            kv_load(kv, plane, slot, head, head_dim, to);
            for (int d = head_dim; d < w->width; d++) to[d] = 0;
        }
    }
}

static void copy_block(const Work *w, KvPlane plane, float *to) {
    FOR_TYPE(w->tile->kv->type, copy_rows, w, plane, to);
}

// The scales of a contiguous block's keys or values as float32 [n_slots, n_groups].
static void copy_scales(const Work *w, const void *from, float *to) {
    const KvLayer *kv = w->tile->kv;
    int64_t at = (w->slots[0] * kv->slot_stride + w->tile->kv_head * kv->head_stride) / kv->group;
    int64_t stride = kv->slot_stride / kv->group;
    for (int s = 0; s < w->n_slots; s++, at += stride)
        for (int g = 0; g < w->n_groups; g++) *to++ = kv_scale(kv->scale_type, from, at + g);
}

// Turns the block's keys, float32 at w->k: eight keys by eight dimensions at a time. Behind the last one are zeros.
static void turn_keys(const Work *w) {
    for (int s = 0; s < BLOCK; s += 8)
        for (int d = 0; d < w->width; d += TURNED_SUMS) {
            float *to = w->turned + (int64_t)(s / TURNED_KEYS * w->width + d / TURNED_SUMS) * TURNED_KEYS +
                        s % TURNED_KEYS;
            __m256i v[8];
            for (int i = 0; i < 8; i++)
                v[i] = s + i < w->n_slots ? load32((const uint8_t *)w->k + (s + i) * w->stride + 4 * d)
                                          : _mm256_setzero_si256();
            transpose(v);
            for (int j = 0; j < TURNED_SUMS; j++)
                _mm256_storeu_si256((__m256i *)(void *)(to + j * (w->width / TURNED_SUMS) * TURNED_KEYS),
                                    v[j]);
        }
}

// Points the work at copies of the block's keys and values. Keys that are turned lie in the values' place before.
static void copy_both(Work *w) {
    float *values = w->copies + BLOCK * w->width, *keys = w->turned ? values : w->copies;
    w->k = (const char *)keys, w->v = (const char *)values;
    w->stride = w->width * (int64_t)sizeof(float);
    w->type = DTYPE_F32;
    copy_block(w, KV_KEYS, keys);
    if (w->turned) turn_keys(w);
    copy_block(w, KV_VALUES, values);
}

// Points the work at the block, or at its copy.
static void find_block(Work *w) {
    const KvLayer *kv = w->tile->kv;
    w->copied = w->many || !w->contiguous;
    if (w->copied) {
        copy_both(w);
        return;
    }
    int64_t start = w->slots[0] * kv->slot_stride + w->tile->kv_head * kv->head_stride;
    w->type = kv->type;
    w->k = (const char *)kv->k + kv_bytes(kv->type, start);
    w->v = (const char *)kv->v + kv_bytes(kv->type, start);
    w->stride = kv_bytes(kv->type, kv->slot_stride);
    if (w->turned) turn_keys(w); // of float32: so many rows of others were copied
    if (!in_groups(kv->type)) return;
    copy_scales(w, kv->k_scale, w->scales);
    copy_scales(w, kv->v_scale, w->scales + BLOCK * w->n_groups);
}

INLINE void prefetch_kv(const char *row, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(row + i, _MM_HINT_T0);
}

#endif
#endif
