// Scores of a warpgroup's 64 rows against 8·N keys, as wgmma leaves them, on their way to weights.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_WGMMA_SOFTMAX_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_WGMMA_SOFTMAX_CUH

#include "kernels/cuda/attention/attend.cuh"

// Softmax of a block's scores as it goes by: scores become weights, `top` and `sum` go on; shrink is what earlier sums
// are to be multiplied with.
template <int N>
__device__ inline void soften(float (&scores)[N][4], float scale, float top[2], float sum[2],
                              float shrink[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float largest = top[r];
#pragma unroll
        for (int n = 0; n < N; n++) largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        // A row that has seen nothing yet keeps -inf: take 0 instead, so that no inf - inf arises.
        float base = largest == -INFINITY ? 0 : largest * scale;
        // Exactly 1 where nothing moves, so that keys that only other rows see do not show.
        shrink[r] = top[r] == -INFINITY ? 0 : top[r] == largest ? 1 : exp2_approx(top[r] * scale - base);
        top[r] = largest;
        float added = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                scores[n][i] = exp2_approx(scores[n][i] * scale - base);
                added += scores[n][i];
            }
        sum[r] = sum[r] * shrink[r] + added;
    }
}

// Hides what a row does not see: it sees distances 0 … window - 1.
template <int N>
__device__ inline void mask(float (&scores)[N][4], const int32_t *slot_positions,
                            const int32_t row_positions[2], uint32_t window) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < N; n++) {
        int2 p = *(const int2 *)&slot_positions[n * 8 + lane % 4 * 2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)(row_positions[i / 2] - (i % 2 ? p.y : p.x)) >= window) scores[n][i] = -INFINITY;
    }
}

// Weights as halves, as wgmma takes them from registers.
template <int N>
__device__ inline void pack_weights(const float (&scores)[2 * N][4], uint32_t (&weights)[N][4]) {
#pragma unroll
    for (int k = 0; k < N; k++) {
        weights[k][0] = pack_halves(scores[2 * k][0], scores[2 * k][1]);
        weights[k][1] = pack_halves(scores[2 * k][2], scores[2 * k][3]);
        weights[k][2] = pack_halves(scores[2 * k + 1][0], scores[2 * k + 1][1]);
        weights[k][3] = pack_halves(scores[2 * k + 1][2], scores[2 * k + 1][3]);
    }
}

// A warp has read what lay in a stage of shared memory.
__device__ inline void release_stage(uint64_t *empty) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared_at(empty));
}

#endif
