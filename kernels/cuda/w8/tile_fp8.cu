// GEMMs of many rows by E4M3, inputs in e4m3 as well (kernels/fp8.h), on Hopper: the kernels of tile_kernel.cuh for FP8
// with scales of whole rows.
#include "kernels/cuda/gemm/tile_launch.cuh"

Status tile_gemm_fp8(CudaBackend *cuda, const Gemm *g, Error *error) {
    const Weight *w = &g->w->part[0];
    const int first = quant_bytes(
        FORMAT_E4M3, w->cols < chunk_elements(FORMAT_E4M3) ? w->cols : chunk_elements(FORMAT_E4M3));
    if (g->x_stride) return tile_gemm_fp8_groups(cuda, g, error);
    DenseGemm d = {
        g, w->data, 0, w->rows, w->cols / 2, false, (const float *)(w->data + first), w->row_bytes / 4};
    Status status;
    d.w_cols = (int)(w->row_bytes / 2);
    WITH_TYPE_16(cuda->operand, (status = launch_epilogue<Fp8Rows, T>(cuda, d, error)));
    return status;
}
