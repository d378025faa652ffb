// GEMMs of many rows on Hopper with what follows them, in one kernel: see tile_kernel.cuh. tile_launch.cuh launches it.
//
// An element's sum is accumulated in the order of the columns, whatever the number of tokens, so that a row's result
// does not depend on what stands beside it.
#include "kernels/cuda/gemm/dense.cuh"
#include "kernels/cuda/gemm/tile_launch.cuh"

Status tile_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    if (linear_is_w8(g->w)) return tile_gemm_w8(cuda, g, error);
    if (g->x_scales) return tile_gemm_fp8(cuda, g, error);
    return for_dense(cuda, g->w, error, [&](const void *dense, bool expanded, int first, int n) {
        DenseGemm d = {g, dense, first, n, g->w->cols, expanded};
        Status status;
        WITH_TYPE_16(cuda->operand, (status = launch_epilogue<T, T>(cuda, d, error)));
        return status;
    });
}
