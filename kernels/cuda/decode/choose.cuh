// How a block of the decoding kernel chooses a layer's experts.
#ifndef PALAVER_KERNELS_CUDA_DECODE_CHOOSE_CUH
#define PALAVER_KERNELS_CUDA_DECODE_CHOOSE_CUH

#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/experts/choose.cuh"

// One warp, from the sums of the parts of logits [n, parts] in shared memory; behind them room for 2·n floats. Apart from
// the rest, whose registers it would take.
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
    const ExpertChoice choice = choose_of<PER>(e, choice_bias, scores, logits + e.n * a.route_parts);
    if (lane >= e.n_active) return;
    to.ids[lane] = choice.id;
    to.ahead[lane] = (choice.id - lane) * e.size;
    to.weights[lane] = choice.weight;
}

// All warps. What the block's phases multiply with from here on is `chosen`, and its fillers are told by `barrier`.
__device__ __forceinline__ void choose_experts(const DecodeArguments &a, const DecodeLayer &l, int layer,
                                               ChosenExperts &chosen, uint32_t barrier) {
    const unsigned round = a.round + layer + 1;
    const DecodePhaseShape &p = a.phases[PHASE_ROUTE];
    float *logits = (float *)(&chosen + 1);
    if (l.choice_bias && (int)threadIdx.x * 8 < a.experts.n) prefetch_near(l.choice_bias + threadIdx.x * 8);
    await(p.arrived, round * gridDim.x);
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
