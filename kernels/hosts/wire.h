// What goes between the ranks of a world: messages of a header and so many bytes. Both ends are of one build on machines of
// one byte order, which their greeting compares (world.h), so structs travel as they lie in memory; what is read is checked.
//
// Rank 0 asks, the others answer: ops are recorded and sent together, in order, and have no answer of their own; what
// failed is told with the next one that has (WIRE_ANSWERED).
#ifndef PALAVER_KERNELS_HOSTS_WIRE_H
#define PALAVER_KERNELS_HOSTS_WIRE_H

#include "kernels/ops.h"

enum {
    WIRE_VERSION = 3,
    WIRE_MOST = 1 << 28,  // bytes of a message
    WIRE_PIECE = 4 << 20, // of memory that is written or read in one message
    WIRE_TEXT = 256,
};

typedef enum WireType {
    WIRE_ANSWER = 1, // WireAnswer, and what was asked for
    WIRE_END,        // why, if something is wrong
    // Answered each:
    WIRE_OPEN,        // WireOpen → WireOpened
    WIRE_LOAD,        // WireLoad → sums of tensors, if they are wanted
    WIRE_ROOM,        // WireRoom → int64_t
    WIRE_ALLOC,       // WireAlloc
    WIRE_READ,        // WireMemory → bytes
    WIRE_READ_FLOATS, // WireMemory → floats
    WIRE_SAMPLE,      // WireSample … → ids
    WIRE_COPY_SLOTS,  // WireSlots
    WIRE_SHIFT_KEYS,
    WIRE_COUNTS, // → SoftmaxCounts
    WIRE_WAIT,
    // Not answered:
    WIRE_FREE,  // WireAlloc
    WIRE_WRITE, // WireMemory, bytes
    WIRE_KV,    // WireKv
    WIRE_BEGIN, // WireStep …
    WIRE_QKV,   // WireOp, as the next four
    WIRE_ATTEND,
    WIRE_OUT,
    WIRE_GATE_UP,
    WIRE_DOWN,
    WIRE_LOGITS, // WireLogits, tokens
    WIRE_DECODE, // WireDecode, WireStep …
    WIRE_TYPES,
} WireType;

static inline bool wire_is_answered(uint32_t type) {
    return type >= WIRE_OPEN && type <= WIRE_WAIT;
}

typedef struct WireHeader {
    uint32_t type, size; // of what follows, bytes
} WireHeader;

typedef struct WireAnswer {
    int32_t status, length; // of the message that follows, bytes
} WireAnswer;

// Memory of a rank: byte `offset` of what it has taken under that number. Area 0: NULL.
typedef struct WireRef {
    uint64_t area, offset;
} WireRef;

// What a rank is to open and to load.
typedef struct WireOpen {
    int32_t first, n; // layers
    int32_t max_tokens, max_logits, n_rows;
    int32_t weights, head, fp8; // WeightType, WeightType, Fp8Inputs
    int32_t random_weights, is_last;
    int64_t context_size;
} WireOpen;

typedef struct WireOpened {
    char name[32], how[WIRE_TEXT]; // of the backend: Ops.name, and its description
    int64_t available, weights;    // bytes
    uint64_t files;                // the same of two processes: they have the same files open; 0: not known
    int32_t activation_bytes;
    int32_t w8, decodes;
} WireOpened;

typedef struct WireLoad {
    int32_t sums,
        unused; // uint64_t of each tensor, over all its bytes in the rank's files; 0: it does not use it
} WireLoad;

typedef struct WireRoom {
    int32_t n_rows, n_slots;
} WireRoom;

typedef struct WireAlloc {
    uint64_t area, bytes, head_bytes;
    int32_t of_layers, unused; // alloc_layers() of the rank's layers
} WireAlloc;

typedef struct WireMemory {
    WireRef at;
    uint64_t n; // bytes; of WIRE_READ_FLOATS elements
} WireMemory;

typedef struct WireKv {
    int32_t layer; // of the rank's own, from 0
    int32_t type, rope, group, scale_type, rotate_keys, key_pairs, n_kv_heads, head_dim, borrowed;
    int64_t slot_stride, head_stride;
    WireRef k, v, k_scale, v_scale, key_balance, key_feedback, score_bases, sink_scores;
} WireKv;

// Followed by ids, positions, slots [n_tokens], WireSequence [n_sequences], pages [n_pages] of all of them.
typedef struct WireStep {
    int32_t n_tokens, n_sequences, page_size, kind, n_pages, has_kv;
    WireRef slot_positions;
    WireKv kv;
} WireStep;

typedef struct WireSequence {
    int32_t first_token, n_tokens, n_slots, n_sinks, n_evicted, rope_set, n_prefix, in_order;
} WireSequence;
// What these are of has no member that does not travel, but for those of layers that convolve or recur (StepSequence.earlier
// and state_from, KvLayer.convolves and recurs), which part_check() refuses: who adds one sees it here.
_Static_assert(sizeof(StepSequence) == 88 && sizeof(KvLayer) == 144 && sizeof(SampleParams) == 72 &&
                   sizeof(Step) == 64,
               "WireSequence, WireKv, WireDraw or WireStep lacks a member");

typedef struct WireOp {
    int32_t layer, window; // of the rank's own, from 0
    WireRef from, to;
} WireOp;

typedef struct WireLogits {
    WireRef x, logits;
    int32_t n, has_tokens;
} WireLogits;

// Followed by a WireStep.
typedef struct WireDecode {
    WireRef x, q, g, logits;
} WireDecode;

// Followed by a WireDraw for each row, each with its adjustments and words of `allowed` behind it.
typedef struct WireSample {
    WireRef logits;
    int32_t n_rows, n_words;
} WireSample;

typedef struct WireDraw {
    float temperature, top_p, min_p, typical_p;
    uint64_t seed, conversation, position;
    int32_t top_k, n_adjustments, has_allowed, unused;
} WireDraw;

// Followed by slots [n] and, of copies, where to [n].
typedef struct WireSlots {
    WireRef slot_positions;
    int32_t n, delta;
} WireSlots;

// ---- writing ------------------------------------------------------------------------------------------------

// Messages that wait to be sent. What finds no memory makes it fail; nothing is written to it after that.
typedef struct WireOut {
    char *bytes;
    size_t n, room;
    size_t begun; // where the message in hand begins
    bool failed;
} WireOut;

void wire_begin(WireOut *out, WireType type);
void wire_put(WireOut *out, const void *bytes, size_t n);
void *wire_room(WireOut *out,
                size_t n);    // n bytes more of it, to be written before the next call; NULL: no memory
void wire_drop(WireOut *out); // the message in hand
void wire_end(WireOut *out);
void wire_put_step(WireOut *out, const WireStep *head, const Step *step);
void wire_put_draws(WireOut *out, const WireSample *head, const SampleParams *params);

// ---- reading ------------------------------------------------------------------------------------------------

// What is left of a message. What is not there is zeros, and makes it fail.
typedef struct WireIn {
    const char *at;
    size_t left;
    bool failed;
} WireIn;

void wire_take(WireIn *in, void *to, size_t n);
const void *wire_take_bytes(WireIn *in, size_t n); // where they are; NULL: they are not there
bool wire_is_over(const WireIn *in);               // all was there, and nothing else

// Host memory for a message's arrays, which grows.
typedef struct WireArrays {
    void *memory;
    size_t room;
} WireArrays;
void wire_arrays_free(WireArrays *arrays);

// A step, but for its memory; its arrays lie in `arrays`. STATUS_DEVICE: the message is damaged, or has more tokens than
// max_tokens.
Status wire_take_step(WireIn *in, int max_tokens, WireArrays *arrays, WireStep *head, Step *step,
                      Error *error);
// Rows of parameters, in `arrays`; at most max_rows, of a vocabulary of so many.
Status wire_take_draws(WireIn *in, int max_rows, int vocab_size, WireArrays *arrays, WireSample *head,
                       SampleParams **params, Error *error);
// n ids, each from 0 to below `most`: tokens of a step, slots.
Status wire_take_ids(WireIn *in, int64_t n, int64_t most, WireArrays *arrays, int32_t **ids, Error *error);
Status wire_damaged(const char *what, Error *error);

#endif
