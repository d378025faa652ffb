// Rows of a KV cache (a row is one head of one slot's key or value): storing them in the cache's type and reading them
// back, as KvLayer in kernels/step.h says.
#ifndef PALAVER_KERNELS_CPU_CACHE_KV_H
#define PALAVER_KERNELS_CPU_CACHE_KV_H

#include "kernels/cpu/loops/loops.h"
#include "kernels/kv_layout.h"

typedef enum KvPlane { KV_KEYS, KV_VALUES } KvPlane;

typedef struct KvRow {
    KvPlane plane;
    int64_t slot;
    int head, head_dim;
} KvRow;

// Stores row [head_dim], which it may change: keys are balanced, turned and fed back in it first. A group that holds an
// infinity or NaN is stored with the scale NaN, so that the error stays visible.
void kv_store(const Loops *loops, const KvLayer *kv, const KvRow *place, float *row);

// The row as it is stored: keys of a layer with rotate_keys are still turned.
void kv_load(const KvLayer *kv, KvPlane plane, int64_t slot, int head, int head_dim, float *row);

// A key as it was before it was balanced and turned.
void kv_load_key(const KvLayer *kv, int64_t slot, int head, int head_dim, float *row);

// x [n] times the normalised Hadamard matrix of the largest power of two that divides n, block by block. Twice
// gives x again.
void hadamard_turn(float *x, int n);

#endif
