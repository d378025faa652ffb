// The kernel of attention/split.cuh: a block's queries, its warps' results put together, and the splits' by the last
// block of a tile to arrive.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_KERNEL_CUH

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/attention/split_warp.cuh"
#include "kernels/cuda/device/ptx.cuh"

// Queries times the scale as float16, for mma; all threads, eight elements each at a time.
template <class C, class Shape, int HEAD, class Queries>
__device__ inline void load_split_queries(const SplitArguments &s, const SplitRows &rows, bool with_sinks,
                                          Queries *to) {
    constexpr int OCTETS = Shape::HEADS * HEAD / 8, COLUMNS = Shape::SETS * 8;
    const AttendArguments &a = s.l.a;
    const int kinds = with_sinks ? 2 : 1;
    for (int i = threadIdx.x; i < kinds * OCTETS; i += blockDim.x) {
        int d = i % (HEAD / 8) * 8, row = i / (HEAD / 8) % Shape::HEADS, for_sinks = i / OCTETS;
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (d < a.head_dim && rows.first + row < rows.n)
            raw = *(const uint4 *)((const __half *)(for_sinks ? s.l.q_sinks : s.l.q) +
                                   rows.place(a.n_heads, rows.first + row) * a.head_dim + d);
        const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int e = 0; e < 8; e++) {
            uint16_t bits = (uint16_t)(words[e / 2] >> e % 2 * 16);
            float value = s.l.type == DTYPE_F16 ? __half2float(__ushort_as_half(bits))
                                                : __bfloat162float(__ushort_as_bfloat16(bits));
            to->q[for_sinks][row][d + e] = __float2half_rn(value * (a.scale / (C::bits(e) * TINY * C::UNIT)));
        }
    }
    __syncthreads();
    if constexpr (C::INTEGER) {
        for (int i = threadIdx.x; i < kinds * COLUMNS; i += blockDim.x) {
            int c = i % 8, set = i / 8 % Shape::SETS, for_sinks = i / COLUMNS,
                first = Shape::group_of(set, c);
            const __half *q = to->q[for_sinks][Shape::head_of(set, c)] + first * Shape::GROUP;
            float sum = 0;
#pragma unroll
            for (int d = 0; d < Shape::GROUP; d++)
                if (first < Shape::GROUPS) sum += C::bits(d) * __half2float(q[d]);
            to->offsets[for_sinks][set][c] = -C::OFFSET * TINY * sum;
        }
        __syncthreads();
    }
}

// What a block's warps found, [warps, heads, HEAD] in the place of the rings, with bases of weights and their sums.
template <class Shape, int HEAD> struct SplitResults {
    float sums[Shape::WARPS][Shape::HEADS][HEAD]; // first, for they are read by 16 bytes
    float2 weights[Shape::WARPS][Shape::HEADS];
};

template <class C, class Shape, int HEAD>
__device__ inline void leave_results(const SplitWarp<C, Shape, HEAD> &w, SplitResults<Shape, HEAD> *r) {
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
                int set = Shape::set_of(i) + n, column = 2 * t + c % 2, d = C::value_dim(i, g, c / 2);
                float value = w.out[i][n][c];
                if (C::INTEGER)
                    value = value / (C::bits(d) * TINY) - C::OFFSET * w.scale_sum[C::INTEGER ? set : 0][c];
                if (Shape::group_of(set, column) == d / Shape::GROUP)
                    r->sums[warp][Shape::head_of(set, column)][d] = value;
            }
}

// Of a head's results, N a lane: what each is to be multiplied with, into factors, HEADS apart, from the lane's on, and
// the whole's largest base and sum. Those from n on are not there.
template <int HEADS, int N>
__device__ inline void weigh_head(const float2 (&own)[N], int n, float *factors, float2 *whole) {
    int lane = threadIdx.x % 32;
    float largest = own[0].x, weight = 0;
#pragma unroll
    for (int i = 1; i < N; i++) largest = fmaxf(largest, own[i].x);
    for (int o = 1; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    float base = largest == -INFINITY ? 0 : largest;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float f = exp2_approx(own[i].x - base);
        weight += f * own[i].y;
        if (i * 32 + lane < n) factors[i * 32 * HEADS] = f;
    }
    for (int o = 1; o < 32; o *= 2) weight += __shfl_xor_sync(~0u, weight, o);
    if (lane == 0) *whole = make_float2(largest, weight);
}

// Turns n <= MOST_SPLITS pairs of base and sum of each head, `stride` apart, into what each result is to be multiplied
// with, factors [n, HEADS], and the whole's largest base and sum. A warp a head, a lane a result; where they are few, all
// of a warp's are on their way at once.
template <class Shape>
__device__ inline void weigh_results(const float2 *weights, int64_t stride, int n, int heads, float *factors,
                                     float2 *whole) {
    constexpr int HEADS = Shape::HEADS, WARPS = Shape::WARPS, ROUNDS = (HEADS + WARPS - 1) / WARPS;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto at = [&](int i, int head) {
        return i < n && head < heads ? weights[i * stride + head] : make_float2(-INFINITY, 0);
    };
    if (n <= 32) {
        float2 own[ROUNDS][1];
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) own[r][0] = at(lane, warp + r * WARPS);
#pragma unroll
        for (int r = 0; r < ROUNDS; r++) {
            int head = warp + r * WARPS;
            if (head < heads) weigh_head<HEADS>(own[r], n, factors + lane * HEADS + head, whole + head);
        }
        return;
    }
    for (int head = warp; head < heads; head += WARPS) {
        float2 own[MOST_SPLITS / 32];
#pragma unroll
        for (int i = 0; i < MOST_SPLITS / 32; i++) own[i] = at(i * 32 + lane, head);
        weigh_head<HEADS>(own, n, factors + lane * HEADS + head, whole + head);
    }
}

// Four neighbouring elements' sum over results first, first + step, …, `stride` apart.
template <int HEADS>
__device__ inline float4 sum_results(const float *sums, int64_t stride, int first, int step, int n,
                                     const float *factors) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 8
    for (int i = first; i < n; i += step) {
        float4 x = *(const float4 *)(sums + i * stride);
        float f = factors[i * HEADS];
        sum.x += f * x.x, sum.y += f * x.y, sum.z += f * x.z, sum.w += f * x.w;
    }
    return sum;
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

// Puts the results of a tile's splits, which lie from `part` on, together as rows of y: the last block's task. Four
// elements a thread and turn; where there are more threads than that, some share a turn's splits.
template <class Shape, int HEAD>
__device__ inline void put_together(const SplitArguments &s, const SplitRows &rows, int n_splits,
                                    int64_t part, float *factors, float2 *whole) {
    constexpr int HEADS = Shape::HEADS, THREADS = Shape::WARPS * 32, MOST = HEADS * HEAD / 4,
                  TURNS = (MOST + THREADS - 1) / THREADS;
    __shared__ float4 shared[THREADS];
    const AttendArguments &a = s.l.a;
    const int n = rows.of_block(HEADS), dim = a.head_dim, elements = n * dim / 4,
              parts = elements < THREADS ? THREADS / elements : 1;
    const float *sums = s.sums + part * dim;
    const int64_t stride = (int64_t)s.parts * dim;
    weigh_results<Shape>(s.weights + part, s.parts, n_splits, n, factors, whole);
    __syncthreads();
    auto write = [&](int i, float4 sum) {
        int row = i * 4 / dim;
        write_result(s, rows.place(a.n_heads, rows.first + row) * dim + i * 4 % dim, sum, whole[row]);
    };
    if (parts > 1) {
        int i = threadIdx.x % elements, own = threadIdx.x / elements;
        float4 sum = make_float4(0, 0, 0, 0);
        if (own < parts)
            sum = sum_results<HEADS>(sums + i * 4, stride, own, parts, n_splits, factors + i * 4 / dim);
        shared[threadIdx.x] = sum;
        __syncthreads();
        for (int p = 1; p < parts && own == 0; p++) {
            float4 x = shared[p * elements + i];
            sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
        }
        if (own == 0) write(i, sum);
        return;
    }
    float4 sum[TURNS] = {};
    int at[TURNS], row[TURNS]; // what is not there is read where something is
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        at[t] = min(t * THREADS + (int)threadIdx.x, elements - 1), row[t] = at[t] * 4 / dim;
#pragma unroll 4
    for (int i = 0; i < n_splits; i++)
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            float4 x = *(const float4 *)(sums + i * stride + at[t] * 4);
            float f = factors[i * HEADS + row[t]];
            sum[t].x += f * x.x, sum[t].y += f * x.y, sum[t].z += f * x.z, sum[t].w += f * x.w;
        }
#pragma unroll
    for (int t = 0; t < TURNS; t++)
        if (t * THREADS + (int)threadIdx.x < elements) write(at[t], sum[t]);
}

// Grid: [n_kv_heads·row_tiles, n_splits], block: 32·Shape::WARPS.
template <class C, class Shape, int HEAD>
__global__ void __launch_bounds__(Shape::WARPS * 32, Shape::BLOCKS)
    split_kernel(const __grid_constant__ SplitArguments s) {
    typedef SplitWarp<C, Shape, HEAD> Warp;
    typedef SplitResults<Shape, HEAD> Results;
    constexpr int HEADS = Shape::HEADS, WARPS = Shape::WARPS;
    extern __shared__ __align__(128) char memory[];
    __shared__ float2 whole[HEADS];
    __shared__ bool last;
    typename Warp::Queries *queries = (typename Warp::Queries *)memory;
    char *rings = memory + sizeof *queries;
    const AttendArguments &a = s.l.a;
    int split = blockIdx.y, kv_head = blockIdx.x / s.row_tiles, dim = a.head_dim;
    let_next_begin();
    if (!s.early) kernels_before(); // else what a step is about is there since its first kernel
    const AttendTile tile = s.split_tiles[split];
    if (tile.n_tokens == 0) return;
    const int group = a.n_heads / a.n_kv_heads;
    const SplitRows rows = {(int)blockIdx.x % s.row_tiles * HEADS, tile.n_tokens * group, group,
                            tile.first_token, kv_head * group};
    const int n_rows = rows.of_block(HEADS);
    if (n_rows <= 0) return; // other tiles have more

    int begin = (split - tile.first_split) * tile.split_slots,
        end = min(begin + tile.split_slots, tile.n_slots);
    const Units units(Shape::KEYS, begin, end, tile.n_sinks, tile.n_evicted);
    Warp w(s, tile, units, *queries, kv_head, rings);
    w.begin = begin, w.end = end;
    w.first_position = a.positions[tile.first_token];
    w.position = a.positions[tile.first_token + tile.n_tokens - 1];
    w.take_rows(rows);
    if (a.kv.score_bases && threadIdx.x == 0)
        atomicAdd(&s.counts->parts, (unsigned long long)min(WARPS, units.n));
    // The step's own keys are the tile's, of one token, or those of the step's only sequence.
    const int32_t fresh_from = s.independent ? w.first_position : a.positions[0];
    // A warp's keys are taken again, with running maxima, where its bases did not do.
#pragma unroll 1
    for (bool again = false;; again = true) {
        w.run(fresh_from, [&] {
            if (again) return;
            kernels_before();
            load_split_queries<C, Shape, HEAD>(s, rows, units.sinks > 0, queries);
        });
        if (!w.given || w.is_safe(end - begin)) break;
        w.start_again();
        if (threadIdx.x % 32 == 0) atomicAdd(&s.counts->again, 1ull);
    }
    __syncthreads(); // the rings are done with
    Results *results = (Results *)rings;
    float *factors = (float *)(results + 1); // [MOST_SPLITS, HEADS]
    leave_results(w, results);
    __syncthreads();
    weigh_results<Shape>(results->weights[0], HEADS, WARPS, n_rows, factors, whole);
    __syncthreads();

    const int64_t part = (int64_t)split * s.parts + kv_head * (s.parts / a.n_kv_heads) + rows.first;
    for (int i = threadIdx.x * 4; i < n_rows * dim; i += blockDim.x * 4) {
        int row = i / dim, d = i % dim;
        float4 found =
            sum_results<HEADS>(&results->sums[0][row][d], HEADS * HEAD, 0, 1, WARPS, factors + row);
        if (tile.n_splits == 1)
            write_result(s, rows.place(a.n_heads, rows.first + row) * dim + d, found, whole[row]);
        else
            *(float4 *)(s.sums + part * dim + i) = found;
    }
    if (tile.n_splits == 1) return;
    if ((int)threadIdx.x < n_rows) s.weights[part + threadIdx.x] = whole[threadIdx.x];
    __threadfence();
    __syncthreads();
    unsigned *arrived = s.arrived + (int64_t)tile.first_split * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == (unsigned)tile.n_splits - 1;
        if (last) *arrived = 0; // for the next launch
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    put_together<Shape, HEAD>(s, rows, tile.n_splits, part - (int64_t)(split - tile.first_split) * s.parts,
                              factors, whole);
}

// ---- launchers -----------------------------------------------------------------------------------------------

// The shared memory of `share` blocks to a multiprocessor and no more; 1 KB of each is the system's.
static inline size_t shared_of(const Card *card, int64_t share) {
    return (card->shared_limit + 1024) / (size_t)(share + 1);
}

// What a block asks for, of `usual` at least: where all are there at once, so much that none of the multiprocessors takes
// more of them than its share. Those that are free first would, and end last. One block leaves room for the ring of the flat GEMM
// behind it, so that a second one may come.
static inline size_t evenly_shared(const Card *card, dim3 grid, int blocks_a_sm, size_t usual) {
    const int64_t share = ((int64_t)grid.x * grid.y + card->n_sms - 1) / card->n_sms;
    if (share < 2 || share >= blocks_a_sm) return usual;
    return max(usual, shared_of(card, share));
}

// A kernel, and what it asks for.
template <class C, int HEAD_, int HEADS_, int GROUP_, int WARPS = 4> struct SplitKernel {
    static constexpr int HEAD = HEAD_, HEADS = HEADS_, GROUP = GROUP_, THREADS = WARPS * 32;
    typedef SplitShape<C, HEAD, HEADS, GROUP, WARPS> Shape;
    static constexpr size_t RINGS = WARPS * Shape::STAGES * Shape::STAGE,
                            RESULTS = sizeof(SplitResults<Shape, HEAD>) + MOST_SPLITS * HEADS * sizeof(float),
                            SHARED = sizeof(typename SplitWarp<C, Shape, HEAD>::Queries) +
                                     (RINGS > RESULTS ? RINGS : RESULTS);
    static auto function() { return split_kernel<C, Shape, HEAD>; }
    // The most that any launch asks for: a limit that came and went would miss a graph that is instantiated later.
    static cudaError_t allow_shared(const Card *card) {
        return cudaFuncSetAttribute(function(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)max(SHARED, shared_of(card, 2)));
    }
};

// Integers: as many rows at once as sums of scales have room in registers; the others are a block of their own.
template <class C, int HEAD, int GROUP, class F> static cudaError_t with_groups(int rows, F f) {
    constexpr int MOST = 64 / (HEAD / GROUP); // rows, for eight sets
    if constexpr (MOST >= 8)
        if (rows > 4) return f(SplitKernel<C, HEAD, 8, GROUP>());
    if constexpr (MOST >= 4)
        if (rows > 1) return f(SplitKernel<C, HEAD, 4, GROUP>());
    return f(SplitKernel<C, HEAD, 1, GROUP>());
}

// Whether a block has three warps where a KV head has one row of queries: as many of a multiprocessor's warps find room so,
// and blocks that end at a finer grain are shared out more evenly. Where rows share keys it loses (NOTES). As measured: 16
// bits, heads of 128, 227 KB of shared memory.
static inline bool in_threes(const Card *card) {
    return card->shared_limit >= 227 << 10;
}

template <class C, int HEAD, class F>
static cudaError_t with_head(const Card *card, int rows, int scale_group, F f) {
    if constexpr (C::INTEGER) {
        if (scale_group == 8) return with_groups<C, HEAD, 8>(rows, f);
        if (scale_group == 16) return with_groups<C, HEAD, 16>(rows, f);
        return with_groups<C, HEAD, 32>(rows, f);
    } else {
        if constexpr (HEAD <= 128)
            if (rows > 8) return f(SplitKernel<C, HEAD, 16, HEAD>());
        if constexpr (C::BITS == 16 && HEAD == 128)
            if (rows == 1 && in_threes(card)) return f(SplitKernel<C, HEAD, 8, HEAD, 3>());
        return f(SplitKernel<C, HEAD, 8, HEAD>());
    }
}

// f(the kernel for heads of head_dim, `rows` of queries to a KV head); cudaErrorNotSupported: there is none.
template <class C, class F>
static cudaError_t with_kernel(const Card *card, int head_dim, int rows, int scale_group, F f) {
    if (head_dim <= 64) return with_head<C, 64>(card, rows, scale_group, f);
    if (head_dim <= 128) return with_head<C, 128>(card, rows, scale_group, f);
    if constexpr (C::BITS < 32) return with_head<C, 256>(card, rows, scale_group, f);
    return cudaErrorNotSupported; // too long for a ring
}

// What the kernel is told besides.
template <class Kernel> static SplitArguments described(const SplitArguments &arguments) {
    typedef typename Kernel::Shape Shape;
    SplitArguments a = arguments;
    a.row_tiles = (a.parts / a.l.a.n_kv_heads + Kernel::HEADS - 1) / Kernel::HEADS;
    a.together =
        a.slot_bytes == Shape::ROW && a.l.a.head_dim == Kernel::HEAD; // behind shorter heads lie others
    if (Shape::SCALES > 0) {
        a.scales_fit = scales_fit(&a, Kernel::GROUP, Shape::SCALES);
        a.together =
            a.together && a.scales_fit && a.scale_slot_bytes == Shape::SCALES && a.scale_head_bytes % 16 == 0;
    }
    return a;
}

template <DType TYPE> struct CacheOf;
template <> struct CacheOf<DTYPE_F32> { typedef Float Type; };
template <> struct CacheOf<DTYPE_F16> { typedef Half Type; };
template <> struct CacheOf<DTYPE_BF16> { typedef Bfloat Type; };
template <> struct CacheOf<DTYPE_INT8> { typedef Int8 Type; };
template <> struct CacheOf<DTYPE_INT4> { typedef Int4 Type; };

template <DType TYPE> cudaError_t split_launch(CudaBackend *cuda, const SplitArguments *arguments) {
    const AttendArguments &t = arguments->l.a;
    const Card *card = &cuda->device.card;
    return with_kernel<typename CacheOf<TYPE>::Type>(
        card, t.head_dim, arguments->parts / t.n_kv_heads, 1 << arguments->group_shift, [&](auto of) {
            typedef decltype(of) Kernel;
            SplitArguments a = described<Kernel>(*arguments);
            dim3 grid((unsigned)(a.l.a.n_kv_heads * a.row_tiles), (unsigned)cuda->step.n_splits);
            const size_t shared = evenly_shared(card, grid, Kernel::Shape::BLOCKS, Kernel::SHARED);
            cudaError_t code = Kernel::allow_shared(card);
            if (code != cudaSuccess) return code;
            if (a.independent || cuda->step.few_tokens > 1) // beside flat GEMMs
                return launch_dependent(cuda, Kernel::function(), grid, Kernel::THREADS, shared, a);
            return launch_overlapping(cuda, Kernel::function(), grid, Kernel::THREADS, shared, a);
        });
}

template <DType TYPE>
cudaError_t split_fit_of(const Card *card, const KvLayer *kv, const AttendHeads *heads, int tokens,
                         SplitFit *fit) {
    cudaError_t code = with_kernel<typename CacheOf<TYPE>::Type>(
        card, heads->head_dim, tokens * (heads->n_heads / heads->n_kv_heads), kv->group, [&](auto of) {
            typedef decltype(of) Kernel;
            fit->rows = Kernel::HEADS;
            fit->shared = Kernel::SHARED + SPLIT_STATIC;
            if (fit->shared > card->shared_limit) return cudaSuccess;
            cudaError_t allowed = Kernel::allow_shared(card);
            if (allowed != cudaSuccess) return allowed;
            return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit->blocks_a_sm, Kernel::function(),
                                                                 Kernel::THREADS, Kernel::SHARED);
        });
    if (fit->blocks_a_sm > MOST_BLOCKS_A_SM) fit->blocks_a_sm = MOST_BLOCKS_A_SM;
    return code == cudaErrorNotSupported ? cudaSuccess : code;
}

#endif
