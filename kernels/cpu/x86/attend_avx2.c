// Attention of a tile of queries, by blocks of indexes with a running softmax (Milakov & Gimelshein,
// arXiv:1805.02867).
//
// A row is one query head of one token. For each block the tile computes all scores, takes each
// row's maximum, turns scores into weights, and adds the weighted values. What a row computes depends on the
// indexes that it sees only, so a token gives the same result in a tile of many as alone, and wherever its slots
// lie. Values of slots that a row does not see are left out, not multiplied by zero: they may be anything.
#include "kernels/cpu/x86/attend_avx2.h"

#ifdef __AVX2__

// ---- scores -------------------------------------------------------------------------------------------

// weights = q·k of n rows, for all indexes, seen or not.
INLINE void score_rows(const Work *w, DType type, const float *q, int row, int n) {
    const int64_t bytes = kv_bytes(type, w->width);
    q += (int64_t)row * w->width;
    for (int s = 0; s < w->n_slots; s += KEYS) {
        __m256 acc[ROWS][KEYS], scales[KEYS];
        const char *keys[KEYS]; // beyond the last: that one again, masked
        const float *key_scales[KEYS];
        for (int j = 0; j < KEYS; j++) {
            int at = s + j < w->n_slots ? s + j : w->n_slots - 1;
            keys[j] = w->k + at * w->stride;
            key_scales[j] = w->scales + at * w->n_groups;
            scales[j] = _mm256_setzero_ps();
        }
        for (int j = 0; !w->copied && j < KEYS && s + j < w->n_slots; j++)
            prefetch_kv(w->v + (s + j) * w->stride, bytes); // wanted when the scores are there
        for (int r = 0; r < n; r++)
            for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_setzero_ps();
        for (int d = 0, group_end = 0; d < w->width; d += 8) {
            __m256 k[KEYS];
            if (in_groups(type) && d == group_end) {
                for (int j = 0; j < KEYS; j++) scales[j] = _mm256_broadcast_ss(key_scales[j]++);
                group_end += w->tile->kv->group;
            }
            for (int j = 0; j < KEYS; j++) {
                k[j] = kv_load8(type, keys[j], d);
                if (in_groups(type)) k[j] = _mm256_mul_ps(k[j], scales[j]);
            }
            for (int r = 0; r < n; r++) {
                __m256 x = _mm256_loadu_ps(q + (int64_t)r * w->width + d);
                for (int j = 0; j < KEYS; j++) acc[r][j] = _mm256_fmadd_ps(x, k[j], acc[r][j]);
            }
        }
        for (int r = 0; r < n; r++) {
            float *weights = w->weights + (int64_t)(row + r) * BLOCK + s;
            _mm_storeu_ps(weights, sum_lanes4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
        }
    }
}

INLINE void score_all(DType type, const Work *w) {
    const float *q = w->is_sink ? w->sinks : w->q;
    int row = 0;
    for (; row + ROWS <= w->n_rows; row += ROWS) score_rows(w, type, q, row, ROWS);
    for (; row < w->n_rows; row++) score_rows(w, type, q, row, 1);
}

// The registers of attend_turned.h: three rows by four vectors of keys keep twelve sums.
#define LANES 8
#define TURNED_ROWS ROWS
typedef __m256 Lanes;
#define lanes_zero _mm256_setzero_ps
#define lanes_set _mm256_set1_ps
#define lanes_load _mm256_loadu_ps
#define lanes_store _mm256_storeu_ps
#define lanes_fma _mm256_fmadd_ps
#define lanes_add _mm256_add_ps
#include "kernels/cpu/x86/attend_turned.h"

static bool is_wide(const Work *w) {
    return w->wide && w->type == DTYPE_F32;
}

APART void score_block(const Work *w) {
    if (is_wide(w)) {
        avx512_score_block(w);
        return;
    }
    if (w->turned) {
        score_turned(w);
        return;
    }
    FOR_TYPE(w->type, score_all, w);
}

// tanh(x), by e^2x, or near 0, where that loses its digits, by its series.
INLINE __m256 tanh_lanes(__m256 x) {
    const __m256 one = _mm256_set1_ps(1), near = _mm256_set1_ps(0.25f);
    const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f)),
                 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 e = exp_lanes(_mm256_mul_ps(size, _mm256_set1_ps(-2))); // never beyond 1
    __m256 far = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    __m256 square = _mm256_mul_ps(x, x), series = _mm256_set1_ps(62.0f / 2835);
    series = _mm256_fmadd_ps(series, square, _mm256_set1_ps(-17.0f / 315));
    series = _mm256_fmadd_ps(series, square, _mm256_set1_ps(2.0f / 15));
    series = _mm256_fmadd_ps(series, square, _mm256_set1_ps(-1.0f / 3));
    series = _mm256_fmadd_ps(_mm256_mul_ps(series, square), x, x);
    return _mm256_blendv_ps(_mm256_or_ps(far, sign), series, _mm256_cmp_ps(size, near, _CMP_LT_OQ));
}

static void cap_row(const Work *w, float *scores) {
    const __m256 cap = _mm256_set1_ps(w->tile->cap), inverse = _mm256_set1_ps(1 / w->tile->cap);
    for (int s = 0; s < BLOCK; s += 8)
        _mm256_storeu_ps(scores + s,
                         _mm256_mul_ps(cap, tanh_lanes(_mm256_mul_ps(_mm256_loadu_ps(scores + s), inverse))));
}

// Caps a row's scores, and adds mask − slope·distance to them. What the mask gives -INFINITY is not seen.
static void bias_row(Work *w, int row) {
    const AttendTile *tile = w->tile;
    const AttendMask *mask = &tile->mask;
    float *scores = w->weights + (int64_t)row * BLOCK, values[BLOCK];
    int token = row / tile->n_heads, head = row % tile->n_heads;
    if (tile->cap > 0) cap_row(w, scores);
    if (tile->slopes) {
        const __m256i high = _mm256_set1_epi32(attend_seen(tile, token, w->is_sink).high);
        const __m256 slope = _mm256_set1_ps(tile->slopes[head]);
        for (int s = 0; s < BLOCK; s += 8) {
            __m256i distance =
                _mm256_sub_epi32(high, _mm256_loadu_si256((const __m256i *)(w->positions + s)));
            __m256 score = _mm256_loadu_ps(scores + s);
            _mm256_storeu_ps(scores + s, _mm256_fnmadd_ps(slope, _mm256_cvtepi32_ps(distance), score));
        }
    }
    if (!mask->values) return;
    int64_t first = token * mask->token_stride + head * mask->head_stride + w->first;
    quant_load(mask->type, mask->values, first, w->n_slots, values);
    for (int s = 0; s < w->n_slots; s++) {
        scores[s] += values[s];
        if (values[s] == -INFINITY) w->visible[row] &= ~(UINT64_C(1) << s);
    }
}

// All bits of the lanes whose bit is set in the low eight of `bits`.
INLINE __m256 lanes_of_bits(uint64_t bits) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_castsi256_ps(
        _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits & 255)), bit), bit));
}

// Turns a row's scores into weights exp(score - base) with the base that it has, 0 where it sees nothing: with a base
// of the caller's nobody asks for the largest score. False if that is not safe; then the scores are as they were. A
// block of small weights is, behind others that have a sum to which they add.
APART bool weigh_by_base(Work *w, int row) {
    float *scores = w->weights + (int64_t)row * BLOCK;
    const __m256 base = _mm256_set1_ps(w->largest[row]);
    __m256 weights[BLOCK / 8], total = _mm256_setzero_ps();
    for (int i = 0; i < BLOCK / 8; i++) {
        __m256 seen = lanes_of_bits(w->visible[row] >> 8 * i);
        weights[i] = _mm256_and_ps(exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(scores + 8 * i), base)), seen);
        total = _mm256_add_ps(total, weights[i]);
    }
    float sum = w->total[row] + sum_lanes(total);
    w->n_parts++;
    if (!attend_is_safe(sum)) {
        w->n_again++;
        return false;
    }
    for (int i = 0; i < BLOCK / 8; i++) _mm256_storeu_ps(scores + 8 * i, weights[i]);
    w->total[row] = sum;
    return true;
}

// Turns a row's scores into weights exp(score - largest), 0 where it sees nothing, and scales what it has so
// far to the new largest score. The score of an unseen slot may be anything.
APART void weigh_row(Work *w, int row) {
    float *weights = w->weights + (int64_t)row * BLOCK;
    const uint64_t visible = w->visible[row];
    const int end =
        BLOCK - __builtin_clzll(visible); // behind the last one that it sees, of which there is one
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 m = lowest, total = _mm256_setzero_ps();
    if (w->tile->bases && weigh_by_base(w, row)) return;
    if (w->wide) {
        avx512_weigh_row(w, row);
        return;
    }
    for (int s = 0; s < end; s += 8) {
        __m256 scores = _mm256_loadu_ps(weights + s);
        if (visible != ~UINT64_C(0)) {
            scores = _mm256_blendv_ps(lowest, scores, lanes_of_bits(visible >> s));
            _mm256_storeu_ps(weights + s, scores);
        }
        m = _mm256_max_ps(m, scores);
    }
    float before = largest_before(w, row), largest = fmaxf(before, max_lanes(m));
    __m256 largests = _mm256_set1_ps(largest);
    for (int s = 0; s < end; s += 8) {
        __m256 weight = exp_falling(_mm256_sub_ps(_mm256_loadu_ps(weights + s), largests));
        _mm256_storeu_ps(weights + s, weight);
        total = _mm256_add_ps(total, weight);
    }
    settle_row(w, row, before, largest, sum_lanes(total));
}

// ---- values -------------------------------------------------------------------------------------------

// Rows of a tile, and of a block's indexes those from first_slot to end_slot. If `all`, the rows see all of them; else it
// is one row, and indexes that it does not see are skipped.
typedef struct Range {
    int row, n, first_slot, end_slot;
    bool all;
} Range;

// sums += weights·values for a range and `vectors` times eight dimensions from d on.
INLINE void add_values(const Work *w, DType type, Range range, int d, int vectors) {
    const int row = range.row, n = range.n, first = range.first_slot;
    __m256 acc[ROWS][4], weights[ROWS];
    float *sums = w->sums + (int64_t)row * w->width + d;
    const float *scales[4]; // of index 0, for each of the vectors
    const int64_t ahead = BLOCK * w->stride, bytes = d == 0 && !w->copied ? kv_bytes(type, w->width) : 0;
    const uint64_t visible = w->visible[row];
    const int64_t stride = w->stride, n_groups = w->n_groups;
    const int end = range.end_slot;
    const float *weight = w->weights + (int64_t)row * BLOCK;
    const char *key = w->k + ahead + first * stride, *value = w->v + kv_bytes(type, d) + first * stride;
    for (int i = 0; in_groups(type) && i < vectors; i++)
        scales[i] = w->scales + BLOCK * n_groups + (d + 8 * i) / w->tile->kv->group;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) acc[r][i] = _mm256_loadu_ps(sums + r * w->width + 8 * i);
    for (int s = first; s < end; s++, key += stride, value += stride) {
        prefetch_kv(key, bytes); // the next block's
        if (!range.all && !(visible >> s & 1)) continue;
        for (int r = 0; r < n; r++) weights[r] = _mm256_broadcast_ss(weight + r * BLOCK + s);
        for (int i = 0; i < vectors; i++) {
            __m256 v = kv_load8(type, value, 8 * i);
            if (in_groups(type)) v = _mm256_mul_ps(v, _mm256_broadcast_ss(scales[i] + s * n_groups));
            for (int r = 0; r < n; r++) acc[r][i] = _mm256_fmadd_ps(weights[r], v, acc[r][i]);
        }
    }
    for (int r = 0; r < n; r++)
        for (int i = 0; i < vectors; i++) _mm256_storeu_ps(sums + r * w->width + 8 * i, acc[r][i]);
}

INLINE void add_range(const Work *w, DType type, Range range) {
    int d = 0;
    for (; d + 32 <= w->width; d += 32) add_values(w, type, range, d, 4);
    for (; d < w->width; d += 8) add_values(w, type, range, d, 1);
}

// What one row sees of a range.
INLINE void add_seen(const Work *w, DType type, int row, int first, int end) {
    const uint64_t visible = w->visible[row];
    if (first < end && visible >> first << first << (BLOCK - end))
        add_range(w, type, (Range){row, 1, first, end, false});
}

// Three rows: the first stretch that all of them see together, what is before and behind it row by row.
INLINE void add_rows(const Work *w, DType type, int row) {
    uint64_t all = ~UINT64_C(0);
    for (int r = 0; r < ROWS; r++) all &= w->visible[row + r];
    const int first = all ? __builtin_ctzll(all) : w->n_slots;
    const uint64_t behind = all ? ~(all >> first) : 0;
    const int end = all && behind ? first + __builtin_ctzll(behind) : w->n_slots;
    for (int r = 0; r < ROWS; r++) add_seen(w, type, row + r, 0, first);
    if (first < end) add_range(w, type, (Range){row, ROWS, first, end, true});
    for (int r = 0; r < ROWS; r++) add_seen(w, type, row + r, end, w->n_slots);
}

INLINE void add_all(DType type, const Work *w) {
    int row = 0;
    for (; row + ROWS <= w->n_rows; row += ROWS) add_rows(w, type, row);
    for (; row < w->n_rows; row++)
        if (w->visible[row] == everything(w))
            add_range(w, type, (Range){row, 1, 0, w->n_slots, true});
        else
            add_seen(w, type, row, 0, w->n_slots);
}

static void add_block(const Work *w) {
    if (is_wide(w)) {
        avx512_add_block(w);
        return;
    }
    FOR_TYPE(w->type, add_all, w);
}

static void attend_block(Work *w) {
    bool biased = w->tile->cap > 0 || w->tile->slopes || w->tile->mask.values;
    find_slots(w);
    if (!find_visible(w)) return;
    find_block(w);
    score_block(w);
    for (int row = 0; row < w->n_rows; row++) {
        if (biased && w->visible[row] != 0) bias_row(w, row);
        if (w->visible[row] != 0) weigh_row(w, row);
    }
    add_block(w);
}

// A block ends at the next multiple of BLOCK, and at n_sinks, where the queries change.
static int block_end(const StepSequence *s, int first) {
    int end = s->n_slots - first > BLOCK - first % BLOCK ? first - first % BLOCK + BLOCK : s->n_slots;
    return s->n_evicted > 0 && first < s->n_sinks && s->n_sinks < end ? s->n_sinks : end;
}

static void attend(const AttendTile *tile, void *scratch, bool wide) {
    const StepSequence *sequence = tile->sequence;
    Work w = lay_out(tile, scratch, wide);
    start_rows(&w);
    for (int s = 0; s < sequence->n_slots; s += w.n_slots) {
        w.first = s;
        w.n_slots = block_end(sequence, s) - s;
        w.is_sink = sequence->n_evicted > 0 && s < sequence->n_sinks;
        attend_block(&w);
    }
    attend_count(tile, w.n_parts, w.n_again);
    for (int row = 0; row < w.n_rows; row++) {
        float *y = tile->y + attend_row_offset(tile, row);
        const float *sums = w.sums + (int64_t)row * w.width;
        float divisor = attend_divisor(tile, row % tile->n_heads, w.largest[row], w.total[row]);
        float inverse = divisor == 0 ? 0 : 1 / divisor;
        for (int d = 0; d < tile->head_dim; d++) y[d] = sums[d] * inverse;
    }
}

void avx2_attend(const AttendTile *tile, void *scratch) {
    attend(tile, scratch, false);
}

void avx2_attend_wide(const AttendTile *tile, void *scratch) {
    attend(tile, scratch, true);
}

#endif
