// What the kernels of unpack_tile.cuh copy from.
#ifndef PALAVER_KERNELS_CUDA_GEMM_UNPACK_MAPS_CUH
#define PALAVER_KERNELS_CUDA_GEMM_UNPACK_MAPS_CUH

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/gemm/tensor_map.cuh"
#include "kernels/cuda/gemm/unpack_tile.cuh"

// For all `rows` of W's data, and tiles of `tokens` of the x_rows rows of x.
template <int FORMAT>
static inline cudaError_t make_unpack_maps(UnpackTileMaps *maps, const FlatArguments &a, int rows, int x_rows,
                                           int tokens) {
    int dim = a.epilogue == EPILOGUE_HEADS ? a.heads.head_dim : 0;
    cudaError_t code = make_bytes_map(&maps->w, a.w.data, a.w.row_bytes, rows, dim, 128);
    if (code == cudaSuccess && Unpack<FORMAT>::SCALE_BYTES > 0)
        code = make_bytes_map(&maps->scales, a.w.data, a.w.row_bytes, rows, dim, Unpack<FORMAT>::SCALE_BYTES);
    if (code == cudaSuccess) code = make_tile_map(&maps->x, a.x, x_rows, a.w.cols, tokens / 2);
    if (code == cudaSuccess) code = make_tile_map(&maps->half_x, a.x, x_rows, a.w.cols, tokens / 4);
    return code;
}

#endif
