// Memory of several hosts: addresses that stand for memory of every rank.
#include "kernels/base/addresses.h"
#include "kernels/base/array.h"
#include "kernels/hosts/hosts_internal.h"

// The area that [memory, memory + bytes) is in; NULL: it is in none.
static HostsArea *area_of(const Hosts *h, const void *memory, size_t bytes) {
    for (size_t i = 0; i < h->n_areas; i++)
        if (addresses_have(h->areas[i].address, h->areas[i].bytes, memory, bytes)) return &h->areas[i];
    return NULL;
}

// Where a rank's part of an area begins and ends, in bytes of the whole.
static size_t begin_of(const Hosts *h, const HostsArea *area, int rank) {
    return area->of_layer ? area->of_layer * (size_t)h->first[rank] : 0;
}
static size_t end_of(const Hosts *h, const HostsArea *area, int rank) {
    return area->of_layer ? area->of_layer * (size_t)h->first[rank + 1] : area->bytes;
}

// Bytes into a rank's part; false: it is not the rank's.
static bool offset_at(const Hosts *h, const HostsArea *area, int rank, const void *memory, size_t *offset) {
    const size_t at = (size_t)((const char *)memory - area->address);
    *offset = at - begin_of(h, area, rank);
    return at >= begin_of(h, area, rank) && at < end_of(h, area, rank);
}

void *hosts_memory_here(const Hosts *h, const void *memory) {
    const HostsArea *area = memory ? area_of(h, memory, 1) : NULL;
    size_t offset;
    if (!area) return (void *)memory; // of its own already, while it decodes
    return offset_at(h, area, 0, memory, &offset) ? (char *)area->own + offset : NULL;
}

WireRef hosts_memory_at(const Hosts *h, int rank, const void *memory) {
    const HostsArea *area = memory ? area_of(h, memory, 1) : NULL;
    size_t offset;
    if (!area || !offset_at(h, area, rank, memory, &offset)) return (WireRef){0};
    return (WireRef){area->id, offset};
}

KvLayer hosts_kv_here(const Hosts *h, const KvLayer *kv) {
    KvLayer own = *kv;
    own.k = hosts_memory_here(h, kv->k), own.v = hosts_memory_here(h, kv->v);
    own.k_scale = hosts_memory_here(h, kv->k_scale), own.v_scale = hosts_memory_here(h, kv->v_scale);
    own.key_balance = hosts_memory_here(h, kv->key_balance);
    own.key_feedback = hosts_memory_here(h, kv->key_feedback);
    own.score_bases = hosts_memory_here(h, kv->score_bases);
    own.sink_scores = hosts_memory_here(h, kv->sink_scores);
    return own;
}

WireKv hosts_kv_at(const Hosts *h, int rank, const KvLayer *kv) {
    return (WireKv){.type = (int32_t)kv->type,
                    .rope = kv->rope,
                    .group = kv->group,
                    .scale_type = (int32_t)kv->scale_type,
                    .rotate_keys = kv->rotate_keys,
                    .key_pairs = (int32_t)kv->key_pairs,
                    .n_kv_heads = kv->n_kv_heads,
                    .head_dim = kv->head_dim,
                    .borrowed = kv->borrowed,
                    .slot_stride = kv->slot_stride,
                    .head_stride = kv->head_stride,
                    .k = hosts_memory_at(h, rank, kv->k),
                    .v = hosts_memory_at(h, rank, kv->v),
                    .k_scale = hosts_memory_at(h, rank, kv->k_scale),
                    .v_scale = hosts_memory_at(h, rank, kv->v_scale),
                    .key_balance = hosts_memory_at(h, rank, kv->key_balance),
                    .key_feedback = hosts_memory_at(h, rank, kv->key_feedback),
                    .score_bases = hosts_memory_at(h, rank, kv->score_bases),
                    .sink_scores = hosts_memory_at(h, rank, kv->sink_scores)};
}

void hosts_tell_kv(Hosts *h, int layer, int rank, const KvLayer *kv) {
    WireKv told = hosts_kv_at(h, rank, kv);
    told.layer = layer - h->first[rank];
    if (!memcmp(&h->told[layer], &told, sizeof told)) return;
    h->told[layer] = told;
    hosts_tell(h, rank, WIRE_KV, &told, sizeof told);
}

// ---- taking and giving back -------------------------------------------------------------------------------

static void free_area(Hosts *h, HostsArea *area) {
    const WireAlloc gone = {.area = area->id};
    if (area->own) own_ops(h)->free(h->own, area->own);
    for (int rank = 1; rank < h->n; rank++) hosts_tell(h, rank, WIRE_FREE, &gone, sizeof gone);
    addresses_release(area->address, area->bytes);
}

static Status take(Hosts *h, HostsArea *area, size_t head_bytes, Error *error) {
    const size_t own = end_of(h, area, 0) - begin_of(h, area, 0);
    const Ops *ops = own_ops(h);
    Status status = area->of_layer && ops->alloc_layers
                        ? ops->alloc_layers(h->own, own, h->first[1], head_bytes, &area->own, error)
                        : ops->alloc(h->own, own, &area->own, error);
    if (status) area->own = NULL;
    for (int rank = 1; rank < h->n && !status; rank++) {
        const WireAlloc told = {.area = area->id,
                                .bytes = end_of(h, area, rank) - begin_of(h, area, rank),
                                .head_bytes = head_bytes,
                                .of_layers = area->of_layer > 0};
        hosts_tell(h, rank, WIRE_ALLOC, &told, sizeof told);
        status = hosts_ask(h, rank, NULL, 0, error);
    }
    return status;
}

static Status add_area(Hosts *h, HostsArea area, size_t head_bytes, void **memory, Error *error) {
    *memory = NULL;
    if (!array_reserve(&h->areas, sizeof *h->areas, h->n_areas, 1, &h->areas_room))
        return error_set(error, STATUS_MEMORY, "no memory for a table");
    area.address = addresses_reserve(area.bytes);
    if (!area.address) return error_set(error, STATUS_MEMORY, "no addresses for %zu MB", area.bytes >> 20);
    area.id = ++h->n_ids;
    Status status = take(h, &area, head_bytes, error);
    if (status) {
        free_area(h, &area);
        return status;
    }
    h->areas[h->n_areas++] = area;
    *memory = area.address;
    return STATUS_OK;
}

Status hosts_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    return add_area(hosts_of(backend), (HostsArea){.bytes = bytes > 0 ? bytes : 1}, 0, memory, error);
}

Status hosts_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes, void **memory,
                          Error *error) {
    Hosts *h = hosts_of(backend);
    *memory = NULL;
    if (n_layers != h->whole->n_layers || bytes == 0 || bytes % (size_t)n_layers != 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "a cache whose slots hold all layers cannot lie on several hosts; take [cache] layout 1, 2 or 3");
    return add_area(h, (HostsArea){.bytes = bytes, .of_layer = bytes / (size_t)n_layers}, head_bytes, memory,
                    error);
}

void hosts_free(Backend *backend, void *memory) {
    Hosts *h = hosts_of(backend);
    HostsArea *area = memory ? area_of(h, memory, 1) : NULL;
    if (!area) return;
    free_area(h, area);
    *area = h->areas[--h->n_areas];
}

void hosts_free_areas(Hosts *h) {
    while (h->n_areas > 0) hosts_free(&h->base, h->areas[h->n_areas - 1].address);
    free(h->areas);
}

// ---- reading and writing --------------------------------------------------------------------------------

Status hosts_put(Hosts *h, int rank, void *memory, const void *host, size_t bytes, Error *error) {
    if (rank == 0) return own_ops(h)->write(h->own, hosts_memory_here(h, memory), host, bytes, error);
    const char *from = host;
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < WIRE_PIECE ? bytes - done : WIRE_PIECE;
        const WireMemory to = {hosts_memory_at(h, rank, (char *)memory + done), n};
        WireOut *out = world_out(h->world, rank);
        wire_begin(out, WIRE_WRITE);
        wire_put(out, &to, sizeof to);
        wire_put(out, from + done, n);
        wire_end(out);
    }
    return STATUS_OK;
}

Status hosts_get(Hosts *h, int rank, void *host, const void *memory, size_t bytes, Error *error) {
    if (rank == 0) return own_ops(h)->read(h->own, host, hosts_memory_here(h, memory), bytes, error);
    Status status = STATUS_OK;
    for (size_t done = 0, n; done < bytes && !status; done += n) {
        n = bytes - done < WIRE_PIECE ? bytes - done : WIRE_PIECE;
        const WireMemory from = {hosts_memory_at(h, rank, (const char *)memory + done), n};
        hosts_tell(h, rank, WIRE_READ, &from, sizeof from);
        status = hosts_ask(h, rank, (char *)host + done, n, error);
    }
    return status;
}

void hosts_relay(Hosts *h, int from, int to, void *memory, size_t bytes) {
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < WIRE_PIECE ? bytes - done : WIRE_PIECE;
        const WireMemory source = {hosts_memory_at(h, from, (char *)memory + done), n},
                         target = {hosts_memory_at(h, to, (char *)memory + done), n};
        hosts_tell(h, from, WIRE_READ, &source, sizeof source);
        WireOut *out = world_out(h->world, to);
        wire_begin(out, WIRE_WRITE);
        wire_put(out, &target, sizeof target);
        world_relay(h->world, from, to, n);
    }
}

// What of [memory, memory + bytes) a rank has: where from, and how much; 0: nothing.
static size_t part_of(const Hosts *h, const HostsArea *area, int rank, const void *memory, size_t bytes,
                      size_t *skipped) {
    const size_t at = (size_t)((const char *)memory - area->address), begin = begin_of(h, area, rank),
                 end = end_of(h, area, rank), from = at > begin ? at : begin,
                 to = at + bytes < end ? at + bytes : end;
    *skipped = from - at;
    return from < to ? to - from : 0;
}

static Status check_area(const HostsArea *area, const char *op, size_t bytes, Error *error) {
    if (area) return STATUS_OK;
    return error_set(error, STATUS_DEVICE, "several hosts: %s of %zu bytes that are not their own", op,
                     bytes);
}

Status hosts_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    Hosts *h = hosts_of(backend);
    const HostsArea *area = area_of(h, memory, bytes);
    Status status = check_area(area, "writing", bytes, error);
    for (int rank = 0; rank < h->n && !status; rank++) {
        size_t skipped;
        const size_t n = part_of(h, area, rank, memory, bytes, &skipped);
        if (n > 0)
            status = hosts_put(h, rank, (char *)memory + skipped, (const char *)host + skipped, n, error);
    }
    return status;
}

Status hosts_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    Hosts *h = hosts_of(backend);
    const HostsArea *area = area_of(h, memory, bytes);
    Status status = check_area(area, "reading", bytes, error);
    if (!status && !area->of_layer) return hosts_get(h, last_of(h), host, memory, bytes, error);
    for (int rank = 0; rank < h->n && !status; rank++) {
        size_t skipped;
        const size_t n = part_of(h, area, rank, memory, bytes, &skipped);
        if (n > 0)
            status = hosts_get(h, rank, (char *)host + skipped, (const char *)memory + skipped, n, error);
    }
    return status;
}

// Of the layer in hand.
Status hosts_read_floats(Backend *backend, const void *activations, int64_t n, float *host, Error *error) {
    Hosts *h = hosts_of(backend);
    const int rank = h->layer ? h->layer->rank : last_of(h);
    if (rank == 0) return own_ops(h)->read_floats(h->own, hosts_memory_here(h, activations), n, host, error);
    Status status = STATUS_OK;
    const int64_t most = WIRE_PIECE / (int64_t)sizeof *host;
    if (n > most)
        return error_set(error, STATUS_UNSUPPORTED, "%lld elements of another host at once", (long long)n);
    const WireMemory from = {hosts_memory_at(h, rank, activations), (uint64_t)n};
    hosts_tell(h, rank, WIRE_READ_FLOATS, &from, sizeof from);
    status = hosts_ask(h, rank, host, (size_t)n * sizeof *host, error);
    return status;
}
