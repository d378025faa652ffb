// Descriptions of matrices: the driver's function, found at run time.
#include "kernels/cuda/tensor_map.cuh"

cudaError_t make_tile_map(CUtensorMap *map, const void *data, int rows, int cols, int tile_rows) {
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
    cuuint64_t sizes[2] = {(cuuint64_t)cols, (cuuint64_t)rows}, strides[1] = {(cuuint64_t)cols * 2};
    cuuint32_t box[2] = {64, (cuuint32_t)tile_rows}, steps[2] = {1, 1};
    CUresult result = encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, (void *)data, sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
