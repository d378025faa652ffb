// The decoding kernels with 16 lanes to a head and 4 query heads to a warp for caches of integers; a file of its own, to be
// compiled beside others.
#include "kernels/cuda/decode_kernel.cuh"

cudaError_t decode_launch_int_16_4(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    return a->kind == DECODE_INT8 ? launch_decode_kernel<16, 4, CacheInt8>(a, n_blocks, stream)
                                  : launch_decode_kernel<16, 4, CacheInt4>(a, n_blocks, stream);
}
