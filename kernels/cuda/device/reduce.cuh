// What all threads of a block find together.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_REDUCE_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_REDUCE_CUH

#include <stdint.h>

// The sum over THREADS threads, in the same order for each. `sums` is [THREADS / 32] in shared memory, free for use
// again when all have returned.
template <int THREADS> __device__ inline float block_sum(float sum, float *sums) {
    for (int o = 16; o; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += sums[i];
    __syncthreads();
    return sum;
}

// The largest, likewise.
template <int THREADS> __device__ inline uint32_t block_most(uint32_t v, uint32_t *tops) {
    v = __reduce_max_sync(~0u, v);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int i = 0; i < THREADS / 32; i++) v = max(v, tops[i]);
    __syncthreads();
    return v;
}

#endif
