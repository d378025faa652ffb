#include "engine/cache/kv_rows.h"

// One of the two parts of a cache: its elements, or their scales.
typedef struct Part {
    char *memory;
    int64_t planes, row; // bytes of a row
} Part;

static int64_t planes_of(const KvLayout *l) {
    const int64_t parts = (int64_t)kv_layout_planes(l) * l->n_layers,
                  planes[] = {1, l->n_layers, parts, parts * l->n_kv_heads};
    return planes[l->layout];
}

// 0 where no layer has any.
static int64_t row_elements(const KvLayout *l) {
    if (l->n_layers == 0) return 0;
    return kv_layout_planes(l) * (int64_t)l->n_layers * l->n_kv_heads * l->head_dim / planes_of(l);
}

static Part elements_of(const KvLayout *l, void *memory) {
    return (Part){memory, planes_of(l), dtype_row_bytes(l->type, row_elements(l))};
}

static Part scales_of(const KvLayout *l, void *memory) {
    return (Part){memory, planes_of(l),
                  l->group ? dtype_row_bytes(l->scale_type, row_elements(l) / l->group) : 0};
}

// Of the two parts.
static int64_t slots_bytes(const KvLayout *l, int64_t n) {
    return planes_of(l) * n * (elements_of(l, NULL).row + scales_of(l, NULL).row);
}

int64_t kv_rows_bytes(const KvLayout *l, int64_t n) {
    return slots_bytes(l, n) + kv_layout_state_bytes(l);
}

int kv_rows_count(const KvCache *cache, const KvSequence *sequence) {
    return kv_sequence_step(cache, sequence, 0).n_slots;
}

// How many indexes from `index` on lie in one piece, at most `most`; *slot is where.
static int64_t run_of(const KvRows *r, int64_t index, int64_t most, int64_t *slot) {
    const int64_t size = r->cache->page_size;
    const int32_t *pages = r->sequence->pages;
    int64_t page = index / size, n = size - index % size;
    *slot = pages[page] + index % size;
    for (; n < most && pages[page + 1] == pages[page] + size; page++) n += size;
    return n < most ? n : most;
}

typedef Status Move(const KvRows *rows, char *device, char *host, size_t bytes, Error *error);

static Status to_host(const KvRows *r, char *device, char *host, size_t bytes, Error *error) {
    return r->cache->backend->ops->read(r->cache->backend, host, device, bytes, error);
}

static Status to_device(const KvRows *r, char *device, char *host, size_t bytes, Error *error) {
    return r->cache->backend->ops->write(r->cache->backend, device, host, bytes, error);
}

// Bytes [from, from + size) of a part's stream.
static Status move_part(const KvRows *r, const Part *part, int64_t from, int64_t size, char *host, Move *move,
                        Error *error) {
    const int64_t plane_bytes = r->n * part->row, n_slots = r->cache->layout.n_slots;
    Status status = STATUS_OK;
    while (size > 0 && !status) {
        int64_t plane = from / plane_bytes, inside = from % plane_bytes, index = inside / part->row, slot;
        int64_t run = run_of(r, index, r->n - index, &slot), skipped = inside % part->row;
        int64_t bytes = run * part->row - skipped;
        if (bytes > size) bytes = size;
        status = move(r, part->memory + (plane * n_slots + slot) * part->row + skipped, host, (size_t)bytes,
                      error);
        from += bytes, host += bytes, size -= bytes;
    }
    return status;
}

// Bytes [from, from + size) of the states.
static Status move_states(const KvRows *r, int64_t from, int64_t size, char *host, Move *move, Error *error) {
    const KvLayout *l = &r->cache->layout;
    const int64_t all = kv_layout_states_bytes(l), one = all / l->n_states,
                  first = kv_states_at(r->sequence, r->sequence->length) * one;
    Status status = STATUS_OK;
    while (size > 0 && !status) {
        const int64_t layer = from / one, inside = from % one,
                      bytes = size < one - inside ? size : one - inside;
        status = move(r, (char *)r->cache->states + layer * all + first + inside, host, (size_t)bytes, error);
        from += bytes, host += bytes, size -= bytes;
    }
    return status;
}

static Status move_slots(const KvRows *r, int64_t from, int64_t size, char *host, Move *move, Error *error) {
    const Part elements = elements_of(&r->cache->layout, r->cache->memory),
               scales = scales_of(&r->cache->layout, r->cache->scales);
    int64_t first = r->n * elements.planes * elements.row, before = 0;
    Status status = STATUS_OK;
    if (from < first) {
        before = size < first - from ? size : first - from;
        status = move_part(r, &elements, from, before, host, move, error);
    }
    if (status || before == size) return status;
    return move_part(r, &scales, from + before - first, size - before, host + before, move, error);
}

static Status move_rows(const KvRows *r, int64_t from, int64_t size, char *host, Move *move, Error *error) {
    const int64_t slots = slots_bytes(&r->cache->layout, r->n);
    int64_t before = from < slots ? slots - from : 0;
    Status status = STATUS_OK;
    if (before > size) before = size;
    if (before > 0) status = move_slots(r, from, before, host, move, error);
    if (status || before == size) return status;
    return move_states(r, from + before - slots, size - before, host + before, move, error);
}

Status kv_rows_read(const KvRows *r, int64_t from, int64_t size, void *bytes, Error *error) {
    return move_rows(r, from, size, bytes, to_host, error);
}

Status kv_rows_write(const KvRows *r, int64_t from, int64_t size, const void *bytes, Error *error) {
    return move_rows(r, from, size, (char *)bytes, to_device, error);
}

static Status move_positions(const KvRows *r, int32_t *positions, Move *move, Error *error) {
    const Part part = {(char *)r->cache->slot_positions, 1, sizeof *positions};
    return move_part(r, &part, 0, r->n * part.row, (char *)positions, move, error);
}

Status kv_rows_read_positions(const KvRows *r, int32_t *positions, Error *error) {
    return move_positions(r, positions, to_host, error);
}

Status kv_rows_write_positions(const KvRows *r, const int32_t *positions, Error *error) {
    return move_positions(r, (int32_t *)positions, to_device, error);
}
