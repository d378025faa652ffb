// Descriptions of matrices for Hopper's copies of tiles (ptx.cuh).
#ifndef PALAVER_KERNELS_CUDA_GEMM_TENSOR_MAP_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

// Tiles of tile_rows <= 256 rows by 64 columns of a matrix [rows, cols] of 16-bit elements, swizzled as ptx_wgmma.cuh
// wants them; `data` is aligned to 16 bytes, cols a multiple of 8. cudaErrorNotSupported: this driver has no such
// maps.
cudaError_t make_tile_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows);

// The same, `n` tiles side by side at once, which come to lie one behind the other: copy_boxes(). cols is a multiple of 64.
cudaError_t make_boxes_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows, int n);

// The same in tiles of 128 rows of heads that have `dim` <= 128 rows each, so that element d of a head and d + dim/2
// are eight rows apart in a tile: row 16·g + 8·h + r of a head is its element h·dim/2 + 8·g + r. A tile is at (col, 0,
// 0, 0, head).
cudaError_t make_heads_map(CUtensorMap *map, const void *data, int n_heads, int dim, int cols);

// Tiles of 128 rows by `bytes` of rows of any bytes, row_bytes from one to the next, both multiples of 16: 128,
// swizzled, or less, which lie one behind the other. Columns count 16-bit units. dim: as make_heads_map(), or 0 for
// rows in order.
cudaError_t make_bytes_map(CUtensorMap *map, const void *data, int64_t row_bytes, int rows, int dim,
                           int bytes);

#endif
