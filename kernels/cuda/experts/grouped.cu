// All experts' GEMMs in one launch each, by the tiles of gemm/tile_kernel.cuh, which find their expert's rows of x and of W
// in a table on the device.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/gemm/tile_launch.cuh"

enum { GROUP_COLUMNS = 256 };

bool experts_tiled(const CudaBackend *cuda, const Layer *layer) {
    const DType type = cuda->operand;
    const int format = type == DTYPE_BF16 ? FORMAT_BF16 : FORMAT_F16;
    return dispatch_features(&cuda->device.card)->wgmma && type != DTYPE_F32 &&
           cuda->shape->activation == ACTIVATION_SILU && layer->gate_up.part[0].format == format &&
           layer->down.part[0].format == format && !layer->b_gate && !layer->b_up;
}

// Rows of x for the pairs of the step, rows of W of each expert.
template <class T, class Epilogue>
static Status launch_groups(CudaBackend *cuda, const Linear *w, const void *x, const Epilogue &epilogue,
                            Error *error) {
    auto kernel = tile_gemm_kernel<T, GROUP_COLUMNS, Epilogue, GroupWalk>;
    const Experts *e = &cuda->shape->experts;
    const CudaRoutes *r = &cuda->scratch.routes;
    const size_t shared = sizeof(TileGemmShared<T, GROUP_COLUMNS>);
    const int n = cuda->step.n_tokens * e->n_active;
    TileShape shape = {n, w->rows / e->n, w->cols, false, NULL, NULL, e->n, r->start, r->tiles};
    CUtensorMap x_map, w_map;
    cudaError_t code = make_tile_map(&x_map, x, n, w->cols, TILE_TOKENS);
    if (code == cudaSuccess)
        code = make_tile_map(&w_map, w->part[0].data, w->rows, w->cols, GROUP_COLUMNS / 2);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, kernel, dim3(cuda->device.card.n_sms / 2 * 2), TILE_GEMM_THREADS,
                                shared, x_map, w_map, shape, epilogue);
    return cuda_check(code, error, "experts' GEMMs of %d rows by [%d, %d]", n, w->rows, w->cols);
}

Status experts_tile_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error) {
    const int size = cuda->shape->experts.size;
    Status status;
    WITH_TYPE_16(cuda->operand,
                 (status = launch_groups<T>(cuda, &layer->gate_up, cuda->scratch.routes.pairs,
                                            GatedEpilogue<T, ACTIVATION_SILU>{(T *)g, size}, error)));
    return status;
}

Status experts_tile_down(CudaBackend *cuda, const Layer *layer, const void *g, Error *error) {
    const int hidden = cuda->shape->hidden_size;
    Status status;
    WITH_TYPE_16(cuda->operand, (status = launch_groups<T>(
                                     cuda, &layer->down, g,
                                     StoreEpilogue<T>{(T *)cuda->scratch.routes.pairs, hidden}, error)));
    return status;
}
