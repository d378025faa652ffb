// Hopper's wgmma of TF32 by name (PTX ISA, "wgmma"); they need sm_90a. Fragments are those of ptx_wgmma.cuh, an a's those of
// mma.sync.m16n8k8; an operand in shared memory lies in pieces of 8 rows of 16 bytes, its rows along the sum, and is not swizzled.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_TF32_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_TF32_CUH

#include "kernels/cuda/device/ptx_wgmma.cuh"

// Such an operand; bytes from a piece to that of the next four along the sum, and to that of the next 8 rows.
__device__ inline uint64_t pieces_at(uint32_t shared, int along, int next_rows) {
    return (uint64_t)(shared >> 4 & 0x3fff) | (uint64_t)(along >> 4) << 16 | (uint64_t)(next_rows >> 4) << 32;
}

// An operand's registers are written by here, ahead of wgmma_fence(), and not between the products.
template <int N> __device__ inline void wgmma_settle(float (&a)[N][4]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(a[i][0]), "+f"(a[i][1]), "+f"(a[i][2]), "+f"(a[i][3]));
}

// c [64, 8·N] += a [64, 8] · bᵀ, b [8·N, 8]: a as a fragment in registers, which stay as they are until the product is done.
#define WGMMA_TF32(n, names, a0, a1, a2, a3, b_name, ...)                                                    \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k8.f32.tf32.tf32 {" names "}, {%" a0 ",%" a1 ",%" a2 \
                 ",%" a3 "}, %" b_name ", 1, 1, 1;"                                                          \
                 : __VA_ARGS__                                                                               \
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),       \
                   "r"(__float_as_uint(a[3])), "l"(b))
__device__ inline void wgmma_tf32(float (&c)[4][4], const float (&a)[4], uint64_t b) {
    WGMMA_TF32("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "16", "17", "18", "19", "20",
               WGMMA_SUMS_8(c, 0), WGMMA_SUMS_8(c, 2));
}
__device__ inline void wgmma_tf32(float (&c)[8][4], const float (&a)[4], uint64_t b) {
    WGMMA_TF32("64", WGMMA_32, "32", "33", "34", "35", "36", WGMMA_SUMS_32(c, 0));
}
__device__ inline void wgmma_tf32(float (&c)[16][4], const float (&a)[4], uint64_t b) {
    WGMMA_TF32("128", WGMMA_64, "64", "65", "66", "67", "68", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8));
}
#undef WGMMA_TF32

#endif
