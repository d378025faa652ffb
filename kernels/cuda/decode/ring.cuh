// The rings through which weights and cache reach the warps of the decoding kernel.
//
// Warps that compute consume, each from a ring of its own; others fill the rings, a lane a ring:
//
//   filling lane ── bulk copy ──→ slot 0 │ slot 1 │ … │ slot n_stages-1 ──→ the computing warp
//                  `full` of a slot completes when its bytes have come,
//                  `empty` when the warp is done with them and the lane may copy again
//
// Before Hopper there are no bulk copies: what a lane would copy, its warp copies together, 16 bytes a lane.
#ifndef PALAVER_KERNELS_CUDA_DECODE_RING_CUH
#define PALAVER_KERNELS_CUDA_DECODE_RING_CUH

#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/decode/decode.cuh"

// Whether a lane copies by itself, and how many lanes arrive at `full` of a slot.
#if __CUDA_ARCH__ >= 900
constexpr bool BULK_COPIES = true;
#else
constexpr bool BULK_COPIES = false;
#endif
constexpr int FULL_ARRIVALS = BULK_COPIES ? 1 : 32;

// The part of the cache that an attending block looks at: indexes [begin, end) for one KV head, in chunks. Its
// computing warps form streams of `parts` warps, which go through the stream's chunks together and divide the query
// heads:
//
//   parts = 2       warps 0, 1      warps 2, 3      warps 4, 5      …
//   stream          0               1               2               …  streams-1
//   chunks          0, streams, …   1, streams+1, … 2, streams+2, …
//
// Where tokens were evicted, the first `sinks` chunks are seen as the attention sinks of StepSequence are, and one
// that holds both kinds of indexes comes twice. Where the token itself goes into a quantised cache, its block's last
// warp belongs to no stream: it rounds, by `pieces` of feedback that come through its ring.
struct CacheShare {
    bool any, owner; // owner: the token's own index is in the range
    int pieces;
    int kv_head, split, streams, parts, n_chunks, chunk_slots, begin, end, sinks, twice;
    int page_shift, first_page;
    const int32_t *pages;  // of the range; in shared memory, as the masks
    const uint32_t *masks; // [n_windows, n_chunks] visible slots

    __device__ int index(int chunk) const { // its first
        return begin + (chunk - (chunk >= sinks ? twice : 0)) * chunk_slots;
    }
    __device__ int slot(int index) const {
        return pages[(index >> page_shift) - first_page] + (index & (int)((1u << page_shift) - 1));
    }
};

// The first chunk of a warp, n_chunks if there is none.
__device__ inline int first_chunk(const CacheShare &c, int warp) {
    int stream = warp / c.parts;
    return stream < c.streams ? stream : c.n_chunks;
}

__device__ inline int next_chunk(const CacheShare &c, int window, int chunk) {
    while (chunk < c.n_chunks && c.masks[window * c.n_chunks + chunk] == 0) chunk += c.streams;
    return chunk;
}

// ---- the consuming side: one a warp ----------------------------------------------------------------------------

struct Ring {
    const char *slots;
    uint32_t full, empty, parity;
    int n_stages, slot_bytes, taken;

    __device__ const char *take() {
        barrier_wait(full + taken * 8, parity);
        return slots + taken * slot_bytes;
    }

    // The slot behind that of take().
    __device__ const char *take_behind() {
        const bool wraps = taken + 1 == n_stages;
        const int at = wraps ? 0 : taken + 1;
        barrier_wait(full + at * 8, parity ^ (uint32_t)wraps);
        return slots + at * slot_bytes;
    }

    // All lanes, after their last read of what take() gave.
    __device__ void give_back() {
        __syncwarp();
        if (CHECKED || threadIdx.x % 32 == 0) barrier_arrive(empty + taken * 8);
        if (++taken == n_stages) taken = 0, parity ^= 1;
    }
};

// ---- where a block is, for those that fill its rings -----------------------------------------------------------

__device__ __forceinline__ uint32_t place_of(int layer, int phase) {
    return (uint32_t)(layer * PHASE_END + phase);
}

// One thread. racecheck does not know such words; where it looks on, rings are filled as what is to come.
__device__ __forceinline__ void tell_place(uint32_t multiplied, int layer, int phase) {
    if (BULK_COPIES && !CHECKED) store_shared_relaxed(multiplied, place_of(layer, phase));
}

#endif
