// The decoding kernels, each compiled by itself (see INSTANCES in the Makefile), for a kind of cache, lanes that share
// a head, and query heads that a warp takes together.
// INSTANCES: DECODE_F16,8,1 DECODE_F16,8,2 DECODE_F16,8,4
// INSTANCES: DECODE_F16,16,1 DECODE_F16,16,2 DECODE_F16,16,4 DECODE_F16,32,1 DECODE_F16,32,2
// INSTANCES: DECODE_INT8,8,1 DECODE_INT8,8,2 DECODE_INT8,8,4 DECODE_INT8,16,1 DECODE_INT8,16,2 DECODE_INT8,16,4
// INSTANCES: DECODE_INT4,8,1 DECODE_INT4,8,2 DECODE_INT4,8,4 DECODE_INT4,16,1 DECODE_INT4,16,2 DECODE_INT4,16,4
#include "kernels/cuda/decode/kernel.cuh"

template cudaError_t decode_launch<INSTANCE>(const DecodeArguments *a, int n_blocks, cudaStream_t stream);
