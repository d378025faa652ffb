// The sampling kernel's way from a row to candidates: see sample_kernel.cuh.
#ifndef PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_ROW_CUH
#define PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_ROW_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/sample_math.h"
#include "kernels/cuda/device/ptx.cuh"

enum {
    SAMPLE_BLOCKS = 64, // of a row, at most
    SAMPLE_THREADS = 256,
    SAMPLE_GROUPS = SAMPLE_BLOCKS * SAMPLE_THREADS / 32, // warps of all blocks: each has a maximum
    MOST = 256,                                          // tokens that are chosen from: one thread each
    BLOCK_CANDIDATES = 64,                               // of one block
    MOST_CANDIDATES = SAMPLE_BLOCKS * BLOCK_CANDIDATES,
    SAMPLE_STATIC_SHARED = 16 << 10, // more than the kernels declare themselves
    SUM_DIGITS = SAMPLE_THREADS,
    SUM_TURNS = 3,            // see sample_whole.cuh
    KEY_BAD = INT32_MAX,      // a logit, or an adjusted one, that is no number
    BAD_ADJUSTMENT = 1 << 30, // plus its index, where a NaN has its token's id
};

enum Outcome { OUTCOME_PENDING, OUTCOME_DRAWN, OUTCOME_NAN, OUTCOME_NOTHING, OUTCOME_BAD_ADJUSTMENT };

// Written by the kernel in one piece, awaited by the host.
struct alignas(8) Drawn {
    int outcome, id;
};

// What blocks tell each other: 32 bits, and the launch's number above them.
typedef unsigned long long Word;

struct SampleWords {
    Word largest[SAMPLE_GROUPS], first[SAMPLE_GROUPS]; // first: the lowest token with the largest key
    Word n_candidates[SAMPLE_BLOCKS], mass_low[SAMPLE_BLOCKS], mass_high[SAMPLE_BLOCKS];
    Word keys[MOST_CANDIDATES], ids[MOST_CANDIDATES];
    Word whole;                        // whether the candidates are not enough
    unsigned met;                      // blocks that have come to meetings
    Word sums[SUM_TURNS * SUM_DIGITS]; // of all blocks
};

struct SampleArguments {
    const float *logits;
    int n_vocab, n_adjustments;
    const LogitAdjustment *adjustments;
    const uint32_t *allowed; // a bit for each token; NULL: all
    float temperature, top_p, typical_p, min_p, u;
    double gap, scale; // −ln min_p; of the draw
    double unit_scale; // of the filters
    int top_k;         // 0: off
    bool large;        // too much for candidates, as is known from the settings
    bool whole;        // nothing has cut the row down before the first sum: its total mass counts
    double whole_scale;
    uint32_t launch;
    SampleWords *words;
    Drawn *drawn; // pinned
    int32_t *id;  // on the device: the token, or what stands in its place
    int n_blocks; // of a row, at most SAMPLE_BLOCKS: all there at once
    int block;    // which of them: the kernel's own
};

__device__ inline void tell(const SampleArguments &a, Word *to, uint32_t value) {
    Word word = (Word)a.launch << 32 | value;
    store_relaxed(to, word);
}

__device__ inline bool hear(const SampleArguments &a, const Word *from, uint32_t *value) {
    Word word = load_relaxed(from);
    *value = (uint32_t)word;
    return (uint32_t)(word >> 32) == a.launch;
}

__device__ inline void answer(const SampleArguments &a, int outcome, int id) {
    *a.id = outcome == OUTCOME_DRAWN ? id : -1;
    Word word = (Word)(uint32_t)id << 32 | (uint32_t)outcome;
    store_relaxed_to_host((Word *)a.drawn, word);
}

// Keys where some logit is +∞: these share all probability.
__device__ inline int32_t resolved(int32_t key, bool infinite) {
    if (!infinite) return key;
    return key == SAMPLE_KEY_PLUS_INFINITY ? sample_key(0) : SAMPLE_KEY_MINUS_INFINITY;
}

// Token of the i-th key of this thread: blocks take 256 neighbours each in turns.
__device__ inline int token_of(const SampleArguments &a, int i) {
    return (i * a.n_blocks + a.block) * SAMPLE_THREADS + (int)threadIdx.x;
}

// This block's keys into shared memory, adjusted, and its warps' maxima to everybody. A thread reads its own keys
// only: keys[i·256 + thread].
__device__ inline void load_keys(const SampleArguments &a, int turns, int32_t *keys) {
    __shared__ int bad_adjustment;
    if (threadIdx.x == 0) bad_adjustment = INT32_MAX;
    int32_t top = INT32_MIN;
    int first_nan = INT32_MAX;
#pragma unroll 8
    for (int i = 0; i < turns; i++) {
        int token = token_of(a, i);
        int32_t key = token < a.n_vocab ? sample_key(a.logits[token]) : SAMPLE_KEY_MINUS_INFINITY;
        if (key > SAMPLE_KEY_PLUS_INFINITY || key < SAMPLE_KEY_MINUS_INFINITY)
            first_nan = min(first_nan, token);
        keys[i * SAMPLE_THREADS + threadIdx.x] = key;
    }
    if (a.n_adjustments) {
        __syncthreads();
        for (int i = threadIdx.x; i < a.n_adjustments; i += SAMPLE_THREADS) {
            LogitAdjustment t = a.adjustments[i];
            int place = t.id / SAMPLE_THREADS;
            if (place % a.n_blocks != a.block) continue;
            float l = a.logits[t.id];
            float adjusted = __fsub_rn(l > 0 ? __fdiv_rn(l, t.divide) : __fmul_rn(l, t.divide), t.subtract);
            if (t.subtract == INFINITY) adjusted = -INFINITY;
            if (isnan(adjusted))
                atomicMin(&bad_adjustment, i);
            else
                keys[place / a.n_blocks * SAMPLE_THREADS + t.id % SAMPLE_THREADS] = sample_key(adjusted);
        }
        __syncthreads();
        if (threadIdx.x == 0 && bad_adjustment != INT32_MAX)
            first_nan = min(first_nan, BAD_ADJUSTMENT + bad_adjustment);
    }
    int first = INT32_MAX;
#pragma unroll 8
    for (int i = 0; i < turns; i++) {
        int32_t key = keys[i * SAMPLE_THREADS + threadIdx.x];
        if (a.allowed) {
            int token = token_of(a, i); // a warp's tokens share a word
            if (token < a.n_vocab && !(a.allowed[token / 32] >> token % 32 & 1))
                keys[i * SAMPLE_THREADS + threadIdx.x] = key = SAMPLE_KEY_MINUS_INFINITY;
        }
        if (key > top) top = key, first = token_of(a, i);
    }
    if (first_nan != INT32_MAX) top = KEY_BAD, first = first_nan;
    int32_t largest = __reduce_max_sync(~0u, top);
    first = __reduce_min_sync(~0u, top == largest ? first : INT32_MAX);
    int group = a.block * (SAMPLE_THREADS / 32) + threadIdx.x / 32;
    if (threadIdx.x % 32 == 0) {
        tell(a, &a.words->largest[group], (uint32_t)largest);
        tell(a, &a.words->first[group], (uint32_t)first);
    }
}

enum { GROUPS_EACH = SAMPLE_GROUPS / SAMPLE_THREADS };

// The maxima of all groups, GROUPS_EACH a thread, where there are so many; returns the largest.
__device__ inline int32_t hear_maxima(const SampleArguments &a, int32_t maxima[GROUPS_EACH]) {
    __shared__ int32_t tops[SAMPLE_THREADS / 32];
    bool there;
    do {
        there = true;
#pragma unroll
        for (int j = 0; j < GROUPS_EACH; j++) {
            int group = j * SAMPLE_THREADS + (int)threadIdx.x;
            maxima[j] = INT32_MIN;
            if (group < a.n_blocks * (SAMPLE_THREADS / 32))
                there &= hear(a, &a.words->largest[group], (uint32_t *)&maxima[j]);
        }
    } while (!there);
    int32_t top = maxima[0];
#pragma unroll
    for (int j = 1; j < GROUPS_EACH; j++) top = max(top, maxima[j]);
    top = __reduce_max_sync(~0u, top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < SAMPLE_THREADS / 32; w++) top = max(top, tops[w]);
    return top;
}

// A bound that at least k maxima reach: each warp that has maxima finds one that its part of k reach, the lowest holds for
// all.
__device__ inline int32_t bound_for(const SampleArguments &a, int k, int32_t maxima[GROUPS_EACH]) {
    __shared__ int32_t bounds[SAMPLE_THREADS / 32];
    static_assert(GROUPS_EACH == 2, "a lane holds two maxima, in order");
    int32_t high = max(maxima[0], maxima[1]), low = min(maxima[0], maxima[1]), bound = INT32_MIN;
    const int warps = min(SAMPLE_THREADS, max(a.n_blocks * (SAMPLE_THREADS / 32), 32)) / 32,
              each = (k + warps - 1) / warps;
    for (int i = 0; i < each; i++) {
        bound = __reduce_max_sync(~0u, high);
        unsigned holders = __ballot_sync(~0u, high == bound);
        if ((int)threadIdx.x % 32 == __ffs(holders) - 1) high = low, low = INT32_MIN;
    }
    if (threadIdx.x % 32 == 0) bounds[threadIdx.x / 32] = bound;
    __syncthreads();
    bound = bounds[0];
    for (int w = 1; w < warps; w++) bound = min(bound, bounds[w]);
    return bound;
}

// Block 0: the first token of the largest key, or what is wrong.
__device__ inline int first_of(const SampleArguments &a, int32_t top, const int32_t maxima[GROUPS_EACH]) {
    __shared__ int result;
    if (threadIdx.x == 0) result = INT32_MAX;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < GROUPS_EACH; j++) {
        uint32_t first = INT32_MAX;
        if (maxima[j] == top)
            while (!hear(a, &a.words->first[j * SAMPLE_THREADS + threadIdx.x], &first)) {
            }
        if (maxima[j] == top) atomicMin(&result, (int)first);
    }
    __syncthreads();
    return result;
}

// Keys from `least` on become candidates, and the row's mass is summed, this block's share of both.
__device__ inline void gather(const SampleArguments &a, int turns, const int32_t *keys, int32_t least,
                              int32_t top, bool infinite) {
    __shared__ unsigned n;
    __shared__ unsigned long long total;
    if (threadIdx.x == 0) n = 0, total = 0;
    __syncthreads();
    unsigned long long mass = 0;
    float max_logit = sample_logit(top);
#pragma unroll 4
    for (int i = 0; i < turns; i++) {
        int32_t key = resolved(keys[i * SAMPLE_THREADS + threadIdx.x], infinite);
        if (a.whole) mass += sample_weight(sample_distance(max_logit, sample_logit(key), a.whole_scale));
        if (key < least || key <= SAMPLE_KEY_MINUS_INFINITY) continue;
        unsigned at = atomicAdd(&n, 1u);
        if (at >= BLOCK_CANDIDATES) continue;
        tell(a, &a.words->keys[a.block * BLOCK_CANDIDATES + at], (uint32_t)key);
        tell(a, &a.words->ids[a.block * BLOCK_CANDIDATES + at], (uint32_t)token_of(a, i));
    }
    if (a.whole) {
        for (int o = 16; o; o /= 2) mass += __shfl_xor_sync(~0u, mass, o);
        if (threadIdx.x % 32 == 0 && mass) atomicAdd(&total, mass);
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (a.whole) {
        tell(a, &a.words->mass_low[a.block], (uint32_t)total);
        tell(a, &a.words->mass_high[a.block], (uint32_t)(total >> 32));
    }
    tell(a, &a.words->n_candidates[a.block], n);
}

// Block 0: everybody's candidates, four threads a block. Returns how many there are, more than MOST_CANDIDATES if
// some block had no room.
__device__ inline int collect(const SampleArguments &a, uint64_t *candidates, unsigned long long *mass) {
    constexpr int EACH = SAMPLE_THREADS / SAMPLE_BLOCKS;
    __shared__ int n;
    __shared__ unsigned long long total;
    if (threadIdx.x == 0) n = 0, total = 0;
    __syncthreads();
    int block = threadIdx.x / EACH, i = threadIdx.x % EACH;
    uint32_t there = 0, key, id, low = 0, high = 0;
    bool is_one = block < a.n_blocks;
    while (is_one && !hear(a, &a.words->n_candidates[block], &there)) {
    }
    if (there > BLOCK_CANDIDATES) {
        atomicAdd(&n, MOST_CANDIDATES + 1);
    } else {
        for (int c = block * BLOCK_CANDIDATES; i < (int)there; i += EACH) {
            while (!hear(a, &a.words->keys[c + i], &key) || !hear(a, &a.words->ids[c + i], &id)) {
            }
            const int at =
                min(atomicAdd(&n, 1), a.n_blocks * BLOCK_CANDIDATES - 1); // too many are not looked at
            candidates[at] = sample_order((int32_t)key, (int32_t)id);
        }
    }
    if (a.whole && is_one && threadIdx.x % EACH == 0) {
        while (!hear(a, &a.words->mass_low[block], &low) || !hear(a, &a.words->mass_high[block], &high)) {
        }
        atomicAdd(&total, (unsigned long long)high << 32 | low);
    }
    __syncthreads();
    *mass = total;
    return n;
}

#endif
