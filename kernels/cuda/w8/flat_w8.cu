// The kernels of flat.cuh for W8: Hopper's, and a plain one by products of four bytes (dp4a) for every other card.
#include "kernels/cuda/flat/flat_wgmma.cuh"

enum { PLAIN_TOKENS = 8 }; // that a warp takes against one reading of a row

// The sums of a row of W with n rows of x, one after the other, in all lanes.
__device__ inline void plain_sums(const FlatArguments &a, int row, int first, int n,
                                  int32_t sums[PLAIN_TOKENS]) {
    const char *w = a.w.data + row * a.w.row_bytes;
    const char *x = (const char *)a.x + first * a.w.row_bytes;
#pragma unroll
    for (int t = 0; t < PLAIN_TOKENS; t++) sums[t] = 0;
    for (int64_t i = threadIdx.x % 32 * 16; i < a.w.row_bytes; i += 512) {
        uint4 q = load_streaming(w + i);
#pragma unroll
        for (int t = 0; t < PLAIN_TOKENS; t++)
            if (t < n) sums[t] = dot_16(q, *(const uint4 *)(x + t * a.w.row_bytes + i), sums[t]);
    }
#pragma unroll
    for (int t = 0; t < PLAIN_TOKENS; t++) sums[t] = __reduce_add_sync(~0u, sums[t]);
}

// A warp a row of W, or a pair of gate and up, and PLAIN_TOKENS rows of x, of which lane t ends the t-th. Block: 256
// threads. Grid: [units / 8, n / PLAIN_TOKENS].
template <class Out>
__global__ void __launch_bounds__(256) plain_w8_kernel(const __grid_constant__ FlatArguments a) {
    bool gated = a.epilogue == EPILOGUE_GATED;
    int lane = threadIdx.x % 32, unit = blockIdx.x * 8 + threadIdx.x / 32, first = blockIdx.y * PLAIN_TOKENS;
    let_next_begin();
    kernels_before();
    int n = min(PLAIN_TOKENS, (a.count ? min(a.n, *a.count) : a.n) - first);
    if (unit >= (gated ? a.w.rows / 2 : a.w.rows) || n <= 0) return;
    int row = gated ? 2 * unit : unit;
    int32_t sums[PLAIN_TOKENS], ups[PLAIN_TOKENS] = {}, sum = 0, up = 0;
    plain_sums(a, row, first, n, sums);
    if (gated) plain_sums(a, row + 1, first, n, ups);
#pragma unroll
    for (int t = 0; t < PLAIN_TOKENS; t++)
        if (t == lane) sum = sums[t], up = ups[t];
    if (lane >= n) return;
    float token_scale = a.x_scales[first + lane];
    end_sum<Out>(a, first + lane, unit, w8_value(sum, token_scale, a.w.scales[row]),
                 gated ? w8_value(up, token_scale, a.w.scales[row + 1]) : 0);
}

template <class Out> static cudaError_t launch_plain(const CudaBackend *cuda, const FlatArguments *a) {
    int units = a->epilogue == EPILOGUE_GATED ? a->w.rows / 2 : a->w.rows;
    dim3 grid((units + 7) / 8, (a->n + PLAIN_TOKENS - 1) / PLAIN_TOKENS);
    return launch_dependent(cuda, plain_w8_kernel<Out>, grid, 256, 0, *a);
}

cudaError_t flat_launch_w8(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a) {
    cudaError_t code = cudaSuccess;
    if (kernel == FLAT_WGMMA)
        WITH_TYPE_16(cuda->operand, (code = launch_flat<Int8Pair, T, FORMAT_W8>(cuda, a)));
    else
        WITH_OPERAND(cuda, (code = launch_plain<T>(cuda, a)));
    return code;
}
