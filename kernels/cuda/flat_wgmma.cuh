// The kernel of flat.cuh for weights in 16 bits: tiles of W and x come by tensor copies into a ring, several steps ahead, of W
// even before the kernel before has ended; a warpgroup multiplies 64 rows of W with all rows of x. Half a multiprocessor's
// shared memory and registers, so that the next product's ring fills while this one ends.
#ifndef PALAVER_KERNELS_CUDA_FLAT_WGMMA_CUH
#define PALAVER_KERNELS_CUDA_FLAT_WGMMA_CUH

#include "kernels/cuda/flat_end.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.cuh"
#include "kernels/cuda/tma.cuh"
#include "kernels/cuda/wgmma.cuh"

#include <type_traits>

enum {
    FLAT_DEPTH = 64, // columns of a step: 128 bytes
    FLAT_RING_BYTES = 108 << 10,
    FLAT_THREADS = FLAT_WARPS * 32 + 32, // the last warp copies
};

template <int TILES> struct FlatRing {
    static constexpr int W_BYTES = FLAT_ROWS * FLAT_DEPTH * 2, X_BYTES = TILES * 8 * FLAT_DEPTH * 2;
    static constexpr int STAGE = W_BYTES + X_BYTES, STAGES = FLAT_RING_BYTES / STAGE;
    alignas(1024) char w[STAGES][W_BYTES], x[STAGES][X_BYTES];
    uint64_t full[STAGES], empty[STAGES];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// c [64, 8·TILES] += a [64, 16] · bᵀ, b [8·TILES, 16], both of T in shared memory, their rows along the sum.
#define FLAT_WGMMA_OF(n, type, names, w_name, x_name, ...)                                                   \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" names "}, %" w_name     \
                 ", %" x_name ", 1, 1, 1, 0, 0;"                                                             \
                 : __VA_ARGS__                                                                               \
                 : "l"(w), "l"(x))
#define FLAT_WGMMA(n, names, w_name, x_name, ...)                                                            \
    if (std::is_same<T, __half>::value)                                                                      \
        FLAT_WGMMA_OF(n, "f16", names, w_name, x_name, __VA_ARGS__);                                         \
    else                                                                                                     \
        FLAT_WGMMA_OF(n, "bf16", names, w_name, x_name, __VA_ARGS__)

template <class T> __device__ inline void flat_product(float (&c)[1][4], uint64_t w, uint64_t x) {
    FLAT_WGMMA("8", "%0,%1,%2,%3", "4", "5", "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]));
}
template <class T> __device__ inline void flat_product(float (&c)[2][4], uint64_t w, uint64_t x) {
    FLAT_WGMMA("16", "%0,%1,%2,%3,%4,%5,%6,%7", "8", "9", WGMMA_SUMS_8(c, 0));
}
template <class T> __device__ inline void flat_product(float (&c)[4][4], uint64_t w, uint64_t x) {
    FLAT_WGMMA("32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "16", "17", WGMMA_SUMS_8(c, 0),
               WGMMA_SUMS_8(c, 2));
}
template <class T> __device__ inline void flat_product(float (&c)[8][4], uint64_t w, uint64_t x) {
    FLAT_WGMMA("64", WGMMA_32, "32", "33", WGMMA_SUMS_32(c, 0));
}
#undef FLAT_WGMMA
#undef FLAT_WGMMA_OF

// The copying thread.
template <int TILES>
__device__ inline void copy_flat(FlatRing<TILES> *s, const CUtensorMap *w_map, const CUtensorMap *x_map,
                                 const FlatShare &share) {
    typedef FlatRing<TILES> Ring;
    int begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    uint64_t once = read_once(), often = read_often();
    auto copy_w = [&](int u, int stage) {
        barrier_expect(shared_at(&s->full[stage]), Ring::STAGE);
        copy_tile(shared_at(s->w[stage]), w_map, u % share.n_steps * FLAT_DEPTH,
                  u / share.n_steps * FLAT_ROWS, shared_at(&s->full[stage]), once);
    };
    auto copy_x = [&](int u, int stage) {
        copy_tile(shared_at(s->x[stage]), x_map, u % share.n_steps * FLAT_DEPTH, 0,
                  shared_at(&s->full[stage]), often);
    };
    int ahead = min(Ring::STAGES, end - begin);
    for (int i = 0; i < ahead; i++) copy_w(begin + i, i);
    kernels_before();
    for (int i = 0; i < ahead; i++) copy_x(begin + i, i);
    int stage = 0, phase = 0;
    for (int u = begin + Ring::STAGES; u < end; u++) {
        barrier_wait(shared_at(&s->empty[stage]), phase);
        copy_w(u, stage);
        copy_x(u, stage);
        if (++stage == Ring::STAGES) stage = 0, phase ^= 1;
    }
}

template <class T, int TILES>
__device__ inline void multiply_flat(FlatRing<TILES> *s, const FlatArguments &a, const FlatShare &share) {
    typedef FlatRing<TILES> Ring;
    int u = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    int stage = 0, phase = 0, lane = threadIdx.x % 32;
    uint64_t first_w = matrix_at(shared_at(s->w[0]) + threadIdx.x / 128 * 64 * FLAT_DEPTH * 2, 16),
             first_x = matrix_at(shared_at(s->x[0]), 16);
    kernels_before();
    while (u < end) {
        int tile = u / share.n_steps, n = min(end, (tile + 1) * share.n_steps) - u;
        float c[TILES][4] = {};
        int last = 0; // the stage before, which is read until a product later
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            barrier_wait(shared_at(&s->full[stage]), phase);
            uint64_t w = first_w + stage * (Ring::W_BYTES >> 4), x = first_x + stage * (Ring::X_BYTES >> 4);
            wgmma_fence();
#pragma unroll
            for (int d = 0; d < FLAT_DEPTH; d += 16) // addresses stand in units of 16 bytes
                flat_product<T>(c, w + d / 8, x + d / 8);
            wgmma_commit();
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (i > 0 && lane == 0) barrier_arrive(shared_at(&s->empty[last]));
            last = stage;
            if (++stage == Ring::STAGES) stage = 0, phase ^= 1;
        }
        wgmma_wait<0>(c);
        if (lane == 0) barrier_arrive(shared_at(&s->empty[last]));
        u += n;
        if (gather_tile<TILES>(a, share, tile, c)) end_tile<T, TILES>(a, tile, c);
    }
}

#endif

template <class T, int TILES>
__global__ void __launch_bounds__(FLAT_THREADS, 2)
    flat_wgmma_kernel(const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap x_map,
                      const __grid_constant__ FlatArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    FlatRing<TILES> *s = (FlatRing<TILES> *)memory;
    FlatShare share(a.w, FLAT_DEPTH);
    let_next_begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i < s->STAGES; i++) {
            barrier_init(shared_at(&s->full[i]), 1);
            barrier_init(shared_at(&s->empty[i]), FLAT_WARPS);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < FLAT_WARPS * 32)
        multiply_flat<T, TILES>(s, a, share);
    else if (threadIdx.x == FLAT_WARPS * 32)
        copy_flat<TILES>(s, &w_map, &x_map, share);
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <class T, int TILES>
static cudaError_t launch_flat_tiles(const CudaBackend *cuda, const FlatArguments *a) {
    auto kernel = flat_wgmma_kernel<T, TILES>;
    int shared = sizeof(FlatRing<TILES>);
    CUtensorMap w, x;
    cudaError_t code = make_tile_map(&w, a->w.data, a->w.rows, a->w.cols, FLAT_ROWS);
    if (code == cudaSuccess) code = make_tile_map(&x, a->x, a->n, a->w.cols, TILES * 8);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code != cudaSuccess) return code;
    int blocks = min(cuda->n_sms, FlatShare(a->w, FLAT_DEPTH).total);
    return launch_dependent(cuda, kernel, blocks, FLAT_THREADS, shared, w, x, *a);
}

template <class T> static cudaError_t launch_flat(const CudaBackend *cuda, const FlatArguments *a) {
    if (a->n <= 8) return launch_flat_tiles<T, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_tiles<T, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_tiles<T, 4>(cuda, a);
    return launch_flat_tiles<T, 8>(cuda, a);
}

#endif
