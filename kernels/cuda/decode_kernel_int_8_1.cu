// The decoding kernels with 8 lanes to a head and 1 query head to a warp for caches of integers; a file of its own, to be
// compiled beside others.
#include "kernels/cuda/decode_kernel.cuh"

cudaError_t decode_launch_int_8_1(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    return a->kind == DECODE_INT8 ? launch_decode_kernel<8, 1, CacheInt8>(a, n_blocks, stream)
                                  : launch_decode_kernel<8, 1, CacheInt4>(a, n_blocks, stream);
}
