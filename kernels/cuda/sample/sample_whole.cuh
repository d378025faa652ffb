// The chain over a whole row, for what one block cannot hold: more than 256 tokens to choose from after top_k, a
// nucleus that these do not fill, typical_p over everything, more equal logits than there is room for.
//
// All blocks of the row take part, each over the keys in its shared memory. What is left of the row is known by its
// bounds (Left); every filter moves one. Where a running sum of weights reaches its target is found digit by digit,
// from the highest: 256 sums by a token's next digit, added up over all blocks, of which everybody takes the one that
// passes the target. Sums of integers: the same place as the CPU's selection finds, in 7 passes (11 by rank).
#ifndef PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_WHOLE_CUH
#define PALAVER_KERNELS_CUDA_SAMPLE_SAMPLE_WHOLE_CUH

#include "kernels/cuda/sample/sample_row.cuh"
#include <cub/block/block_scan.cuh>

// One block's part of a row, and how many times all blocks have met.
struct WholeRow {
    const SampleArguments &a;
    int turns;
    const int32_t *keys;
    bool infinite;
    int n_met;
};

// What is left of a row: orders from `least` on; where typical_p has cut, of these ranks below `last_rank`, and of that
// rank orders from `last_order` on; logits at most `gap` below the largest.
struct Left {
    uint64_t least;
    bool typical;
    float typical_largest; // ranks are counted from here
    uint32_t mean, last_rank;
    uint64_t last_order;
    float largest;
    double gap;
};

// What tokens weigh in a selection.
enum WeighBy { BY_COUNT, BY_WEIGHT, BY_RANKED_WEIGHT };

struct Selection {
    WeighBy by;
    double scale;    // of weights
    double fraction; // of the mass that is to be reached
    int count;       // BY_COUNT: so many tokens
};

struct Selected {
    bool cuts; // false: there are no more than are wanted
    uint32_t rank;
    uint64_t order;
};

// The first block of a row gets room for sums ready and says what becomes of the row; the others wait for it.
__device__ inline bool goes_whole(const SampleArguments &a, bool wanted) {
    __shared__ uint32_t verdict;
    if (a.block == 0 && wanted)
        for (int i = threadIdx.x; i < SUM_TURNS * SUM_DIGITS; i += SAMPLE_THREADS)
            store_relaxed(&a.words->sums[i], 0ull);
    __syncthreads();
    if (threadIdx.x == 0) {
        if (a.block == 0) {
            verdict = wanted;
            store_relaxed(&a.words->met, 0u);
            __threadfence();
            tell(a, &a.words->whole, verdict);
        } else {
            while (!hear(a, &a.words->whole, &verdict)) {
            }
            __threadfence();
        }
    }
    __syncthreads();
    return verdict;
}

// All blocks of the row meet: what was added before is there for everybody. Three sets of sums take turns; the one
// that is cleared here was read before the last meeting and is added to after this one.
__device__ inline const Word *meet(WholeRow &row) {
    SampleWords *words = row.a.words;
    int turn = row.n_met++;
    if (row.a.block == 0)
        store_relaxed(&words->sums[(turn + 1) % SUM_TURNS * SUM_DIGITS + threadIdx.x], 0ull);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&words->met, 1u);
        while (load_relaxed(&words->met) < (unsigned)(row.n_met * row.a.n_blocks)) {
        }
        __threadfence();
    }
    __syncthreads();
    return &words->sums[turn % SUM_TURNS * SUM_DIGITS];
}
// Where to add until then.
__device__ inline Word *sums_of(const WholeRow &row) {
    return &row.a.words->sums[row.n_met % SUM_TURNS * SUM_DIGITS];
}

__device__ inline uint32_t typical_rank(uint32_t mean, uint32_t distance) {
    if (sample_weight(distance) == 0) return UINT32_MAX; // nothing is gained by keeping it
    return distance > mean ? distance - mean : mean - distance;
}

__device__ inline uint64_t order_at(const WholeRow &row, int i) {
    int32_t key = resolved(row.keys[i * SAMPLE_THREADS + threadIdx.x], row.infinite);
    return sample_order(key, token_of(row.a, i));
}

__device__ inline bool is_left(const SampleArguments &a, const Left &l, uint64_t order) {
    if (order < l.least) return false;
    float logit = sample_logit(sample_order_key(order));
    if (l.typical) {
        uint32_t rank = typical_rank(l.mean, sample_distance(l.typical_largest, logit, a.unit_scale));
        if (rank > l.last_rank || (rank == l.last_rank && order < l.last_order)) return false;
    }
    return (double)l.largest - (double)logit <= l.gap;
}

// A 64-bit sum in shared memory, of two halves: atomics of 32 bits are the machine's own.
__device__ inline void add_to(uint32_t *low, uint32_t *high, uint64_t value) {
    uint32_t before = atomicAdd(low, (uint32_t)value), carry = before + (uint32_t)value < before;
    uint32_t upper = (uint32_t)(value >> 32) + carry;
    if (upper) atomicAdd(high, upper);
}

// A token's place is 11 digits: of ~rank, of its key, and of the three that tell ids apart. Which bits the p-th takes:
__device__ inline int digit_shift(int p) {
    return p < 4 ? 56 - 8 * p : 48 - 8 * p;
}

// The first place, counted by order (by rank first where ranks weigh), at which the weights of what is left reach the
// target.
__device__ inline Selected select_left(WholeRow &row, const Left &left, const Selection &s) {
    using Scan = cub::BlockScan<unsigned long long, SAMPLE_THREADS>;
    __shared__ typename Scan::TempStorage storage;
    __shared__ uint32_t low[SUM_DIGITS], high[SUM_DIGITS], digit;
    __shared__ unsigned long long passed;
    const bool ranked = s.by == BY_RANKED_WEIGHT;
    Selected found = {true, 0, 0xff000000u}; // ids have 24 bits, and stand there inverted
    unsigned long long target = 0;
    for (int p = ranked ? -4 : 0; p < 7; p++) {
        bool of_rank = p < 0;
        int shift = of_rank ? -8 * (p + 1) : digit_shift(p);
        uint64_t mask = p == 0    ? 0
                        : of_rank ? (uint64_t)0xffffffff << (shift + 8) & 0xffffffff
                                  : ~0ull << (shift + 8);
        low[threadIdx.x] = high[threadIdx.x] = 0;
        __syncthreads();
        for (int i = 0; i < row.turns; i++) {
            uint64_t order = order_at(row, i);
            if (!is_left(row.a, left, order)) continue;
            uint32_t distance = sample_distance(left.largest, sample_logit(sample_order_key(order)), s.scale);
            uint32_t place = ranked ? ~typical_rank(left.mean, distance) : 0;
            if (!of_rank && place != found.rank) continue;
            uint64_t digits = of_rank ? place : order;
            if ((digits ^ (of_rank ? found.rank : found.order)) & mask) continue;
            uint64_t weight = s.by == BY_COUNT ? 1 : sample_weight(distance);
            int at = (int)(digits >> shift & (SUM_DIGITS - 1));
            if (weight) add_to(&low[at], &high[at], weight);
        }
        __syncthreads();
        Word mine = (Word)high[threadIdx.x] << 32 | low[threadIdx.x];
        if (mine) atomicAdd(sums_of(row) + threadIdx.x, mine);
        const Word *sums = meet(row);
        int of_thread = SUM_DIGITS - 1 - (int)threadIdx.x; // the greatest come first
        unsigned long long weight = load_relaxed(&sums[of_thread]), before, total;
        Scan(storage).ExclusiveSum(weight, before, total);
        if (target == 0) {
            if (s.by == BY_COUNT && total <= (unsigned)s.count) return Selected{false, 0, 0};
            target = s.by == BY_COUNT ? (unsigned)s.count : sample_target(total, s.fraction);
        }
        if (before < target && target <= before + weight) digit = (uint32_t)of_thread, passed = before;
        __syncthreads();
        target -= passed;
        if (of_rank)
            found.rank |= digit << shift;
        else
            found.order |= (uint64_t)digit << shift;
        __syncthreads(); // digit and passed have been read
    }
    found.rank = ~found.rank;
    return found;
}

// typical_p: the mean surprise, then the cut by rank, then the largest that stays: the first may have left.
__device__ inline void keep_typical(WholeRow &row, Left &left) {
    const SampleArguments &a = row.a;
    unsigned long long total = 0, low = 0,
                       high = 0; // of weight·distance: its low 32 bits, and what is above them
    for (int i = 0; i < row.turns; i++) {
        uint64_t order = order_at(row, i);
        if (!is_left(a, left, order)) continue;
        uint32_t distance =
            sample_distance(left.largest, sample_logit(sample_order_key(order)), a.unit_scale);
        uint64_t weight = sample_weight(distance), product = (weight & 0xffffffff) * distance;
        total += weight;
        low += product & 0xffffffff;
        high += (product >> 32) + (weight >> 32) * distance;
    }
    for (int o = 16; o; o /= 2) {
        total += __shfl_xor_sync(~0u, total, o);
        low += __shfl_xor_sync(~0u, low, o);
        high += __shfl_xor_sync(~0u, high, o);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(sums_of(row), total);
        atomicAdd(sums_of(row) + 1, low);
        atomicAdd(sums_of(row) + 2, high);
    }
    const Word *sums = meet(row);
    unsigned __int128 sum = ((unsigned __int128)load_relaxed(&sums[2]) << 32) + load_relaxed(&sums[1]);
    left.mean = (uint32_t)(sum / load_relaxed(&sums[0]));
    Selected last = select_left(row, left, Selection{BY_RANKED_WEIGHT, a.unit_scale, a.typical_p, 0});
    left.typical = true, left.typical_largest = left.largest;
    left.last_rank = last.rank, left.last_order = last.order;

    unsigned long long largest = 0;
    for (int i = 0; i < row.turns; i++) {
        uint64_t order = order_at(row, i);
        if (order > largest && is_left(a, left, order)) largest = order;
    }
    if (largest) atomicMax(sums_of(row), largest);
    left.largest = sample_logit(sample_order_key(load_relaxed(meet(row))));
}

// The whole chain, by all blocks of the row; the first one answers. top: the largest key.
__device__ inline void draw_whole(const SampleArguments &a, int turns, const int32_t *keys, int32_t top,
                                  bool infinite) {
    WholeRow row = {a, turns, keys, infinite, 0};
    Left left = {};
    left.least = sample_order(SAMPLE_KEY_MINUS_INFINITY + 1, -1); // -1: the lowest order of this key
    left.largest = sample_logit(top);
    left.gap = INFINITY;
    if (a.top_k) {
        Selected last = select_left(row, left, Selection{BY_COUNT, a.unit_scale, 0, a.top_k});
        if (last.cuts) left.least = last.order;
    }
    if (a.typical_p < 1) keep_typical(row, left);
    if (a.top_p < 1)
        left.least = select_left(row, left, Selection{BY_WEIGHT, a.unit_scale, a.top_p, 0}).order;
    if (a.min_p > 0) left.gap = a.gap;
    Selected drawn = select_left(row, left, Selection{BY_WEIGHT, a.scale, a.u, 0});
    if (a.block == 0 && threadIdx.x == 0) answer(a, OUTCOME_DRAWN, sample_order_id(drawn.order));
}

#endif
