// The same with scales of 128 columns: gemm/tile_groups.cuh.
#include "kernels/cuda/gemm/tile_launch.cuh"

Status tile_gemm_fp8_groups(CudaBackend *cuda, const Gemm *g, Error *error) {
    const Weight *w = &g->w->part[0];
    DenseGemm d = {
        g, w->data, 0, w->rows, w->cols / 2, false, NULL, 0, {w->data, w->row_bytes, w->cols, g->x_stride}};
    Status status;
    d.w_cols = (int)(w->row_bytes / 2);
    WITH_TYPE_16(cuda->operand, (status = launch_epilogue<Fp8Groups, T>(cuda, d, error)));
    return status;
}
