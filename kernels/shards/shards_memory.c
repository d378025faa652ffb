// Memory of shards: addresses that stand for memory of every rank.
#include "kernels/base/addresses.h"
#include "kernels/base/array.h"
#include "kernels/shards/shards_internal.h"

// The area that [memory, memory + bytes) is in; NULL: it is in none.
static ShardArea *area_of(const Shards *s, const void *memory, size_t bytes) {
    for (size_t i = 0; i < s->n_areas; i++)
        if (addresses_have(s->areas[i].address, s->areas[i].bytes, memory, bytes)) return &s->areas[i];
    return NULL;
}

// How many of an area's first `offset` bytes a rank has: where it has what lies there.
static size_t bytes_before(const Shards *s, int rank, const ShardArea *area, size_t offset) {
    const Shard *shard = &s->ranks[rank].shard;
    if (area->head_bytes == 0) return offset;
    const size_t all = area->head_bytes * (size_t)s->whole->n_kv_heads,
                 own = area->head_bytes * (size_t)shard->n_kv_heads,
                 first = area->head_bytes * (size_t)shard->first_kv_head, inside = offset % all;
    const size_t after = inside < first ? 0 : inside - first;
    return offset / all * own + (after < own ? after : own);
}

void *shards_memory_at(const Shards *s, int rank, const void *memory) {
    const ShardArea *area = memory ? area_of(s, memory, 1) : NULL;
    if (!area) return (void *)memory;
    return (char *)area->at[rank] +
           bytes_before(s, rank, area, (size_t)((const char *)memory - area->address));
}

KvLayer shards_kv_at(const Shards *s, int rank, const KvLayer *kv) {
    const Shard *shard = &s->ranks[rank].shard;
    KvLayer own = *kv;
    own.k = shards_memory_at(s, rank, kv->k), own.v = shards_memory_at(s, rank, kv->v);
    own.k_scale = shards_memory_at(s, rank, kv->k_scale),
    own.v_scale = shards_memory_at(s, rank, kv->v_scale);
    // Rows of all heads become rows of those that are there; where each head has all slots, the next head's are as far.
    if (kv->head_stride < kv->slot_stride)
        own.slot_stride = kv->slot_stride / s->whole->n_kv_heads * shard->n_kv_heads;
    const float *const balance = shards_memory_at(s, rank, kv->key_balance),
                       *const feedback = shards_memory_at(s, rank, kv->key_feedback),
                       *const bases = shards_memory_at(s, rank, kv->score_bases),
                       *const sinks = shards_memory_at(s, rank, kv->sink_scores);
    // key_feedback is [n_kv_heads, head_dim/size, size/2, size/2], size the largest power of two in head_dim.
    const int64_t dim = s->whole->head_dim, size = dim & -dim;
    if (balance) own.key_balance = balance + shard->first_kv_head * dim;
    if (feedback) own.key_feedback = feedback + shard->first_kv_head * (dim * size / 4);
    if (bases) own.score_bases = bases + shard->first_head;
    if (sinks) own.sink_scores = sinks + shard->first_head;
    return own;
}

void shards_take_kv(Shards *s, const KvLayer *kv, int n_layers) {
    const size_t bytes = (size_t)n_layers * sizeof *kv;
    if (!memcmp(s->kv, kv, bytes)) return;
    memcpy(s->kv, kv, bytes);
    for (int rank = 0; rank < s->n; rank++)
        for (int l = 0; l < n_layers; l++) {
            memset(&s->ranks[rank].kv[l], 0, sizeof *kv); // compared byte by byte
            s->ranks[rank].kv[l] = shards_kv_at(s, rank, &kv[l]);
        }
}

// ---- taking and giving back -------------------------------------------------------------------------------

typedef struct Taking {
    Shards *s;
    ShardArea *area;
} Taking;

static Status take(void *context, int rank, Error *error) {
    const Taking *t = context;
    const Rank *r = &t->s->ranks[rank];
    size_t bytes = bytes_before(t->s, rank, t->area, t->area->bytes);
    return r->backend->ops->alloc(r->backend, bytes, &t->area->at[rank], error);
}

static Status give_back(void *context, int rank, Error *error) {
    const Taking *t = context;
    const Rank *r = &t->s->ranks[rank];
    (void)error;
    if (t->area->at[rank]) r->backend->ops->free(r->backend, t->area->at[rank]);
    return STATUS_OK;
}

static void free_area(Shards *s, ShardArea *area) {
    Taking taking = {s, area};
    Error none;
    shards_run_in_turn(s, give_back, &taking, &none);
    addresses_release(area->address, area->bytes);
    memset(s->kv, 0,
           (size_t)s->whole->n_layers * sizeof *s->kv); // its addresses may come again, and mean others
}

static Status add_area(Shards *s, ShardArea area, void **memory, Error *error) {
    *memory = NULL;
    if (!array_reserve(&s->areas, sizeof *s->areas, s->n_areas, 1, &s->areas_room))
        return error_set(error, STATUS_MEMORY, "no memory for a table");
    area.address = addresses_reserve(area.bytes);
    if (!area.address) return error_set(error, STATUS_MEMORY, "no addresses for %zu MB", area.bytes >> 20);
    Taking taking = {s, &area};
    Status status = shards_run_in_turn(s, take, &taking, error);
    if (status) {
        free_area(s, &area);
        return status;
    }
    s->areas[s->n_areas++] = area;
    *memory = area.address;
    return STATUS_OK;
}

Status shards_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    return add_area(shards_of(backend), (ShardArea){.bytes = bytes > 0 ? bytes : 1}, memory, error);
}

Status shards_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes, void **memory,
                           Error *error) {
    Shards *s = shards_of(backend);
    (void)n_layers;
    *memory = NULL;
    if (head_bytes == 0 || bytes % (head_bytes * (size_t)s->whole->n_kv_heads) != 0)
        return error_set(error, STATUS_USAGE, "%zu bytes in pieces of %zu, for %d KV heads", bytes,
                         head_bytes, s->whole->n_kv_heads);
    return add_area(s, (ShardArea){.bytes = bytes, .head_bytes = head_bytes}, memory, error);
}

void shards_free(Backend *backend, void *memory) {
    Shards *s = shards_of(backend);
    ShardArea *area = memory ? area_of(s, memory, 1) : NULL;
    if (!area) return;
    free_area(s, area);
    *area = s->areas[--s->n_areas];
}

void shards_free_areas(Shards *s) {
    while (s->n_areas > 0) shards_free(&s->base, s->areas[s->n_areas - 1].address);
    free(s->areas);
}

// ---- reading and writing --------------------------------------------------------------------------------

typedef struct Moving {
    Shards *s;
    const ShardArea *area;
    size_t offset, bytes;
    char *read;          // NULL: it is written
    const char *written; // likewise
} Moving;

// Goes through what of [offset, offset + bytes) is a rank's, which lies in one piece there: between that piece, `own`, and
// the whole.
static void scatter(const Moving *m, int rank, char *own) {
    const Shard *shard = &m->s->ranks[rank].shard;
    const size_t head = m->area->head_bytes, n = (size_t)m->s->whole->n_kv_heads,
                 first_kv = (size_t)shard->first_kv_head;
    for (size_t at = m->offset, end = m->offset + m->bytes, run; at < end; at += run) {
        const size_t h = at / head % n;
        run = head - at % head < end - at ? head - at % head : end - at;
        if (h < first_kv || h - first_kv >= (size_t)shard->n_kv_heads) continue;
        if (m->read)
            memcpy(m->read + (at - m->offset), own, run);
        else
            memcpy(own, m->written + (at - m->offset), run);
        own += run;
    }
}

// Whether what a rank has of a cache is the rank's before it as well: where KV heads are fewer than cards.
static bool is_copy(const Shards *s, int rank) {
    if (rank == 0) return false;
    return s->ranks[rank].shard.first_kv_head == s->ranks[rank - 1].shard.first_kv_head;
}

static Status move_heads(const Moving *m, int rank, Error *error) {
    if (m->read && is_copy(m->s, rank)) return STATUS_OK;
    Backend *b = m->s->ranks[rank].backend;
    const size_t first = bytes_before(m->s, rank, m->area, m->offset),
                 bytes = bytes_before(m->s, rank, m->area, m->offset + m->bytes) - first;
    char *there = (char *)m->area->at[rank] + first, *own = bytes ? malloc(bytes) : NULL;
    if (bytes == 0) return STATUS_OK;
    if (!own) return error_set(error, STATUS_MEMORY, "no memory for %zu bytes of a cache", bytes);
    Status status;
    if (m->read) {
        status = b->ops->read(b, own, there, bytes, error);
        if (!status) scatter(m, rank, own);
    } else {
        scatter(m, rank, own);
        status = b->ops->write(b, there, own, bytes, error);
    }
    free(own);
    return status;
}

static Status move(void *context, int rank, Error *error) {
    const Moving *m = context;
    Backend *b = m->s->ranks[rank].backend;
    char *there = (char *)m->area->at[rank] + m->offset;
    if (m->area->head_bytes) return move_heads(m, rank, error);
    return m->read ? b->ops->read(b, m->read, there, m->bytes, error)
                   : b->ops->write(b, there, m->written, m->bytes, error);
}

static Status moving_of(Shards *s, const void *memory, size_t bytes, const char *op, Moving *m,
                        Error *error) {
    const ShardArea *area = area_of(s, memory, bytes);
    if (!area)
        return error_set(error, STATUS_DEVICE, "several cards: %s of %zu bytes that are not their own", op,
                         bytes);
    *m = (Moving){
        .s = s, .area = area, .offset = (size_t)((const char *)memory - area->address), .bytes = bytes};
    return STATUS_OK;
}

Status shards_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    Shards *s = shards_of(backend);
    Moving m;
    Status status = moving_of(s, memory, bytes, "writing", &m, error);
    m.written = host;
    return status ? status : shards_run_in_turn(s, move, &m, error);
}

// Of what all have, the first rank's.
Status shards_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    Shards *s = shards_of(backend);
    Moving m;
    Status status = moving_of(s, memory, bytes, "reading", &m, error);
    if (status) return status;
    m.read = host;
    status = m.area->head_bytes ? shards_run_in_turn(s, move, &m, error)
                                : shards_lost(s, move(&m, 0, error), error);
    shards_offer_turn(s);
    return status;
}
