// Descriptions of matrices: the driver's function, found at run time.
#include "kernels/cuda/gemm/tensor_map.cuh"

// Boxes with rows of 128 bytes are swizzled.
static cudaError_t encode_map(CUtensorMap *map, const void *data, int rank, const cuuint64_t *sizes,
                              const cuuint64_t *strides, const cuuint32_t *box) {
    static decltype(&cuTensorMapEncodeTiled) encode; // the same for every caller
    if (!encode) {
        void *found = NULL;
        cudaDriverEntryPointQueryResult result;
        cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                            cudaEnableDefault, &result);
        if (code != cudaSuccess) return code;
        if (result != cudaDriverEntryPointSuccess || !found) return cudaErrorNotSupported;
        encode = (decltype(encode))found;
    }
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, (cuuint32_t)rank, (void *)data, sizes,
                             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             box[0] == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t make_tile_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows) {
    const cuuint64_t sizes[] = {(cuuint64_t)cols, (cuuint64_t)rows}, strides[] = {(cuuint64_t)cols * 2};
    const cuuint32_t box[] = {64, (cuuint32_t)tile_rows};
    return encode_map(map, data, 2, sizes, strides, box);
}

cudaError_t make_boxes_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows, int n) {
    const cuuint64_t sizes[] = {64, (cuuint64_t)rows, (cuuint64_t)cols / 64},
                     strides[] = {(cuuint64_t)cols * 2, 128};
    const cuuint32_t box[] = {64, (cuuint32_t)tile_rows, (cuuint32_t)n};
    return encode_map(map, data, 3, sizes, strides, box);
}

static cudaError_t heads_map(CUtensorMap *map, const void *data, int64_t row_bytes, int rows, int dim,
                             int units) {
    const cuuint64_t row = (cuuint64_t)row_bytes, half = (cuuint64_t)dim / 2;
    const cuuint64_t sizes[] = {row / 2, 8, 2, half / 8, (cuuint64_t)(rows / dim)};
    const cuuint64_t strides[] = {row, row * half, row * 8, row * half * 2};
    const cuuint32_t box[] = {(cuuint32_t)units, 8, 2, (cuuint32_t)(half / 8), (cuuint32_t)(128 / dim)};
    return encode_map(map, data, 5, sizes, strides, box);
}

cudaError_t make_heads_map(CUtensorMap *map, const void *data, int n_heads, int dim, int cols) {
    return heads_map(map, data, (int64_t)cols * 2, n_heads * dim, dim, 64);
}

cudaError_t make_bytes_map(CUtensorMap *map, const void *data, int64_t row_bytes, int rows, int dim,
                           int bytes) {
    if (dim) return heads_map(map, data, row_bytes, rows, dim, bytes / 2);
    const cuuint64_t sizes[] = {(cuuint64_t)row_bytes / 2, (cuuint64_t)rows},
                     strides[] = {(cuuint64_t)row_bytes};
    const cuuint32_t box[] = {(cuuint32_t)bytes / 2, 128};
    return encode_map(map, data, 2, sizes, strides, box);
}
