// How a block of the decoding kernel chooses a layer's experts.
#ifndef PALAVER_KERNELS_CUDA_DECODE_CHOOSE_CUH
#define PALAVER_KERNELS_CUDA_DECODE_CHOOSE_CUH

#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/experts/choose.cuh"

// The shared expert, which lies behind all others, as the last of those that are taken. By one thread.
__device__ __forceinline__ void take_shared(const DecodeArguments &a, float logit, ChosenExperts &to) {
    const Experts &e = a.experts;
    to.ids[e.n_active] = e.n, to.ahead[e.n_active] = (e.n - e.n_active) * e.size;
    to.weights[e.n_active] = a.shared_routed ? 1 / (1 + __expf(-logit)) : 1;
}

// One warp, from the parts of logits [rows of the router, parts] in shared memory; behind them room for 2·n floats. Apart
// from the rest, whose registers it would take.
template <int PER>
__device__ __noinline__ void choose_of_parts(const DecodeArguments &a, const float *choice_bias,
                                             float *logits, ChosenExperts &to) {
    const Experts &e = a.experts;
    const int lane = threadIdx.x % 32;
    float scores[PER];
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * 32 + lane;
        scores[k] = i < e.n ? 0 : -INFINITY;
#pragma unroll 1
        for (int p = 0; i < e.n && p < a.route_parts; p++) scores[k] += logits[i * a.route_parts + p];
    }
    __syncwarp();
    const ExpertChoice choice = choose_of<PER>(e, choice_bias, scores, logits + a.phases[PHASE_ROUTE].units);
    if (lane == e.n_active && a.n_taken > e.n_active) {
        float logit = 0;
#pragma unroll 1
        for (int p = 0; a.shared_routed && p < a.route_parts; p++) logit += logits[e.n * a.route_parts + p];
        take_shared(a, logit, to);
    }
    if (lane >= e.n_active) return;
    to.ids[lane] = choice.id;
    to.ahead[lane] = (choice.id - lane) * e.size;
    to.weights[lane] = choice.weight;
}

// A logit's parts, which lie one behind the other.
__device__ __forceinline__ float receive_sum(const uint32_t *from, int n, unsigned round) {
    constexpr int LOADS = 4;
    float sum = 0;
#pragma unroll 1
    for (int first = 0; first < n; first += LOADS) {
        uint32_t v[LOADS], wrong;
        do {
            wrong = 0;
#pragma unroll
            for (int j = 0; j < LOADS; j++)
                v[j] = first + j < n ? load_relaxed(from + first + j) : round & ROUND_BITS;
#pragma unroll
            for (int j = 0; j < LOADS; j++) wrong |= v[j] ^ round;
        } while (wrong & ROUND_BITS);
#pragma unroll
        for (int j = 0; j < LOADS; j++) sum += first + j < n ? carried(v[j]) : 0;
    }
    return sum;
}

// Whether a choice is by the logits themselves, and weights are the softmax of the chosen ones.
__device__ __forceinline__ bool chooses_by_rank(const Experts &e, const float *choice_bias) {
    return e.score == ROUTER_SOFTMAX && e.renormalise && !choice_bias && e.n_groups <= 1;
}

// All warps: 2^choice_shift lanes hold an expert's logit and count those that are better, which says its place among the
// chosen. Fillers are told before weights are known, which nobody wants before the first rows are there. keys [n rounded
// up to 4]: in shared memory.
__device__ __forceinline__ void choose_by_rank(const DecodeArguments &a, float logit, uint32_t *keys,
                                               ChosenExperts &to, uint32_t barrier) {
    const Experts &e = a.experts;
    const int each = 1 << a.choice_shift, mine = (int)threadIdx.x >> a.choice_shift;
    const int part = (int)threadIdx.x & (each - 1), padded = (e.n + 3) / 4 * 4;
    const uint32_t key = ordered(logit);
    if (part == 0 && mine < padded) keys[mine] = mine < e.n ? key : 0;
    sync_warps();
    int better = 0;
    if (mine < padded) {
#pragma unroll 2
        for (int j = part * 4; j < padded; j += 4 * each) {
            const uint4 k = *(const uint4 *)(keys + j);
            const uint32_t least = key - (j + 3 < mine); // of equal ones the first is better
            better += (k.x > least) + (k.y > least) + (k.z > least) + (k.w > least);
        }
        if (part == 0)
            for (int i = mine & ~3; i < mine; i++) better += keys[i] == key;
    }
    for (int o = 1; o < each; o *= 2) better += __shfl_xor_sync(~0u, better, o);
    if (part == 0 && mine == e.n && a.n_taken > e.n_active) take_shared(a, logit, to);
    if (part == 0 && mine < e.n && better < e.n_active) {
        to.ids[better] = mine, to.ahead[better] = (mine - better) * e.size;
        to.weights[better] = logit;
    }
    sync_warps();
    const int lane = threadIdx.x;
    if (lane >= 32) return;
    if (lane == 0) barrier_arrive(barrier);
    const float share = lane < e.n_active ? __expf(to.weights[lane] - to.weights[0]) : 0;
    const float total = warp_sum(share);
    __syncwarp();
    if (lane < e.n_active) to.weights[lane] = __fdividef(share * e.scale, total);
}

// All warps. What the block's phases multiply with from here on is `chosen`, and its fillers are told by `barrier`.
__device__ __forceinline__ void choose_experts(const DecodeArguments &a, const DecodeLayer &l, int layer,
                                               ChosenExperts &chosen, uint32_t barrier) {
    const unsigned round = a.round + layer + 1;
    const DecodePhaseShape &p = a.phases[PHASE_ROUTE];
    float *logits = (float *)(&chosen + 1);
    if (l.choice_bias && (int)threadIdx.x * 8 < a.experts.n) prefetch_near(l.choice_bias + threadIdx.x * 8);
    await(p.arrived, round * gridDim.x - a.early);
    if (chooses_by_rank(a.experts, l.choice_bias)) {
        const int mine = (int)threadIdx.x >> a.choice_shift;
        float logit = 0;
        if (mine < a.experts.n + a.shared_routed)
            logit = receive_sum(p.to + mine * a.route_parts, a.route_parts, round);
        choose_by_rank(a, logit, (uint32_t *)logits, chosen, barrier);
        return sync_warps();
    }
    for (int i = threadIdx.x; i < p.units; i += DECODE_THREADS) {
        uint32_t bits;
        do bits = load_relaxed(p.to + i);
        while (!of_round(bits, round));
        logits[i] = carried(bits);
    }
    sync_warps();
    if (threadIdx.x < 32) {
        if (a.experts.n <= 32)
            choose_of_parts<1>(a, l.choice_bias, logits, chosen);
        else if (a.experts.n <= 128)
            choose_of_parts<4>(a, l.choice_bias, logits, chosen);
        else
            choose_of_parts<MOST_ROUTED / 32>(a, l.choice_bias, logits, chosen);
        __syncwarp();
        if (threadIdx.x == 0) barrier_arrive(barrier);
    }
    sync_warps();
}

#endif
