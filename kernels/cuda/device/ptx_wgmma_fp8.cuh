// Hopper's wgmma of e4m3 by name (PTX ISA, "wgmma"); they need sm_90a. Tiles and fragments are those of ptx_wgmma.cuh: a
// tile's rows of 128 bytes are 128 elements, a wgmma takes 32 of them. Sums are float32, but what is added to them has
// some 14 bits of the largest (DeepSeek-V3, arXiv:2412.19437, 3.3.2).
#ifndef PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_FP8_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_FP8_CUH

#include "kernels/cuda/device/ptx_wgmma.cuh"

// Two neighbouring elements, as Int8Pair. Rows: scales are of whole rows of both matrices, so that a tile is one sum.
// Groups: they are of 128 columns, so that sums of these are weighed and added up in registers.
struct Fp8Rows {
    uint8_t v[2];
};
struct Fp8Groups {
    uint8_t v[2];
};

// c [64, 8·N] = (add ? c : 0) + a [64, 32] · bᵀ, b [8·N, 32], both in shared memory, their rows along the sum.
#define WGMMA_FP8(width, sums, a_at, b_at, add_at, ...)                                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_at ", 0;\n"                                         \
                 "wgmma.mma_async.sync.aligned.m64n" width "k32.f32.e4m3.e4m3 {" sums "}, " a_at ", " b_at   \
                 ", p, 1, 1;\n}"                                                                             \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "r"((int)add))
__device__ inline void wgmma_fp8(float (&c)[16][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_FP8("128", WGMMA_64, "%64", "%65", "%66", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8));
}
__device__ inline void wgmma_fp8(float (&c)[24][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_FP8("192", WGMMA_96, "%96", "%97", "%98", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8),
              WGMMA_SUMS_32(c, 16));
}
__device__ inline void wgmma_fp8(float (&c)[32][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_FP8("256", WGMMA_128, "%128", "%129", "%130", WGMMA_SUMS_32(c, 0), WGMMA_SUMS_32(c, 8),
              WGMMA_SUMS_32(c, 16), WGMMA_SUMS_32(c, 24));
}
#undef WGMMA_FP8

template <> __device__ inline void wgmma_of<Fp8Rows>(float (&c)[16][4], uint64_t a, uint64_t b, bool add) {
    wgmma_fp8(c, a, b, add);
}
template <> __device__ inline void wgmma_of<Fp8Rows>(float (&c)[24][4], uint64_t a, uint64_t b, bool add) {
    wgmma_fp8(c, a, b, add);
}
template <> __device__ inline void wgmma_of<Fp8Rows>(float (&c)[32][4], uint64_t a, uint64_t b, bool add) {
    wgmma_fp8(c, a, b, add);
}

#endif
