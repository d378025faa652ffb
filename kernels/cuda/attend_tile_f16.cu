// The tile kernel for caches in float16.
#include "kernels/cuda/attend_tile.cuh"

cudaError_t attend_tiles_f16(const CudaBackend *cuda, const TileLaunch *launch) {
    return launch_tiles<true>(cuda, launch);
}
