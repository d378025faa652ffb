// A router's choice: which experts a token takes, by one warp (ops.h, Experts).
#ifndef PALAVER_KERNELS_CUDA_EXPERTS_CHOOSE_CUH
#define PALAVER_KERNELS_CUDA_EXPERTS_CHOOSE_CUH

#include "kernels/ops.h"

// Floats as integers that compare alike, from 1 on: 0 is less than all.
__device__ inline uint32_t ordered(float v) {
    uint32_t bits = __float_as_uint(v);
    return max(bits & 0x80000000u ? ~bits : bits | 0x80000000u, 1u);
}

// The experts of the best groups: for the others keys become 0. choice [e.n] and sums [e.n_groups]: in shared memory.
template <int PER>
__device__ inline void choose_groups(const Experts &e, uint32_t (&keys)[PER], const float *choice,
                                     float *sums) {
    const int lane = threadIdx.x % 32, size = e.n / e.n_groups;
    for (int g = lane; g < e.n_groups; g += 32) {
        float first = -INFINITY, second = -INFINITY;
        for (int i = g * size; i < (g + 1) * size; i++) {
            second = fmaxf(second, fminf(first, choice[i]));
            first = fmaxf(first, choice[i]);
        }
        sums[g] = first + (size > 1 && !e.groups_by_best ? second : 0);
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * 32 + lane, g = min(i, e.n - 1) / size;
        int before = 0; // groups that are better
        for (int o = 0; o < e.n_groups; o++) before += sums[o] > sums[g] || (sums[o] == sums[g] && o < g);
        if (before >= e.n_active_groups) keys[k] = 0;
    }
}

// Of lane j the j-th chosen one; of lanes from n_active on nothing.
struct ExpertChoice {
    int id;
    float weight;
};

// From a token's logits, biases included, of which a lane has PER: those of experts k·32 + lane, from e.n on -inf. room:
// 2·e.n floats of shared memory; choice_bias: NULL: none; guard: added to the sum that weights are divided by.
template <int PER>
__device__ inline ExpertChoice choose_of(const Experts &e, const float *choice_bias, float (&scores)[PER],
                                         float *room, float guard = 0) {
    const int lane = threadIdx.x % 32;
    float sum = 0;
    uint32_t keys[PER], most = 0;
#pragma unroll
    for (int k = 0; k < PER; k++) most = max(most, ordered(scores[k]));
    most = __reduce_max_sync(~0u, most);
    const float top = __uint_as_float(most & 0x80000000u ? most & 0x7fffffffu : ~most);
#pragma unroll
    for (int k = 0; k < PER; k++) {
        scores[k] = e.score == ROUTER_SOFTMAX ? expf(scores[k] - top) : 1 / (1 + expf(-scores[k]));
        sum += scores[k];
    }
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * 32 + lane;
        if (e.score == ROUTER_SOFTMAX) scores[k] /= sum;
        const float choice = scores[k] + (choice_bias && i < e.n ? choice_bias[i] : 0);
        keys[k] = i < e.n ? ordered(choice) : 0;
        if (e.n_groups > 1 && i < e.n) room[i] = choice;
    }
    __syncwarp();
    if (e.n_groups > 1) choose_groups<PER>(e, keys, room, room + e.n);
    float mine = 0, total = guard;
    int id = 0;
#pragma unroll 1
    for (int j = 0; j < e.n_active; j++) {
        uint32_t own = 0;
        int place = e.n - 1;
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (keys[k] > own) own = keys[k], place = k * 32 + lane;
        const uint32_t best = __reduce_max_sync(~0u, own);
        place = (int)__reduce_min_sync(~0u, own == best ? (unsigned)place : (unsigned)e.n - 1);
        float score = 0;
#pragma unroll
        for (int k = 0; k < PER; k++)
            if (k * 32 + lane == place) score = scores[k], keys[k] = 0;
        score = __shfl_sync(~0u, score, place % 32);
        if (lane == j) id = place, mine = score;
        total += score;
    }
    return ExpertChoice{id, mine * (e.renormalise ? e.scale / total : e.scale)};
}

#endif
