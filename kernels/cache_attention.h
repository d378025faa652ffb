// What every backend checks before cache_attention() of kernels/ops.h touches anything.
#ifndef PALAVER_KERNELS_CACHE_ATTENTION_H
#define PALAVER_KERNELS_CACHE_ATTENTION_H

#include "kernels/kv_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// STATUS_USAGE, naming the argument: attributes, types and sizes that cannot be; tables that do not begin at 0, go
// backwards, or disagree; indexes outside of the cache; two tokens for one slot; a scale or a tensor that is missing.
// A cache has at most 2^31 - 1 slots, which slots are then.
Status cache_attention_check(const CacheAttention *attention, Error *error);

// The layout of the cache, of an operator that was checked.
KvLayout cache_attention_layout(const CacheAttention *attention);

// The slot of index j of sequence b.
static inline int64_t cache_attention_slot(const CacheAttention *a, int64_t b, int64_t j) {
    if (a->cache_mode == 0) return a->cachestarts[b] + j;
    return a->cachestarts[b * a->max_pages + j / a->page_size] + j % a->page_size;
}

#ifdef __cplusplus
}
#endif
#endif
