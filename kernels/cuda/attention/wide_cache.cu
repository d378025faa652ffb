// INSTANCES: WIDE_HALVES WIDE_BFLOATS WIDE_OTHERS
// The kernels of wide_kernel.cuh by the type of the cache; what is not of 16 bits becomes float16 on its way, and heads of 512
// alone have such a cache.
#include "kernels/cuda/attention/wide_kernel.cuh"

template <class Shape>
static cudaError_t launch(const CudaBackend *cuda, const WideArguments &l, int rows, int n) {
    auto kernel = wide_kernel<Shape>;
    constexpr size_t SHARED = Shape::SHARED;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED);
    if (code != cudaSuccess) return code;
    const dim3 grid((rows + Shape::ROWS - 1) / Shape::ROWS, n, l.a.n_kv_heads * l.pieces);
    return launch_dependent(cuda, kernel, grid, WIDE_THREADS, SHARED, l);
}

template <WideCache CACHE>
cudaError_t wide_launch(const CudaBackend *cuda, const WideArguments &l, int rows, int n) {
    typedef std::conditional_t<CACHE == WIDE_BFLOATS, __nv_bfloat16, __half> C;
    constexpr bool CONVERTS = CACHE == WIDE_OTHERS;
    const WideForm form = wide_form(&cuda->device.card, l.a.head_dim, rows);
    if (l.a.head_dim == WIDE_HEAD) {
        if (form.keys == 32)
            return form.tiles == 1 ? launch<WideShape<C, WIDE_HEAD, CONVERTS, 1, 32>>(cuda, l, rows, n)
                                   : launch<WideShape<C, WIDE_HEAD, CONVERTS, 4, 32>>(cuda, l, rows, n);
        return form.tiles == 1 ? launch<WideShape<C, WIDE_HEAD, CONVERTS, 1, 16>>(cuda, l, rows, n)
                               : launch<WideShape<C, WIDE_HEAD, CONVERTS, 4, 16>>(cuda, l, rows, n);
    }
    if constexpr (CONVERTS) return cudaErrorInvalidValue; // dispatch_attend() gives no other
    if (form.tiles == 4) return launch<WideShape<C, LATENT_ROW, false, 4, 32>>(cuda, l, rows, n);
    if (form.keys == 32)
        return form.tiles == 1 ? launch<WideShape<C, LATENT_ROW, false, 1, 32>>(cuda, l, rows, n)
                               : launch<WideShape<C, LATENT_ROW, false, 2, 32>>(cuda, l, rows, n);
    return form.tiles == 1 ? launch<WideShape<C, LATENT_ROW, false, 1, 64>>(cuda, l, rows, n)
                           : launch<WideShape<C, LATENT_ROW, false, 2, 64>>(cuda, l, rows, n);
}

template cudaError_t wide_launch<INSTANCE>(const CudaBackend *cuda, const WideArguments &l, int rows, int n);
