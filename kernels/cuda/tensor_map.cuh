// Descriptions of matrices for Hopper's copies of tiles (tma.cuh).
#ifndef PALAVER_KERNELS_CUDA_TENSOR_MAP_CUH
#define PALAVER_KERNELS_CUDA_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>

// Tiles of tile_rows <= 256 rows by 64 columns of a matrix [rows, cols] of 16-bit elements, swizzled as wgmma.cuh wants
// them; `data` is aligned to 16 bytes, cols a multiple of 8. cudaErrorNotSupported: this driver has no such maps.
cudaError_t make_tile_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows);

#endif
