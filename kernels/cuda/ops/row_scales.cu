// What norms of whole rows of q and k multiply heads by: 1 / root mean square of a token's row.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/heads.cuh"
#include "kernels/shards/shard_ops.h"

// Of a token's heads of q, and of those of k, with their bias: 1 / root mean square; of several cards (`squares`, of which
// SHARD_SQUARES are a token's) the sum of squares, of keys without `counted` heads. Grid: [n_tokens, 2], block: 256.
template <class Sum>
__global__ void __launch_bounds__(256)
    row_scales_kernel(HeadArguments a, const Sum *wide, float *scales, float *squares, int counted) {
    __shared__ float sums[8];
    const int first = (blockIdx.y ? a.n_heads + counted : 0) * a.head_dim,
              n = (blockIdx.y ? a.n_kv_heads - counted : a.n_heads) * a.head_dim;
    const Sum *row = wide + (int64_t)blockIdx.x * (a.n_heads + 2 * a.n_kv_heads) * a.head_dim + first;
    float sum = 0;
    let_next_begin();
    kernels_before();
    for (int i = threadIdx.x; i < n; i += 256) {
        float x = to_float(row[i]) + (a.bias ? a.bias[first + i] : 0);
        sum += x * x;
    }
    sum = block_sum<256>(sum, sums);
    if (threadIdx.x != 0) return;
    if (squares)
        squares[SHARD_SQUARES * blockIdx.x + blockIdx.y] = sum;
    else
        scales[2 * blockIdx.x + blockIdx.y] = rsqrtf(sum / n + a.eps);
}

// The same scales from sums of all cards, which become zeros. Grid: n_tokens/256, block: 256.
static __global__ void __launch_bounds__(256)
    scales_of_squares_kernel(float4 *squares, int n_tokens, float q_width, float k_width, float eps,
                             float2 *scales) {
    const int token = blockIdx.x * 256 + threadIdx.x;
    let_next_begin();
    kernels_before();
    if (token >= n_tokens) return;
    const float4 sums = squares[token];
    scales[token] = make_float2(rsqrtf(sums.x / q_width + eps), rsqrtf(sums.y / k_width + eps));
    squares[token] = make_float4(0, 0, 0, 0);
}

// squares: instead of scales; see row_scales_kernel().
static cudaError_t launch_row_scales(const CudaBackend *cuda, const HeadArguments &a, bool in_floats,
                                     float *squares, int counted) {
    const dim3 grid(a.n_tokens, 2);
    float *scales = (float *)cuda->scratch.row_scales;
    const void *wide = cuda->scratch.wide;
    cudaError_t code;
    if (in_floats)
        return launch_dependent(cuda, row_scales_kernel<float>, grid, 256, 0, a, (const float *)wide, scales,
                                squares, counted);
    WITH_OPERAND(cuda, (code = launch_dependent(cuda, row_scales_kernel<T>, grid, 256, 0, a, (const T *)wide,
                                                scales, squares, counted)));
    return code;
}

cudaError_t row_scales(const CudaBackend *cuda, HeadArguments *a, bool in_floats) {
    a->row_scales = cuda->scratch.row_scales;
    return launch_row_scales(cuda, *a, in_floats, NULL, 0);
}

cudaError_t row_squares(const CudaBackend *cuda, const HeadArguments &a, bool in_floats,
                        const ShardRows *rows) {
    return launch_row_scales(cuda, a, in_floats, rows->squares, rows->counted_kv_heads);
}

cudaError_t row_scales_of_squares(const CudaBackend *cuda, HeadArguments *a, const ShardRows *rows) {
    a->row_scales = cuda->scratch.row_scales;
    return launch_dependent(cuda, scales_of_squares_kernel, (a->n_tokens + 255) / 256, 256, 0,
                            (float4 *)rows->squares, a->n_tokens, (float)rows->q_width, (float)rows->k_width,
                            a->eps, cuda->scratch.row_scales);
}
