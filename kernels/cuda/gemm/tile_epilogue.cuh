// Epilogues of tile.cu: what is done with the sums of a tile, in the registers of the warpgroups that did the wgmma.
//
// A thread has sums.pair(i, r), to be taken once: columns 8i + 2l and the next, l its lane of four, of tokens `token`
// (r 0) and token + 8 (r 1); columns count from `column`, and those from `rows` on are not there, nor tokens from n on.
// A multiple of 8 columns is there. What an epilogue needs from memory it asks for while the last wgmmas run: `Ahead`.
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

// The pairs of four pieces of eight neighbouring columns: a lane of four gets a whole piece.
template <class U> __device__ inline uint4 pack_pieces(const float2 pairs[4]) {
    uint32_t v[4];
#pragma unroll
    for (int j = 0; j < 4; j++) v[j] = pack_pair<U>(pairs[j].x, pairs[j].y);
    transpose_quad(v);
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// y [n, stride] = sum.
template <class T> struct StoreEpilogue {
    T *y; // of column 0
    int stride;

    template <int N, int> struct Ahead {
        __device__ Ahead(const StoreEpilogue &, int, int, int, int) {}
    };
    template <int N, int AHEAD, class Sums>
    __device__ void operator()(const Sums &sums, const Ahead<N, AHEAD> &, int token, int column, int n,
                               int rows) const {
        int l = threadIdx.x % 4, pieces = (rows - column) / 8;
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int m = 0; m < N; m += 4) {
                float2 pairs[4];
#pragma unroll
                for (int j = 0; j < 4; j++) pairs[j] = sums.pair(m + j, r);
                uint4 out = pack_pieces<T>(pairs);
                if (token + 8 * r < n && m + l < pieces)
                    *(uint4 *)(y + (int64_t)(token + 8 * r) * stride + column + 8 * (m + l)) = out;
            }
    }
};

// g [n, stride] = activation(gate) · up; gate and up are neighbouring columns.
template <class T, Activation ACTIVATION> struct GatedEpilogue {
    T *g;
    int stride;

    template <int N, int> struct Ahead {
        __device__ Ahead(const GatedEpilogue &, int, int, int, int) {}
    };
    template <int N, int AHEAD, class Sums>
    __device__ void operator()(const Sums &sums, const Ahead<N, AHEAD> &, int token, int column, int n,
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
                for (int j = 0; j < 4; j++) {
                    float2 pair = sums.pair(m + j, r);
                    v[j] = activate(ACTIVATION, pair.x) * pair.y;
                }
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

    template <int N, int> struct Ahead {
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
    template <int N, int AHEAD, class Sums>
    __device__ void operator()(const Sums &sums, const Ahead<N, AHEAD> &ahead, int token, int column, int n,
                               int rows) const {
        constexpr int TURN = 8;
#pragma unroll
        for (int first = 0; first < N; first += TURN) {
            float2 old[TURN][2];
#pragma unroll
            for (int i = 0; i < TURN; i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (Ahead<N, AHEAD>::KEPT > 0)
                        old[i][r] = ahead.kept[Ahead<N, AHEAD>::KEPT > 0 ? first + i : 0][r];
                    else if (column + 8 * (first + i) < rows && token + 8 * r < n)
                        old[i][r] = *at(token + 8 * r, column + 8 * (first + i));
#pragma unroll
            for (int i = 0; i < TURN; i++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    if (column + 8 * (first + i) < rows && token + 8 * r < n) {
                        float2 sum = sums.pair(first + i, r);
                        *at(token + 8 * r, column + 8 * (first + i)) =
                            make_float2(old[i][r].x + sum.x, old[i][r].y + sum.y);
                    }
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

    // Turns of the first AHEAD tokens, and slots; those of the second else take the first's place.
    template <int N, int AHEAD> struct Ahead {
        float4 turns[AHEAD][DIM / 16];
        int32_t slots[2];
        __device__ Ahead(const HeadsEpilogue &epilogue, int token, int, int n, int) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                slots[r] = epilogue.a.slots[min(token + 8 * r, n - 1)];
                if (r < AHEAD) epilogue.load_turns(min(token + 8 * r, n - 1), turns[r]);
            }
        }
    };
    template <int N, int AHEAD, class Sums>
    __device__ void operator()(const Sums &sums, Ahead<N, AHEAD> &ahead, int token, int column, int n,
                               int rows) const {
        constexpr int PIECES = DIM / 8, HEADS = N / PIECES;
        static_assert(N % PIECES == 0, "tiles are whole heads");
        int l = threadIdx.x % 4, head = first + column / DIM, heads = (rows - column) / DIM;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int t = token + 8 * r;
            int64_t slot = (int64_t)ahead.slots[r] * a.kv.slot_stride;
            auto &turns = ahead.turns[r < AHEAD ? r : 0];
            if (r >= AHEAD) load_turns(min(t, n - 1), turns);
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                if (h >= heads) break;
                int kv_head = head + h - a.n_heads;
                float2 v[PIECES];
#pragma unroll
                for (int i = 0; i < PIECES; i++) v[i] = sums.pair(h * PIECES + i, r);
                if (kv_head < a.n_kv_heads) turn(v, turns);
                if (kv_head < 0) {
                    store(v, q + ((int64_t)t * a.n_heads + head + h) * DIM, l, t < n);
                } else {
                    bool is_k = kv_head < a.n_kv_heads;
                    __half *to = (__half *)(is_k ? a.kv.k : a.kv.v) + slot +
                                 (is_k ? kv_head : kv_head - a.n_kv_heads) * a.kv.head_stride;
                    store(v, to, l, t < n && slot >= 0);
                }
            }
        }
    }

  private:
    // cos and sin of columns 8i + 2l and the next.
    __device__ void load_turns(int token, float4 (&turns)[DIM / 16]) const {
        const float4 *from = (const float4 *)(a.rope + (int64_t)token * (DIM / 2)) + threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) turns[i] = from[4 * i];
    }
    static __device__ void turn(float2 (&v)[DIM / 8], const float4 (&turns)[DIM / 16]) {
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) {
            float2 *low = &v[i], *high = &v[i + DIM / 16];
            rope_pair(low->x, high->x, make_float2(turns[i].x, turns[i].y), low->x, high->x);
            rope_pair(low->y, high->y, make_float2(turns[i].z, turns[i].w), low->y, high->y);
        }
    }
    template <class U> static __device__ void store(const float2 (&v)[DIM / 8], U *to, int l, bool there) {
#pragma unroll
        for (int m = 0; m < DIM / 8; m += 4) {
            uint4 out = pack_pieces<U>(v + m);
            if (there) *(uint4 *)(to + 8 * (m + l)) = out;
        }
    }
};

#endif
