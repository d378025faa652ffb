// A state of the delta rule (DeltaRule in kernels/decoder_shape.h) in a warp's registers, and a token's step of it: what
// prompts, tokens op by op and the persistent kernel have in common.
#ifndef PALAVER_KERNELS_CUDA_RECURRING_DELTA_STATE_CUH
#define PALAVER_KERNELS_CUDA_RECURRING_DELTA_STATE_CUH

#include "kernels/decoder_shape.h"

#include <stdint.h>

// The head of queries and keys that a head of values goes with.
__device__ inline int delta_key_head(const DeltaRule &rule, int head) {
    return rule.keys_alternate ? head % rule.n_key_heads : head / (rule.n_value_heads / rule.n_key_heads);
}

// Whether a head of values is the first of those that go with one head of queries and keys: it leaves the c of these in the state.
__device__ inline bool delta_leads(const DeltaRule &rule, int head) {
    return rule.keys_alternate ? head < rule.n_key_heads
                               : head % (rule.n_value_heads / rule.n_key_heads) == 0;
}

// S of 8 columns of a head, by a warp, in registers:
//
//   lane = 4·g + c      columns 2c and 2c + 1      rows 32·j + 4·g + i      0 <= i < 4, 0 <= j < J, key_dim <= 32·J
//
// so that a lane's elements of k and q are J vectors of four, which the eight groups g read side by side and the four lanes of a
// group together, and a row's 8 columns are one sector of memory. Rows beyond key_dim are zeros.
template <int J> struct DeltaState {
    float2 s[J][4];

    __device__ static int row(int j, int i) { return j * 32 + threadIdx.x % 32 / 4 * 4 + i; }

    // at: the first element of the lane's columns; NULL: zeros. They are of a step before, so that begin() lies in between, and
    // nobody has to wait for kernels_before(); past the L1, which may hold what was there before that.
    __device__ void load(const float *at, int key_dim, int stride) {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[j][i] = at && row(j, i) < key_dim
                              ? __ldcg((const float2 *)(at + (int64_t)row(j, i) * stride))
                              : make_float2(0, 0);
    }
    __device__ void store(float *at, int key_dim, int stride) const {
#pragma unroll
        for (int j = 0; j < J; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (row(j, i) < key_dim) *(float2 *)(at + (int64_t)row(j, i) * stride) = s[j][i];
    }

    // Goes on by a token: γ, β, q·k, and v of the lane's two columns. Returns qᵀ·S of one of them, the first in groups of even g, the
    // second in odd ones. k and q of the lane, by row(j, 0): keys.k(j), keys.q(j). ADDS: δ is β·v.
    //
    // δ = β·(v - γ·kᵀS), S = γ·S + k·δ, and qᵀ of that is γ·qᵀS + (q·k)·δ: both products are of the old S, and summed up over
    // the groups at the same time, those of k for both columns in each, so that none has to wait for another's δ.
    template <bool ADDS, class Keys>
    __device__ float step(float2 rates, float dot, float2 v, const Keys &keys) {
        const bool odd = threadIdx.x & 4;
        float of_k[2] = {0, 0}, of_q[2] = {0, 0};
#pragma unroll
        for (int j = 0; j < J; j++) {
            const float4 k4 = keys.k(j), q4 = keys.q(j);
            const float k[4] = {k4.x, k4.y, k4.z, k4.w}, q[4] = {q4.x, q4.y, q4.z, q4.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                of_k[0] = fmaf(k[i], s[j][i].x, of_k[0]), of_k[1] = fmaf(k[i], s[j][i].y, of_k[1]);
                of_q[0] = fmaf(q[i], s[j][i].x, of_q[0]), of_q[1] = fmaf(q[i], s[j][i].y, of_q[1]);
            }
        }
        float own_q = odd ? of_q[1] : of_q[0];
        own_q += __shfl_xor_sync(~0u, odd ? of_q[0] : of_q[1], 4);
        if (!ADDS)
#pragma unroll
            for (int o = 4; o < 32; o *= 2) {
                of_k[0] += __shfl_xor_sync(~0u, of_k[0], o);
                of_k[1] += __shfl_xor_sync(~0u, of_k[1], o);
            }
#pragma unroll
        for (int o = 8; o < 32; o *= 2) own_q += __shfl_xor_sync(~0u, own_q, o);
        const float first = __fmul_rn(rates.y, ADDS ? v.x : fmaf(-rates.x, of_k[0], v.x)),
                    second = __fmul_rn(rates.y, ADDS ? v.y : fmaf(-rates.x, of_k[1], v.y));
#pragma unroll
        for (int j = 0; j < J; j++) {
            const float4 k4 = keys.k(j);
            const float k[4] = {k4.x, k4.y, k4.z, k4.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[j][i].x = fmaf(k[i], first, __fmul_rn(rates.x, s[j][i].x));
                s[j][i].y = fmaf(k[i], second, __fmul_rn(rates.x, s[j][i].y));
            }
        }
        return fmaf(rates.x, own_q, __fmul_rn(dot, odd ? second : first));
    }

    // The columns of step()'s v, and that of what it returns, of the warp's 8; one of the lanes that have it stores it.
    __device__ static int columns() {
        return threadIdx.x % 4 * 2;
    }
    __device__ static int own_column() {
        return columns() + (threadIdx.x & 4 ? 1 : 0);
    }
    __device__ static bool stores_column() {
        return threadIdx.x % 32 < 8;
    }
};

#endif
