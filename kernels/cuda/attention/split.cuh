// Attention of tiles of one token: the cache is cut into splits, which blocks go through side by side; the last one of
// a tile's to arrive puts their results together. A sequence of a ragged batch has as many splits as its length asks
// for.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_CUH

#include "kernels/cuda/attention/attend.cuh"

struct SplitLaunch {
    AttendArguments a;
    DType type; // f16 or bf16
    const void *q, *q_sinks;
    void *y;
};

struct SplitArguments {
    SplitLaunch l;
    const int32_t *split_tiles;
    // STEP_DECODING: slots of the step's tokens, all of the cache that the kernels before it write; else NULL.
    const int32_t *new_slots;
    int head_tiles;
    int group_shift; // int8, int4: log2 of their group
    bool scales_fit; // into the kernel's, by copies: float16, a group of its own, aligned
    bool together;   // a head's rows, and its scales where they fit, lie one behind the other
    uint32_t slot_bytes, scale_slot_bytes;
    int64_t head_bytes, scale_head_bytes;
    float *sums;     // [n_splits, n_heads, head_dim]
    float2 *weights; // [n_splits, n_heads] largest score and sum
    DeviceCounts *counts;
    unsigned *arrived; // [n_splits, n_kv_heads·head_tiles] of the tile's first split; zero between launches
};

// Scratch for the splits of the step that was staged.
Status split_reserve(CudaBackend *cuda, const AttendHeads *heads, Error *error);
size_t split_bytes(int n_splits, const AttendHeads *heads); // what it takes for so many

cudaError_t attend_splits(CudaBackend *cuda, const AttendLaunch *launch);

// What the kernel takes that goes through such a cache for such heads.
struct SplitFit {
    size_t shared;   // bytes of a block's shared memory; 0: there is no such kernel
    int blocks_a_sm; // that a multiprocessor of this card holds, at most MOST_BLOCKS_A_SM; 0: none
};
enum { MOST_BLOCKS_A_SM = 4 };
cudaError_t split_fit(const Card *card, const KvLayer *kv, const AttendHeads *heads, SplitFit *fit);

// Whether a cache's scales are those that a kernel of groups of `group`, `bytes` a row, has in shared memory, and may
// be copied there.
bool scales_fit(const SplitArguments *a, int group, int bytes);

// The kernels of one cache type each (split_cache.cu); head_tiles, scales_fit and together are theirs to say.
template <DType TYPE> cudaError_t split_launch(CudaBackend *cuda, const SplitArguments *a);
template <DType TYPE>
cudaError_t split_fit_of(const Card *card, const KvLayer *kv, const AttendHeads *heads, SplitFit *fit);

#endif
