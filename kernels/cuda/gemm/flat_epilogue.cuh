// How the kernels of flat.cuh share tiles out, put sums together and run their epilogues. A block's 256 MMA threads
// hold a tile's sums as the fragments of tensor cores: lane l of warp w, of rows 16w + l/4 (c[i][0], c[i][1]) and 8
// further (2, 3), tokens 8i + l%4·2 and the next.
#ifndef PALAVER_KERNELS_CUDA_GEMM_FLAT_EPILOGUE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_FLAT_EPILOGUE_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/gemm/flat.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/device/ptx.cuh"

// Steps of all row tiles, one tile after the other, n_steps each; block b has [begin(b), begin(b + 1)).
struct FlatShare {
    int n_steps, total;
    __host__ __device__ FlatShare(const Weight &w, int step) {
        n_steps = (w.cols + step - 1) / step;
        total = n_steps * ((w.rows + FLAT_ROWS - 1) / FLAT_ROWS);
    }
    __device__ int begin(int block) const { return total * block / (int)gridDim.x; }
    __device__ int block_of(int u) const { return ((u + 1) * (int)gridDim.x - 1) / total; }
};

__device__ inline void meet_mma_threads() {
    named_barrier_sync<1, FLAT_WARPS * 32>();
}

// This block's share of a tile's sums becomes the whole in the tile's first block, which is told so.
template <int TILES>
__device__ inline bool gather_tile(const FlatArguments &a, const FlatShare &share, int tile,
                                   float c[TILES][4]) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int first = share.block_of(tile * share.n_steps), last = share.block_of((tile + 1) * share.n_steps - 1);
    auto part_of = [&](int block) {
        return a.parts + ((int64_t)block * FLAT_WARPS + warp) * TILES * 32 + lane;
    };
    if (first == last) return true;
    if ((int)blockIdx.x != first) {
        float4 *part = part_of(blockIdx.x);
#pragma unroll
        for (int i = 0; i < TILES; i++)
            __stcg(part + i * 32, make_float4(c[i][0], c[i][1], c[i][2], c[i][3]));
        __threadfence();
        meet_mma_threads();
        if (threadIdx.x == 0) count_release(a.arrived + tile);
        return false;
    }
    if (threadIdx.x == 0) {
        unsigned there;
        do {
            there = load_acquire(a.arrived + tile);
        } while (there != (unsigned)(last - first));
        a.arrived[tile] = 0; // for the next launch
    }
    meet_mma_threads();
#pragma unroll 2
    for (int b = first + 1; b <= last; b++) {
        const float4 *from = part_of(b);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            float4 v = __ldcg(from + i * 32);
            c[i][0] += v.x, c[i][1] += v.y, c[i][2] += v.z, c[i][3] += v.w;
        }
    }
    return true;
}

// Where element j of a lane's fragment i belongs: row of W, row of x.
struct FlatPlace {
    int row, token;
    __device__ FlatPlace(int tile, int i, int j) {
        int lane = threadIdx.x % 32;
        row = tile * FLAT_ROWS + threadIdx.x / 32 * 16 + lane / 4 + j / 2 * 8;
        token = i * 8 + lane % 4 * 2 + j % 2;
    }
    __device__ bool there(const FlatArguments &a) const {
        return row < a.w.rows && token < a.n && (!a.count || token < *a.count);
    }
};

// Gates are in lanes of even rows, ups in those of odd ones: the former finish the fragment's upper rows, the latter
// the lower.
template <class T, int TILES>
__device__ inline void end_gated(const FlatArguments &a, int tile, float c[TILES][4]) {
    bool odd = threadIdx.x / 4 % 2;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float got = __shfl_xor_sync(~0u, odd ? c[i][j] : c[i][j + 2], 4);
            float gate = odd ? got : c[i][j], up = odd ? c[i][j + 2] : got;
            FlatPlace at(tile, i, odd ? j + 2 : j);
            int unit = at.row / 2;
            if (a.bias && at.row < a.w.rows) gate += a.bias[unit];
            if (a.other && at.row < a.w.rows) up += a.other[unit];
            float result = activate_any(a.activation, gate) * up;
            if (at.there(a)) ((T *)a.y)[(int64_t)at.token * a.y_stride + unit] = from_float<T>(result);
        }
}

// A tile's rows lie as make_heads_map() puts them: a lane has elements d and d + dim/2 of a head.
template <class T, int TILES>
__device__ inline void end_heads(const FlatArguments &a, int tile, float c[TILES][4]) {
    constexpr int TURN = TILES < 4 ? TILES : 4;
    const HeadArguments &h = a.heads;
    int lane = threadIdx.x % 32, row = tile * FLAT_ROWS + threadIdx.x / 32 * 16, half = h.head_dim / 2;
    int head = row / h.head_dim, d = row % h.head_dim / 2 + lane / 4, kv_head = head - h.n_heads;
    if (row >= a.w.rows) return;
#pragma unroll
    for (int first = 0; first < TILES; first += TURN) {
        float2 turns[TURN][2];
        int32_t slots[TURN][2];
#pragma unroll
        for (int i = 0; i < TURN; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int token = min(FlatPlace(tile, first + i, j).token, a.n - 1);
                turns[i][j] = kv_head < h.n_kv_heads ? h.rope[(int64_t)token * half + d] : make_float2(1, 0);
                slots[i][j] = kv_head < 0 ? 0 : h.slots[token];
            }
#pragma unroll
        for (int i = 0; i < TURN; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int token = FlatPlace(tile, first + i, j).token;
                float x, y;
                rope_pair(c[first + i][j], c[first + i][j + 2], turns[i][j], x, y);
                if (token >= a.n || slots[i][j] < 0) continue;
                if (kv_head < 0) {
                    T *to = (T *)a.y + (int64_t)token * a.y_stride + head * h.head_dim + d;
                    to[0] = from_float<T>(x), to[half] = from_float<T>(y);
                } else {
                    bool is_k = kv_head < h.n_kv_heads;
                    __half *to = (__half *)(is_k ? h.kv.k : h.kv.v) + slots[i][j] * h.kv.slot_stride +
                                 (is_k ? kv_head : kv_head - h.n_kv_heads) * h.kv.head_stride + d;
                    to[0] = __float2half_rn(x), to[half] = __float2half_rn(y);
                }
            }
    }
}

template <class T, int TILES>
__device__ inline void end_tile(const FlatArguments &a, int tile, float c[TILES][4]) {
    if (a.epilogue == EPILOGUE_GATED) return end_gated<T, TILES>(a, tile, c);
    if (a.epilogue == EPILOGUE_HEADS) return end_heads<T, TILES>(a, tile, c);
    if (a.bias)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            FlatPlace at(tile, 0, j);
            float bias = at.row < a.w.rows ? a.bias[at.row] : 0;
#pragma unroll
            for (int i = 0; i < TILES; i++) c[i][j] += bias, c[i][j + 1] += bias;
        }
    if (a.epilogue == EPILOGUE_ADD) { // all are read before the first is written
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                FlatPlace at(tile, i, j);
                if (at.there(a)) c[i][j] += ((const float *)a.y)[(int64_t)at.token * a.y_stride + at.row];
            }
    }
    if (a.epilogue == EPILOGUE_ACTIVATE)
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) c[i][j] = activate_any(a.activation, c[i][j]);
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            FlatPlace at(tile, i, j);
            int64_t to = (int64_t)at.token * a.y_stride + at.row;
            if (!at.there(a)) continue;
            if (a.epilogue == EPILOGUE_ADD || a.epilogue == EPILOGUE_FLOAT)
                ((float *)a.y)[to] = c[i][j];
            else
                ((T *)a.y)[to] = from_float<T>(c[i][j]);
        }
}

#endif
