// The sampling kernel: the chain of ops.h over one row of logits, with the integers of kernels/sample_math.h, so that
// the token is the CPU's whatever the order of summation.
//
// One launch of blocks, a row's all there at once. Each keeps its share of the row as integer keys in shared memory,
// adjusts them, and tells the others the maximum of every warp's share. The k largest keys are not below a bound that k
// of these maxima reach: what is not below it becomes a candidate. Block 0 collects the candidates, puts them in order,
// and goes through the filters with one thread a candidate.
//
// Blocks hand each other words that carry the number of the launch: a reader that finds another number reads again.
//
// Where candidates are not enough, all blocks go on with the whole row: sample_whole.cuh.
#ifndef PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_KERNEL_CUH

#include "kernels/cuda/sample/sample_whole.cuh"

// Puts n <= MOST_CANDIDATES orders into `sorted`, the greatest first. Up to MOST by counting how many come before
// each, more by a bitonic sort, padded with zeros to a power of two.
__device__ inline void sort_candidates(uint64_t *c, int n, uint64_t *sorted) {
    if (n <= MOST) {
        if ((int)threadIdx.x < n) {
            uint64_t mine = c[threadIdx.x];
            int before = 0;
#pragma unroll 8
            for (int i = 0; i < n; i++) before += c[i] > mine;
            sorted[before] = mine;
        }
        __syncthreads();
        return;
    }
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
    sorted[threadIdx.x] = c[threadIdx.x];
    __syncthreads();
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
// no longer alive; the order stays. a.whole: the candidates are the head of the row, whose mass is given. False, in all
// threads: they are not enough.
__device__ inline bool filter_and_draw(const SampleArguments &a, const uint64_t *sorted, int n,
                                       unsigned long long mass) {
    int i = threadIdx.x;
    bool alive = i < n, whole = a.whole;
    float logit = alive ? sample_logit(sample_order_key(sorted[i])) : 0;
    float largest =
        sample_logit(sample_order_key(sorted[0])); // of those alive: typical_p alone removes the first
    unsigned long long total;
    if (a.typical_p < 1) {
        uint32_t distance = sample_distance(largest, logit, a.unit_scale);
        unsigned long long weight = alive ? sample_weight(distance) : 0;
        mass_before(weight, &total);
        alive = is_typical(a, distance, weight, n, total);
        largest = largest_alive(alive, logit);
    }
    if (a.top_p < 1) {
        unsigned long long weight = alive ? sample_weight(sample_distance(largest, logit, a.unit_scale)) : 0;
        unsigned long long before = mass_before(weight, &total);
        unsigned long long target = sample_target(whole ? mass : total, a.top_p);
        if (total < target) return false;
        alive = alive && before < target;
        whole = false;
    }
    if (a.min_p > 0) {
        alive = alive && (double)largest - (double)logit <= a.gap;
        whole = false;
    }
    unsigned long long weight = alive ? sample_weight(sample_distance(largest, logit, a.scale)) : 0;
    unsigned long long before = mass_before(weight, &total);
    unsigned long long target = sample_target(whole ? mass : total, a.u);
    if (total < target) return false;
    if (before < target && target <= before + weight) answer(a, OUTCOME_DRAWN, sample_order_id(sorted[i]));
    return true;
}

// Block 0, where a token is to be drawn from candidates. False, in all threads: they are too many, or not enough.
__device__ inline bool draw(const SampleArguments &a, uint64_t *candidates) {
    __shared__ uint64_t sorted[MOST];
    unsigned long long mass;
    int n = collect(a, candidates, &mass);
    bool too_many = n > MOST_CANDIDATES;
    if (!too_many) {
        sort_candidates(candidates, n, sorted);
        if (a.top_k) n = min(n, a.top_k);
        // Without top_k the head of the row will do where the row's mass is known; min_p needs all it keeps.
        if (!a.top_k && a.whole) n = min(n, MOST);
        too_many = n > MOST;
    }
    return !too_many && filter_and_draw(a, sorted, n, mass);
}

// A block's share of a row. `keys`: this block's keys, then in block 0 the candidates.
__device__ inline void sample_share(const SampleArguments &a, int32_t *keys) {
    int turns = (a.n_vocab + a.n_blocks * SAMPLE_THREADS - 1) / (a.n_blocks * SAMPLE_THREADS);
    load_keys(a, turns, keys);
    bool draws = a.temperature > 0;
    if (a.block != 0 && !draws) return;

    int32_t maxima[GROUPS_EACH], top = hear_maxima(a, maxima);
    if (top == KEY_BAD || top == SAMPLE_KEY_MINUS_INFINITY || !draws) {
        if (a.block != 0) return;
        int first = top == SAMPLE_KEY_MINUS_INFINITY ? 0 : first_of(a, top, maxima);
        if (threadIdx.x != 0) return;
        if (top == SAMPLE_KEY_MINUS_INFINITY) return answer(a, OUTCOME_NOTHING, 0);
        if (top != KEY_BAD) return answer(a, OUTCOME_DRAWN, first);
        return first < BAD_ADJUSTMENT ? answer(a, OUTCOME_NAN, first)
                                      : answer(a, OUTCOME_BAD_ADJUSTMENT, first - BAD_ADJUSTMENT);
    }
    bool infinite = top == SAMPLE_KEY_PLUS_INFINITY;
    if (infinite) top = sample_key(0);
    bool drawn = false;
    if (!a.large) {
#pragma unroll
        for (int j = 0; j < GROUPS_EACH; j++) maxima[j] = resolved(maxima[j], infinite);
        int32_t least = bound_for(a, a.top_k ? a.top_k : (int)MOST, maxima);
        if (!a.top_k && a.top_p >= 1 && a.min_p > 0) { // only what min_p keeps, and a little below
            float low = nextafterf((float)((double)sample_logit(top) - a.gap), -INFINITY);
            least = max(sample_key(low), SAMPLE_KEY_MINUS_INFINITY + 1);
        }
        gather(a, turns, keys, least, top, infinite);
        if (a.block == 0) drawn = draw(a, (uint64_t *)(keys + turns * SAMPLE_THREADS));
    }
    if (goes_whole(a, !drawn)) draw_whole(a, turns, keys, top, infinite);
}

// One row. Grid: n_blocks.
__global__ void __launch_bounds__(SAMPLE_THREADS) sample_kernel(const __grid_constant__ SampleArguments row) {
    extern __shared__ __align__(8) int32_t keys[];
    SampleArguments a = row;
    a.block = blockIdx.x;
    sample_share(a, keys);
}

// Rows that a launch brings along, so that nothing has to be copied before it. Parameters of more than 4 KB are there
// since CUDA 12.1.
enum { GIVEN_ROWS = CUDART_VERSION >= 12010 ? 64 : 16 };
struct GivenRows {
    SampleArguments row[GIVEN_ROWS];
};
static_assert(sizeof(GivenRows) <= (CUDART_VERSION >= 12010 ? 32000 : 4000), "parameters of a kernel");

// Several rows, n_blocks blocks each; rows NULL: those given. Not all are there at once, and those of a row wait for each
// other: so blocks take their places in the order in which they begin. `ticket` counts from `first` on.
__global__ void __launch_bounds__(SAMPLE_THREADS)
    sample_rows_kernel(const __grid_constant__ GivenRows given, const SampleArguments *rows,
                       unsigned n_blocks, unsigned *ticket, unsigned first) {
    extern __shared__ __align__(8) int32_t keys[];
    __shared__ SampleArguments a;
    if (threadIdx.x == 0) {
        unsigned place = atomicAdd(ticket, 1) - first;
        a = rows ? rows[place / n_blocks] : given.row[place / n_blocks];
        a.block = (int)(place % n_blocks);
    }
    __syncthreads();
    sample_share(a, keys);
}

#endif
