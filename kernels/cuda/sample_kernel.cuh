// The sampling kernel: the chain of ops.h over one row of logits, with the integers of kernels/sample_math.h, so that the token
// is the CPU's whatever the order of summation.
//
// One cooperative launch. All blocks: integer keys, adjustments, the maximum of every 64. A barrier. All blocks: the
// k-th largest of these maxima is a lower bound for the k largest keys; keys from there on become candidates. A
// barrier. Block 0 sorts the candidates, at most 4096, and goes through the filters with one thread a candidate.
//
// What does not fit (more than 256 tokens to choose from after top_k, a nucleus that these do not fill, typical_p
// over the whole row) is done by the CPU's sampler, on the row read back: the same token, later.
#ifndef PALAVER_KERNELS_CUDA_SAMPLE_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_SAMPLE_KERNEL_CUH

#include "kernels/cuda/cuda.cuh"
#include "kernels/sample_math.h"
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cooperative_groups.h>

enum {
    SAMPLE_BLOCKS = 64,
    SAMPLE_THREADS = 256,
    SAMPLE_GROUP = 64, // logits that share a maximum
    MOST = 256,        // tokens that are chosen from: one thread each
    MOST_CANDIDATES = 4096,
};

enum Outcome { OUTCOME_DRAWN, OUTCOME_NAN, OUTCOME_NOTHING, OUTCOME_BAD_ADJUSTMENT, OUTCOME_TOO_MANY };

// Filled by the kernel, read by the host.
struct Drawn {
    int outcome, id;
};

struct SampleState {
    unsigned n_candidates;
    int first_nan, bad_adjustment;
    unsigned long long total;
};

struct SampleArguments {
    const float *logits;
    int n_vocab, n_groups, n_adjustments;
    const LogitAdjustment *adjustments;
    float temperature, top_p, typical_p, min_p, u;
    double gap, scale; // −ln min_p; of the draw
    double unit_scale; // of the filters
    int top_k;         // 0: off
    bool whole;        // nothing has cut the row down before the first sum: its total mass counts
    double whole_scale;
    int32_t *keys, *group_max;
    uint64_t *candidates; // [MOST_CANDIDATES] sample_order()
    SampleState *state;
    Drawn *drawn; // pinned
};

// Keys where some logit is +∞: these share all probability.
__device__ inline int32_t resolved(int32_t key, bool infinite) {
    if (!infinite) return key;
    return key == SAMPLE_KEY_PLUS_INFINITY ? sample_key(0) : SAMPLE_KEY_MINUS_INFINITY;
}

// This block's share of the groups [begin, end).
__device__ inline void load_keys(const SampleArguments &a, int begin, int end) {
    int first = begin * SAMPLE_GROUP, last = min(end * SAMPLE_GROUP, a.n_vocab);
    for (int i = first + threadIdx.x; i < last; i += SAMPLE_THREADS) {
        int32_t key = sample_key(a.logits[i]);
        if (key > SAMPLE_KEY_PLUS_INFINITY || key < SAMPLE_KEY_MINUS_INFINITY)
            atomicMin(&a.state->first_nan, i);
        a.keys[i] = key;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < a.n_adjustments; i += SAMPLE_THREADS) {
        LogitAdjustment t = a.adjustments[i];
        if (t.id < first || t.id >= last) continue;
        float l = a.logits[t.id];
        float adjusted = __fsub_rn(l > 0 ? __fdiv_rn(l, t.divide) : __fmul_rn(l, t.divide), t.subtract);
        if (t.subtract == INFINITY) adjusted = -INFINITY;
        if (isnan(adjusted))
            atomicMin(&a.state->bad_adjustment, i);
        else
            a.keys[t.id] = sample_key(adjusted);
    }
    __syncthreads();
    for (int g = begin + threadIdx.x / 32; g < end; g += SAMPLE_THREADS / 32) {
        int i = g * SAMPLE_GROUP + threadIdx.x % 32;
        int32_t top = i < a.n_vocab ? a.keys[i] : INT32_MIN;
        if (i + 32 < a.n_vocab) top = max(top, a.keys[i + 32]);
        top = __reduce_max_sync(~0u, top);
        if (threadIdx.x % 32 == 0) a.group_max[g] = top;
    }
}

using Counts = cub::BlockScan<int, SAMPLE_THREADS>;

// The k-th largest of the groups' maxima, found byte by byte from the top; the smallest key if there are fewer.
// Every block computes it for itself. Thread t speaks for digit 255 - t.
__device__ inline int32_t bound_for(const SampleArguments &a, int k, bool infinite) {
    __shared__ int counts[256];
    __shared__ uint32_t prefix;
    __shared__ int left;
    __shared__ typename Counts::TempStorage storage;
    static_assert(SAMPLE_THREADS == 256, "a thread a digit");
    if (k > a.n_groups) return INT32_MIN;
    if (threadIdx.x == 0) prefix = 0, left = k;
    for (int shift = 24; shift >= 0; shift -= 8) {
        counts[threadIdx.x] = 0;
        __syncthreads();
        uint32_t known = prefix, mask = shift == 24 ? 0 : ~0u << (shift + 8);
        int wanted = left;
        for (int g = threadIdx.x; g < a.n_groups; g += SAMPLE_THREADS) {
            uint32_t key = (uint32_t)resolved(a.group_max[g], infinite) ^ 0x80000000u;
            if ((key & mask) == known) atomicAdd(&counts[key >> shift & 255], 1);
        }
        __syncthreads();
        int mine = counts[255 - threadIdx.x], upto;
        Counts(storage).InclusiveSum(mine, upto);
        if (upto - mine < wanted && wanted <= upto) { // one thread
            prefix = known | (255 - threadIdx.x) << shift;
            left = wanted - (upto - mine);
        }
        __syncthreads();
    }
    return (int32_t)(prefix ^ 0x80000000u);
}

__device__ inline int32_t largest_key(const SampleArguments &a) {
    __shared__ typename cub::BlockReduce<int32_t, SAMPLE_THREADS>::TempStorage storage;
    __shared__ int32_t result;
    int32_t top = INT32_MIN;
    for (int g = threadIdx.x; g < a.n_groups; g += SAMPLE_THREADS) top = max(top, a.group_max[g]);
    top = cub::BlockReduce<int32_t, SAMPLE_THREADS>(storage).Reduce(
        top, [](int32_t x, int32_t y) { return max(x, y); });
    if (threadIdx.x == 0) result = top;
    __syncthreads();
    return result;
}

// The first index of the largest key, by block 0.
__device__ inline void draw_greedily(const SampleArguments &a, int32_t top) {
    __shared__ int first;
    if (threadIdx.x == 0) first = INT32_MAX;
    __syncthreads();
    for (int g = threadIdx.x; g < a.n_groups; g += SAMPLE_THREADS)
        if (a.group_max[g] == top) atomicMin(&first, g);
    __syncthreads();
    if (threadIdx.x >= 32) return;
    int i = first * SAMPLE_GROUP + threadIdx.x;
    unsigned low = __ballot_sync(~0u, i < a.n_vocab && a.keys[i] == top);
    unsigned high = __ballot_sync(~0u, i + 32 < a.n_vocab && a.keys[i + 32] == top);
    if (threadIdx.x == 0)
        *a.drawn = Drawn{OUTCOME_DRAWN, first * SAMPLE_GROUP + (low ? __ffs(low) - 1 : 31 + __ffs(high))};
}

// Keys from `least` on become candidates, and the row's mass is summed, this block's share of both.
__device__ inline void gather(const SampleArguments &a, int begin, int end, int32_t least, int32_t top,
                              bool infinite) {
    unsigned long long mass = 0;
    float max_logit = sample_logit(top);
    int last = min(end * SAMPLE_GROUP, a.n_vocab);
    for (int i = begin * SAMPLE_GROUP + threadIdx.x; i < last; i += SAMPLE_THREADS) {
        int32_t key = resolved(a.keys[i], infinite);
        if (a.whole) mass += sample_weight(sample_distance(max_logit, sample_logit(key), a.whole_scale));
        if (key < least || key <= SAMPLE_KEY_MINUS_INFINITY) continue;
        unsigned at = atomicAdd(&a.state->n_candidates, 1u);
        if (at < MOST_CANDIDATES) a.candidates[at] = sample_order(key, i);
    }
    if (!a.whole) return;
    for (int o = 16; o; o /= 2) mass += __shfl_xor_sync(~0u, mass, o);
    if (threadIdx.x % 32 == 0 && mass) atomicAdd(&a.state->total, mass);
}

// Sorts n <= MOST_CANDIDATES orders, the greatest first: bitonic, padded with zeros to a power of two.
__device__ inline void sort_candidates(uint64_t *c, int n) {
    int size = 1;
    while (size < n) size *= 2;
    for (int i = n + threadIdx.x; i < size; i += SAMPLE_THREADS) c[i] = 0;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int step = run / 2; step; step /= 2) {
            for (int i = threadIdx.x; i < size / 2; i += SAMPLE_THREADS) {
                int low = i / step * step * 2 + i % step, high = low + step;
                bool descending = (low & run) == 0;
                uint64_t x = c[low], y = c[high];
                if ((x < y) == descending) c[low] = y, c[high] = x;
            }
            __syncthreads();
        }
}

using Scan = cub::BlockScan<unsigned long long, MOST>;

// One thread a candidate: whether it is among the first whose weights reach target, by exclusive prefix sums.
__device__ inline unsigned long long mass_before(unsigned long long weight, unsigned long long *total) {
    __shared__ typename Scan::TempStorage storage;
    unsigned long long before;
    __syncthreads();
    Scan(storage).ExclusiveSum(weight, before, *total);
    return before;
}

// typical_p: those that come first by (distance from the mean surprise, order), as long as the mass before them is
// below the target. `n` candidates in order, one thread each; returns whether this one stays.
__device__ inline bool is_typical(const SampleArguments &a, uint32_t distance, unsigned long long weight,
                                  int n, unsigned long long total) {
    __shared__ uint32_t ranks[MOST];
    __shared__ unsigned long long weights[MOST];
    __shared__ uint32_t mean;
    int i = threadIdx.x;
    ranks[i] = distance;
    weights[i] = weight;
    __syncthreads();
    if (i == 0) {
        unsigned __int128 sum = 0;
        for (int j = 0; j < n; j++) sum += (unsigned __int128)weights[j] * ranks[j];
        mean = (uint32_t)(sum / total);
    }
    __syncthreads();
    uint32_t rank = weight == 0 ? UINT32_MAX : distance > mean ? distance - mean : mean - distance;
    ranks[i] = rank;
    __syncthreads();
    unsigned long long before = 0;
    for (int j = 0; j < n; j++)
        if (ranks[j] < rank || (ranks[j] == rank && j < i)) before += weights[j];
    return i < n && before < sample_target(total, a.typical_p);
}

// The largest logit among those still alive: the first one's.
__device__ inline float largest_alive(bool alive, float logit) {
    __shared__ int first;
    __shared__ float largest;
    __syncthreads();
    if (threadIdx.x == 0) first = MOST;
    __syncthreads();
    if (alive) atomicMin(&first, (int)threadIdx.x);
    __syncthreads();
    if ((int)threadIdx.x == first) largest = logit;
    __syncthreads();
    return largest;
}

// Block 0: the filters and the draw over the sorted candidates, thread i holding the i-th. What a filter removes is
// no longer alive; the order stays. `whole`: the candidates are the head of the row, whose mass is in the state.
__device__ inline void filter_and_draw(const SampleArguments &a, const uint64_t *sorted, int n) {
    int i = threadIdx.x;
    bool alive = i < n, whole = a.whole;
    float logit = alive ? sample_logit(sample_order_key(sorted[i])) : 0;
    unsigned long long total;
    if (a.typical_p < 1) {
        uint32_t distance = sample_distance(largest_alive(alive, logit), logit, a.unit_scale);
        unsigned long long weight = alive ? sample_weight(distance) : 0;
        mass_before(weight, &total);
        alive = is_typical(a, distance, weight, n, total);
    }
    if (a.top_p < 1) {
        float largest = largest_alive(alive, logit);
        unsigned long long weight = alive ? sample_weight(sample_distance(largest, logit, a.unit_scale)) : 0;
        unsigned long long before = mass_before(weight, &total);
        unsigned long long target = sample_target(whole ? a.state->total : total, a.top_p);
        if (total < target) {
            if (i == 0) *a.drawn = Drawn{OUTCOME_TOO_MANY, 0};
            return;
        }
        alive = alive && before < target;
        whole = false;
    }
    if (a.min_p > 0) {
        float largest = largest_alive(alive, logit);
        alive = alive && (double)largest - (double)logit <= a.gap;
        whole = false;
    }
    float largest = largest_alive(alive, logit);
    unsigned long long weight = alive ? sample_weight(sample_distance(largest, logit, a.scale)) : 0;
    unsigned long long before = mass_before(weight, &total);
    unsigned long long target = sample_target(whole ? a.state->total : total, a.u);
    if (total < target) {
        if (i == 0) *a.drawn = Drawn{OUTCOME_TOO_MANY, 0};
        return;
    }
    if (before < target && target <= before + weight)
        *a.drawn = Drawn{OUTCOME_DRAWN, sample_order_id(sorted[i])};
}

// Grid: SAMPLE_BLOCKS, all at once; a thread a logit and turn. The state is cleared for the next launch at the end.
__global__ void __launch_bounds__(SAMPLE_THREADS) sample_kernel(const __grid_constant__ SampleArguments a) {
    extern __shared__ uint64_t sorted[];
    auto grid = cooperative_groups::this_grid();
    int each = (a.n_groups + gridDim.x - 1) / gridDim.x;
    int begin = min((int)blockIdx.x * each, a.n_groups), end = min(begin + each, a.n_groups);
    load_keys(a, begin, end);
    grid.sync();

    int32_t top = largest_key(a);
    bool bad = a.state->first_nan != INT32_MAX || a.state->bad_adjustment != INT32_MAX;
    bool nothing = top == SAMPLE_KEY_MINUS_INFINITY, infinite = top == SAMPLE_KEY_PLUS_INFINITY;
    bool draws = !bad && !nothing && a.temperature > 0;
    if (draws) {
        if (infinite) top = sample_key(0);
        int k = a.top_k ? a.top_k : MOST;
        int32_t least = bound_for(a, k, infinite);
        if (!a.top_k && a.top_p >= 1 && a.min_p > 0) { // only what min_p keeps, and a little below
            float low = nextafterf((float)((double)sample_logit(top) - a.gap), -INFINITY);
            least = max(sample_key(low), SAMPLE_KEY_MINUS_INFINITY + 1);
        }
        gather(a, begin, end, least, top, infinite);
    }
    grid.sync();
    if (blockIdx.x != 0) return;

    if (bad && threadIdx.x == 0)
        *a.drawn = a.state->first_nan != INT32_MAX ? Drawn{OUTCOME_NAN, a.state->first_nan}
                                                   : Drawn{OUTCOME_BAD_ADJUSTMENT, a.state->bad_adjustment};
    else if (!bad && nothing && threadIdx.x == 0)
        *a.drawn = Drawn{OUTCOME_NOTHING, 0};
    else if (!bad && !nothing && a.temperature == 0)
        draw_greedily(a, top);
    if (draws) {
        int n = (int)a.state->n_candidates;
        bool too_many = n > MOST_CANDIDATES;
        if (!too_many) {
            for (int i = threadIdx.x; i < n; i += SAMPLE_THREADS) sorted[i] = a.candidates[i];
            __syncthreads();
            sort_candidates(sorted, n);
            if (a.top_k) n = min(n, a.top_k);
            // Without top_k the head of the row will do where the row's mass is known; min_p needs all it keeps.
            if (!a.top_k && a.whole) n = min(n, MOST);
            too_many = n > MOST;
        }
        if (!too_many)
            filter_and_draw(a, sorted, n);
        else if (threadIdx.x == 0)
            *a.drawn = Drawn{OUTCOME_TOO_MANY, 0};
    }
    __syncthreads();
    if (threadIdx.x == 0) *a.state = SampleState{0, INT32_MAX, INT32_MAX, 0};
}

#endif
