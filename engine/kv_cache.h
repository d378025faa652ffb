// The KV cache of one session: strides, slots and positions.
//
// A slot holds one token's key and value in every layer. `slot_positions` says which position each slot holds
// (-1: empty); attention looks at positions only, so a slot may lie anywhere. The layout is a pair of strides:
// a layer's keys are [n_kv_heads, n_slots, head_dim], so that a head's keys follow each other in memory.
#ifndef PALAVER_ENGINE_KV_CACHE_H
#define PALAVER_ENGINE_KV_CACHE_H

#include "engine/model.h"
#include "kernels/ops.h"

typedef struct KvCache {
    int n_layers;
    int n_slots;             // capacity in tokens
    int n_used;              // slots 0 … n_used-1 are taken
    KvLayer *layers;         // host [n_layers]
    void *memory;            // backend memory of all layers
    int32_t *slot_positions; // backend memory [n_slots]
} KvCache;

// Bytes of a cache of n_slots slots, slot positions included.
int64_t kv_cache_bytes(const DecoderShape *shape, DType type, int n_slots);

Status kv_cache_open(Backend *backend, const DecoderShape *shape, DType type, int n_slots, KvCache *cache,
                     Error *error);
void kv_cache_close(Backend *backend, KvCache *cache);

// Takes the next n slots; `slots` [n] receives them. STATUS_CONTEXT if fewer are free.
Status kv_cache_take(KvCache *cache, int n, int32_t *slots, Error *error);

// Gives back every slot from `n_used` on and empties it.
Status kv_cache_truncate(Backend *backend, KvCache *cache, int n_used, Error *error);

#endif
