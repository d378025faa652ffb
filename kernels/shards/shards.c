#include "kernels/shards/shards_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- opening ----------------------------------------------------------------------------------------------

static Status close_rank(void *context, int rank, Error *error) {
    Rank *r = &((Shards *)context)->ranks[rank];
    (void)error;
    if (!r->backend) return STATUS_OK;
    if (r->part) r->backend->ops->free(r->backend, r->part);
    if (r->sums) r->backend->ops->free(r->backend, r->sums);
    if (r->squares) r->backend->ops->free(r->backend, r->squares);
    if (r->logits) r->backend->ops->free(r->backend, r->logits);
    r->backend->ops->close(r->backend);
    return STATUS_OK;
}

static void shards_close(Backend *backend) {
    if (!backend) return;
    Shards *s = shards_of(backend);
    Backend *backends[SHARDS_MOST];
    Error none;
    for (int i = 0; i < s->n; i++) backends[i] = s->ranks[i].backend;
    if (s->joined) {
        rank_ops(s)->shards->part(backends, s->n);
        shards_leave_turns(s);
    }
    if (s->crew) {
        shards_free_areas(s);
        shards_run_in_turn(s, close_rank, s, &none);
    }
    crew_close(s->crew);
    while (s->layers) {
        Layer *next = s->layers->next;
        free(s->layers);
        s->layers = next;
    }
    while (s->heads) {
        Head *next = s->heads->next;
        free(s->heads);
        s->heads = next;
    }
    for (int i = 0; i < s->n; i++) free(s->ranks[i].kv), free(s->ranks[i].layers);
    free(s->kv);
    free(s->drawn);
    free(s);
}

typedef struct Opening {
    Shards *s;
    const Ops *ops;
    const BackendOptions *options;
} Opening;

static Status open_rank(void *context, int rank, Error *error) {
    const Opening *o = context;
    Rank *r = &o->s->ranks[rank];
    BackendOptions own = *o->options;
    void *part = NULL, *logits = NULL;
    own.device = o->s->devices.names[rank], own.shape = &r->shape;
    own.layers = NULL, own.dispatch = NULL; // measured for whole matrices
    Status status = o->ops->open(&own, &r->backend, error);
    if (status) {
        r->backend = NULL;
        return status;
    }
    status = o->ops->alloc(r->backend, shards_part_bytes(o->s), &part, error);
    if (!status)
        status = o->ops->alloc(r->backend, (size_t)own.max_logits * (size_t)r->shard.n_rows * sizeof(float),
                               &logits, error);
    r->part = part, r->logits = logits;
    return status;
}

static const Ops SHARDS_OPS; // the table below

// What the ranks cannot do, neither can they together.
static Ops table_of(const Ops *ops) {
    Ops table = SHARDS_OPS;
    table.name = ops->name, table.activation_bytes = ops->activation_bytes;
    table.chunk = ops->chunk, table.w8 = ops->w8;
    if (!ops->decode) table.decode = NULL;
    if (!ops->sample_begin || !ops->sample_end) table.sample_begin = NULL, table.sample_end = NULL;
    if (!ops->narrow) table.narrow = NULL;
    table.narrow_from = ops->narrow_from;
    if (!ops->weight_bytes) table.weight_bytes = NULL;
    if (!ops->kernels) table.kernels = NULL;
    if (!ops->step_seconds) table.step_seconds = NULL;
    return table;
}

static Status take_memory(Shards *s, const BackendOptions *options, Error *error) {
    const size_t n_layers = (size_t)options->shape->n_layers;
    s->kv = calloc(n_layers, sizeof *s->kv);
    s->drawn = calloc((size_t)s->n * (size_t)options->max_logits, sizeof *s->drawn);
    bool all = s->kv && s->drawn;
    for (int i = 0; i < s->n; i++) {
        Rank *r = &s->ranks[i];
        r->kv = calloc(n_layers, sizeof *r->kv);
        r->layers = calloc(n_layers, sizeof *r->layers);
        all = all && r->kv && r->layers;
    }
    return all ? STATUS_OK : error_set(error, STATUS_MEMORY, "no memory for %d devices", s->n);
}

static Status open_ranks(Shards *s, const Opening *opening, Error *error) {
    const BackendOptions *options = opening->options;
    const ShardBlocks blocks = shards_blocks(options->shape, options->layers, opening->ops->shards->columns);
    Shard shards[SHARDS_MOST];
    Backend *backends[SHARDS_MOST];
    Status status = shards_check_layers(s, options, error);
    if (!status) status = shards_plan(options->shape, &blocks, s->n, shards, error);
    if (!status) status = take_memory(s, options, error);
    if (!status) status = crew_open(s->n, &s->crew, error);
    if (status) return status;
    for (int i = 0; i < s->n; i++) {
        s->ranks[i].shard = shards[i];
        s->ranks[i].shape = shards_shape(options->shape, &shards[i]);
        s->first_rows[i] = shards[i].first_row;
    }
    s->first_rows[s->n] = options->shape->vocab_size;
    status = crew_run(s->crew, open_rank, (void *)opening, error);
    if (status) return status;
    for (int i = 0; i < s->n; i++) backends[i] = s->ranks[i].backend;
    status = opening->ops->shards->join(backends, s->n, error);
    s->joined = !status;
    if (s->joined) shards_enter_turns(s);
    return status;
}

Status shards_open(const Ops *ops, const BackendOptions *options, Backend **out, Error *error) {
    ShardDevices devices;
    *out = NULL;
    if (!ops->shards || ops->activation_bytes != sizeof(float))
        return error_set(error, STATUS_UNSUPPORTED, "device \"%s\": %s has one device", options->device,
                         ops->name);
    Status status = ops->shards->devices(options->device, &devices, error);
    if (status) return status;
    if (devices.n == 1) {
        BackendOptions one = *options;
        one.device = devices.names[0];
        return ops->open(&one, out, error);
    }
    Shards *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, STATUS_MEMORY, "no memory for %d devices", devices.n);
    s->table = table_of(ops);
    s->base.ops = &s->table;
    s->devices = devices;
    s->n = devices.n;
    s->whole = options->shape;
    s->random_weights = options->random_weights;
    s->max_tokens = options->max_tokens, s->max_logits = options->max_logits;
    const Opening opening = {s, ops, options};
    status = open_ranks(s, &opening, error);
    if (status) {
        shards_close(&s->base);
        return status;
    }
    *out = &s->base;
    return STATUS_OK;
}

int shards_count(const Backend *backend) {
    return backend->ops->close == shards_close ? ((const Shards *)backend)->n : 0;
}

Status shards_lost(const Shards *s, Status status, Error *error) {
    if (status != STATUS_FATAL) return status;
    const Error what = *error;
    return error_set(error, status,
                     "%s; one of %d cards has failed, or has waited too long for another, which a program "
                     "beside this one may keep busy (nvidia-smi lists them): close that, or take other "
                     "cards, or one (--device %s)",
                     what.message, s->n, s->devices.names[0]);
}

// ---- about all of them --------------------------------------------------------------------------------------

static void shards_describe(const Backend *backend, char *text, size_t size) {
    const Shards *s = (const Shards *)backend;
    const Backend *first = s->ranks[0].backend;
    char how[160], way[200];
    first->ops->describe(first, how, sizeof how);
    first->ops->shards->way(first, way, sizeof way);
    snprintf(text, size, "%d cards like %s, sums %s", s->n, how, way);
}

// The memory plan counts a cache whole, of which a card has a share: what cards have and need besides is told in the same
// measure, so that all of it fits where the plan says so. That is the fullest card's own, divided by the share.
static double share_of(const Shards *s) {
    int most = 0;
    for (int i = 0; i < s->n; i++)
        if (s->ranks[i].shard.n_kv_heads > most) most = s->ranks[i].shard.n_kv_heads;
    return (double)most / s->whole->n_kv_heads;
}

typedef struct Room {
    const Shards *s;
    int64_t there[SHARDS_MOST], unused[SHARDS_MOST];
} Room;

static Status memory_of(void *context, int rank, Error *error) {
    Room *room = context;
    const Backend *b = room->s->ranks[rank].backend;
    (void)error;
    b->ops->memory(b, &room->there[rank], &room->unused[rank]);
    return STATUS_OK;
}

static void shards_memory(const Backend *backend, int64_t *total, int64_t *available) {
    const Shards *s = (const Shards *)backend;
    Room room = {.s = s};
    Error none;
    crew_run(s->crew, memory_of, &room, &none);
    int64_t least = INT64_MAX, least_total = INT64_MAX;
    for (int i = 0; i < s->n; i++) {
        if (room.unused[i] < least) least = room.unused[i];
        if (room.there[i] < least_total) least_total = room.there[i];
    }
    *total = (int64_t)((double)least_total / share_of(s));
    *available = (int64_t)((double)least / share_of(s));
}

// What the engine takes for a step's activations, each rank has once.
static int64_t activation_bytes(const Shards *s) {
    const DecoderShape *w = s->whole;
    const int64_t row = w->hidden_size + (int64_t)w->n_heads * w->head_dim + decoder_ffn_width(w);
    return 4 * (s->max_tokens * row + (int64_t)s->max_logits * w->vocab_size);
}

// What a rank has beside weights and cache.
static int64_t rank_scratch_bytes(const Shards *s, int rank, int n_rows, int n_slots) {
    const Rank *r = &s->ranks[rank];
    const int64_t parts = (s->norms_behind ? 2 : 1) * (int64_t)shards_part_bytes(s) +
                          (s->norms_rows ? (int64_t)shards_squares_bytes(s) : 0) +
                          4 * (int64_t)s->max_logits * r->shard.n_rows,
                  positions = 4 * (int64_t)n_slots;
    return r->backend->ops->scratch_bytes(r->backend, n_rows, n_slots) + parts + positions +
           activation_bytes(s);
}

static int64_t shards_scratch_bytes(const Backend *backend, int n_rows, int n_slots) {
    const Shards *s = (const Shards *)backend;
    int64_t most = 0;
    for (int i = 0; i < s->n; i++) {
        const int64_t bytes = rank_scratch_bytes(s, i, n_rows, n_slots);
        if (bytes > most) most = bytes;
    }
    return (int64_t)((double)most / share_of(s)) - activation_bytes(s);
}

static int64_t shards_weight_bytes(const Backend *backend, const LayerWeights *layers,
                                   const HeadWeights *head) {
    const Shards *s = (const Shards *)backend;
    int64_t most = 0;
    for (int i = 0; i < s->n; i++) {
        const int64_t bytes = shards_rank_weight_bytes(s, i, layers, head);
        if (bytes > most) most = bytes;
    }
    return (int64_t)((double)most / share_of(s));
}

void shards_memory_plan(const Backend *backend, const ShardNeeds *needs, ShardMemory *cards) {
    const Shards *s = (const Shards *)backend;
    Room room = {.s = s};
    Error none;
    crew_run(s->crew, memory_of, &room, &none);
    for (int i = 0; i < s->n; i++) {
        ShardMemory *card = &cards[i];
        *card = (ShardMemory){
            .cache = (int64_t)((double)needs->cache * s->ranks[i].shard.n_kv_heads / s->whole->n_kv_heads),
            .scratch = rank_scratch_bytes(s, i, needs->n_rows, needs->n_slots),
            .available = room.unused[i]};
        if (s->table.weight_bytes) card->weights = shards_rank_weight_bytes(s, i, needs->layers, needs->head);
        memcpy(card->name, s->devices.names[i], sizeof card->name);
    }
}

static void shards_kernels(const Backend *backend, char *text, size_t size) {
    const Backend *first = ((const Shards *)backend)->ranks[0].backend;
    first->ops->kernels(first, text, size);
}

// An operator of its own, of no decoder that could be cut.
static Status shards_cache_attention(Backend *backend, const CacheAttention *attention, Error *error) {
    (void)backend, (void)attention;
    return error_set(error, STATUS_UNSUPPORTED, "cache_attention: it runs on one card");
}

// ---- profiles -----------------------------------------------------------------------------------------------

// The first card's clock is for all: they wait for each other twice a layer.
static Status shards_stamp(Backend *backend, int i, Error *error) {
    Backend *first = shards_of(backend)->ranks[0].backend;
    return first->ops->stamp(first, i, error);
}

static Status shards_stamp_seconds(Backend *backend, int n, double *seconds, Error *error) {
    Backend *first = shards_of(backend)->ranks[0].backend;
    return first->ops->stamp_seconds(first, n, seconds, error);
}

static Status shards_softmax_counts(Backend *backend, SoftmaxCounts *counts, Error *error) {
    const Shards *s = shards_of(backend);
    Status status = STATUS_OK;
    *counts = (SoftmaxCounts){0};
    for (int i = 0; i < s->n && !status; i++) {
        SoftmaxCounts own = {0};
        Backend *b = s->ranks[i].backend;
        status = b->ops->softmax_counts(b, &own, error);
        counts->parts += own.parts, counts->again += own.again;
    }
    return status;
}

// A part of the weights on each card, all of the layers' kernels, and the sums of two ops a layer, for which several tokens wait (on
// two H200, 7B: 2.2 ms of 8 tokens of q4_0 where one takes 1.07, bf16 2.8 and 1.85).
static double shards_step_seconds(const Backend *backend, double bytes, int n) {
    const Shards *s = (const Shards *)backend;
    const Backend *first = s->ranks[0].backend;
    const double exchange = n > 1 ? s->whole->n_layers * 14e-6 : 0;
    return first->ops->step_seconds(first, bytes / s->n, n) + exchange;
}

static const Ops SHARDS_OPS = {
    .close = shards_close,
    .describe = shards_describe,
    .memory = shards_memory,
    .scratch_bytes = shards_scratch_bytes,
    .weight_bytes = shards_weight_bytes,
    .alloc = shards_alloc,
    .alloc_layers = shards_alloc_layers,
    .free = shards_free,
    .write = shards_write,
    .read = shards_read,
    .read_floats = shards_read_floats,
    .load_layer = shards_load_layer,
    .load_head = shards_load_head,
    .begin = shards_begin,
    .embed = shards_embed,
    .qkv = shards_qkv,
    .narrow = shards_narrow,
    .attend = shards_attend,
    .out = shards_out,
    .gate_up = shards_gate_up,
    .down = shards_down,
    .logits = shards_logits,
    .cache_attention = shards_cache_attention,
    .copy_slots = shards_copy_slots,
    .shift_keys = shards_shift_keys,
    .decode = shards_decode,
    .sample = shards_sample,
    .sample_begin = shards_sample_begin,
    .sample_end = shards_sample_end,
    .stamp = shards_stamp,
    .stamp_seconds = shards_stamp_seconds,
    .softmax_counts = shards_softmax_counts,
    .kernels = shards_kernels,
    .step_seconds = shards_step_seconds,
};
