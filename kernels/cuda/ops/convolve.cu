// qkv of a layer that convolves, from what a GEMM has stored of queries, keys and values: what a token leaves in the cache,
// then the taps over it and over what the tokens before it have left. Compiled once for each pair of what y is stored as and
// of what the GEMM has stored.
// INSTANCES: __half,__half __nv_bfloat16,__nv_bfloat16 __nv_bfloat16,float float,float
#include "kernels/cuda/ops/convolve.cuh"

#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

enum { WARPS = 4, CONVOLVE_THREADS = 32 * WARPS };

// The first half of a token's heads lie as keys, the others as values.
__device__ inline CacheRow row_of(const ConvolveArguments &a, int32_t slot, int head) {
    return CacheRow{head < a.n_kv_heads, slot, head % a.n_kv_heads};
}

// A warp a head: p = (k + bk)·(v + bv) into the token's slot. Grid: [n_tokens / WARPS, n_heads].
template <class Sum>
__global__ void __launch_bounds__(CONVOLVE_THREADS) products_kernel(ConvolveArguments a, const Sum *wide) {
    extern __shared__ __align__(16) float shared[];
    const int warp = threadIdx.x / 32, token = blockIdx.x * WARPS + warp, head = blockIdx.y, dim = a.head_dim;
    const int64_t width = (int64_t)a.n_heads * dim;
    float *p = shared + warp * row_floats(dim);
    let_next_begin();
    kernels_before();
    if (token >= a.n_tokens || a.slots[token] < 0) return;
    const Sum *k = wide + (3 * (int64_t)token + 1) * width + head * dim, *v = k + width;
    const float *bk = a.bias ? a.bias + width + head * dim : NULL;
    for (int i = threadIdx.x % 32; i < dim; i += 32)
        p[i] = (to_float(k[i]) + (bk ? bk[i] : 0)) * (to_float(v[i]) + (bk ? bk[width + i] : 0));
    __syncwarp();
    store_row(a.kv, row_of(a, a.slots[token], head), NULL, p, dim);
}

// A thread an element: y = (q + bq)·(conv_bias + Σ conv·p). Grid: [n_tokens, elements / CONVOLVE_THREADS].
template <class T, class Sum>
__global__ void __launch_bounds__(CONVOLVE_THREADS) taps_kernel(ConvolveArguments a, const Sum *wide, T *y) {
    const int token = blockIdx.x, i = blockIdx.y * CONVOLVE_THREADS + threadIdx.x,
              width = a.n_heads * a.head_dim;
    let_next_begin();
    kernels_before();
    if (i >= width) return;
    const int head = i / a.head_dim;
    float sum = a.conv_bias ? a.conv_bias[i] : 0;
    for (int back = 0; back < a.taps; back++) {
        const int32_t slot = back == 0 ? a.slots[token] : a.earlier[token * (a.taps - 1) + back - 1];
        if (slot < 0) break; // the text begins: nor is there any before
        const CacheRow row = row_of(a, slot, head);
        const int64_t at = element_of(a.kv, row.slot, row.kv_head) + i % a.head_dim;
        sum += a.conv[i * a.taps + a.taps - 1 - back] * kv_at(a.kv, row.is_key, at);
    }
    const float q = to_float(wide[3 * (int64_t)token * width + i]) + (a.bias ? a.bias[i] : 0);
    y[(int64_t)token * width + i] = from_float<T>(q * sum);
}

template <class T, class Sum>
cudaError_t convolve_finish(const CudaBackend *cuda, const ConvolveArguments &a, void *y) {
    const size_t bytes = WARPS * (size_t)row_floats(a.head_dim) * sizeof(float);
    const Sum *wide = (const Sum *)cuda->scratch.wide;
    cudaError_t code =
        cudaFuncSetAttribute(products_kernel<Sum>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, products_kernel<Sum>, dim3((a.n_tokens + WARPS - 1) / WARPS, a.n_heads),
                                CONVOLVE_THREADS, bytes, a, wide);
    const int width = a.n_heads * a.head_dim;
    if (code == cudaSuccess)
        code = launch_dependent(cuda, taps_kernel<T, Sum>,
                                dim3(a.n_tokens, (width + CONVOLVE_THREADS - 1) / CONVOLVE_THREADS),
                                CONVOLVE_THREADS, 0, a, wide, (T *)y);
    return code;
}

template cudaError_t convolve_finish<INSTANCE>(const CudaBackend *cuda, const ConvolveArguments &a, void *y);
