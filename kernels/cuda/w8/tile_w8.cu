// GEMMs of many rows by W8 on Hopper: the kernels of tile_kernel.cuh for 8 bits.
#include "kernels/cuda/gemm/tile_launch.cuh"

Status tile_gemm_w8(CudaBackend *cuda, const Gemm *g, Error *error) {
    const Weight *w = &g->w->part[0];
    DenseGemm d = {g, w->data, 0, w->rows, (int)(w->row_bytes / 2), false, w->scales, 1};
    Status status;
    WITH_TYPE_16(cuda->operand, (status = launch_epilogue<Int8Pair, T>(cuda, d, error)));
    return status;
}
