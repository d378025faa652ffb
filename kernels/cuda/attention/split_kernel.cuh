// The kernel of attention/split.cuh: a block's queries, its warps, and who puts their results together.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_KERNEL_CUH

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/attention/split_results.cuh"
#include "kernels/cuda/device/ptx.cuh"

// Queries times the scale as float16, for mma; all threads, eight elements each at a time.
template <class C, class Shape, int HEAD, class Queries>
__device__ inline void load_split_queries(const SplitArguments &s, const int64_t *places, int n_rows,
                                          bool with_sinks, Queries *to) {
    constexpr int OCTETS = Shape::HEADS * HEAD / 8, COLUMNS = Shape::SETS * 8, THREADS = Shape::WARPS * 32,
                  TURNS = (OCTETS + THREADS - 1) / THREADS;
    const AttendArguments &a = s.l.a;
    const int kinds = with_sinks ? 2 : 1;
    for (int for_sinks = 0; for_sinks < kinds; for_sinks++) {
        const __half *q = (const __half *)(for_sinks ? s.l.q_sinks : s.l.q);
        uint4 raw[TURNS]; // all on their way before one is waited for
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int i = t * THREADS + threadIdx.x, d = i % (HEAD / 8) * 8, row = i / (HEAD / 8);
            raw[t] = make_uint4(0, 0, 0, 0);
            if (d < a.head_dim && row < n_rows) raw[t] = *(const uint4 *)(q + places[row] + d);
        }
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int i = t * THREADS + threadIdx.x, d = i % (HEAD / 8) * 8, row = i / (HEAD / 8);
            if (OCTETS % THREADS != 0 && i >= OCTETS) break;
            *(uint4 *)&to->q[for_sinks][row][d] = scaled_halves(
                raw[t], s.l.type, [&](int e) { return a.scale / (C::bits(e) * TINY * C::UNIT); });
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

// Grid: [n_kv_heads·row_tiles, n_splits], block: 32·Shape::WARPS.
template <class C, class Shape, int HEAD>
__global__ void __launch_bounds__(Shape::WARPS * 32, Shape::BLOCKS)
    split_kernel(const __grid_constant__ SplitArguments s) {
    typedef SplitWarp<C, Shape, HEAD> Warp;
    typedef SplitResults<Shape, HEAD> Results;
    extern __shared__ __align__(128) char memory[];
    __shared__ int64_t places[Shape::HEADS]; // of the block's rows: the first element's in q and y
    typename Warp::Queries *queries = (typename Warp::Queries *)memory;
    char *rings = memory + sizeof *queries;
    let_next_begin();
    if (!s.early) kernels_before(); // else what a step is about is there since its first kernel
    const SplitBlock block(s, Shape::HEADS, Shape::KEYS);
    if (block.n_rows <= 0) return;
    Warp w(block, *queries, rings);
    w.take_rows(block.rows);
    block.leave_places(places);
    if (s.l.a.kv.score_bases && threadIdx.x == 0)
        atomicAdd(&s.counts->parts, (unsigned long long)min(Shape::WARPS, block.units.n));
#pragma unroll 1
    for (bool again = false;;
         again = true) { // a warp's keys, with running maxima, where its bases did not do
        w.run(block.fresh_from(), [&] {
            if (again) return;
            __syncthreads(); // places are known
            kernels_before();
            load_split_queries<C, Shape, HEAD>(s, places, block.n_rows, block.units.sinks > 0, queries);
        });
        if (!w.given || w.is_safe(block.end - block.begin)) break;
        w.start_again();
        if (threadIdx.x % 32 == 0) atomicAdd(&s.counts->again, 1ull);
    }
    __syncthreads(); // the rings are done with
    Results *results = (Results *)rings;
    leave_results(w, block.n_rows, results);
    __syncthreads();
    end_split<Shape, HEAD>(block, results, places);
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
                            SHARED = sizeof(typename SplitWarp<C, Shape, HEAD>::Queries) +
                                     split_room<Shape, HEAD>(RINGS);
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
            a.handover = split_handover(cuda, grid);
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
