// GEMMs of many rows by quantised weights on Hopper: see unpack_tile.cuh.
#include "kernels/cuda/gemm/unpack_gemm.cuh"
#include "kernels/cuda/device/by_format.cuh"

Status unpack_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    Status status = cuda_reserve_handover(cuda, error); // where tiles are cut
    cudaError_t code = cudaSuccess;
    for (int i = 0, row = 0; i < g->w->n_parts && !status && code == cudaSuccess;
         row += g->w->part[i++].rows) {
        FlatArguments a = flat_arguments(cuda, g, i, 0, row);
        a.n = g->n, a.x_rows = gemm_rows_there(g);
        const UnpackTiles tiles =
            dispatch_unpack(&cuda->device.card, cuda->step.gemm_kind, a.n, a.w.rows, a.w.cols);
        a.shared = tiles.shared;
        auto launch = by_format<FORMAT_Q8>(a.w.format, [](auto f) { return unpack_launch<f.value>; });
        code = launch(cuda, a, tiles.tokens);
    }
    return status ? status
                  : cuda_check(code, error, "the GEMM of %d rows by quantised [%d, %d]", g->n, g->w->rows,
                               g->w->cols);
}
