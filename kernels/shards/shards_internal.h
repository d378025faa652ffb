// What the files of shards share: the state, memory (shards_memory.c), loading (shards_weights.c), ops of a step
// (shards_step.c), and what is done beside it (shards_state.c).
#ifndef PALAVER_KERNELS_SHARDS_SHARDS_INTERNAL_H
#define PALAVER_KERNELS_SHARDS_SHARDS_INTERNAL_H

#include "kernels/shards/crew.h"
#include "kernels/shards/shards.h"
#include "kernels/shards/shards_plan.h"

// Addresses [address, address + bytes) of one allocation.
typedef struct ShardArea {
    char *address; // reserved, and never to be read: what it stands for lies in `at`
    size_t bytes;
    size_t
        head_bytes; // 0: every rank has all of it; else of a piece, of which each has those of its KV heads
    void *at[SHARDS_MOST]; // each rank's own memory
} ShardArea;

struct Layer {
    Layer *next;
    Layer *own[SHARDS_MOST]; // each rank's
    bool normed[2];          // there is a norm behind out; behind down
    bool norms_rows;         // of queries and keys
};

struct Head {
    Head *next;
    Head *own[SHARDS_MOST];
};

// One card and its share.
typedef struct Rank {
    Backend *backend;
    Shard shard;
    DecoderShape shape;
    float *part; // [max_tokens, hidden_size] its memory: what out and down add up here; zeros between ops
    float *sums; // likewise: what all have added, where a norm comes before it is added to x; NULL: nowhere
    float *squares; // [max_tokens, SHARD_SQUARES] of rows of queries and keys, where these are normed; NULL
    float *logits;  // [max_logits, shard.n_rows] its memory
    KvLayer *kv;    // [n_layers] of the cache that decode() or an op on slots was given last, as it has it
    Layer **layers;
} Rank;

enum { SHARD_LOCK_PATH = 80 };

// Files of this process's cards, in the order of their IDs (shards_locks.c).
typedef struct ShardLocks {
    int n; // 0: they cannot be had
    int turn[SHARDS_MOST], queue[SHARDS_MOST];
    bool held;
    double taken, gave_way, looked; // clock_seconds()
    double patience;                // seconds that it waits
    double idle; // after which they are given away, wanted or not: its process may be stopped
} ShardLocks;

typedef struct Shards Shards;
struct Shards {
    Backend base;
    Ops table; // SHARDS_OPS, without what the ranks lack
    const DecoderShape *whole;
    ShardDevices devices;
    int n;
    int first_rows[SHARDS_MOST + 1]; // of the vocabulary
    Rank ranks[SHARDS_MOST];
    Crew *crew;
    Layer *layers;
    Head *heads;
    ShardArea *areas; // [n_areas]
    size_t n_areas, areas_room;
    bool random_weights;
    bool joined;
    bool norms_behind; // a layer has norms behind out or down
    bool norms_rows;   // a layer has norms of whole rows of queries and keys
    KvLayer *kv;       // [n_layers] what ranks[].kv were made of
    int max_tokens, max_logits;
    bool unsettled; // an op failed that may have left something in `part`, `sums` or `squares`
    int32_t *drawn; // [n_ranks, max_logits] the ids that each has drawn
    int n_drawn;    // rows of the last draw
    Shards *next;   // of those that take turns (shards_turns.c)
    bool busy;      // its devices may have something to do
    double asked;   // clock_seconds() when they were given that
    ShardLocks locks;
};

static inline Shards *shards_of(Backend *backend) {
    return (Shards *)backend;
}

// Of Rank.part, and of Rank.sums.
static inline size_t shards_part_bytes(const Shards *s) {
    return (size_t)s->max_tokens * (size_t)s->whole->hidden_size * sizeof(float);
}

// Of Rank.squares.
static inline size_t shards_squares_bytes(const Shards *s) {
    return (size_t)s->max_tokens * SHARD_SQUARES * sizeof(float);
}

static inline const Ops *rank_ops(const Shards *s) {
    return s->ranks[0].backend->ops;
}

// From joining to parting: it takes turns with others of the process over the same devices (shards_turns.c).
void shards_enter_turns(Shards *s);
void shards_leave_turns(Shards *s);

// crew_run() in its turn: for all that gives devices something to do, or takes memory from them.
Status shards_run_in_turn(Shards *s, CrewTask task, void *context, Error *error);

// Its devices have nothing to do just now: another process may have its turn, if one wants it.
void shards_offer_turn(Shards *s);

// Of shards_turns.c. Whether they are held already, or can be had at once; STATUS_DEVICE: not in `patience`.
void shards_open_locks(Shards *s);
void shards_close_locks(Shards *s);
bool shards_try_locks(Shards *s);
Status shards_await_locks(Shards *s, Error *error);
bool shards_locks_wanted(const Shards *s); // by another process, while they are held
void shards_leave_locks(Shards *s);
void shards_lock_path(const char *id, const char *kind, char path[SHARD_LOCK_PATH]);

// On all ranks' threads; where the caller is a rank's own, in the middle of its decode(), on that alone.
Status shards_run(Shards *s, CrewTask task, void *context, Error *error);

// What is told of a device that is lost: that it may have given up waiting for another. Returns the status.
Status shards_lost(const Shards *s, Status status, Error *error);

// The same memory as a rank's op takes it. NULL stays NULL. What is no area's is the rank's own already, while it decodes.
void *shards_memory_at(const Shards *s, int rank, const void *memory);
// A layer's cache as a rank knows it.
KvLayer shards_kv_at(const Shards *s, int rank, const KvLayer *kv);
// All layers' in Rank.kv, which stays as it is where nothing has changed.
void shards_take_kv(Shards *s, const KvLayer *kv, int n_layers);
void shards_free_areas(Shards *s);

// Ops of the table.
Status shards_alloc(Backend *backend, size_t bytes, void **memory, Error *error);
Status shards_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes, void **memory,
                           Error *error);
void shards_free(Backend *backend, void *memory);
Status shards_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
Status shards_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);

Status shards_check_layers(Shards *s, const BackendOptions *options, Error *error);
// What a rank's part takes on its device; the table has weight_bytes().
int64_t shards_rank_weight_bytes(const Shards *s, int rank, const LayerWeights *layers,
                                 const HeadWeights *head);
Status shards_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
Status shards_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error);

Status shards_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error);
Status shards_embed(Backend *backend, const Head *head, void *x, Error *error);
Status shards_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                  Error *error);
Status shards_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                     Error *error);
Status shards_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status shards_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);
Status shards_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);
Status shards_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);
Status shards_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                     Error *error);
Status shards_decode(Backend *backend, const DecodeStep *step, Error *error);

Status shards_read_floats(Backend *backend, const void *activations, int64_t n, float *host, Error *error);
Status shards_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                     int32_t *ids, Error *error);
Status shards_sample_begin(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                           Error *error);
Status shards_sample_end(Backend *backend, int32_t *ids, Error *error);
Status shards_copy_slots(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error);
Status shards_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error);

#endif
