// The tile kernels for caches in float16 without ALiBi, and for any: compiled by themselves.
// INSTANCES: TILES_OF_F16 TILES_OF_ANY
#include "kernels/cuda/attention/tile.cuh"

template cudaError_t tile_launch<INSTANCE>(const CudaBackend *cuda, const AttendLaunch *launch);
