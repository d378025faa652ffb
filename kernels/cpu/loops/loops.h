// The inner loops of the CPU backend, in two sets with one meaning: plain ones to read and to compare with,
// and fast ones for what the machine has (in kernels/cpu/x86 and arm). Everything above them (threads, shapes, residuals)
// is shared.
#ifndef PALAVER_KERNELS_CPU_LOOPS_LOOPS_H
#define PALAVER_KERNELS_CPU_LOOPS_LOOPS_H

#include "kernels/both_ways.h"
#include "kernels/cpu/loops/fixed.h"
#include "kernels/ops.h"
#include "kernels/w8.h"

#include <math.h>
#include <stdatomic.h>

// A row of activations for DTYPE_W8: its scale, and the sum of its integers, by which a product of bytes that count
// from -128 is put right.
typedef struct W8Scale {
    float scale;
    int32_t sum;
} W8Scale;

// Bytes from one row of such activations to the next: whole vectors, so that loops need no ends of their own.
static inline int64_t w8_stride(int64_t cols) {
    return (cols + 31) / 32 * 32;
}

// Rows of activations in every form that a GEMM may want. The quantised form is there only if `quantized` says so; q,
// scale, sum and sums as in QuantRow, row after row. The form for DTYPE_W8 (kernels/w8.h) is there unless w8 is NULL:
// rows of w8_stride(cols) bytes, zeros behind the integers.
typedef struct Activations {
    int64_t n, cols;
    const float *x; // [n, cols]
    bool quantized;
    const int8_t *q;         // [n, cols]
    const float *scale;      // [n, cols/32]
    const float *sum;        // [n, cols/32]
    const int16_t *sums;     // [n, cols/16]
    const int8_t *w8;        // [n, w8_stride(cols)]
    const W8Scale *w8_scale; // [n]
    const float *fp8;        // [n, cols] as DTYPE_E4M3 takes them (kernels/fp8.h); NULL: as they are
    const int16_t
        *fixed; // [n, fixed_stride(cols)] as 16-bit floats take them (loops/fixed.h); NULL: exact floats
    const float *fixed_scale; // [n, fixed_groups(cols)]
} Activations;

// Rows [first, end) of y = W·x, or of y += W·x, for every row of activations: y[t*y_stride + r], or with `to`
// y[to[t]*y_stride + r].
typedef struct Gemm {
    const Matrix *w;
    const Activations *x;
    int64_t first, end;
    float *y;
    int64_t y_stride;
    bool add;
    const int32_t *to; // [x->n], no row twice
} Gemm;

// Whether a product is one of integers of 16 bits.
static inline bool gemm_is_fixed(const Gemm *gemm) {
    return gemm->x->fixed && fixed_is_type(gemm->w->type);
}

// [x->n, cols], what is multiplied as floats.
static inline const float *gemm_input(const Gemm *gemm) {
    return gemm->w->type == DTYPE_E4M3 && gemm->x->fp8 ? gemm->x->fp8 : gemm->x->x;
}

static inline float *gemm_row(const Gemm *gemm, int64_t t) {
    return gemm->y + (gemm->to ? gemm->to[t] : t) * gemm->y_stride;
}

// What is added to scores: the value for a token, a head and an index. values NULL: nothing.
typedef struct AttendMask {
    DType type;         // F32, F16 or BF16
    const void *values; // of the tile's first token, its first head and index 0
    int64_t token_stride, head_stride;
} AttendMask;

// SoftmaxCounts, as threads count them.
typedef struct AttendCounts {
    atomic_llong parts, again;
} AttendCounts;

// Consecutive tokens of one sequence and consecutive query heads that share one KV head.
typedef struct AttendTile {
    const float *q; // the first token's first head; row stride q_stride, heads head_dim apart
    float *y;       // likewise; may be q
    int64_t q_stride;
    int n_tokens, n_heads, head_dim;
    const int32_t *positions; // [n_tokens]
    float scale, cap;         // cap: DecoderShape.attention_cap
    const float *slopes;      // [n_heads] of ALiBi; NULL: none
    AttendMask mask;
    const KvLayer *kv;
    int kv_head, window;
    const StepSequence *sequence;
    int page_size;
    const int32_t *slot_positions; // of the whole cache; NULL: index i holds position i
    // How queries turn for the attention sinks, where tokens were evicted: cos and sin of n_evicted. rope NULL: they do not.
    const Rope *rope;
    const float *sink_cos, *sink_sin;
    const float *bases;       // [n_heads] of KvLayer.score_bases; NULL: running maxima
    const float *sink_scores; // [n_heads] of KvLayer.sink_scores; NULL: none
    AttendCounts *counts;     // NULL: nobody counts
} AttendTile;

// A token of a head of DeltaRule, whose state becomes S ← γ·S + k·δ, δ = β·(v − γ·kᵀ·S), or β·v where it adds; y = qᵀ·S.
typedef struct RecurToken {
    const float *q, *k, *v; // [key_dim] both, [value_dim]
    float decay, beta;      // γ, β
    int key_dim, value_dim;
    bool adds;
    float *state; // [key_dim, value_dim]
    float *delta; // [value_dim] scratch
    float *y;     // [value_dim]
} RecurToken;

typedef struct Loops {
    const char *name;
    // Whether quantised weights are multiplied with quantised activations, or with the floats.
    bool quantized_activations;
    // y [n] = x / sqrt(mean(x²) + eps) · w; y may be x
    void (*rms_norm)(const float *x, const float *w, int64_t n, float eps, float *y);
    // y [n] = (x − mean(x)) / sqrt(variance(x) + eps) · w + b (NULL: none); y may be x
    void (*layer_norm)(const float *x, const float *w, const float *b, int64_t n, float eps, float *y);
    void (*quantize)(const float *x, int64_t n, const QuantRow *out);
    // x [n] → q, scale: fixed.h, bit by bit; and panel `number` of a matrix. NULL: 16-bit floats are multiplied exactly.
    void (*quantize_fixed)(const float *x, int64_t n, int16_t *q, float *scale);
    void (*fill_fixed)(const Matrix *w, int64_t number, void *panel);
    // x [n] → q [w8_stride(n)]: kernels/w8.h, bit by bit
    W8Scale (*quantize_w8)(const float *x, int64_t n, int8_t *q);
    // g [n] = activation(g) · u, or without u (NULL) activation(g); ACTIVATION_CLAMPED_SWIGLU has u; ACTIVATION_XIELU is
    // not among them:
    void (*activate)(Activation activation, float *g, const float *u, int64_t n);
    // g [n] = xIELU(g)
    void (*xielu)(const Xielu *by, float *g, int64_t n);
    void (*recur)(const RecurToken *token);
    void (*to_half)(const float *x, int64_t n, uint16_t *half);
    // scratch: gemm_scratch(cols) bytes of the thread's own, 64-byte aligned
    void (*gemm)(const Gemm *gemm, void *scratch);
    int64_t (*gemm_scratch)(int64_t cols);
    int attend_rows; // rows of a tile to aim at: tokens times heads
    void (*attend)(const AttendTile *tile, void *scratch);
    int64_t (*attend_scratch)(int n_rows, int head_dim);
} Loops;

// Plain loops in float32. Quantised weights are dequantised, 16-bit floats multiplied as they are: this is what the fast
// loops approximate. Those of DTYPE_W8
// are multiplied as integers in both, to the same bits.
const Loops *loops_reference(void);

// AVX2 with FMA and F16C: only for machines that have them. NULL where the compiler had none.
const Loops *loops_avx2(void);

// NEON, of every 64-bit Arm; with sdot NULL where this machine has no such instruction. NULL elsewhere.
const Loops *loops_neon(bool sdot);

// The fastest that this machine has besides the plain ones. NULL: none.
const Loops *loops_fast(void);

// ---- what a query sees: see StepSequence ----------------------------------------------------------------

// Rows of a tile, token after token: row r is head r % n_heads of token r / n_heads.
static inline int64_t attend_row_offset(const AttendTile *tile, int row) {
    return row / tile->n_heads * tile->q_stride + (int64_t)(row % tile->n_heads) * tile->head_dim;
}

static inline int32_t attend_slot(const AttendTile *tile, int index) {
    return tile->sequence->pages[index / tile->page_size] + index % tile->page_size;
}

enum {
    ATTEND_SPLIT = 64
}; // indexes that are weighed together: the part of a cache that may fall back by itself

#define LN_2 0.693147181f

// Whether a split's weights, relative to a score that its maximum had no say in, add up to a number in whose
// neighbourhood float32 has room: none that counts is lost, and none is infinite. NaN is not.
static inline bool attend_is_safe(float sum) {
    return sum >= 0x1p-60f && sum <= 0x1p60f;
}

static inline void attend_count(const AttendTile *tile, int64_t parts, int64_t again) {
    if (!tile->counts || !parts) return;
    atomic_fetch_add_explicit(&tile->counts->parts, parts, memory_order_relaxed);
    atomic_fetch_add_explicit(&tile->counts->again, again, memory_order_relaxed);
}

// A token sees the positions low … high, a position a at the distance high − a. `is_sink`: among
// indexes below n_sinks, where tokens were evicted.
typedef struct SeenPositions {
    int32_t low, high;
} SeenPositions;

static inline SeenPositions attend_seen(const AttendTile *tile, int token, bool is_sink) {
    const StepSequence *s = tile->sequence;
    int32_t high = position_seen(tile->positions[token], s->n_prefix) - (is_sink ? s->n_evicted : 0), low = 0;
    if (tile->window > 0 && high >= tile->window) low = high - tile->window + 1;
    if (tile->window < 0) low = high - high % -tile->window; // chunks
    if (!is_sink && s->n_evicted > 0 && low < s->n_sinks + s->n_evicted) low = s->n_sinks + s->n_evicted;
    return (SeenPositions){low, high};
}

// What the weighted values of a head are divided by, whose weights, relative to e^base, add up to `total`; 0 where it saw
// nothing.
static inline float attend_divisor(const AttendTile *tile, int head, float base, float total) {
    return total == 0 || !tile->sink_scores ? total : total + expf(tile->sink_scores[head] - base);
}

// q [head_dim] = a row's query times the scale, in the form that it is multiplied with keys: turned for the
// attention sinks where `is_sink`, and as keys are where they are stored turned.
void attention_query(const AttendTile *tile, int row, bool is_sink, float *q);

#endif
