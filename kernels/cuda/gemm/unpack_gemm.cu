// GEMMs of many rows by quantised weights on Hopper: see unpack_tile.cuh.
#include "kernels/cuda/gemm/unpack_gemm.cuh"

static UnpackLaunch *kernels_for(int format) {
    switch (format) {
    case FORMAT_Q8:
        return unpack_launch<FORMAT_Q8>;
    case FORMAT_Q8S:
        return unpack_launch<FORMAT_Q8S>;
    case FORMAT_Q8M:
        return unpack_launch<FORMAT_Q8M>;
    case FORMAT_Q4:
        return unpack_launch<FORMAT_Q4>;
    case FORMAT_IQ4:
        return unpack_launch<FORMAT_IQ4>;
    case FORMAT_FP4:
        return unpack_launch<FORMAT_FP4>;
    case FORMAT_Q2:
        return unpack_launch<FORMAT_Q2>;
    case FORMAT_Q3:
        return unpack_launch<FORMAT_Q3>;
    case FORMAT_Q5:
        return unpack_launch<FORMAT_Q5>;
    case FORMAT_Q5M:
        return unpack_launch<FORMAT_Q5M>;
    case FORMAT_Q6:
        return unpack_launch<FORMAT_Q6>;
    case FORMAT_E4M3:
        return unpack_launch<FORMAT_E4M3>;
    case FORMAT_NF4:
        return unpack_launch<FORMAT_NF4>;
    default:
        return unpack_launch<FORMAT_Q4M>;
    }
}

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
        code = kernels_for(a.w.format)(cuda, a, tiles.tokens);
    }
    return status ? status
                  : cuda_check(code, error, "the GEMM of %d rows by quantised [%d, %d]", g->n, g->w->rows,
                               g->w->cols);
}
