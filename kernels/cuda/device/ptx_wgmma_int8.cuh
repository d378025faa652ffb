// Hopper's wgmma of 8-bit integers by name (PTX ISA, "wgmma"); they need sm_90a. Tiles and fragments are those of
// ptx_wgmma.cuh: a tile's rows of 128 bytes are 128 elements, a wgmma takes 32 of them, sums are int32.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_INT8_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_PTX_WGMMA_INT8_CUH

#include "kernels/cuda/device/ptx_wgmma.cuh"

// Two neighbouring elements: copies of tiles and steps count matrices of 8 bits as half as many elements of 16.
struct Int8Pair {
    int8_t v[2];
};

// What products of T are added up in.
template <class T> struct SumsOf { typedef float Sum; };
template <> struct SumsOf<Int8Pair> { typedef int32_t Sum; };

template <int N, int COLUMNS> __device__ inline void wgmma_wait(int32_t (&sums)[COLUMNS][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#pragma unroll
    for (int i = 0; i < COLUMNS; i++)
        asm volatile("" : "+r"(sums[i][0]), "+r"(sums[i][1]), "+r"(sums[i][2]), "+r"(sums[i][3])::"memory");
}

#define WGMMA_INTS_8(c, i)                                                                                   \
    "+r"(c[i][0]), "+r"(c[i][1]), "+r"(c[i][2]), "+r"(c[i][3]), "+r"(c[i + 1][0]), "+r"(c[i + 1][1]),        \
        "+r"(c[i + 1][2]), "+r"(c[i + 1][3])
#define WGMMA_INTS_32(c, i)                                                                                  \
    WGMMA_INTS_8(c, i), WGMMA_INTS_8(c, i + 2), WGMMA_INTS_8(c, i + 4), WGMMA_INTS_8(c, i + 6)

// c [64, 8·N] = (add ? c : 0) + a [64, 32] · bᵀ, b [8·N, 32], both in shared memory, their rows along the sum.
#define WGMMA_INTS(width, sums, a_at, b_at, add_at, ...)                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " add_at ", 0;\n"                                         \
                 "wgmma.mma_async.sync.aligned.m64n" width "k32.s32.s8.s8 {" sums "}, " a_at ", " b_at       \
                 ", p;\n}"                                                                                   \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b), "r"((int)add))
template <class T> __device__ inline void wgmma_of(int32_t (&c)[16][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_INTS("128", WGMMA_64, "%64", "%65", "%66", WGMMA_INTS_32(c, 0), WGMMA_INTS_32(c, 8));
}
template <class T> __device__ inline void wgmma_of(int32_t (&c)[24][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_INTS("192", WGMMA_96, "%96", "%97", "%98", WGMMA_INTS_32(c, 0), WGMMA_INTS_32(c, 8),
               WGMMA_INTS_32(c, 16));
}
template <class T> __device__ inline void wgmma_of(int32_t (&c)[32][4], uint64_t a, uint64_t b, bool add) {
    WGMMA_INTS("256", WGMMA_128, "%128", "%129", "%130", WGMMA_INTS_32(c, 0), WGMMA_INTS_32(c, 8),
               WGMMA_INTS_32(c, 16), WGMMA_INTS_32(c, 24));
}
#undef WGMMA_INTS

// c [64, 8·N] += a [64, 32] · bᵀ, b [8·N, 32], likewise.
#define WGMMA_ADD_INTS(n, names, a_name, b_name, ...)                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" n "k32.s32.s8.s8 {" names "}, %" a_name ", %" b_name    \
                 ", p;\n}"                                                                                   \
                 : __VA_ARGS__                                                                               \
                 : "l"(a), "l"(b))
template <class T> __device__ inline void wgmma_add(int32_t (&c)[1][4], uint64_t a, uint64_t b) {
    WGMMA_ADD_INTS("8", "%0,%1,%2,%3", "4", "5", "+r"(c[0][0]), "+r"(c[0][1]), "+r"(c[0][2]), "+r"(c[0][3]));
}
template <class T> __device__ inline void wgmma_add(int32_t (&c)[2][4], uint64_t a, uint64_t b) {
    WGMMA_ADD_INTS("16", "%0,%1,%2,%3,%4,%5,%6,%7", "8", "9", WGMMA_INTS_8(c, 0));
}
template <class T> __device__ inline void wgmma_add(int32_t (&c)[4][4], uint64_t a, uint64_t b) {
    WGMMA_ADD_INTS("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "16", "17",
                   WGMMA_INTS_8(c, 0), WGMMA_INTS_8(c, 2));
}
template <class T> __device__ inline void wgmma_add(int32_t (&c)[6][4], uint64_t a, uint64_t b) {
    WGMMA_ADD_INTS("48",
                   "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23",
                   "24", "25", WGMMA_INTS_8(c, 0), WGMMA_INTS_8(c, 2), WGMMA_INTS_8(c, 4));
}
template <class T> __device__ inline void wgmma_add(int32_t (&c)[8][4], uint64_t a, uint64_t b) {
    WGMMA_ADD_INTS("64", WGMMA_32, "32", "33", WGMMA_INTS_32(c, 0));
}
#undef WGMMA_ADD_INTS

#endif
