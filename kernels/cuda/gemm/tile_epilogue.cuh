// Epilogues of tile.cu: what is done with the sums of a tile, in the registers of the warpgroups that did the wgmma.
//
// A thread has `sums[i]`: columns 8i + 2l and the next of tokens `token` (sums[i][0], [1]) and token + 8 ([2], [3]), l
// its lane of four; columns count from `column`, and those from `rows` on are not there, nor tokens from n on. A
// multiple of 8 columns is there. What an epilogue needs from memory it asks for while the last wgmmas run: `Ahead`.
#ifndef PALAVER_KERNELS_CUDA_GEMM_TILE_EPILOGUE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TILE_EPILOGUE_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/cuda/rope.cuh"

// v[j] of lane l becomes v[l] of lane j, in every four lanes.
__device__ inline void transpose_quad(uint32_t v[4]) {
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t got = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
        v[i] = odd ? got : v[i];
        v[i + 1] = odd ? v[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t got = __shfl_xor_sync(~0u, high ? v[i] : v[i + 2], 2);
        v[i] = high ? got : v[i];
        v[i + 2] = high ? v[i + 2] : got;
    }
}

// The same for elements of 16 bits: (v[0], v[1]) and (v[2], v[3]) of every lane.
__device__ inline uint2 transpose_quad_pairs(uint32_t low, uint32_t high) {
    bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    uint32_t got = __shfl_xor_sync(~0u, upper ? low : high, 2);
    uint32_t mine = upper ? high : low; // v[2u] and v[2u + 1] of this lane, u = upper; `got` has the other's
    // Even lanes keep the first of both pairs, odd ones the second.
    uint32_t kept = __byte_perm(mine, got, odd ? 0x7632 : 0x5410);
    uint32_t given = __byte_perm(mine, got, odd ? 0x5410 : 0x7632);
    got = __shfl_xor_sync(~0u, given, 1);
    // kept: of lanes (l, l ^ 2), got: of (l ^ 1, l ^ 3); in the order of the lanes:
    uint32_t even = odd ? got : kept, uneven = odd ? kept : got;
    return make_uint2(__byte_perm(even, uneven, upper ? 0x7632 : 0x5410),
                      __byte_perm(even, uneven, upper ? 0x5410 : 0x7632));
}

template <class T> __device__ inline uint32_t pack_pair(float low, float high) {
    Pair<T> p = {from_float<T>(low), from_float<T>(high)};
    return *(uint32_t *)&p;
}

// g [n, stride] = activation(gate) · up; gate and up are neighbouring columns.
template <class T, Activation ACTIVATION> struct GatedEpilogue {
    T *g;
    int stride;

    template <int N> struct Ahead {
        __device__ Ahead(const GatedEpilogue &, int, int, int, int) {}
    };
    template <int N>
    __device__ void operator()(float (&sums)[N][4], const Ahead<N> &, int token, int column, int n,
                               int rows) const {
        int l = threadIdx.x % 4, pieces = (rows - column) / 8;
        T *to = g + (int64_t)token * stride + column / 2 + 4 * l;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            bool there = token + 8 * r < n;
#pragma unroll
            for (int m = 0; m < N; m += 4) {
                float v[4];
#pragma unroll
                for (int j = 0; j < 4; j++)
                    v[j] = activate(ACTIVATION, sums[m + j][2 * r]) * sums[m + j][2 * r + 1];
                uint2 out = transpose_quad_pairs(pack_pair<T>(v[0], v[1]), pack_pair<T>(v[2], v[3]));
                if (there && m + l < pieces) *(uint2 *)(to + 4 * m) = out;
            }
            to += 8 * (int64_t)stride;
        }
    }
};

// y [n, stride] += sum, in float32. What is added to is asked for ahead where there are registers for it.
struct AddEpilogue {
    float *y; // of column 0
    int stride;

    template <int N> struct Ahead {
        static constexpr int KEPT = N <= 16 ? N : 0;
        float2 kept[KEPT + 1][2];
        __device__ Ahead(const AddEpilogue &epilogue, int token, int column, int n, int rows) {
#pragma unroll
            for (int i = 0; i < KEPT; i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (column + 8 * i < rows && token + 8 * r < n)
                        kept[i][r] = *epilogue.at(token + 8 * r, column + 8 * i);
        }
    };
    template <int N>
    __device__ void operator()(float (&sums)[N][4], const Ahead<N> &ahead, int token, int column, int n,
                               int rows) const {
        constexpr int TURN = 8;
#pragma unroll
        for (int first = 0; first < N; first += TURN) {
            float2 old[TURN][2];
#pragma unroll
            for (int i = 0; i < TURN; i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (Ahead<N>::KEPT > 0)
                        old[i][r] = ahead.kept[Ahead<N>::KEPT > 0 ? first + i : 0][r];
                    else if (column + 8 * (first + i) < rows && token + 8 * r < n)
                        old[i][r] = *at(token + 8 * r, column + 8 * (first + i));
#pragma unroll
            for (int i = 0; i < TURN; i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (column + 8 * (first + i) < rows && token + 8 * r < n)
                        *at(token + 8 * r, column + 8 * (first + i)) = make_float2(
                            old[i][r].x + sums[first + i][2 * r], old[i][r].y + sums[first + i][2 * r + 1]);
        }
    }
    __device__ float2 *at(int token, int column) const {
        return (float2 *)(y + (int64_t)token * stride + column + threadIdx.x % 4 * 2);
    }
};

// Heads of q, k and v as whole_heads_kernel() takes them: RoPE over pairs (i, i + DIM/2), q to memory, k and v to the
// cache. Tiles are whole heads.
template <class T, int DIM> struct HeadsEpilogue {
    HeadArguments a;
    T *q;
    int first; // head of column 0

    template <int N> struct Ahead {
        float4 turns[2][DIM / 16];
        int32_t slots[2];
        __device__ Ahead(const HeadsEpilogue &epilogue, int token, int, int n, int) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int t = min(token + 8 * r, n - 1);
                const float4 *from =
                    (const float4 *)(epilogue.a.rope + (int64_t)t * (DIM / 2)) + threadIdx.x % 4;
                slots[r] = epilogue.a.slots[t];
#pragma unroll
                for (int i = 0; i < DIM / 16; i++) turns[r][i] = from[4 * i];
            }
        }
    };
    template <int N>
    __device__ void operator()(float (&sums)[N][4], const Ahead<N> &ahead, int token, int column, int n,
                               int rows) const {
        constexpr int PIECES = DIM / 8, HEADS = N / PIECES;
        static_assert(N % PIECES == 0, "tiles are whole heads");
        int l = threadIdx.x % 4, head = first + column / DIM, heads = (rows - column) / DIM;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int t = token + 8 * r;
            int64_t slot = (int64_t)ahead.slots[r] * a.kv.slot_stride;
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h >= heads) break;
                int kv_head = head + h - a.n_heads;
                if (kv_head < a.n_kv_heads) turn(sums, h * PIECES, 2 * r, ahead.turns[r]);
                if (kv_head < 0) {
                    store(sums, h * PIECES, 2 * r, q + ((int64_t)t * a.n_heads + head + h) * DIM, l, t < n);
                } else {
                    bool is_k = kv_head < a.n_kv_heads;
                    __half *to = (__half *)(is_k ? a.kv.k : a.kv.v) + slot +
                                 (is_k ? kv_head : kv_head - a.n_kv_heads) * a.kv.head_stride;
                    store(sums, h * PIECES, 2 * r, to, l, t < n);
                }
            }
        }
    }

  private:
    template <int N>
    static __device__ void turn(float (&sums)[N][4], int first, int half, const float4 (&turns)[DIM / 16]) {
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) {
            float *low = &sums[first + i][half], *high = &sums[first + i + DIM / 16][half];
            rope_pair(low[0], high[0], make_float2(turns[i].x, turns[i].y), low[0], high[0]);
            rope_pair(low[1], high[1], make_float2(turns[i].z, turns[i].w), low[1], high[1]);
        }
    }
    template <int N, class U>
    static __device__ void store(const float (&sums)[N][4], int first, int half, U *to, int l, bool there) {
#pragma unroll
        for (int m = 0; m < DIM / 8; m += 4) {
            uint32_t v[4];
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[j] = pack_pair<U>(sums[first + m + j][half], sums[first + m + j][half + 1]);
            transpose_quad(v);
            if (there) *(uint4 *)(to + 8 * (m + l)) = make_uint4(v[0], v[1], v[2], v[3]);
        }
    }
};

#endif
