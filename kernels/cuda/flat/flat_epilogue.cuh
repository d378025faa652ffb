// How the kernels of flat.cuh share tiles out, put sums together and run their epilogues. A block's 256 MMA threads
// hold a tile's sums as the fragments of tensor cores: lane l of warp w, of rows 16w + l/4 (c[i][0], c[i][1]) and 8
// further (2, 3), tokens 8i + l%4·2 and the next.
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_EPILOGUE_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_EPILOGUE_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/flat/flat.cuh"
#include "kernels/cuda/rope.cuh"
#include "kernels/cuda/device/handover.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/w8/w8.cuh"

#include <type_traits>

// Columns as copies of tiles count them: of W8 pairs, with the padding.
__host__ __device__ inline int flat_columns(const Weight &w) {
    return w.format == FORMAT_W8 ? (int)(w.row_bytes / 2) : w.cols;
}

// Steps of all row tiles, one tile after the other, n_steps each; block b has [begin(b), begin(b + 1)). A tile's end counts
// as n_end steps, so that a block with a whole tile in its middle, which ends it there, is not late for it.
struct FlatShare {
    int n_steps, n_end, total, cost;
    // step: elements of a step; with W8 pairs of them.
    __host__ __device__ FlatShare(const Weight &w, int step, int end = 0) : n_end(end) {
        const int tiles = (w.rows + FLAT_ROWS - 1) / FLAT_ROWS;
        n_steps = (flat_columns(w) + step - 1) / step;
        total = n_steps * tiles, cost = (n_steps + n_end) * tiles;
    }
    __device__ int begin(int block) const {
        const int at = cost * block / (int)gridDim.x, tile = at / (n_steps + n_end);
        return tile * n_steps + min(at - tile * (n_steps + n_end), n_steps);
    }
    __device__ int block_of(int u) const {
        return ((u + u / n_steps * n_end + 1) * (int)gridDim.x - 1) / cost;
    }
};

// A walk through a block's steps, tile after tile.
struct FlatWalk {
    static constexpr bool GROUPED = false;
    int n_steps, tile, step;
    __device__ FlatWalk(const FlatShare &share, int begin)
        : n_steps(share.n_steps), tile(begin / share.n_steps), step(begin % share.n_steps) {}
    __device__ void next() {
        if (++step == n_steps) step = 0, tile++;
    }
};

__device__ inline void meet_mma_threads() {
    named_barrier_sync<1, FLAT_WARPS * 32>();
}

// Brings near what a warp's end of a tile reads: what its 16 rows are added to, or its heads' turns.
template <int TILES> __device__ inline void fetch_for_end(const FlatArguments &a, int tile) {
    const int lane = threadIdx.x % 32, row = tile * FLAT_ROWS + threadIdx.x / 32 * 16;
    if (row >= a.w.rows) return;
#pragma unroll
    for (int first = 0; first < TILES * 8; first += 32) {
        const int token = first + lane;
        if (token >= min(a.n, TILES * 8)) break;
        if (a.epilogue == EPILOGUE_ADD) prefetch_near((const float *)a.y + (int64_t)token * a.y_stride + row);
        if (a.epilogue != EPILOGUE_HEADS) continue;
        const int half = a.heads.head_dim / 2, d = row % a.heads.head_dim / 2;
        prefetch_near(a.heads.rope + (int64_t)token * half + d);
        prefetch_near(a.heads.slots + token);
    }
}

// ---- sums of a tile that several blocks share -------------------------------------------------------------------
//
// A block that does not begin a tile leaves its sums for the one that does, in a place of its own, and goes on:
// device/handover.cuh.
static_assert(FLAT_WARPS * (FLAT_PART_ROWS / 8) * 32 * sizeof(uint4) <= HANDOVER_A_SM, "a place for each");

template <int TILES, class Sum> __device__ inline void leave_part(uint4 *part, const Sum c[TILES][4]) {
#pragma unroll
    for (int i = 0; i < TILES; i++)
        store_relaxed(part + i * 32, part_words(c[i][0], c[i][1], c[i][2], c[i][3]));
}

// Adds n parts, one behind the other, in their order, as they come; of few rows of x several are on their way at once.
template <int TILES, class Sum> __device__ inline void take_parts(uint4 *part, int n, Sum c[TILES][4]) {
    constexpr int AT_ONCE = TILES == 1 ? 4 : TILES == 2 ? 2 : 1, NEXT = FLAT_WARPS * TILES * 32;
#pragma unroll 1
    for (; n > 0; n -= AT_ONCE, part += AT_ONCE * NEXT) {
        uint4 v[AT_ONCE][TILES];
        bool whole;
        do {
            whole = true;
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    if (j < n) v[j][i] = load_relaxed_4((const uint32_t *)(part + j * NEXT + i * 32));
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++)
#pragma unroll
                for (int i = 0; i < TILES; i++)
                    if (j < n) whole = whole && is_whole(v[j][i]);
        } while (!__all_sync(~0u, whole));
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            if (j >= n) break;
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                const uint32_t words[] = {v[j][i].x, v[j][i].y, v[j][i].z, v[j][i].w};
                store_relaxed(part + j * NEXT + i * 32, make_uint4(0, 0, 0, 0)); // for the next launch
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    Sum left;
                    part_value(words[k], &left);
                    c[i][k] += left;
                }
            }
        }
    }
}

// The share of the block that has steps [begin, end) of a tile's sums becomes the whole in the tile's first block, which
// is told so. A warp waits for others' warps of the same rows alone.
template <int TILES, class Sum>
__device__ inline bool gather_tile(const FlatArguments &a, const FlatShare &share, int begin, int end,
                                   int tile, Sum c[TILES][4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = tile * share.n_steps,
              behind = first + share.n_steps;
    uint4 *part = a.parts + ((int64_t)blockIdx.x * FLAT_WARPS + warp) * TILES * 32 + lane;
    if (first < begin) {
        leave_part<TILES>(part, c);
        return false;
    }
    if (end < behind) {
        fetch_for_end<TILES>(a, tile);
        take_parts<TILES>(part + FLAT_WARPS * TILES * 32, share.block_of(behind - 1) - (int)blockIdx.x, c);
    }
    return true;
}

// In which order the products' columns are rows of x: which a lane's first is of eight, and how far its second is from it.
// As mma.sync and wgmma have them; as mma_in_quads() has them, 0, 2, 4, 6, 1, 3, 5, 7.
struct InOrder {
    static constexpr int NEXT = 1;
    static __device__ int first() { return threadIdx.x % 4 * 2; }
};
struct InQuads {
    static constexpr int NEXT = 2;
    static __device__ int first() { return threadIdx.x % 2 * 4 + threadIdx.x % 4 / 2; }
};

// Where element j of a lane's fragment i belongs: row of W, row of x.
template <class Order> struct FlatPlace {
    int row, token;
    __device__ FlatPlace(int tile, int i, int j) {
        int lane = threadIdx.x % 32;
        row = tile * FLAT_ROWS + threadIdx.x / 32 * 16 + lane / 4 + j / 2 * 8;
        token = i * 8 + Order::first() + j % 2 * Order::NEXT;
    }
};

// Rows of x that have results.
__device__ inline int flat_rows(const FlatArguments &a) {
    return a.count ? min(a.n, *a.count) : a.n;
}

// v = activation(v), asked which it is once.
template <int N> __device__ inline void activate_each(Activation activation, float (&v)[N]) {
    auto each = [&](auto function) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = function(v[i]);
    };
    if (activation == ACTIVATION_SILU)
        each([](float x) { return activate_any(ACTIVATION_SILU, x); });
    else if (activation == ACTIVATION_GELU_TANH)
        each([](float x) { return activate_any(ACTIVATION_GELU_TANH, x); });
    else if (activation == ACTIVATION_GELU)
        each([](float x) { return activate_any(ACTIVATION_GELU, x); });
    else if (activation == ACTIVATION_RELU)
        each([](float x) { return activate_any(ACTIVATION_RELU, x); });
    else
        each([](float x) { return activate_any(ACTIVATION_RELU2, x); });
}

// v = activation(v)·up.
template <int N>
__device__ inline void activate_pairs(Activation activation, float (&v)[N], const float (&up)[N]) {
    if (activation == ACTIVATION_CLAMPED_SWIGLU) {
#pragma unroll
        for (int i = 0; i < N; i++) v[i] = activate_pair(ACTIVATION_CLAMPED_SWIGLU, v[i], up[i]);
        return;
    }
    activate_each(activation, v);
#pragma unroll
    for (int i = 0; i < N; i++) v[i] *= up[i];
}

// Gates are in lanes of even rows, ups in those of odd ones: the former finish the fragment's upper rows, the latter
// the lower.
template <class T, class Order, int TILES>
__device__ inline void end_gated(const FlatArguments &a, int tile, float c[TILES][4]) {
    const bool odd = threadIdx.x / 4 % 2;
    const FlatPlace<Order> at(tile, 0, odd ? 2 : 0);
    const int unit = at.row / 2, n = flat_rows(a);
    const bool there = at.row < a.w.rows;
    const float gate_bias = a.bias && there ? a.bias[unit] : 0,
                up_bias = a.other && there ? a.other[unit] : 0;
    float gates[2 * TILES], ups[2 * TILES];
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++) {
        float low = c[i / 2][i % 2], high = c[i / 2][i % 2 + 2];
        float got = __shfl_xor_sync(~0u, odd ? low : high, 4);
        gates[i] = (odd ? got : low) + gate_bias, ups[i] = (odd ? high : got) + up_bias;
    }
    activate_pairs(a.activation, gates, ups);
    T *to = (T *)a.y + (int64_t)at.token * a.y_stride + unit;
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++)
        if (there && at.token + i / 2 * 8 + i % 2 * Order::NEXT < n)
            to[(i / 2 * 8 + i % 2 * Order::NEXT) * a.y_stride] = from_float<T>(gates[i]);
}

// A tile's rows lie as make_heads_map() puts them: a lane has elements d and d + dim/2 of a head.
template <class T, class Order, int TILES>
__device__ inline void end_heads(const FlatArguments &a, int tile, float c[TILES][4]) {
    constexpr int TURN = TILES % 4 == 0 ? 4 : TILES < 4 ? TILES : 2;
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
                int token = min(FlatPlace<Order>(tile, first + i, j).token, a.n - 1);
                turns[i][j] = kv_head < h.n_kv_heads ? h.rope[(int64_t)token * half + d] : make_float2(1, 0);
                slots[i][j] = kv_head < 0 ? 0 : h.slots[token];
            }
#pragma unroll
        for (int i = 0; i < TURN; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                int token = FlatPlace<Order>(tile, first + i, j).token;
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

// y = c of the tile's elements that are there.
template <class Y, class Order, int TILES>
__device__ inline void store_tile(const FlatArguments &a, const FlatPlace<Order> &at, float c[TILES][4]) {
    const int n = flat_rows(a);
    Y *to = (Y *)a.y + (int64_t)at.token * a.y_stride + at.row;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (at.row + j / 2 * 8 < a.w.rows && at.token + i * 8 + j % 2 * Order::NEXT < n)
                to[(i * 8 + j % 2 * Order::NEXT) * a.y_stride + j / 2 * 8] = from_float<Y>(c[i][j]);
}

// c += y. Nothing branches, so that all are on their way before one is waited for: what is not there is read where
// something is.
template <class Order, int TILES>
__device__ inline void add_to_tile(const FlatArguments &a, const FlatPlace<Order> &at, float c[TILES][4]) {
    constexpr int TURN = TILES % 4 == 0 ? 4 : TILES < 4 ? TILES : 2;
    const float *y = (const float *)a.y;
    const int rows[2] = {min(at.row, a.w.rows - 1), min(at.row + 8, a.w.rows - 1)};
#pragma unroll
    for (int first = 0; first < TILES; first += TURN) {
        float old[TURN][4];
#pragma unroll
        for (int i = 0; i < TURN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                old[i][j] = y[min(at.token + (first + i) * 8 + j % 2 * Order::NEXT, a.n - 1) * a.y_stride +
                              rows[j / 2]];
#pragma unroll
        for (int i = 0; i < TURN; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) c[first + i][j] += old[i][j];
    }
}

template <class T, class Order, int TILES>
__device__ inline void end_tile(const FlatArguments &a, int tile, float c[TILES][4]) {
    if (a.epilogue == EPILOGUE_GATED) return end_gated<T, Order, TILES>(a, tile, c);
    if (a.epilogue == EPILOGUE_HEADS) return end_heads<T, Order, TILES>(a, tile, c);
    const FlatPlace<Order> at(tile, 0, 0);
    if (a.bias)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            float bias = at.row + j * 4 < a.w.rows ? a.bias[at.row + j * 4] : 0;
#pragma unroll
            for (int i = 0; i < TILES; i++) c[i][j] += bias, c[i][j + 1] += bias;
        }
    if (a.epilogue == EPILOGUE_ADD) add_to_tile<Order, TILES>(a, at, c);
    if (a.epilogue == EPILOGUE_ADD || a.epilogue == EPILOGUE_FLOAT)
        return store_tile<float, Order, TILES>(a, at, c);
    if (a.epilogue == EPILOGUE_ACTIVATE) {
        auto &all = *(float(*)[TILES * 4]) & c[0][0];
        activate_each(a.activation, all);
    }
    store_tile<T, Order, TILES>(a, at, c);
}

// The scales of W8, there before the sums are: those of x in shared memory, of the lane's two rows of W in registers.
template <class T> struct FlatScales {
    __device__ void begin(const FlatArguments &) {}
    __device__ void begin_tile(const FlatArguments &, int) {}
};
template <> struct FlatScales<Int8Pair> {
    float channel[2];
    const float *tokens;
    __device__ void begin(const FlatArguments &a) {
        __shared__ float all[FLAT_MOST];
        if (threadIdx.x < FLAT_MOST) all[threadIdx.x] = __ldcg(a.x_scales + min((int)threadIdx.x, a.n - 1));
        meet_mma_threads();
        tokens = all;
    }
    __device__ void begin_tile(const FlatArguments &a, int tile) {
#pragma unroll
        for (int upper = 0; upper < 2; upper++) {
            int row = FlatPlace<InOrder>(tile, 0, 2 * upper).row;
            if (a.epilogue == EPILOGUE_HEADS) { // as in end_heads()
                int first = tile * FLAT_ROWS + threadIdx.x / 32 * 16, dim = a.heads.head_dim;
                row = first / dim * dim + first % dim / 2 + threadIdx.x % 32 / 4 + upper * (dim / 2);
            }
            channel[upper] = __ldg(a.w.scales + min(row, a.w.rows - 1));
        }
    }
};

// Sums of products of T, outputs of type Out. "Dequantise" of the fused kernels begins here: the epilogue, RoPE and
// cache, residual, or SiLU·mul, takes the results on in registers.
template <class T, class Out, class Order, int TILES>
__device__ inline void end_sums(const FlatArguments &a, int tile, const FlatScales<T> &scales,
                                typename SumsOf<T>::Sum c[TILES][4]) {
    if constexpr (std::is_same<T, Int8Pair>::value) {
        static_assert(Order::NEXT == 1, "scales of tokens are read in twos");
        float v[TILES][4];
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            float2 two = *(const float2 *)(scales.tokens + FlatPlace<Order>(tile, i, 0).token);
#pragma unroll
            for (int j = 0; j < 4; j++)
                v[i][j] = w8_value(c[i][j], j % 2 ? two.y : two.x, scales.channel[j / 2]);
        }
        end_tile<Out, Order, TILES>(a, tile, v);
    } else {
        end_tile<Out, Order, TILES>(a, tile, c);
    }
}

#endif
