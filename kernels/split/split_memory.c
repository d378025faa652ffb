// Memory of a split: addresses that stand for memory of two backends.
#include "kernels/base/addresses.h"
#include "kernels/base/array.h"
#include "kernels/split/split_internal.h"

#include <stdint.h>

// The area that [memory, memory + bytes) is in; NULL: it is in none.
static SplitArea *area_of(const Split *s, const void *memory, size_t bytes) {
    for (size_t i = 0; i < s->n_areas; i++)
        if (addresses_have(s->areas[i].address, s->areas[i].bytes, memory, bytes)) return &s->areas[i];
    return NULL;
}

void *split_memory_at(const Split *s, int side, const void *memory) {
    const SplitArea *area = memory ? area_of(s, memory, 1) : NULL;
    if (!area) return NULL;
    const size_t offset = (size_t)((const char *)memory - area->address);
    if (!area->divided) return (char *)area->at[side] + offset;
    if ((offset < area->of_first) != (side == SPLIT_FIRST)) return NULL;
    return (char *)area->at[side] + offset - (side == SPLIT_SECOND ? area->of_first : 0);
}

KvLayer split_kv_at(const Split *s, int side, const KvLayer *kv) {
    KvLayer own = *kv;
    own.k = split_memory_at(s, side, kv->k), own.v = split_memory_at(s, side, kv->v);
    own.k_scale = split_memory_at(s, side, kv->k_scale), own.v_scale = split_memory_at(s, side, kv->v_scale);
    own.key_balance = split_memory_at(s, side, kv->key_balance);
    own.key_feedback = split_memory_at(s, side, kv->key_feedback);
    own.score_bases = split_memory_at(s, side, kv->score_bases);
    own.sink_scores = split_memory_at(s, side, kv->sink_scores);
    own.states = split_memory_at(s, side, kv->states);
    return own;
}

// Where a layer's memory lies while the layer visits.
static void *guest_at(const Split *s, const void *memory) {
    const SplitArea *area = memory ? area_of(s, memory, 1) : NULL;
    if (!area || !area->guest) return NULL;
    return (char *)area->guest + (size_t)((const char *)memory - area->address) % area->of_layer;
}

KvLayer split_guest_kv(const Split *s, const KvLayer *kv) {
    KvLayer own = split_kv_at(s, SPLIT_SECOND, kv);
    own.k = guest_at(s, kv->k), own.v = guest_at(s, kv->v);
    own.k_scale = guest_at(s, kv->k_scale), own.v_scale = guest_at(s, kv->v_scale);
    return own;
}

static void free_area(Split *s, SplitArea *area) {
    Backend *one = s->sides[SPLIT_FIRST], *two = s->sides[SPLIT_SECOND];
    void *first = area->at[SPLIT_FIRST];
    if (first) area->pinned ? two->ops->visits->free_host(two, first) : one->ops->free(one, first);
    if (area->at[SPLIT_SECOND]) two->ops->free(two, area->at[SPLIT_SECOND]);
    if (area->guest) two->ops->free(two, area->guest);
    if (area->address) addresses_release(area->address, area->bytes);
}

// An area whose sides have so many bytes of their own.
static Status add_area(Split *s, SplitArea area, const size_t bytes[SPLIT_SIDES], void **memory,
                       Error *error) {
    Status status = STATUS_OK;
    *memory = NULL;
    if (!array_reserve(&s->areas, sizeof *s->areas, s->n_areas, 1, &s->areas_room))
        return error_set(error, STATUS_MEMORY, "split: no memory for a table");
    area.address = addresses_reserve(area.bytes);
    if (!area.address)
        return error_set(error, STATUS_MEMORY, "split: no addresses for %zu MB", area.bytes >> 20);
    Backend *two = s->sides[SPLIT_SECOND];
    if (area.of_layer > 0 && s->visiting.possible) {
        Error none; // then copies need help
        area.pinned = !two->ops->visits->alloc_host(two, bytes[SPLIT_FIRST], &area.at[SPLIT_FIRST], &none);
        status = two->ops->alloc(two, area.of_layer, &area.guest, error);
    }
    for (int side = 0; side < SPLIT_SIDES && !status; side++)
        if (!area.at[side] && bytes[side] > 0)
            status = s->sides[side]->ops->alloc(s->sides[side], bytes[side], &area.at[side], error);
    if (status) {
        free_area(s, &area);
        return status;
    }
    s->areas[s->n_areas++] = area;
    *memory = area.address;
    return STATUS_OK;
}

Status split_memory_alloc(Backend *backend, size_t bytes, void **memory, Error *error) {
    const size_t size = bytes > 0 ? bytes : 1, each[SPLIT_SIDES] = {size, size};
    return add_area(split_of(backend), (SplitArea){.bytes = size}, each, memory, error);
}

Status split_memory_alloc_layers(Backend *backend, size_t bytes, int n_layers, size_t head_bytes,
                                 void **memory, Error *error) {
    Split *s = split_of(backend);
    (void)head_bytes;
    *memory = NULL;
    if (!s->experts && (n_layers != s->n_layers || bytes % (size_t)n_layers != 0))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "a cache whose slots hold all layers cannot lie on two backends; take [cache] layout 1, 2 or 3");
    const size_t of_layer = bytes / (size_t)n_layers, first = of_layer * (size_t)split_second_first(s),
                 each[SPLIT_SIDES] = {first, bytes - first};
    return add_area(s,
                    (SplitArea){.bytes = bytes,
                                .divided = true,
                                .of_first = first,
                                .of_layer = first > 0 ? of_layer : 0}, // nobody's cache visits
                    each, memory, error);
}

void split_memory_free(Backend *backend, void *memory) {
    Split *s = split_of(backend);
    SplitArea *area = memory ? area_of(s, memory, 1) : NULL;
    Error ignored;
    if (!area) return;
    (void)split_visit_settle(s, &ignored); // nothing may be on its way to what is freed
    free_area(s, area);
    *area = s->areas[--s->n_areas];
}

// ---- reading and writing --------------------------------------------------------------------------------

static Status check_area(const SplitArea *area, const char *op, size_t bytes, Error *error) {
    if (area) return STATUS_OK;
    return error_set(error, STATUS_DEVICE, "split: %s of %zu bytes that are not its own", op, bytes);
}

// How many of `bytes` from an offset on lie on the first side.
static size_t bytes_of_first(const SplitArea *area, size_t offset, size_t bytes) {
    if (offset >= area->of_first) return 0;
    return bytes < area->of_first - offset ? bytes : area->of_first - offset;
}

Status split_memory_write(Backend *backend, void *memory, const void *host, size_t bytes, Error *error) {
    Split *s = split_of(backend);
    const SplitArea *area = area_of(s, memory, bytes);
    Backend *one = s->sides[SPLIT_FIRST], *two = s->sides[SPLIT_SECOND];
    Status status = check_area(area, "writing", bytes, error);
    if (!status) status = split_visit_settle(s, error);
    if (status) return status;
    const size_t offset = (size_t)((char *)memory - area->address);
    const size_t first = area->divided ? bytes_of_first(area, offset, bytes) : bytes,
                 skipped = area->divided ? first : 0;
    if (first > 0) status = one->ops->write(one, (char *)area->at[SPLIT_FIRST] + offset, host, first, error);
    if (status || skipped == bytes) return status;
    char *to = (char *)area->at[SPLIT_SECOND] + (offset + skipped - area->of_first);
    return two->ops->write(two, to, (const char *)host + skipped, bytes - skipped, error);
}

Status split_memory_read(Backend *backend, void *host, const void *memory, size_t bytes, Error *error) {
    Split *s = split_of(backend);
    const SplitArea *area = area_of(s, memory, bytes);
    Backend *one = s->sides[SPLIT_FIRST], *two = s->sides[SPLIT_SECOND];
    Status status = check_area(area, "reading", bytes, error);
    if (!status) status = split_visit_settle(s, error);
    if (status) return status;
    const size_t offset = (size_t)((const char *)memory - area->address);
    const size_t first = bytes_of_first(area, offset, bytes); // 0 where it is not divided
    if (first > 0) status = one->ops->read(one, host, (char *)area->at[SPLIT_FIRST] + offset, first, error);
    if (status || first == bytes) return status;
    const char *from = (char *)area->at[SPLIT_SECOND] + (offset + first - area->of_first);
    status = two->ops->read(two, (char *)host + first, from, bytes - first, error);
    split_waited(s);
    return status;
}
