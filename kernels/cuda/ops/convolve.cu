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

// An element of a cache that is not quantised, and what it is there.
__device__ inline float store_element(const KvLayer &kv, bool is_key, int64_t at, float v) {
    void *values = is_key ? kv.k : kv.v;
    if (kv.type == DTYPE_F16)
        ((__half *)values)[at] = __float2half_rn(v);
    else if (kv.type == DTYPE_BF16)
        ((__nv_bfloat16 *)values)[at] = __float2bfloat16_rn(v);
    else
        ((float *)values)[at] = v;
    return kv_at(kv, is_key, at);
}

// A thread an element: y = (q + bq)·(conv_bias + Σ conv·p). ALONE: no token of the step comes before another one, and the cache
// is not quantised, so that who wants a token's p is who makes it; else p is there. Grid: [n_tokens, elements /
// CONVOLVE_THREADS].
template <class T, class Sum, bool ALONE>
__global__ void __launch_bounds__(CONVOLVE_THREADS) taps_kernel(ConvolveArguments a, const Sum *wide, T *y) {
    const int token = blockIdx.x, i = blockIdx.y * CONVOLVE_THREADS + threadIdx.x,
              width = a.n_heads * a.head_dim;
    let_next_begin();
    kernels_before();
    if (i >= width) return;
    const Sum *row = wide + 3 * (int64_t)token * width + i;
    auto sum_of = [&](int part) {
        return to_float(row[part * width]) + (a.bias ? a.bias[part * width + i] : 0);
    };
    float sum = a.conv_bias ? a.conv_bias[i] : 0;
    for (int back = 0; back < a.taps; back++) {
        const int32_t slot = back == 0 ? a.slots[token] : a.earlier[token * (a.taps - 1) + back - 1];
        if (slot < 0) break; // the text begins: nor is there any before
        const CacheRow place = row_of(a, slot, i / a.head_dim);
        const int64_t at = element_of(a.kv, place.slot, place.kv_head) + i % a.head_dim;
        const float p = ALONE && back == 0 ? store_element(a.kv, place.is_key, at, sum_of(1) * sum_of(2))
                                           : kv_at(a.kv, place.is_key, at);
        sum += a.conv[i * a.taps + a.taps - 1 - back] * p;
    }
    y[(int64_t)token * width + i] = from_float<T>(sum_of(0) * sum);
}

template <class Sum>
static cudaError_t store_products(const CudaBackend *cuda, const ConvolveArguments &a, const Sum *wide) {
    const size_t bytes = WARPS * (size_t)row_floats(a.head_dim) * sizeof(float);
    cudaError_t code =
        cudaFuncSetAttribute(products_kernel<Sum>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, products_kernel<Sum>, dim3((a.n_tokens + WARPS - 1) / WARPS, a.n_heads),
                            CONVOLVE_THREADS, bytes, a, wide);
}

template <class T, class Sum>
cudaError_t convolve_finish(const CudaBackend *cuda, const ConvolveArguments &a, void *y) {
    const Sum *wide = (const Sum *)cuda->scratch.wide;
    const dim3 grid(a.n_tokens, (a.n_heads * a.head_dim + CONVOLVE_THREADS - 1) / CONVOLVE_THREADS);
    if (a.alone && !is_quantised(a.kv))
        return launch_dependent(cuda, taps_kernel<T, Sum, true>, grid, CONVOLVE_THREADS, 0, a, wide, (T *)y);
    cudaError_t code = store_products(cuda, a, wide);
    if (code != cudaSuccess) return code;
    return launch_dependent(cuda, taps_kernel<T, Sum, false>, grid, CONVOLVE_THREADS, 0, a, wide, (T *)y);
}

template cudaError_t convolve_finish<INSTANCE>(const CudaBackend *cuda, const ConvolveArguments &a, void *y);
