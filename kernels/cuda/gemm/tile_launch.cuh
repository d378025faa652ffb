// Launching the kernels of tile_kernel.cuh.
#ifndef PALAVER_KERNELS_CUDA_GEMM_TILE_LAUNCH_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TILE_LAUNCH_CUH

#include "kernels/cuda/gemm/gemm.cuh"
#include "kernels/cuda/gemm/tensor_map.cuh"
#include "kernels/cuda/gemm/tile_epilogue.cuh"
#include "kernels/cuda/gemm/tile_kernel.cuh"
#include "kernels/cuda/device/launch.cuh"

// Rows first, first + 1, … of W, which lie dense as [rows, cols].
struct DenseGemm {
    const Gemm *gemm;
    const void *dense;
    int first, rows, cols; // of W8 pairs of columns, with the padding
    bool expanded;
    const float *scales; // [rows] of W8, [rows] one scale_step from the next of Fp8Rows
    int64_t scale_step;
    TileFp8 fp8; // of Fp8Groups
    int w_cols;  // pairs of bytes of a row of E4M3, scales included; 0: cols
};

template <class T, int COLUMNS, class Epilogue>
static Status launch(CudaBackend *cuda, const DenseGemm &d, const Epilogue &epilogue, Error *error) {
    auto kernel = tile_gemm_kernel<T, COLUMNS, Epilogue, TileWalk>;
    size_t shared = sizeof(TileGemmShared<T, COLUMNS>);
    TileShape shape = {d.gemm->n, d.rows, d.cols,       !d.expanded, d.gemm->x_scales, d.scales, 0,
                       NULL,      NULL,   d.scale_step, d.fp8};
    int64_t pairs = (shape.n + 2 * TILE_TOKENS - 1) / (2 * TILE_TOKENS),
            tiles = pairs * ((d.rows + COLUMNS - 1) / COLUMNS), clusters = cuda->device.card.n_sms / 2;
    CUtensorMap x_map, w_map;
    dim3 grid(2 * (unsigned)(tiles < clusters ? tiles : clusters));
    cudaError_t code = make_tile_map(&x_map, d.gemm->x, gemm_rows_there(d.gemm), d.cols, TILE_TOKENS);
    if (code == cudaSuccess)
        code = make_tile_map(&w_map, d.dense, d.rows, d.w_cols ? d.w_cols : d.cols, COLUMNS / 2);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, kernel, grid, TILE_GEMM_THREADS, shared, x_map, w_map, shape, epilogue);
    return cuda_check(code, error, "the GEMM of [%d, %d] and [%d, %d]", shape.n, d.cols, d.rows, d.cols);
}

static int columns_of(const CudaBackend *cuda, const DenseGemm &d) {
    return dispatch_tile_columns(&cuda->device.card, d.gemm->epilogue, d.gemm->n, d.rows);
}

template <class T, class Out, Activation ACTIVATION>
static Status launch_gated(CudaBackend *cuda, const DenseGemm &d, Error *error) {
    GatedEpilogue<Out, ACTIVATION> epilogue = {(Out *)d.gemm->y + d.first / 2, d.gemm->w->rows / 2};
    if constexpr (std::is_same<T, Fp8Groups>::value)
        return launch<T, 192>(cuda, d, epilogue, error);
    else
        return columns_of(cuda, d) == 192 ? launch<T, 192>(cuda, d, epilogue, error)
                                          : launch<T, 256>(cuda, d, epilogue, error);
}

template <class T, class Epilogue>
static Status launch_columns(CudaBackend *cuda, const DenseGemm &d, const Epilogue &epilogue, Error *error) {
    if constexpr (!std::is_same<T, Fp8Groups>::value) // whose sums of 256 have no room twice
        if (columns_of(cuda, d) != 128) return launch<T, 256>(cuda, d, epilogue, error);
    return launch<T, 128>(cuda, d, epilogue, error);
}

// Operands of type T, results of type Out.
template <class T, class Out>
static Status launch_epilogue(CudaBackend *cuda, const DenseGemm &d, Error *error) {
    const Gemm *g = d.gemm;
    if (g->epilogue == EPILOGUE_GATED)
        return cuda->shape->activation == ACTIVATION_SILU
                   ? launch_gated<T, Out, ACTIVATION_SILU>(cuda, d, error)
                   : launch_gated<T, Out, ACTIVATION_GELU_TANH>(cuda, d, error);
    if (g->epilogue == EPILOGUE_ADD)
        return launch_columns<T>(cuda, d, AddEpilogue{(float *)g->y + d.first, g->w->rows}, error);
    if constexpr (!std::is_same<T, Out>::value) // what others store is the library's
        if (g->epilogue == EPILOGUE_STORE)
            return launch_columns<T>(cuda, d, StoreEpilogue<Out>{(Out *)g->y + d.first, g->w->rows}, error);
    const HeadArguments &h = *g->heads;
    if (h.head_dim == 64)
        return launch_columns<T>(cuda, d, HeadsEpilogue<Out, 64>{h, (Out *)g->y, d.first / 64}, error);
    return launch_columns<T>(cuda, d, HeadsEpilogue<Out, 128>{h, (Out *)g->y, d.first / 128}, error);
}

#endif
