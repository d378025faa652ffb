// The kernel of flat.cuh for weights in 16 bits, and for W8: tiles of W and x come by tensor copies into a ring,
// several steps ahead, of W even before the kernel before has ended; a warpgroup does the wgmma of 64 rows of W with
// all rows of x.
//
// One block a multiprocessor, and half of its shared memory and registers, so that the next GEMM's ring fills while
// this one ends. Rings of two sizes take turns: two large ones find no room side by side, nor two small ones beside a
// large one. Were two blocks of a GEMM on one multiprocessor and none on another, all would wait for them.
#ifndef PALAVER_KERNELS_CUDA_GEMM_FLAT_WGMMA_CUH
#define PALAVER_KERNELS_CUDA_GEMM_FLAT_WGMMA_CUH

#include "kernels/cuda/gemm/flat_epilogue.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/gemm/tensor_map.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"

#include <type_traits>

enum {
    FLAT_DEPTH = 64, // columns of a step: 128 bytes; of W8 pairs of columns
    FLAT_MOST_STAGES = 8,
    FLAT_THREADS = FLAT_WARPS * 32 + 32, // the last warp copies
};

// A ring: `stages` tiles of W, as many of x, then barriers.
template <int TILES> struct FlatRing {
    static constexpr int W_BYTES = FLAT_ROWS * FLAT_DEPTH * 2, X_BYTES = TILES * 8 * FLAT_DEPTH * 2,
                         STAGE = W_BYTES + X_BYTES;
    // Of a multiprocessor's 228 KB; blocks take 1 KB more, and small kernels stand beside them.
    static constexpr int LARGE = ((114 << 10) + STAGE - 1) / STAGE,
                         SMALL = ((222 << 10) - LARGE * STAGE) / STAGE;
    static_assert(LARGE <= FLAT_MOST_STAGES, "barriers for all stages");
    struct Barriers {
        uint64_t full[FLAT_MOST_STAGES], empty[FLAT_MOST_STAGES];
    };
    static constexpr int bytes(bool large) { return (large ? LARGE : SMALL) * STAGE + (int)sizeof(Barriers); }

    int stages;
    uint32_t w, x; // in shared memory
    Barriers *barriers;
    __device__ FlatRing(char *memory, bool large) : stages(large ? LARGE : SMALL) {
        w = shared_at(memory), x = w + stages * W_BYTES;
        barriers = (Barriers *)(memory + stages * STAGE);
    }
    __device__ uint32_t full(int stage) const { return shared_at(&barriers->full[stage]); }
    __device__ uint32_t empty(int stage) const { return shared_at(&barriers->empty[stage]); }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The copying thread.
template <int TILES>
__device__ inline void copy_flat(const FlatRing<TILES> &ring, const CUtensorMap *w_map,
                                 const CUtensorMap *x_map, const FlatArguments &a, const FlatShare &share) {
    typedef FlatRing<TILES> Ring;
    int begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    uint64_t once = read_once(), often = read_often();
    auto copy_w = [&](int u, int stage) {
        uint32_t to = ring.w + stage * Ring::W_BYTES;
        int col = u % share.n_steps * FLAT_DEPTH, row = u / share.n_steps * FLAT_ROWS;
        barrier_expect(ring.full(stage), Ring::STAGE);
        if (a.epilogue == EPILOGUE_HEADS)
            copy_tile_of_five(to, w_map, col, row / a.heads.head_dim, ring.full(stage), once);
        else
            copy_tile(to, w_map, col, row, ring.full(stage), once);
    };
    auto copy_x = [&](int u, int stage) {
        copy_tile(ring.x + stage * Ring::X_BYTES, x_map, u % share.n_steps * FLAT_DEPTH, 0, ring.full(stage),
                  often);
    };
    int ahead = min(ring.stages, end - begin);
    for (int i = 0; i < ahead; i++) copy_w(begin + i, i);
    kernels_before();
    for (int i = 0; i < ahead; i++) copy_x(begin + i, i);
    int stage = 0, phase = 0;
    for (int u = begin + ring.stages; u < end; u++) {
        barrier_wait(ring.empty(stage), phase);
        copy_w(u, stage);
        copy_x(u, stage);
        if (++stage == ring.stages) stage = 0, phase ^= 1;
    }
}

template <class T, class Out, int TILES>
__device__ inline void flat_wgmma_tiles(const FlatRing<TILES> &ring, const FlatArguments &a,
                                        const FlatShare &share) {
    typedef FlatRing<TILES> Ring;
    int u = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    int stage = 0, phase = 0, lane = threadIdx.x % 32;
    uint64_t first_w = matrix_at(ring.w + threadIdx.x / 128 * 64 * FLAT_DEPTH * 2, 16),
             first_x = matrix_at(ring.x, 16);
    FlatScales<T> scales;
    kernels_before();
    scales.begin(a);
    while (u < end) {
        int tile = u / share.n_steps, n = min(end, (tile + 1) * share.n_steps) - u;
        typename SumsOf<T>::Sum c[TILES][4] = {};
        scales.begin_tile(a, tile);
        int last = 0; // the stage before, which is read until a wgmma later
#pragma unroll 1
        for (int i = 0; i < n; i++) {
            barrier_wait(ring.full(stage), phase);
            uint64_t w = first_w + stage * (Ring::W_BYTES >> 4), x = first_x + stage * (Ring::X_BYTES >> 4);
            wgmma_fence();
#pragma unroll
            for (int d = 0; d < FLAT_DEPTH; d += 16) // addresses stand in units of 16 bytes
                wgmma_add<T>(c, w + d / 8, x + d / 8);
            wgmma_commit();
            wgmma_wait_older();
            if (i > 0 && lane == 0) barrier_arrive(ring.empty(last));
            last = stage;
            if (++stage == ring.stages) stage = 0, phase ^= 1;
        }
        wgmma_wait<0>(c);
        if (lane == 0) barrier_arrive(ring.empty(last));
        u += n;
        if (gather_tile<TILES>(a, share, tile, c)) end_sums<T, Out, TILES>(a, tile, scales, c);
    }
}

#endif

// Registers: what leaves room for a norm beside two of these.
template <class T, class Out, int TILES>
__global__ void __maxnreg__(80)
    flat_wgmma_kernel(const __grid_constant__ CUtensorMap w_map, const __grid_constant__ CUtensorMap x_map,
                      const __grid_constant__ FlatArguments a) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    const FlatRing<TILES> ring(memory, a.large);
    const FlatShare share(a.w, FLAT_DEPTH);
    let_next_begin();
    if (threadIdx.x == 0) {
        for (int i = 0; i < ring.stages; i++) {
            barrier_init(ring.full(i), 1);
            barrier_init(ring.empty(i), FLAT_WARPS);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x < FLAT_WARPS * 32)
        flat_wgmma_tiles<T, Out, TILES>(ring, a, share);
    else if (threadIdx.x == FLAT_WARPS * 32)
        copy_flat<TILES>(ring, &w_map, &x_map, a, share);
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <class T, class Out, int TILES>
static cudaError_t launch_flat_tiles(CudaBackend *cuda, FlatArguments *a) {
    typedef FlatRing<TILES> Ring;
    auto kernel = flat_wgmma_kernel<T, Out, TILES>;
    CUtensorMap w, x;
    int dim = a->heads.head_dim, cols = flat_columns(a->w);
    cudaError_t code = cudaSuccess;
    if (a->epilogue != EPILOGUE_HEADS)
        code = make_tile_map(&w, a->w.data, a->w.rows, cols, FLAT_ROWS);
    else if (make_heads_map(&w, a->w.data, a->w.rows / dim, dim, cols) != cudaSuccess)
        code = cudaErrorNotSupported;
    if (code == cudaSuccess) code = make_tile_map(&x, a->x, a->n, cols, TILES * 8);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Ring::bytes(true));
    if (code != cudaSuccess) return code;
    a->large = cuda->step.flat_large = !cuda->step.flat_large;
    int blocks = min(cuda->device.card.n_sms, FlatShare(a->w, FLAT_DEPTH).total);
    return launch_dependent(cuda, kernel, blocks, FLAT_THREADS, Ring::bytes(a->large), w, x, *a);
}

// Operands of type T, results of type Out.
template <class T, class Out> static cudaError_t launch_flat(CudaBackend *cuda, FlatArguments *a) {
    if (a->n <= 8) return launch_flat_tiles<T, Out, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_tiles<T, Out, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_tiles<T, Out, 4>(cuda, a);
    return launch_flat_tiles<T, Out, 8>(cuda, a);
}

#endif
