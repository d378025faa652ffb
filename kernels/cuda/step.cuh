// The step: what begin() makes of the engine's, anew each time, so that nothing of an earlier step is left in it.
#ifndef PALAVER_KERNELS_CUDA_STEP_CUH
#define PALAVER_KERNELS_CUDA_STEP_CUH

#include "kernels/cuda/cache/cache.cuh"
#include "kernels/cuda/device/device.cuh"

// What attends: heads of the backend's shape or of cache_attention().
struct AttendHeads {
    int n_heads, n_kv_heads, head_dim;
};

// Tokens of a tile: as many as keep 128 rows of a KV head's group busy.
static inline int tile_tokens(const AttendHeads *h) {
    const int group = h->n_heads / h->n_kv_heads;
    return group < ATTEND_ROWS ? ATTEND_ROWS / group : 1;
}

// Query heads of a KV head that a split takes together in a step of independent rows, and how often the group has so many.
static inline int split_rows(const AttendHeads *h) {
    if (h->head_dim > 256) return 64; // attention/wide_cache.cu
    return h->n_heads / h->n_kv_heads > 8 && h->head_dim <= 128 ? 16 : 8;
}
static inline int split_head_tiles(const AttendHeads *h) {
    return (h->n_heads / h->n_kv_heads + split_rows(h) - 1) / split_rows(h);
}

// Names of kernels, for profiles (profile.cu); NULL: the op was not called.
struct Chosen {
    const char *qkv, *heads, *tiles, *few, *out, *gate_up, *down, *logits;
};

// A sequence of a step, as layers that recur see it: its tokens, and the states that it goes on from and leaves behind
// (StepSequence.state_from and state_to). to -1: there is no such sequence.
struct RecurringSequence {
    int32_t first_token, n_tokens, from, to;
};

// What attend() multiplies its results with: sigmoid(products + bias), [n_tokens, stride] of which the first `width`. That
// of a layer that qkv() has seen last; products NULL: it has none.
struct AttentionGate {
    void *products;
    DType type;        // of them
    int of_gate;       // elements of what is gated for each of them
    const float *bias; // a number a gate; NULL: none
    int width, stride; // of a row of what is gated, and of gates
};

// Arrays lie in the backend's scratch on the device. Tiles of many tokens come first, then those of few; the latter are
// cut into splits. Few: one, or all of a short step of kind ANY.
struct CudaStep {
    StepKind kind;
    StepKind
        gemm_kind; // by which GEMMs are chosen: ANY also where a graph takes such a step for one that decodes
    int n_tokens, n_sequences, n_tiles, n_few_tiles, n_splits;
    int few_tokens;                               // the most of a tile of few
    int tile_tokens;                              // the most of any
    int most_slots;                               // of a sequence
    bool evicted;                                 // a sequence has n_evicted > 0
    bool in_order;                                // STEP_READING: all sequences are
    int cut_kv_heads;                             // for whose tiles and splits were cut
    int32_t *ids, *positions, *slots, *n_evicted; // [n_tokens]
    int32_t *rope_sets;                           // [n_tokens]
    int32_t *earlier; // [n_tokens, StageRoom.earlier] slots of the tokens before, the nearest first; -1: none
    // Where layers recur, else of no elements: [n_tokens] a token's sequence, -1: it has none, and [n_tokens] sequences.
    int32_t *sequence_of;
    RecurringSequence *sequences;
    int32_t *prefixes, *seen; // [n_tokens] of their sequences, n_prefix; the last positions that they see
    int32_t *drawn;           // [n_tokens] rows of scratch.drawn that hold their ids; -1: ids does
    float *temperatures;      // [n_tokens] of queries: kernels/temperature.h
    bool tempered;            // some of them are not 1, or could be in a step like this
    bool padded;              // n_tokens are more than the step has
    int32_t *count;           // so many it has, on the device
    AttendTile *tiles;        // [n_tiles + n_few_tiles]
    AttendTile *split_tiles; // [n_splits] the tile of each split, so that one look finds it; n_tokens 0: none
    Pages pages;
    float2 *sink_rope;       // [n_tables, n_tokens, rotary_dim/2] cos and sin of n_evicted, if `evicted`
    int32_t *slot_positions; // the caller's
    const float *normed;     // x that scratch.normed holds for W8, normed
    const float *normed_by;  // by these weights; NULL: none
    bool flat_large;         // the ring of the flat GEMM that was launched last: flat/flat_wgmma.cuh
    Chosen chosen;           // what its ops have taken so far
    Chosen before;           // of a narrowed step: what those of all tokens had taken
    AttentionGate gate;
};

// How a step's tiles of few tokens are cut: for these heads over such a cache.
struct SplitPlan {
    AttendHeads heads;
    DType cache;
    int few;    // tokens of a step up to which all its tiles are of few: dispatch_few_tokens()
    int tokens; // the most of a tile of few
    int blocks_a_sm, row_tiles; // see SplitCase
    bool once;
};

// Room that a step's arrays have on the device, so that steps of about the same size lie at the same places. Tokens
// beyond the step's have id and position 0 and slot -1: nothing is stored for them.
struct StageRoom {
    int tokens, splits, pages;
    int earlier; // decoder_earlier()
    int recurs;  // 1: layers do, and sequences have states
};

// A step as it is taken over.
struct Staging {
    const Step *step;            // its ids may be NULL
    const int32_t *drawn;        // of DecodeStep
    const SplitPlan *plan;       // for whose heads it is cut into tiles
    const int64_t *mask_columns; // [n_sequences]; NULL: no mask
    const StageRoom *room;       // NULL: what it needs
};

struct CudaBackend;
Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error);
// The plan for a step that attends over caches as `kv`. It depends on these and the card alone.
Status cuda_split_plan(const CudaBackend *cuda, const Step *step, const AttendHeads *heads, const KvLayer *kv,
                       SplitPlan *plan, Error *error);
StageRoom cuda_stage_room(const CudaBackend *cuda, const Step *step, const SplitPlan *plan); // what it needs
// Makes cuda->step anew.
Status cuda_stage(CudaBackend *cuda, const Staging *staging, Error *error);
// What begin() does once a step is staged: cos and sin, and positions into the cache's slots.
Status cuda_begin_staged(CudaBackend *cuda, Error *error);
// Of the device, for the arrays and the splits of any step of at most n_rows sequences that see n_slots slots each, in
// pages of 16 slots or more.
size_t cuda_step_bytes(const CudaBackend *cuda, int n_rows, int n_slots);

#endif
