// The decoding kernel with 32 lanes to a head and 2 query heads to a warp; a file of its own, to be compiled beside others.
#include "kernels/cuda/decode_kernel.cuh"

cudaError_t decode_launch_32_2(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    return launch_decode_kernel<32, 2, CacheF16>(a, n_blocks, stream);
}
