// What the warps of a block of attention/split.cuh found, put together, and what a tile's blocks found, by the last one of
// them to arrive or by all.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_RESULTS_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_RESULTS_CUH

#include "kernels/cuda/attention/split_warp.cuh"
#include "kernels/cuda/device/handover.cuh"

// Of a block's warps or warpgroups, where their rings were, with bases of weights and their sums. Rows are padded, so that
// what a warp's lanes leave at once falls into different banks.
template <class Shape, int HEAD> struct SplitResults {
    float sums[Shape::RESULTS][Shape::HEADS][HEAD + Shape::BETWEEN]; // first, for they are read by 16 bytes
    float2 weights[Shape::RESULTS][Shape::HEADS];
};

template <class C, class Shape, int HEAD>
__device__ inline void leave_results(const SplitWarp<C, Shape, HEAD> &w, int n_rows,
                                     SplitResults<Shape, HEAD> *r) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
#pragma unroll
    for (int l = 0; l < Shape::LANE_HEADS; l++) {
        float sum = w.sum[l];
        for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
        if (g == 0)
            r->weights[warp][w.lane_head(l)] = make_float2(w.seen >> l & 1 ? w.base[l] : -INFINITY, sum);
    }
#pragma unroll
    for (int i = 0; i < Shape::MMAS; i++)
#pragma unroll
        for (int n = 0; n < Shape::WIDE; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int set = Shape::set_of(i) + n, column = 2 * t + c % 2, d = C::value_dim(i, g, c / 2),
                    row = Shape::head_of(set, column);
                float value = w.out[i][n][c];
                if (C::INTEGER)
                    value = value / (C::bits(d) * TINY) - C::OFFSET * w.scale_sum[C::INTEGER ? set : 0][c];
                if (row < n_rows && Shape::group_of(set, column) == d / Shape::GROUP)
                    r->sums[warp][row][d] = value;
            }
}

// N results of a row by their bases and sums of weights: what each is to be multiplied with, and the whole's.
template <int N> __device__ inline float2 weigh_few(const float2 (&own)[N], float (&factors)[N]) {
    float largest = own[0].x, weight = 0;
#pragma unroll
    for (int i = 1; i < N; i++) largest = fmaxf(largest, own[i].x);
    const float base = largest == -INFINITY ? 0 : largest;
#pragma unroll
    for (int i = 0; i < N; i++) {
        factors[i] = exp2_approx(own[i].x - base);
        weight = fmaf(factors[i], own[i].y, weight);
    }
    return make_float2(largest, weight);
}

__device__ inline void add_times(float4 &sum, float f, float4 x) {
    sum.x = fmaf(f, x.x, sum.x), sum.y = fmaf(f, x.y, sum.y);
    sum.z = fmaf(f, x.z, sum.z), sum.w = fmaf(f, x.w, sum.w);
}

// Elements at, at + 1, … of the whole, whose weights are relative to 2^whole.x and add up to whole.y.
__device__ inline void write_result(const SplitArguments &s, int64_t at, float4 sum, float2 whole) {
    const AttendArguments &a = s.l.a;
    float weight =
        a.kv.sink_scores ? sum_with_sink(a, (int)(at / a.head_dim % a.n_heads), whole.x, whole.y) : whole.y;
    float f = weight == 0 ? 0 : __fdividef(1, weight);
    if (s.l.type == DTYPE_F16) {
        *(uint2 *)((__half *)s.l.y + at) =
            make_uint2(halves(f * sum.x, f * sum.y), halves(f * sum.z, f * sum.w));
    } else {
        __nv_bfloat162 low = __floats2bfloat162_rn(f * sum.x, f * sum.y),
                       high = __floats2bfloat162_rn(f * sum.z, f * sum.w);
        *(uint2 *)((__nv_bfloat16 *)s.l.y + at) = make_uint2(*(uint32_t *)&low, *(uint32_t *)&high);
    }
}

// A block's rows in fours of elements, TURNS of them a thread's: which row the t-th is of, and from which element on.
template <class Shape, int HEAD> struct SplitQuads {
    static constexpr int THREADS = Shape::WARPS * 32, EACH = HEAD / 4, // of a row
        TURNS = (Shape::HEADS * EACH + THREADS - 1) / THREADS;
    const int n_rows, dim;
    __device__ static int row(int t) { return (t * THREADS + (int)threadIdx.x) / EACH; }
    __device__ static int element(int t) { return (t * THREADS + (int)threadIdx.x) % EACH * 4; }
    __device__ bool there(int t) const { return row(t) < n_rows && element(t) < dim; }
};

// The block's results, row by row and four elements at a time: take(row, its first element, four elements, the row's base and
// sum of weights).
template <class Shape, int HEAD, class Take>
__device__ inline void join_results(const SplitArguments &s, const SplitResults<Shape, HEAD> &r, int n_rows,
                                    Take take) {
    constexpr int N = Shape::RESULTS;
    typedef SplitQuads<Shape, HEAD> Quads;
    const Quads quads = {n_rows, s.l.a.head_dim};
#pragma unroll(Quads::TURNS > 4 ? 2 : Quads::TURNS)
    for (int t = 0; t < Quads::TURNS; t++) {
        const int row = Quads::row(t), d = Quads::element(t);
        if (!quads.there(t)) continue;
        float2 own[N];
        float factors[N];
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < N; i++) own[i] = r.weights[i][row];
        const float2 all = weigh_few(own, factors);
#pragma unroll
        for (int i = 0; i < N; i++) add_times(sum, factors[i], *(const float4 *)&r.sums[i][row][d]);
        take(row, d, sum, all);
    }
}

// What each of a tile's splits is to be multiplied with, and the rows' bases and sums of weights.
template <class Shape> struct SplitWhole {
    float factors[MOST_SPLITS][Shape::HEADS];
    float2 rows[Shape::HEADS];
};

// Bytes of shared memory for what a block needs one after the other: rings, results, the whole.
template <class Shape, int HEAD> constexpr size_t split_room(size_t rings) {
    const size_t results = sizeof(SplitResults<Shape, HEAD>), whole = sizeof(SplitWhole<Shape>),
                 most = results > whole ? results : whole;
    return rings > most ? rings : most;
}

// Of a row's results, N a lane: see SplitWhole. Those from n on are not there.
template <class Shape, int N>
__device__ inline void weigh_row(const float2 (&own)[N], int n, int row, SplitWhole<Shape> *whole) {
    const int lane = threadIdx.x % 32;
    float largest = own[0].x, weight = 0;
#pragma unroll
    for (int i = 1; i < N; i++) largest = fmaxf(largest, own[i].x);
    for (int o = 1; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    const float base = largest == -INFINITY ? 0 : largest;
#pragma unroll
    for (int i = 0; i < N; i++) {
        const float f = exp2_approx(own[i].x - base);
        weight += f * own[i].y;
        if (i * 32 + lane < n) whole->factors[i * 32 + lane][row] = f;
    }
    for (int o = 1; o < 32; o *= 2) weight += __shfl_xor_sync(~0u, weight, o);
    if (lane == 0) whole->rows[row] = make_float2(largest, weight);
}

// Of n <= MOST_SPLITS pairs of base and sum of each row, `stride` apart. A warp a row, a lane a result; where they are few,
// all of a warp's are on their way at once.
template <class Shape>
__device__ inline void weigh_splits(const float2 *weights, int64_t stride, int n, int n_rows,
                                    SplitWhole<Shape> *whole) {
    constexpr int WARPS = Shape::WARPS, ROUNDS = (Shape::HEADS + WARPS - 1) / WARPS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto at = [&](int i, int row) {
        return i < n && row < n_rows ? weights[i * stride + row] : make_float2(-INFINITY, 0);
    };
    if (n <= 32) {
        float2 own[ROUNDS][1];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) own[r][0] = at(lane, warp + r * WARPS);
#pragma unroll
        for (int r = 0; r < ROUNDS; r++)
            if (warp + r * WARPS < n_rows) weigh_row<Shape>(own[r], n, warp + r * WARPS, whole);
        return;
    }
    for (int row = warp; row < n_rows; row += WARPS) {
        float2 own[MOST_SPLITS / 32];
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; i++) own[i] = at(i * 32 + lane, row);
        weigh_row<Shape>(own, n, row, whole);
    }
}

// join_splits() of many. Where there are more threads than elements, some share an element's splits.
template <class Shape, int HEAD>
__device__ inline void join_many(const SplitArguments &s, const int64_t *places, int n_rows, int n_splits,
                                 int64_t part, SplitWhole<Shape> *whole) {
    typedef SplitQuads<Shape, HEAD> Quads;
    constexpr int THREADS = Quads::THREADS, TURNS = Quads::TURNS;
    __shared__ float4 shared[THREADS];
    const Quads quads = {n_rows, s.l.a.head_dim};
    const int n = n_rows * Quads::EACH, parts = n < THREADS ? THREADS / n : 1;
    const int64_t stride = (int64_t)s.parts * quads.dim;
    const float *sums = s.sums + part * quads.dim;
    weigh_splits<Shape>(s.weights + part, s.parts, n_splits, n_rows, whole);
    __syncthreads();
    if (parts > 1) {
        const int i = threadIdx.x % n, own = threadIdx.x / n, row = i / Quads::EACH, d = i % Quads::EACH * 4;
        const bool there = d < quads.dim && own < parts;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (int p = own; there && p < n_splits; p += parts)
            add_times(sum, whole->factors[p][row],
                      *(const float4 *)(sums + p * stride + row * quads.dim + d));
        shared[threadIdx.x] = sum;
        __syncthreads();
        if (own > 0 || !there) return;
        for (int p = 1; p < parts; p++) add_times(sum, 1, shared[p * n + i]);
        return write_result(s, places[row] + d, sum, whole->rows[row]);
    }
    float4 sum[TURNS] = {};
#pragma unroll 4
    for (int p = 0; p < n_splits; p++)
#pragma unroll
        for (int t = 0; t < TURNS; t++) { // what is not there is read where something is
            const int row = quads.there(t) ? Quads::row(t) : 0, d = quads.there(t) ? Quads::element(t) : 0;
            add_times(sum[t], whole->factors[p][row],
                      *(const float4 *)(sums + p * stride + row * quads.dim + d));
        }
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        if (quads.there(t))
            write_result(s, places[Quads::row(t)] + Quads::element(t), sum[t], whole->rows[Quads::row(t)]);
}

// Puts the results of a tile's splits, which lie from `part` on, together as rows of y. What few of them left is read at
// once, weights and all: of a thread's turns two or more are on their way before any is written.
template <class Shape, int HEAD>
__device__ inline void join_splits(const SplitArguments &s, const int64_t *places, int n_rows, int n_splits,
                                   int64_t part, void *memory) {
    typedef SplitQuads<Shape, HEAD> Quads;
    constexpr int FEW = 4, TURNS = Quads::TURNS, ONCE = TURNS > 4 ? 2 : TURNS;
    if (n_splits > FEW)
        return join_many<Shape, HEAD>(s, places, n_rows, n_splits, part, (SplitWhole<Shape> *)memory);
    const Quads quads = {n_rows, s.l.a.head_dim};
#pragma unroll 1
    for (int first = 0; first < TURNS && quads.there(first); first += ONCE) {
        float2 own[ONCE][FEW];
        float4 found[ONCE][FEW];
#pragma unroll
        for (int t = 0; t < ONCE; t++)
#pragma unroll
            for (int i = 0; i < FEW; i++) {
                const int64_t at = part + min(i, n_splits - 1) * (int64_t)s.parts + quads.row(first + t);
                own[t][i] = make_float2(-INFINITY, 0), found[t][i] = make_float4(0, 0, 0, 0);
                if (!quads.there(first + t)) continue;
                found[t][i] = *(const float4 *)(s.sums + at * quads.dim + quads.element(first + t));
                if (i < n_splits) own[t][i] = s.weights[at];
            }
#pragma unroll
        for (int t = 0; t < ONCE; t++) {
            if (!quads.there(first + t)) continue;
            float factors[FEW];
            float4 sum = make_float4(0, 0, 0, 0);
            const float2 all = weigh_few(own[t], factors);
#pragma unroll
            for (int i = 0; i < FEW; i++) add_times(sum, factors[i], found[t][i]);
            write_result(s, places[quads.row(first + t)] + quads.element(first + t), sum, all);
        }
    }
}

// Whether the block is the last of n to leave its results.
__device__ inline bool last_of_splits(unsigned *arrived, unsigned n) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == n - 1;
        if (last) *arrived = 0; // for the next launch
    }
    __syncthreads();
    if (last) __threadfence();
    return last;
}

// ---- blocks that are all there at once: each puts a share of the tile's rows together -----------------------------
//
// Results are handed over as device/handover.cuh has it. A warp reads a row, or two, or half of one: a row's base and sum stand
// there once for each warp, which clears them when all its lanes have them.
template <class Shape, int HEAD> struct SplitPlace {
    static constexpr int COPIES = (HEAD + 127) / 128;
    uint4 sums[Shape::HEADS * HEAD / 4];
    unsigned long long weights[(Shape::HEADS * COPIES + 1) / 2 * 2];
};

template <class Shape, int HEAD>
__device__ inline void hand_over(const SplitArguments &s, const SplitResults<Shape, HEAD> &r, int n_rows,
                                 SplitPlace<Shape, HEAD> *place) {
    static_assert(sizeof *place <= HANDOVER_A_SM, "what a block has room for");
    join_results(s, r, n_rows, [&](int row, int d, float4 sum, float2 all) {
        store_relaxed(&place->sums[(row * HEAD + d) / 4], part_words(sum.x, sum.y, sum.z, sum.w));
        if (d % 128 == 0)
            store_relaxed(&place->weights[row * place->COPIES + d / 128],
                          (unsigned long long)part_word(all.y) << 32 | part_word(all.x));
    });
}

// Rows first, first + 1, … of the tile's n splits, whose blocks' places are `stride` apart, in their order, as they come.
template <class Shape, int HEAD>
__device__ inline void take_over(const SplitArguments &s, const int64_t *places, int first, int n_rows, int n,
                                 SplitPlace<Shape, HEAD> *from, int stride) {
    typedef SplitQuads<Shape, HEAD> Quads;
    enum { AT_ONCE = 4 };
    const Quads quads = {n_rows, s.l.a.head_dim};
#pragma unroll 1
    for (int t = 0; t * Quads::THREADS < n_rows * Quads::EACH; t++) {
        const bool there = quads.there(t);
        const int row = there ? first + Quads::row(t) : first, d = there ? Quads::element(t) : 0;
        float4 sum = make_float4(0, 0, 0, 0);
        float2 whole = make_float2(-INFINITY, 0);
#pragma unroll 1
        for (int p = 0; p < n; p += AT_ONCE) {
            SplitPlace<Shape, HEAD> *place = from + p * stride;
            uint4 found[AT_ONCE];
            unsigned long long weight[AT_ONCE];
            bool all;
            do {
                all = true;
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++) {
                    if (p + i >= n) break;
                    found[i] = load_relaxed_4(&place[i * stride].sums[(row * HEAD + d) / 4].x);
                    weight[i] = load_relaxed(&place[i * stride].weights[row * place->COPIES + d / 128]);
                }
#pragma unroll
                for (int i = 0; i < AT_ONCE; i++)
                    if (p + i < n) all = all && is_whole(found[i]) && (uint32_t)weight[i] && weight[i] >> 32;
            } while (!__all_sync(~0u, all || !there));
            float2 own[AT_ONCE + 1];
            float4 parts[AT_ONCE];
            float factors[AT_ONCE + 1];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                own[i] = make_float2(-INFINITY, 0), parts[i] = make_float4(0, 0, 0, 0);
                if (p + i >= n) continue;
                part_value((uint32_t)weight[i], &own[i].x),
                    part_value((uint32_t)(weight[i] >> 32), &own[i].y);
                part_value(found[i].x, &parts[i].x), part_value(found[i].y, &parts[i].y);
                part_value(found[i].z, &parts[i].z), part_value(found[i].w, &parts[i].w);
                if (!there) continue;
                store_relaxed(&place[i * stride].sums[(row * HEAD + d) / 4], make_uint4(0, 0, 0, 0));
                if (d % 128 == 0)
                    store_relaxed(&place[i * stride].weights[row * place->COPIES + d / 128], 0ull);
            }
            own[AT_ONCE] = whole;
            whole = weigh_few(own, factors);
            const float before = factors[AT_ONCE];
            sum = make_float4(before * sum.x, before * sum.y, before * sum.z, before * sum.w);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) add_times(sum, factors[i], parts[i]);
        }
        if (there) write_result(s, places[row] + d, sum, whole);
    }
}

// ---- the end of a block: its results, and the tile's ----------------------------------------------------------------

template <class Shape, int HEAD>
__device__ inline void end_split(const SplitBlock &block, SplitResults<Shape, HEAD> *results,
                                 const int64_t *places) {
    const SplitArguments &s = block.s;
    const int n = block.tile.n_splits, own = block.split - block.tile.first_split, n_rows = block.n_rows;
    const int64_t part = block.part();
    if (n == 1)
        return join_results(s, *results, n_rows, [&](int row, int d, float4 sum, float2 all) {
            write_result(s, places[row] + d, sum, all);
        });
    if (s.handover) {
        SplitPlace<Shape, HEAD> *place = (SplitPlace<Shape, HEAD> *)s.handover + blockIdx.x;
        const int each = (n_rows + n - 1) / n, first = own * each;
        hand_over(s, *results, n_rows, place + block.split * gridDim.x);
        if (first < n_rows)
            take_over(s, places, first, min(each, n_rows - first), n,
                      place + block.tile.first_split * gridDim.x, gridDim.x);
        return;
    }
    join_results(s, *results, n_rows, [&](int row, int d, float4 sum, float2 all) {
        *(float4 *)(s.sums + (part + row) * s.l.a.head_dim + d) = sum;
        if (d == 0) s.weights[part + row] = all;
    });
    if (!last_of_splits(s.arrived + (int64_t)block.tile.first_split * gridDim.x + blockIdx.x, (unsigned)n))
        return;
    join_splits<Shape, HEAD>(s, places, n_rows, n, part - (int64_t)own * s.parts, results);
}

#endif
