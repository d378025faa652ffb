// All experts' GEMMs in one launch each where their weights are quantised: the kernels of gemm/unpack_tile.cuh over groups,
// for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3
// INSTANCES: FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/experts/unpacked.cuh"
#include "kernels/cuda/gemm/unpack_maps.cuh"

template <int FORMAT, int TOKENS, class Epilogue>
static cudaError_t launch(const CudaBackend *cuda, const FlatArguments &a, const UnpackedGroups &g) {
    auto kernel = unpack_tile_kernel<FORMAT, TOKENS, Epilogue, UnpackGroupWalk<TOKENS>>;
    const int shared = sizeof(UnpackTileShared<FORMAT, TOKENS>);
    UnpackTileMaps maps;
    cudaError_t code = make_unpack_maps<FORMAT>(&maps, a, a.w.rows * g.n, a.n, TOKENS);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    return code == cudaSuccess
               ? launch_dependent(cuda, kernel, dim3(cuda->device.card.n_sms / 2 * 2), UNPACK_TILE_THREADS,
                                  shared, maps, a, UnpackGroups{g.n, g.starts})
               : code;
}

template <int FORMAT, int TOKENS>
static cudaError_t launch_epilogue(const CudaBackend *cuda, const FlatArguments &a, const UnpackedGroups &g) {
    return a.epilogue == EPILOGUE_GATED ? launch<FORMAT, TOKENS, UnpackPairs>(cuda, a, g)
                                        : launch<FORMAT, TOKENS, UnpackStore>(cuda, a, g);
}

template <Format FORMAT>
cudaError_t unpacked_launch(const CudaBackend *cuda, const FlatArguments &a, const UnpackedGroups &g) {
    return g.tokens == 128 ? launch_epilogue<FORMAT, 128>(cuda, a, g)
                           : launch_epilogue<FORMAT, 64>(cuda, a, g);
}

template cudaError_t unpacked_launch<INSTANCE>(const CudaBackend *cuda, const FlatArguments &a,
                                               const UnpackedGroups &g);
