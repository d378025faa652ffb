// The kernels of unpack_tile.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3
// INSTANCES: FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/gemm/unpack_gemm.cuh"
#include "kernels/cuda/gemm/unpack_maps.cuh"
#include "kernels/cuda/device/launch.cuh"

template <int FORMAT, int TOKENS, class Epilogue>
static cudaError_t launch(const CudaBackend *cuda, const FlatArguments &a) {
    auto kernel = unpack_tile_kernel<FORMAT, TOKENS, Epilogue, UnpackWalk<TOKENS>>;
    int shared = sizeof(UnpackTileShared<FORMAT, TOKENS>);
    int64_t tiles =
                (int64_t)((a.n + TOKENS - 1) / TOKENS) * ((a.w.rows + 2 * FLAT_ROWS - 1) / (2 * FLAT_ROWS)),
            clusters = cuda->device.card.n_sms / 2;
    UnpackTileMaps maps;
    cudaError_t code = make_unpack_maps<FORMAT>(&maps, a, a.w.rows, a.x_rows, TOKENS);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    // More clusters than tiles: each takes a half or a run of columns.
    clusters = min(clusters, a.shared ? dispatch_unpack_runs(tiles, a.w.cols) : 2 * tiles);
    return code == cudaSuccess ? launch_dependent(cuda, kernel, dim3(2 * (unsigned)clusters),
                                                  UNPACK_TILE_THREADS, shared, maps, a, UnpackGroups{})
                               : code;
}

template <int FORMAT, int TOKENS>
static cudaError_t launch_epilogue(const CudaBackend *cuda, const FlatArguments &a) {
    switch (a.epilogue) {
    case EPILOGUE_HEADS:
        return launch<FORMAT, TOKENS, UnpackHeads>(cuda, a);
    case EPILOGUE_GATED:
        return a.activation == ACTIVATION_SILU
                   ? launch<FORMAT, TOKENS, UnpackGated<ACTIVATION_SILU>>(cuda, a)
                   : launch<FORMAT, TOKENS, UnpackGated<ACTIVATION_GELU_TANH>>(cuda, a);
    case EPILOGUE_ADD:
        return launch<FORMAT, TOKENS, UnpackFloat<true>>(cuda, a);
    case EPILOGUE_FLOAT:
        return launch<FORMAT, TOKENS, UnpackFloat<false>>(cuda, a);
    default:
        return launch<FORMAT, TOKENS, UnpackStore>(cuda, a);
    }
}

template <Format FORMAT>
cudaError_t unpack_launch(const CudaBackend *cuda, const FlatArguments &a, int tokens) {
    return tokens == 256 ? launch_epilogue<FORMAT, 256>(cuda, a) : launch_epilogue<FORMAT, 128>(cuda, a);
}

template cudaError_t unpack_launch<INSTANCE>(const CudaBackend *cuda, const FlatArguments &a, int tokens);
