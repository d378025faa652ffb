// The kernel of attend_split.cuh: a block's queries, its warps' results put together, and the splits' by the last block
// of a tile to arrive.
#ifndef PALAVER_KERNELS_CUDA_ATTEND_SPLIT_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_ATTEND_SPLIT_KERNEL_CUH

#include "kernels/cuda/split_warp.cuh"

// The pair of its eight that element d belongs to.
template <class C> __device__ inline int pair_of(int d) {
    return C::first(1) == 1 ? d % 4 : d % 8 / 2;
}

// Queries times the scale as float16, in the forms the products want; all threads, eight elements each at a time.
template <class C, int HEAD, int TILES>
__device__ inline void load_split_queries(const SplitArguments &s, const AttendTile &tile, int kv_head,
                                          int first_head, bool with_kept, SplitQueries<HEAD, TILES> *to) {
    constexpr int OCTETS = 8 * TILES * HEAD / 8;
    const AttendArguments &a = s.l.a;
    int group = a.n_heads / a.n_kv_heads;
    for (int i = threadIdx.x; i < (with_kept ? 2 : 1) * OCTETS; i += blockDim.x) {
        int d = i % (HEAD / 8) * 8, head = i / (HEAD / 8) % (8 * TILES), kept = i / OCTETS;
        uint4 raw = make_uint4(0, 0, 0, 0);
        if (d < a.head_dim && first_head + head < group)
            raw = *(
                const uint4 *)((const __half *)(kept ? s.l.q_kept : s.l.q) +
                               ((int64_t)tile.first_token * a.n_heads + kv_head * group + first_head + head) *
                                   a.head_dim +
                               d);
        const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
        float offset = 0;
#pragma unroll
        for (int e = 0; e < 8; e++) {
            uint16_t bits = (uint16_t)(words[e / 2] >> e % 2 * 16);
            float value = s.l.type == DTYPE_F16 ? __half2float(__ushort_as_half(bits))
                                                : __bfloat162float(__ushort_as_bfloat16(bits));
            __half q = __float2half_rn(value * (a.scale / C::factor(pair_of<C>(e))));
            to->q[kept][head][d + e] = q;
            offset -= C::offset(pair_of<C>(e)) * __half2float(q);
        }
        if (C::INTEGER) { // four neighbours hold 32 elements
            offset += __shfl_xor_sync(~0u, offset, 1);
            offset += __shfl_xor_sync(~0u, offset, 2);
            if (i % 4 == 0) to->offsets[kept][d / 32][head] = offset;
        }
    }
    __syncthreads();
}

// What a block's warps found, [warps, heads, HEAD] in the place of the rings, with largest scores and sums.
template <int HEAD, int TILES> struct SplitResults {
    float2 weights[SPLIT_WARPS][8 * TILES];
    float sums[SPLIT_WARPS][8 * TILES][HEAD];
};

template <class WARP, int HEAD, int TILES>
__device__ inline void leave_results(const WARP &w, SplitResults<HEAD, TILES> *r) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, warp = threadIdx.x / 32;
#pragma unroll
    for (int h = 0; h < TILES; h++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = w.sum[h][i];
            for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(~0u, sum, o);
            int head = h * 8 + 2 * t + i;
            if (g == 0) r->weights[warp][head] = make_float2(w.top[h][i], sum);
#pragma unroll
            for (int m = 0; m < HEAD / 16; m++) {
                int at = m / 4 * 64 + g * 8 + m % 4 * 2;
                r->sums[warp][head][at] = w.out[h][m][i];
                r->sums[warp][head][at + 1] = w.out[h][m][i + 2];
            }
        }
}

// Turns n pairs of largest score and sum, `stride` apart, into what each result is to be multiplied with; returns the
// whole's largest score and sum. One thread.
__device__ inline float2 weigh_results(const float2 *weights, int64_t stride, int n, float *factors,
                                       int factor_stride) {
    float largest = -INFINITY, weight = 0;
#pragma unroll 8
    for (int i = 0; i < n; i++) largest = fmaxf(largest, weights[i * stride].x);
    float base = largest == -INFINITY ? 0 : largest;
#pragma unroll 8
    for (int i = 0; i < n; i++) {
        float2 w = weights[i * stride];
        float f = power(w.x - base);
        factors[i * factor_stride] = f;
        weight += f * w.y;
    }
    return make_float2(largest, weight);
}

// The sum over n results of one element, `stride` apart.
__device__ inline float sum_results(const float *sums, int64_t stride, int n, const float *factors,
                                    int factor_stride) {
    float sum = 0;
#pragma unroll 8
    for (int i = 0; i < n; i++) sum += factors[i * factor_stride] * sums[i * stride];
    return sum;
}

__device__ inline void write_result(const SplitArguments &s, int64_t at, float value) {
    if (s.l.type == DTYPE_F16)
        ((__half *)s.l.y)[at] = __float2half_rn(value);
    else
        ((__nv_bfloat16 *)s.l.y)[at] = __float2bfloat16_rn(value);
}

// Grid: [n_kv_heads·head_tiles, n_splits], block: 128.
template <class C, class SCALE, int HEAD, int TILES, bool COARSE>
__global__ void __launch_bounds__(SPLIT_WARPS * 32, SplitShape<C, SCALE, HEAD, TILES, COARSE>::BLOCKS)
    split_kernel(const __grid_constant__ SplitArguments s) {
    typedef SplitResults<HEAD, TILES> Results;
    constexpr int HEADS = 8 * TILES;
    extern __shared__ __align__(16) char memory[];
    __shared__ float2 whole[HEADS];
    __shared__ bool last;
    SplitQueries<HEAD, TILES> *queries = (SplitQueries<HEAD, TILES> *)memory;
    char *rings = memory + sizeof *queries;
    const AttendArguments &a = s.l.a;
    int split = blockIdx.y, kv_head = blockIdx.x / s.head_tiles,
        first_head = blockIdx.x % s.head_tiles * HEADS;
    int group = a.n_heads / a.n_kv_heads, heads = min(HEADS, group - first_head), dim = a.head_dim;
    const AttendTile tile = a.tiles[s.split_tiles[split]];

    int begin = (split - tile.first_split) * s.split_slots, end = min(begin + s.split_slots, tile.n_slots);
    const Units units(BATCH, begin, end, tile.n_keep, tile.n_gone);
    SplitWarp<C, SCALE, HEAD, TILES, COARSE> w(s, tile, units, *queries, kv_head, rings);
    w.begin = begin, w.end = end;
    w.position = a.positions[tile.first_token];
    if (a.alibi)
        for (int h = 0; h < TILES; h++)
            for (int i = 0; i < 2; i++)
                w.slope[h][i] =
                    LOG2_E *
                    alibi_slope(kv_head * group + first_head + h * 8 + threadIdx.x % 4 * 2 + i, a.n_heads);
    w.run(rings, [&] { load_split_queries<C>(s, tile, kv_head, first_head, units.kept > 0, queries); });
    __syncthreads(); // the rings are done with
    Results *results = (Results *)rings;
    float *factors = (float *)(results + 1); // [MOST_SPLITS, HEADS]
    leave_results(w, results);
    __syncthreads();
    if ((int)threadIdx.x < heads)
        whole[threadIdx.x] = weigh_results(&results->weights[0][threadIdx.x], HEADS, SPLIT_WARPS,
                                           factors + threadIdx.x, HEADS);
    __syncthreads();

    int64_t row = (int64_t)tile.first_token * a.n_heads + kv_head * group + first_head;
    int64_t part = (int64_t)split * a.n_heads + kv_head * group + first_head;
    for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) {
        int head = i / dim, d = i % dim;
        float found =
            sum_results(&results->sums[0][head][d], HEADS * HEAD, SPLIT_WARPS, factors + head, HEADS);
        if (tile.n_splits == 1)
            write_result(s, (row + head) * dim + d,
                         whole[head].y == 0 ? 0 : __fdividef(found, whole[head].y));
        else
            s.sums[(part + head) * dim + d] = found;
    }
    if (tile.n_splits == 1) return;
    if ((int)threadIdx.x < heads) s.weights[part + threadIdx.x] = whole[threadIdx.x];
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
    part = (int64_t)tile.first_split * a.n_heads + kv_head * group + first_head;
    if ((int)threadIdx.x < heads)
        whole[threadIdx.x] = weigh_results(s.weights + part + threadIdx.x, a.n_heads, tile.n_splits,
                                           factors + threadIdx.x, HEADS);
    __syncthreads();
    for (int i = threadIdx.x; i < heads * dim; i += blockDim.x) {
        int head = i / dim;
        float found = sum_results(s.sums + part * dim + i, (int64_t)a.n_heads * dim, tile.n_splits,
                                  factors + head, HEADS);
        write_result(s, row * dim + i, whole[head].y == 0 ? 0 : __fdividef(found, whole[head].y));
    }
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <class C, class SCALE, int HEAD, int TILES, bool COARSE>
static cudaError_t launch_shape(const CudaBackend *cuda, const SplitArguments *a) {
    typedef SplitShape<C, SCALE, HEAD, TILES, COARSE> Shape;
    size_t rings = SPLIT_WARPS * Shape::STAGES * Shape::STAGE,
           results = sizeof(SplitResults<HEAD, TILES>) + MOST_SPLITS * Shape::HEADS * sizeof(float);
    size_t shared = sizeof(SplitQueries<HEAD, TILES>) + (rings > results ? rings : results);
    if (shared > cuda->shared_limit) return cudaErrorNotSupported;
    auto kernel = split_kernel<C, SCALE, HEAD, TILES, COARSE>;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    dim3 grid((unsigned)(a->l.a.n_kv_heads * a->head_tiles), (unsigned)cuda->n_splits);
    if (cuda->n_splits > 65535) return cudaErrorNotSupported;
    kernel<<<grid, SPLIT_WARPS * 32, shared, cuda->stream>>>(*a);
    return cudaGetLastError();
}

template <class C, class SCALE, int HEAD, bool COARSE>
static cudaError_t launch_head(const CudaBackend *cuda, const SplitArguments *a) {
    const AttendArguments &t = a->l.a;
    AttendHeads heads = {t.n_heads, t.n_kv_heads, t.head_dim};
    if constexpr (HEAD <= 128)
        if (split_rows(&heads) == 16) return launch_shape<C, SCALE, HEAD, 2, COARSE>(cuda, a);
    return launch_shape<C, SCALE, HEAD, 1, COARSE>(cuda, a);
}

template <class C, class SCALE, bool COARSE>
static cudaError_t launch_groups(const CudaBackend *cuda, const SplitArguments *a) {
    if (a->l.a.head_dim <= 64) return launch_head<C, SCALE, 64, COARSE>(cuda, a);
    if (a->l.a.head_dim <= 128) return launch_head<C, SCALE, 128, COARSE>(cuda, a);
    return launch_head<C, SCALE, 256, COARSE>(cuda, a);
}

template <class C, class SCALE>
static cudaError_t launch_scales(const CudaBackend *cuda, const SplitArguments *a) {
    return a->group_shift < 5 ? launch_groups<C, SCALE, false>(cuda, a)
                              : launch_groups<C, SCALE, true>(cuda, a);
}

template <class C> static cudaError_t launch_split(const CudaBackend *cuda, const SplitArguments *a) {
    if constexpr (!C::INTEGER)
        return launch_groups<C, float, true>(cuda, a);
    else
        return a->l.a.kv.scale_type == DTYPE_F16 ? launch_scales<C, __half>(cuda, a)
                                                 : launch_scales<C, float>(cuda, a);
}

#endif
