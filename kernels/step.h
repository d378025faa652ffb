// What an op is told of one step: the cache, the tokens and where they go, how a draw is made.
#ifndef PALAVER_KERNELS_STEP_H
#define PALAVER_KERNELS_STEP_H

#include "kernels/decoder_shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- the cache, as ops see it --------------------------------------------------------------------------------------

// One layer's keys and values. A slot holds the key and value of one token in every layer; where slot s,
// KV head h, element d lies is s*slot_stride + h*head_stride + d. Layouts are strides (kernels/kv_layout.h):
// no op knows more. Keys are stored after RoPE.
//
// In int8 and int4 an element is the integer q = round(x/scale), to nearest even, clamped to ±127 or ±7,
// with one scale = max(absmax/127 (or 7), 1e-5), rounded to scale_type first, for each `group` elements of a
// head: element e of the cache has scale e/group. int4 keeps element 2i in the low nibble of byte i, in
// two's complement. What attends reads the cache, the step's own tokens included, so that steps may be cut
// anywhere.
typedef struct KvLayer {
    DType type; // DTYPE_F32, F16, BF16, INT8 or INT4
    void *k, *v;
    int64_t slot_stride, head_stride; // elements; multiples of `group`
    int rope;  // the table of the shape's rope that turns its keys and queries; -1: they are not turned
    int group; // INT8 and INT4: divides head_dim, even; elsewhere 0
    DType scale_type; // INT8 and INT4: DTYPE_F32 or F16
    void *k_scale, *v_scale;
    // Keys are stored times the normalised Hadamard matrix (Sylvester's, of the largest power of two that
    // divides head_dim, block by block), which spreads outliers over a group; attend() turns its queries
    // likewise. Dot products are what they were.
    bool rotate_keys;
    // What rounds turned keys better than to the nearest integer; both NULL: nothing. Quantised types only, with
    // rotate_keys. Keys are divided by key_balance before the Hadamard matrix, queries multiplied: dot products are
    // what they were, and so is RoPE, for the two elements of a pair have the same.
    // Then rounding errors go on. In every block of the matrix's size, elements are in two rows of size/2: the even and
    // the odd ones where key_pairs says interleaved, else the first half and the second. With x a row, whose scales are
    // as above, q[i] = round(t[i]/scale), t[i] = x[i] + Σ_{j<i} feedback[j][i]·(t[j] − scale·q[j]): the error of a dot
    // product gets small where queries are large (what Frantar et al., arXiv:2210.17323, do to weights).
    const float *key_balance;  // backend memory [n_kv_heads, head_dim], > 0
    const float *key_feedback; // backend memory [n_kv_heads, head_dim/size, size/2, size/2]
    RopeKind key_pairs;
    // A scaling value φ for each query head: attend() may sum 2^(x·log2 e - φ), and values times it, of scores x without
    // asking for the largest score first, so that the sums of splits just add up (Hong et al., arXiv:2311.01282). A
    // split whose sums leave the range that is safe for its numbers is taken again with its running maximum: results do
    // not depend on φ but for rounding. NULL: running maxima everywhere.
    const float *score_bases; // backend memory [n_heads]
    int n_kv_heads, head_dim; // 0: the shape's
    bool borrowed;            // another layer's keys and values: qkv() stores none
    bool convolves;           // what lies in it is a convolution's (Convolution in kernels/decoder_shape.h)
    // Nothing lies in its slots: the layer recurs (DeltaRule in kernels/decoder_shape.h), and what it goes on from are the
    // states of sequences (StepSequence.state_from): backend memory [n_states, delta_state_floats()]. NULL: it has no mixer
    // (LayerHeads), and neither keys nor states.
    bool recurs;
    float *states;
    // Learned attention sinks (gpt-oss): the sum that weights are divided by has e^sink_scores[h] beside those of head h's
    // scores, and no value. NULL: none.
    const float *sink_scores; // backend memory [n_heads]
} KvLayer;

// Parts of splits, as a backend's threads or warps take them, that were weighed by their layer's score_bases, and those
// of them that were taken again.
typedef struct SoftmaxCounts {
    int64_t parts, again;
} SoftmaxCounts;

static inline int kv_layer_head_dim(const DecoderShape *shape, const KvLayer *kv) {
    return kv->head_dim > 0 ? kv->head_dim : shape->head_dim;
}

static inline int kv_layer_heads(const DecoderShape *shape, const KvLayer *kv) {
    return kv->n_kv_heads > 0 ? kv->n_kv_heads : shape->n_kv_heads;
}

// A layer that attends, of kv [n_layers]: how a step is cut goes by such a one.
static inline const KvLayer *kv_layer_attending(const KvLayer *kv, int n_layers) {
    for (int l = 0; l < n_layers; l++)
        if (!kv[l].convolves && !kv[l].recurs) return &kv[l];
    return kv;
}

// ---- one step ------------------------------------------------------------------------------------------------------

// The tokens of one sequence in a step, and what they may look at.
//
// Indexes 0 … n_slots-1 of a sequence lie in slots through a table of pages: index i in slot
// pages[i / page_size] + i % page_size. A cache that is not paged is one page, however long.
//
// A query at position p sees the slot that holds position a (slot_positions) at the distance p - a if that
// is >= 0 and, with a sliding window, < window: a token sees itself, an empty slot (position -1) is never
// seen. Where a slot lies has no meaning, so rings and gaps need no code. A window below 0 means chunks of −window
// positions: a query sees those of its own chunk (Llama 4), p / −window == a / −window; nothing was evicted then.
//
// Where tokens were evicted without moving the others (n_evicted > 0), positions n_sinks … n_sinks+n_evicted-1 are
// not seen, whatever their slots hold by now, and the attention sinks come closer: a slot at position a <
// n_sinks is seen at the distance p - n_evicted - a, by the query turned to position p - n_evicted (the same angle
// for all queries: RoPE by -n_evicted). Keys stay as they are. Position a < n_sinks then lies at index a.
typedef struct StepSequence {
    int first_token, n_tokens;  // range of the step's tokens; n_tokens >= 1
    int n_slots;                // indexes it looks at, including those this step fills
    const int32_t *pages;       // host [ceil(n_slots / page_size)], see above
    int32_t n_sinks, n_evicted; // n_evicted 0: no token was evicted, n_sinks means nothing
    int32_t rope_set;           // of the rope's frequencies
    // Positions below it are seen by all of the sequence's queries, also by those before them (a prefix seen both ways); a
    // step that has one of these tokens has them all, and nothing was evicted. 0: none are.
    int32_t n_prefix;
    // Every index holds the position of its number, since nothing was ever evicted: slot_positions say so as well, and need
    // not be asked.
    bool in_order;
    // What convolutions look at: the slots of the tokens that come before its first one in the text, the nearest first; of
    // those behind it the step has the slots. Fewer than decoder_earlier(): the text begins there.
    int n_earlier;
    int32_t earlier[CONVOLUTION_MOST_TAPS - 1];
    // Where layers recur: the state behind the tokens before its first one (-1: there are none), which stays as it is, and
    // where the one behind its last token goes, another one. No two sequences of a step write the same.
    int32_t state_from, state_to;
} StepSequence;

static inline int64_t sequence_n_pages(const StepSequence *s, int page_size) {
    return (s->n_slots - 1) / page_size + 1;
}

// The slot of the token so many before the sequence's t-th of a step, whose tokens go to `slots`; -1: the text begins behind
// it.
static inline int32_t sequence_slot_before(const StepSequence *s, const int32_t *slots, int t, int back) {
    if (back <= t) return slots[s->first_token + t - back];
    return back - t <= s->n_earlier ? s->earlier[back - t - 1] : -1;
}

// What the results of a step may depend on.
//
// In the two kinds that are independent, a token's key, value and logits depend on nothing but its own sequence: not on
// the other sequences of the step, their number or order, nor on where a prompt was cut into steps. They may depend on
// which of the two kinds evaluated it (and with it the tokens before), on nothing else: a GPU has kernels of their own
// for each.
typedef enum StepKind {
    STEP_ANY,      // whatever is fastest
    STEP_DECODING, // independent: every sequence has one token, the newest of its reply
    STEP_READING,  // independent: of every sequence n_tokens >= 1 of its prompt
} StepKind;

// What one pass evaluates. Host arrays, read by begin() and free for reuse when it returns.
typedef struct Step {
    int n_tokens; // >= 1, at most max_tokens
    int n_sequences;
    const int32_t *ids;            // [n_tokens] 0 <= id < vocab_size
    const int32_t *positions;      // [n_tokens] >= 0, and < n_positions where they are learned
    const int32_t *slots;          // [n_tokens] where each token's key and value go; no slot twice
    const StepSequence *sequences; // [n_sequences], in order, covering all tokens
    int page_size;                 // of every sequence's table; >= 1
    int32_t *slot_positions;       // backend memory [n_slots of the cache]; begin() enters the step's tokens
    StepKind kind;
} Step;

// Tokens of a step whose logits are wanted.
typedef struct LogitRows {
    const int32_t *tokens; // host [n], indices into the step; NULL: its first n in order
    int n;                 // at most max_logits; with tokens NULL as many as the step has
} LogitRows;

// Tokens of a step that go through the last layer, and what came of them so far.
typedef struct NarrowRows {
    const int32_t *tokens; // host [at most NARROW_MOST], rising
    void *x;               // [n_tokens of the step in hand, hidden_size]
    void *q;               // [the same, n_heads*head_dim]
} NarrowRows;

enum { NARROW_MOST = 64 };

// Slots of a cache, in all layers, with the positions that they hold.
typedef struct CacheSlots {
    const KvLayer *layers; // host [n_layers]
    int n_layers;
    int32_t *slot_positions; // backend memory [n_slots of the cache]
    const int32_t *slots;    // host [n]
    int n;
} CacheSlots;

// ---- sampling ------------------------------------------------------------------------------------------------------

// One token's adjustment: l = (l > 0 ? l / divide : l * divide) - subtract. Repetition penalties (Keskar
// et al., arXiv:1909.05858), frequency and presence penalties, DRY and logit_bias all reduce to it.
typedef struct LogitAdjustment {
    int32_t id;
    float divide;   // 1 = none
    float subtract; // 0 = none; +INFINITY bans the token
} LogitAdjustment;

// The chain, in this order: adjustments → allowed → top_k → typical_p → top_p → min_p → temperature → draw.
//  - Probabilities of every filter are the softmax of the adjusted logits over what is left, before temperature.
//  - top_k: the k largest; of equal ones the lower ids. 0: all.
//  - typical_p (Meister et al., arXiv:2202.00666): the smallest set, by |−ln p − H|, with mass >= typical_p. 1: off.
//  - top_p (Holtzman et al., arXiv:1904.09751): the smallest set of the most probable, with mass >= top_p. 1: off.
//  - min_p (arXiv:2407.01082): those with p >= min_p · max p. 0: off.
//  - temperature 0 is greedy: the largest adjusted logit, the lowest id of equals; no random number is drawn.
//  - draw: from softmax(l / temperature) over what is left, by inverting the cumulative sum in order of
//    (probability descending, id ascending) at u, with u from Philox4x32-10 (Salmon et al., SC'11): the first
//    curand_uniform() after curand_init(seed, conversation, position·4): see kernels/philox.h.
// Probabilities and their sums are the integers of kernels/sample_math.h, so that every backend takes the same
// token from the same logits.
typedef struct SampleParams {
    float temperature, top_p, min_p, typical_p;
    int top_k;
    uint64_t seed, conversation, position;
    int n_adjustments;
    const LogitAdjustment *adjustments; // host [n_adjustments], each id once
    const uint32_t
        *allowed; // host [(vocab_size + 31) / 32] bit id % 32 of word id / 32: it may be drawn. NULL: all
} SampleParams;

// What sample() gives for a row from which no token can be drawn.
enum {
    SAMPLE_NAN = -1,    // a logit is not a number
    SAMPLE_NOTHING = -2 // nothing is left to choose from: all are banned or impossible
};

#ifdef __cplusplus
}
#endif
#endif
