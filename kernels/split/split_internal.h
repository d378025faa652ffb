// What the files of the split share: its state, its memory (split_memory.c), and its loading (split_weights.c).
#ifndef PALAVER_KERNELS_SPLIT_SPLIT_INTERNAL_H
#define PALAVER_KERNELS_SPLIT_SPLIT_INTERNAL_H

#include "kernels/split/split.h"

// Addresses [address, address + bytes) of one allocation.
typedef struct SplitArea {
    char *address; // reserved, and never to be read: what it stands for lies in `at`
    size_t bytes;
    bool divided;          // the first `of_first` bytes lie on the first side alone, the others on the second
    size_t of_first;       // divided: bytes
    void *at[SPLIT_SIDES]; // each side's own memory
    bool pinned;           // the first side's was the second's to give
    void *guest;           // divided, where layers visit: one layer's part on the second side
    size_t of_layer;       // divided: bytes
} SplitArea;

struct Layer {
    Layer *next;
    int side, index; // side: of attention
    Layer *own;      // the side's
    Layer *experts;  // the first side's, of one whose attention is the second's; NULL: it is not in two parts
    bool rests;      // of one in two parts, own has a dense feed-forward part: the shared expert
    int guest;       // of SplitVisits.hosts, which has what may visit; -1: nothing does
};

struct Head {
    Head *next;
    Head *own[SPLIT_SIDES];
};

// Which layers' ops do something: of all, or, where a step of one token each goes by the second side's decode(), of one
// side after the other.
typedef enum SplitPart { PART_BOTH, PART_FIRST, PART_SECOND } SplitPart;

// Slots that follow each other.
typedef struct SlotRun {
    int32_t first, n;
} SlotRun;

typedef struct SlotRuns {
    SlotRun *runs; // [n]
    size_t n, room;
} SlotRuns;

// Layers of the first side that come to the second for a prompt (split_visit.c).
typedef struct SplitVisits {
    bool possible;       // there is room for them
    int from;            // tokens of a step from which on they do; 0: never
    LayerWeights *hosts; // [n_hosts], in the order of their layers, in host memory
    int n_hosts;
    bool now;           // in this step
    int there;          // number of the one that is; -1: none
    Layer *guest;       // it, the second side's
    SlotRuns past, own; // of a step that goes on behind cached tokens: what it looks at; what it fills
    void *probe;        // memory of the second side, to wait by
    bool unsettled;     // keys and values may still be on their way to the first side
} SplitVisits;

// What a step of one token each is told by (split_decode.c): of the second side's layers.
typedef struct SplitDecode {
    Layer **layers;
    KvLayer *kv;
} SplitDecode;

typedef struct Split {
    Backend base;
    Backend *sides[SPLIT_SIDES];
    DecoderShape shapes[SPLIT_SIDES]; // the whole one, but for the number of layers
    int n_layers, border;
    bool experts;        // see SplitOptions
    LayerWeights *parts; // [n_layers] what of layers a side has, for its op
    Layer *layers;
    Head *heads;
    SplitArea *areas; // [n_areas]
    size_t n_areas, areas_room;
    KvLayer *kv; // [n_layers] of one side, while its op runs
    // The step in hand.
    int n_tokens;
    SplitPart part;
    bool left_out; // the layer in hand is not of this part
    int side;      // where it attends
    bool visits;   // it, or its experts, are guests of the second side
    const KvLayer *kv_in_hand;
    int x_side;    // that has the newest x
    bool x_shared; // the other has it as well
    SplitVisits visiting;
    SplitDecode decode;
    float *staging; // [max_tokens, hidden_size] of x on its way
    bool staging_pinned;
    // Its times so far, up to `counted`; 0: that is not known, or has been told.
    double counted;
    SplitTimes spent;
    SplitTimes times; // of the step before, or of this one once it was waited for
    char device[32];  // the second side's name, "cuda:0"
} Split;

static inline Split *split_of(Backend *backend) {
    return (Split *)backend;
}

static inline const Ops *split_ops(const Split *split, int side) {
    return split->sides[side]->ops;
}

// The same memory as a side's op takes it. NULL stays NULL, and so does what the side has nothing of.
void *split_memory_at(const Split *split, int side, const void *memory);

// Memory of activations, which in PART_SECOND are the second side's own already.
static inline void *split_activations_at(const Split *split, int side, const void *memory) {
    return split->part == PART_SECOND ? (void *)memory : split_memory_at(split, side, memory);
}

// A layer's cache as a side knows it; where the layer visits, what of it lies there.
KvLayer split_kv_at(const Split *split, int side, const KvLayer *kv);
KvLayer split_guest_kv(const Split *split, const KvLayer *kv);

// Brings x to the side, if only the other has the newest one. Who adds to it there says so.
Status split_cross(Split *split, int side, const void *x, Error *error);
static inline void split_x_changes(Split *split, int side) {
    split->x_side = side, split->x_shared = false;
}

// Times of a step: a new one begins; what has passed since the last was the side's.
void split_time_begin(Split *split);
void split_time_spent(Split *split, int side);

// The first layer of which the second side has anything at all, a cache among it.
static inline int split_second_first(const Split *split) {
    return split->experts ? 0 : split->border;
}

// A step as a side's ops take it.
Step split_step_at(const Split *split, int side, const Step *step);

// ---- split_weights.c -------------------------------------------------------------------------------------------

// What of a layer a side has; all of it, or nothing but its index.
LayerWeights split_part_of(const Split *split, const LayerWeights *layer, int side);

// ---- split_experts.c -------------------------------------------------------------------------------------------

// gate_up and down of a layer in two parts.
Status split_experts_gate_up(Split *split, const Layer *layer, const void *x, void *g, Error *error);
Status split_experts_down(Split *split, const Layer *layer, const void *g, void *x, Error *error);

// ---- split_visit.c ----------------------------------------------------------------------------------------------

// A layer was loaded. Once all that may visit are there, room is taken for guests.
Status split_visit_note(Split *split, Layer *layer, Error *error);
void split_visit_close(Split *split);
// Whether the layers of the first side visit in this step.
Status split_visit_begin(Split *split, const Step *step, Error *error);
// The layer, or what of it the first side has, comes for the ops that follow; and the next one sets out.
Status split_visit_load(Split *split, const Layer *layer, Error *error);
Status split_visit_next(Split *split, const Layer *layer, Error *error);
// The same with the keys and values that the step looks at, and leaving those that it made behind.
Status split_visit_enter(Split *split, const Layer *layer, const KvLayer *kv, Error *error);
Status split_visit_leave(Split *split, const Layer *layer, const KvLayer *kv, Error *error);
// Waits for what guests have left.
Status split_visit_settle(Split *split, Error *error);

// ---- split_decode.c -----------------------------------------------------------------------------------------------

Status split_decode(Backend *backend, const DecodeStep *step, Error *error);

// Someone has waited for the second side: a step that had come there is done.
void split_waited(Split *split);

// Ops of the table.
extern const Ops SPLIT_OPS;
void split_close(Backend *backend);

Status split_memory_alloc(Backend *backend, size_t bytes, void **memory, Error *error);
Status split_memory_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes,
                                 void **memory, Error *error);
void split_memory_free(Backend *backend, void *memory);
Status split_memory_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
Status split_memory_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);

Status split_copy_slots(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error);
Status split_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error);
Status split_cache_attention(Backend *backend, const CacheAttention *attention, Error *error);

Status split_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
Status split_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error);

#endif
