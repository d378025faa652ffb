// The tile kernel for caches of other types, and for ALiBi.
#include "kernels/cuda/attend_tile.cuh"

cudaError_t attend_tiles_any(const CudaBackend *cuda, const TileLaunch *launch) {
    return launch_tiles<false>(cuda, launch);
}
