// Attention of tiles of few tokens: the cache is cut into splits, which blocks go through side by side. The last one of a
// tile's to arrive puts their results together, or all do where they are there at once. A sequence of a ragged batch has as many splits as its length asks
// for. Row r of a tile's KV head is query head r % group of token r / group.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_CUH

#include "kernels/cuda/attention/attend.cuh"
#include "kernels/cuda/device/built.cuh"

struct SplitLaunch {
    AttendArguments a;
    DType type; // f16 or bf16
    const void *q, *q_sinks;
    void *y;
};

struct SplitArguments {
    SplitLaunch l;
    const AttendTile *split_tiles;
    // What of the cache the kernels before it write are the keys of the step's own tokens, and these known by their
    // positions: in a step whose sequences are independent, of a token each, or that has one sequence.
    bool early, independent;
    int parts;       // rows of a step's widest tile, of all KV heads: results of a split
    int row_tiles;   // blocks that share the rows of a KV head
    int group_shift; // int8, int4: log2 of their group
    bool scales_fit; // into the kernel's, by copies: float16, a group of its own, aligned
    bool together;   // a head's rows, and its scales where they fit, lie one behind the other
    uint32_t slot_bytes, scale_slot_bytes;
    int64_t head_bytes, scale_head_bytes;
    // In attention/wgmma.cu parts are the rows of all its tiles and KV heads, and counters one for each of these.
    float *sums;     // [n_splits, parts, head_dim]
    float2 *weights; // [n_splits, parts] largest score and sum
    DeviceCounts *counts;
    unsigned *arrived; // [n_splits, n_kv_heads·row_tiles] of the tile's first split; zero between launches
    void *handover;    // where blocks that are all there at once leave their results: split_handover()
};

// The scratch of device/handover.cuh if blocks may wait for each other, each with a multiprocessor's room, else NULL. Not where
// a row's bits must be the same beside any others, for the order of a join goes by how many rows a block has of it.
static inline void *split_handover(const CudaBackend *cuda, dim3 grid) {
    const bool all = cuda->step.kind == STEP_ANY && (int64_t)grid.x * grid.y <= cuda->device.card.n_sms;
    return all ? cuda->scratch.handover.memory : NULL;
}

// Scratch for the splits of the step that was staged.
Status split_reserve(CudaBackend *cuda, const AttendHeads *heads, Error *error);
// What it takes for so many, of tiles of at most `tokens` tokens.
size_t split_bytes(int n_splits, const AttendHeads *heads, int tokens);

// Into how many splits attention/wgmma.cu cuts a launch's tiles: all blocks are there at once.
int tile_splits(const CudaBackend *cuda, const AttendLaunch *launch);
size_t tile_split_bytes(const Card *card); // scratch for them, at most

cudaError_t attend_splits(CudaBackend *cuda, const AttendLaunch *launch);

// What the kernel takes that goes through such a cache for such heads, of tiles of at most `tokens` tokens.
struct SplitFit {
    int rows;        // that a block takes together
    size_t shared;   // bytes of a block's shared memory; 0: there is no such kernel
    int blocks_a_sm; // that a multiprocessor of this card holds, at most MOST_BLOCKS_A_SM; 0: none
    bool once;       // see SplitCase
};
enum { MOST_BLOCKS_A_SM = 4, MOST_SPLIT_ROWS = 16 };
// evicted: a sequence of the step has evicted tokens.
cudaError_t split_fit(const Card *card, const KvLayer *kv, const AttendHeads *heads, int tokens, bool evicted,
                      SplitFit *fit);

// Whether there are kernels for such a cache.
bool split_built(DType type);

// Whether a cache's scales are those that a kernel of groups of `group`, `bytes` a row, has in shared memory, and may
// be copied there.
bool scales_fit(const SplitArguments *a, int group, int bytes);

// The kernels of one cache type each (split_cache.cu); row_tiles, scales_fit and together are theirs to say.
template <DType TYPE> MAY_LACK cudaError_t split_launch(CudaBackend *cuda, const SplitArguments *a);
template <DType TYPE>
MAY_LACK cudaError_t split_fit_of(const Card *card, const KvLayer *kv, const AttendHeads *heads, int tokens,
                                  SplitFit *fit);

// dispatch_few_tokens() for such a cache and such heads.
int split_few_tokens(const Card *card, const KvLayer *kv, const AttendHeads *heads, bool evicted,
                     int n_slots);

// Of rows by the dozen on Hopper (split_wgmma.cu), where dispatch_splits_by_wgmma() says so.
cudaError_t split_wgmma_launch(CudaBackend *cuda, const SplitArguments *a);
cudaError_t split_wgmma_fit(int head_dim, SplitFit *fit);

#endif
