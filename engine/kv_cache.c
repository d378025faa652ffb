#include "engine/kv_cache.h"

#include <stdlib.h>
#include <string.h>

// Bytes of the keys (or the values) of one layer, a multiple of 64 so that every layer is aligned.
static int64_t plane_bytes(const DecoderShape *shape, DType type, int n_slots) {
    int64_t elements = (int64_t)shape->n_kv_heads * n_slots * shape->head_dim;
    return (dtype_row_bytes(type, elements) + 63) / 64 * 64;
}

int64_t kv_cache_bytes(const DecoderShape *shape, DType type, int n_slots) {
    return 2 * shape->n_layers * plane_bytes(shape, type, n_slots) +
           (int64_t)n_slots * (int64_t)sizeof(int32_t);
}

// -1 in every byte is -1 in every slot.
static Status empty_slots(Backend *backend, KvCache *cache, int first, int n, Error *error) {
    int32_t *empty = malloc((size_t)(n > 0 ? n : 1) * sizeof *empty);
    if (!empty) return error_set(error, STATUS_MEMORY, "KV cache: no memory for %d slot positions", n);
    memset(empty, 0xff, (size_t)n * sizeof *empty);
    Status status = STATUS_OK;
    if (n > 0)
        status = backend->ops->write(backend, cache->slot_positions + first, empty, (size_t)n * sizeof *empty,
                                     error);
    free(empty);
    return status;
}

Status kv_cache_open(Backend *backend, const DecoderShape *shape, DType type, int n_slots, KvCache *cache,
                     Error *error) {
    *cache = (KvCache){.n_layers = shape->n_layers, .n_slots = n_slots};
    int64_t plane = plane_bytes(shape, type, n_slots);
    cache->layers = calloc((size_t)shape->n_layers, sizeof *cache->layers);
    if (!cache->layers)
        return error_set(error, STATUS_MEMORY, "KV cache: no memory for %d layers", shape->n_layers);

    Status status =
        backend->ops->alloc(backend, (size_t)(2 * shape->n_layers * plane), &cache->memory, error);
    if (!status) {
        void *positions = NULL;
        status = backend->ops->alloc(backend, (size_t)n_slots * sizeof(int32_t), &positions, error);
        cache->slot_positions = positions;
    }
    if (!status) status = empty_slots(backend, cache, 0, n_slots, error);
    if (status) {
        kv_cache_close(backend, cache);
        return error_prefix(error, "KV cache of %d tokens: ", n_slots);
    }
    for (int l = 0; l < shape->n_layers; l++)
        cache->layers[l] = (KvLayer){
            .type = type,
            .k = (char *)cache->memory + 2 * l * plane,
            .v = (char *)cache->memory + (2 * l + 1) * plane,
            .slot_stride = shape->head_dim,
            .head_stride = (int64_t)n_slots * shape->head_dim,
        };
    return STATUS_OK;
}

void kv_cache_close(Backend *backend, KvCache *cache) {
    if (cache->memory) backend->ops->free(backend, cache->memory);
    if (cache->slot_positions) backend->ops->free(backend, cache->slot_positions);
    free(cache->layers);
    *cache = (KvCache){0};
}

Status kv_cache_take(KvCache *cache, int n, int32_t *slots, Error *error) {
    if (n > cache->n_slots - cache->n_used)
        return error_set(error, STATUS_CONTEXT, "the context of %d tokens is full: %d used, %d more wanted",
                         cache->n_slots, cache->n_used, n);
    for (int i = 0; i < n; i++) slots[i] = cache->n_used++;
    return STATUS_OK;
}

Status kv_cache_truncate(Backend *backend, KvCache *cache, int n_used, Error *error) {
    if (n_used >= cache->n_used) return STATUS_OK;
    int n = cache->n_used - n_used;
    cache->n_used = n_used;
    return empty_slots(backend, cache, n_used, n, error);
}
