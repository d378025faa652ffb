// What the files of a backend of several hosts share: its state, memory (hosts_memory.c), the ops of a step (hosts_step.c).
#ifndef PALAVER_KERNELS_HOSTS_HOSTS_INTERNAL_H
#define PALAVER_KERNELS_HOSTS_HOSTS_INTERNAL_H

#include "kernels/hosts/hosts.h"

// Addresses [address, address + bytes) of one allocation.
typedef struct HostsArea {
    char *address; // reserved, and never to be read
    size_t bytes;
    size_t of_layer; // of memory of layers: bytes of one; 0: every rank has all of it
    void *own;       // rank 0's memory
    uint64_t id;     // by which the others know theirs
} HostsArea;

struct Layer {
    Layer *next;
    int rank, index; // index: of the rank's own
    Layer *own;      // rank 0's; NULL: another's
};

struct Head {
    Head *next;
    Head *own;
};

typedef struct Hosts {
    Backend base;
    Ops table; // HOSTS_OPS, with what rank 0's own is
    World *world;
    const DecoderShape *whole;
    DecoderShape shape; // rank 0's own
    Backend *own;
    int64_t own_weights; // bytes
    int n;               // ranks
    int max_tokens, max_logits;
    int first[WORLD_MOST + 1];     // layer of each rank
    WireOpened opened[WORLD_MOST]; // what each has opened, but [0]
    HostsFiles files;
    const atomic_int *interrupt; // while others load; NULL: never
    Layer *layers;
    Head *heads;
    bool loads;       // the others have been told to
    HostsArea *areas; // [n_areas]
    size_t n_areas, areas_room;
    uint64_t n_ids;
    KvLayer *kv;  // [first[1]] as rank 0 has its own, while its op runs
    WireKv *told; // [n_layers] of the others', as they were told last; numbers of areas come once
    // The step in hand.
    int n_tokens;
    bool is_open;       // nobody has asked for what it makes yet
    const Layer *layer; // whose ops come
    int x_rank;         // that has the newest x
    bool skips_last;    // ops of the last rank's layers do nothing: they come in one
} Hosts;

static inline Hosts *hosts_of(Backend *backend) {
    return (Hosts *)backend;
}
static inline const Ops *own_ops(const Hosts *h) {
    return h->own->ops;
}
static inline int last_of(const Hosts *h) {
    return h->n - 1;
}

// A message of one struct to a rank; and its answer, of `size` bytes.
void hosts_tell(Hosts *hosts, int rank, WireType type, const void *bytes, size_t n);
Status hosts_ask(Hosts *hosts, int rank, void *to, size_t size, Error *error);

// The same memory as rank 0's own ops take it, and as another's do. NULL stays NULL.
void *hosts_memory_here(const Hosts *hosts, const void *memory);
WireRef hosts_memory_at(const Hosts *hosts, int rank, const void *memory);
KvLayer hosts_kv_here(const Hosts *hosts, const KvLayer *kv);
WireKv hosts_kv_at(const Hosts *hosts, int rank, const KvLayer *kv);
// Tells a rank of its layer's cache, where that is not what it was.
void hosts_tell_kv(Hosts *hosts, int layer, int rank, const KvLayer *kv);
void hosts_free_areas(Hosts *hosts);

// Memory from a rank, not 0, to the next one, without being waited for.
void hosts_relay(Hosts *hosts, int from, int to, void *memory, size_t bytes);
// Between host memory and a rank's.
Status hosts_get(Hosts *hosts, int rank, void *host, const void *memory, size_t bytes, Error *error);
Status hosts_put(Hosts *hosts, int rank, void *memory, const void *host, size_t bytes, Error *error);

// Ops of the table.
Status hosts_alloc(Backend *backend, size_t bytes, void **memory, Error *error);
Status hosts_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes, void **memory,
                          Error *error);
void hosts_free(Backend *backend, void *memory);
Status hosts_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
Status hosts_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);
Status hosts_read_floats(Backend *backend, const void *activations, int64_t n, float *host, Error *error);

Status hosts_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error);
Status hosts_embed(Backend *backend, const Head *head, void *x, Error *error);
Status hosts_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                 Error *error);
Status hosts_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status hosts_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);
Status hosts_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);
Status hosts_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);
Status hosts_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                    Error *error);
Status hosts_decode(Backend *backend, const DecodeStep *step, Error *error);
Status hosts_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                    int32_t *ids, Error *error);
Status hosts_copy_slots(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error);
Status hosts_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error);

#endif
