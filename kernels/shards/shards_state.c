// What is done beside a step: activations are read, tokens drawn, slots of the cache copied and turned.
#include "kernels/shards/shards_internal.h"

#include <stdlib.h>
#include <string.h>

// ---- activations --------------------------------------------------------------------------------------------

// The first n elements of q: rows of all heads, of which each rank has its own.
Status shards_read_floats(Backend *backend, const void *activations, int64_t n, float *host, Error *error) {
    Shards *s = shards_of(backend);
    const int64_t width = (int64_t)s->whole->n_heads * s->whole->head_dim, rows = n / width;
    float *own = malloc((size_t)n * sizeof *own);
    if (!own) return error_set(error, STATUS_MEMORY, "no memory for %lld elements", (long long)n);
    Status status = n % width ? error_set(error, STATUS_UNSUPPORTED, "%lld elements of rows of %lld heads",
                                          (long long)n, (long long)width)
                              : STATUS_OK;
    for (int i = 0; i < s->n && !status; i++) {
        const Rank *r = &s->ranks[i];
        const int64_t part = (int64_t)r->shard.n_heads * s->whole->head_dim,
                      first = (int64_t)r->shard.first_head * s->whole->head_dim;
        status = r->backend->ops->read_floats(r->backend, shards_memory_at(s, i, activations), rows * part,
                                              own, error);
        for (int64_t row = 0; row < rows && !status; row++)
            memcpy(host + row * width + first, own + row * part, (size_t)part * sizeof *own);
    }
    free(own);
    return status;
}

// ---- drawing ------------------------------------------------------------------------------------------------

typedef struct Draw {
    Shards *s;
    const float *logits;
    int n_rows;
    const SampleParams *params;
    int32_t *ids;
} Draw;

static Status draw_begin(void *context, int rank, Error *error) {
    const Draw *d = context;
    Backend *b = d->s->ranks[rank].backend;
    return b->ops->sample_begin(b, shards_memory_at(d->s, rank, d->logits), d->n_rows, d->params, error);
}

// All ranks draw, for each needs the ids that its next step begins with.
Status shards_sample_begin(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                           Error *error) {
    Draw draw = {.s = shards_of(backend), .logits = logits, .n_rows = n_rows, .params = params};
    draw.s->n_drawn = n_rows;
    return shards_run_in_turn(draw.s, draw_begin, &draw, error);
}

static Status draw_end(void *context, int rank, Error *error) {
    const Draw *d = context;
    Backend *b = d->s->ranks[rank].backend;
    return b->ops->sample_end(b, d->s->drawn + (int64_t)rank * d->s->max_logits, error);
}

// They have drawn from the same numbers, and must have drawn the same.
Status shards_sample_end(Backend *backend, int32_t *ids, Error *error) {
    Shards *s = shards_of(backend);
    Draw draw = {.s = s};
    Status status = shards_lost(s, crew_run(s->crew, draw_end, &draw, error), error);
    if (status) return status;
    const size_t bytes = (size_t)s->n_drawn * sizeof *ids;
    memcpy(ids, s->drawn, bytes);
    for (int i = 1; i < s->n; i++)
        if (memcmp(ids, s->drawn + (int64_t)i * s->max_logits, bytes) != 0)
            return error_set(error, STATUS_DEVICE,
                             "card %d of %d has drawn another token: their logits differ", i, s->n);
    return STATUS_OK;
}

Status shards_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                     int32_t *ids, Error *error) {
    Shards *s = shards_of(backend);
    Backend *first = s->ranks[0].backend;
    return first->ops->sample(first, shards_memory_at(s, 0, logits), n_rows, params, ids, error);
}

// ---- the cache ----------------------------------------------------------------------------------------------

typedef struct Slots {
    Shards *s;
    const CacheSlots *slots;
    const int32_t *to;
    int32_t delta;
} Slots;

static CacheSlots slots_at(const Slots *c, int rank) {
    CacheSlots own = *c->slots;
    own.layers = c->s->ranks[rank].kv;
    own.slot_positions = shards_memory_at(c->s, rank, own.slot_positions);
    return own;
}

static Status copy_slots(void *context, int rank, Error *error) {
    const Slots *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const CacheSlots own = slots_at(c, rank);
    return b->ops->copy_slots(b, &own, c->to, error);
}

Status shards_copy_slots(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error) {
    Slots call = {.s = shards_of(backend), .slots = slots, .to = to};
    shards_take_kv(call.s, slots->layers, slots->n_layers);
    return shards_run_in_turn(call.s, copy_slots, &call, error);
}

static Status shift_keys(void *context, int rank, Error *error) {
    const Slots *c = context;
    Backend *b = c->s->ranks[rank].backend;
    const CacheSlots own = slots_at(c, rank);
    return b->ops->shift_keys(b, &own, c->delta, error);
}

Status shards_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error) {
    Slots call = {.s = shards_of(backend), .slots = slots, .delta = delta};
    shards_take_kv(call.s, slots->layers, slots->n_layers);
    return shards_run_in_turn(call.s, shift_keys, &call, error);
}
