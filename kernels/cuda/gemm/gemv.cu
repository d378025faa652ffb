// GEMVs of the ops.
#include "kernels/cuda/gemm/gemv.cuh"
#include "kernels/cuda/device/by_format.cuh"

static GemvLaunch *kernels_for(int format) {
    return by_format<FORMAT_F32>(format, [](auto f) { return gemv_launch<f.value>; });
}

bool gemv_built(int format) {
    return is_built(kernels_for(format));
}

Status gemv_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    cudaError_t code = cudaSuccess;
    for (int first = 0; first < g->n && code == cudaSuccess; first += GEMV_MOST)
        for (int i = 0, row = 0; i < g->w->n_parts && code == cudaSuccess; row += g->w->part[i++].rows) {
            FlatArguments a = flat_arguments(cuda, g, i, first, row);
            if (a.n > GEMV_MOST) a.n = GEMV_MOST;
            code = kernels_for(a.w.format)(cuda, &a);
        }
    return cuda_check(code, error, "the GEMV of %d rows by [%d, %d]", g->n, g->w->rows, g->w->cols);
}
