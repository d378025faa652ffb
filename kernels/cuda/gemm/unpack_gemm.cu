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
    default:
        return unpack_launch<FORMAT_Q4M>;
    }
}

Status unpack_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    cudaError_t code = cudaSuccess;
    for (int i = 0, row = 0; i < g->w->n_parts && code == cudaSuccess; row += g->w->part[i++].rows) {
        FlatArguments a = {};
        a.w = g->w->part[i];
        a.x = g->x, a.n = g->n, a.epilogue = g->epilogue, a.activation = cuda->shape->activation;
        a.y_stride = g->epilogue == EPILOGUE_GATED ? g->w->rows / 2 : g->w->rows;
        if (g->heads) a.heads = *g->heads, a.y_stride = a.heads.n_heads * a.heads.head_dim;
        a.y = (char *)g->y + (size_t)row * operand_bytes(gemm_output(cuda, g));
        code = kernels_for(a.w.format)(cuda, a, dispatch_unpack_tokens(&cuda->device.card, a.n, a.w.rows));
    }
    return cuda_check(code, error, "the GEMM of %d rows by quantised [%d, %d]", g->n, g->w->rows, g->w->cols);
}
