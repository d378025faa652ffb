// What the pieces of a step's splits have found, put together, for heads as wide_kernel.cuh has them; and the way there.
#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/device/launch.cuh"

enum { SUM_THREADS = LATENT_ROW / 2, SUM_WARPS = SUM_THREADS / 32 };

__device__ inline float block_sum(float value, bool largest, float *shared) {
    for (int o = 16; o; o /= 2) {
        const float other = __shfl_xor_sync(~0u, value, o);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    for (int i = 0; i < SUM_WARPS; i++)
        value = i == 0 ? shared[0] : largest ? fmaxf(value, shared[i]) : value + shared[i];
    return value;
}

// A block a row of a tile. Grid: [rows, tiles of few tokens], block: 288, of which every thread has two elements, shared memory:
// a float for each piece that a tile may have.
template <class T>
__global__ void __launch_bounds__(SUM_THREADS) wide_sum_kernel(const __grid_constant__ WideArguments l) {
    extern __shared__ float shares[];
    __shared__ float across[SUM_WARPS];
    const AttendTile tile = l.a.tiles[blockIdx.y];
    const int row = blockIdx.x, n = tile.n_splits * l.pieces, dim = l.a.head_dim;
    let_next_begin();
    kernels_before();
    if (row >= tile.n_tokens * l.a.n_heads) return;
    const int64_t first = (int64_t)tile.first_split * l.pieces * l.parts + row;
    float top = -INFINITY, total = 0;
    for (int s = threadIdx.x; s < n; s += SUM_THREADS)
        top = fmaxf(top, l.weights[first + (int64_t)s * l.parts].x);
    top = block_sum(top, true, across);
    for (int s = threadIdx.x; s < n; s += SUM_THREADS) {
        const float2 found = l.weights[first + (int64_t)s * l.parts];
        shares[s] = exp2f(found.x - (top == -INFINITY ? 0 : top));
        total += shares[s] * found.y;
    }
    total = block_sum(total, false, across);
    if ((int)threadIdx.x * 2 >= dim) return;
    float2 sum = make_float2(0, 0);
#pragma unroll 8
    for (int s = 0; s < n; s++) {
        const float2 v = *(const float2 *)(l.sums + (first + (int64_t)s * l.parts) * dim + threadIdx.x * 2);
        sum.x += shares[s] * v.x, sum.y += shares[s] * v.y;
    }
    const float scale = total == 0 ? 0 : 1 / total;
    T *to = (T *)l.y + ((int64_t)tile.first_token * l.a.n_heads + row) * dim + threadIdx.x * 2;
    to[0] = from_float<T>(sum.x * scale), to[1] = from_float<T>(sum.y * scale);
}

static cudaError_t launch_cache(const CudaBackend *cuda, const WideArguments &l, int rows, int n) {
    // Queries in float16 would lose digits beside a cache in bfloat16; latents, which no other kernel takes, do.
    const bool bfloats = l.a.kv.type == DTYPE_BF16 && (l.type == DTYPE_BF16 || l.a.head_dim == LATENT_ROW);
    const auto launcher = l.a.kv.type == DTYPE_F16 ? wide_launch<WIDE_HALVES>
                          : bfloats                ? wide_launch<WIDE_BFLOATS>
                                                   : wide_launch<WIDE_OTHERS>;
    return is_built(launcher) ? launcher(cuda, l, rows, n)
                              : cudaErrorNotSupported; // first_talk_check() says so before
}

cudaError_t attend_wide(const CudaBackend *cuda, const AttendLaunch *launch, bool split) {
    const CudaStep *step = &cuda->step;
    const AttendHeads *h = &launch->heads;
    WideArguments l = {launch->a, launch->type, launch->queries.recent, launch->queries.sinks, launch->y};
    l.pieces = split ? wide_pieces(h, step->cut_kv_heads) : 1;
    // Of tiles of many tokens always as many rows, so that where a prompt was cut does not show.
    const int n = split ? step->n_splits : launch->n_tiles,
              rows = (split ? step->few_tokens : step->tile_tokens) * (h->n_heads / h->n_kv_heads);
    if (split) {
        l.split_tiles = step->split_tiles;
        l.parts = step->few_tokens * h->n_heads;
        l.sums = (float *)cuda->scratch.parts.memory;
        l.weights = (float2 *)(l.sums + (size_t)n * (size_t)l.pieces * (size_t)l.parts * (size_t)h->head_dim);
    }
    cudaError_t code = launch_cache(cuda, l, rows, n);
    if (code != cudaSuccess || !split) return code;
    l.a.tiles += step->n_tiles;
    const size_t shares = MOST_SPLITS * (size_t)l.pieces * sizeof(float);
    WITH_TYPE_16(launch->type,
                 (code = launch_dependent(cuda, wide_sum_kernel<T>, dim3(l.parts, launch->n_tiles),
                                          SUM_THREADS, shares, l)));
    return code;
}
