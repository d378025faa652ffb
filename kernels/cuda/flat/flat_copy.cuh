// The kernel of flat.cuh for weights of 16 bits on cards other than Hopper: W and x come by cp.async into a ring in shared
// memory, 64 columns a stage, and go to mma.m16n8k16 by ldmatrix. One block a multiprocessor; a warp takes 16 rows of W.
//
// Against registers (flat_mma.cuh), which hold two steps of a warp's rows, what is on its way does not shrink while a
// step is multiplied, and a block with few steps has asked for all of them at once.
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_COPY_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_COPY_CUH

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"
#include "kernels/cuda/flat/flat_epilogue.cuh"

enum { FLAT_COPY_COLUMNS = 64, FLAT_COPY_THREADS = FLAT_WARPS * 32 };

// More stages than these of 99 KB are no faster, nor are two blocks a multiprocessor (NOTES.md).
template <int TILES> struct FlatCopyRing {
    static constexpr int W_BYTES = FLAT_ROWS * 128, X_BYTES = TILES * 8 * 128, STAGE = W_BYTES + X_BYTES,
                         STAGES = TILES < 4 ? 5 : 4;
    static_assert(STAGES * STAGE <= 99 << 10, "a block's shared memory on the cards that have least");
};

// A block's steps on their way into its ring.
template <class T, int TILES> struct FlatCopies {
    typedef FlatCopyRing<TILES> Ring;
    const FlatArguments &a;
    uint32_t ring;
    int n_steps, tile, step, left, stage = 0; // left: steps of the block
    const char *rows[FLAT_ROWS / 32];         // of W's tile, those that this thread copies from

    __device__ FlatCopies(const FlatArguments &arguments, const FlatShare &share, uint32_t shared, int begin,
                          int end)
        : a(arguments), ring(shared), n_steps(share.n_steps), tile(begin / share.n_steps),
          step(begin % share.n_steps), left(end - begin) {
        set_rows();
    }

    // The next step, if there is one, as a group of copies.
    __device__ void next() {
        if (left > 0) {
            left--;
            copy();
            stage = stage + 1 == Ring::STAGES ? 0 : stage + 1;
            if (++step == n_steps && left > 0) step = 0, tile++, set_rows();
        }
        end_copies();
    }

  private:
    __device__ void set_rows() {
#pragma unroll
        for (int i = 0; i < FLAT_ROWS / 32; i++) {
            const int at = i * 32 + (int)threadIdx.x / 8;
            int row = tile * FLAT_ROWS + at;
            if (a.epilogue ==
                EPILOGUE_HEADS) { // as end_heads() wants them: elements d and d + dim/2 of a head
                const int dim = a.heads.head_dim, first = row - at % 16;
                row = first / dim * dim + first % dim / 2 + at % 8 + (at % 16 < 8 ? 0 : dim / 2);
            }
            rows[i] = a.w.data + (int64_t)min(row, a.w.rows - 1) * a.w.row_bytes;
        }
    }
    __device__ void copy() const {
        const int piece = threadIdx.x % 8, col = step * FLAT_COPY_COLUMNS + piece * 8;
        const bool there = col < a.w.cols;
        const uint32_t to = ring + stage * Ring::STAGE;
#pragma unroll
        for (int i = 0; i < FLAT_ROWS / 32; i++)
            copy_piece<16>(to + swizzled(i * 32 + (int)threadIdx.x / 8, piece),
                           rows[i] + (there ? col * 2 : 0), there);
#pragma unroll
        for (int i = 0; i < TILES * 8; i += 32) {
            const int row = i + (int)threadIdx.x / 8;
            if (row >= TILES * 8) break;
            const bool some = there && row < a.n;
            copy_piece<16>(to + Ring::W_BYTES + swizzled(row, piece),
                           (const T *)a.x + (some ? (int64_t)row * a.w.cols + col : 0), some);
        }
    }
};

// A stage: c += W · xᵀ, 16 columns after the other.
template <class T, int TILES>
__device__ inline void multiply_stage(uint32_t w, uint32_t x, float (&c)[TILES][4]) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane % 16;
    if constexpr (TILES == 1) {
#pragma unroll
        for (int k = 0; k < FLAT_COPY_COLUMNS / 16; k += 2) {
            uint32_t b[4];
            load_matrices(b, x + swizzled(lane % 8, 2 * k + lane / 8));
#pragma unroll
            for (int i = 0; i < 2; i++) {
                uint32_t rows[4];
                load_matrices(rows, w + swizzled(row, 2 * (k + i) + lane / 16));
                mma_of<T>(c[0], rows, b[2 * i], b[2 * i + 1]);
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < FLAT_COPY_COLUMNS / 16; k++) {
            uint32_t rows[4];
            load_matrices(rows, w + swizzled(row, 2 * k + lane / 16));
#pragma unroll
            for (int i = 0; i < TILES; i += 2) {
                uint32_t b[4];
                load_matrices(b, x + swizzled(i * 8 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
                mma_of<T>(c[i], rows, b[0], b[1]);
                mma_of<T>(c[i + 1], rows, b[2], b[3]);
            }
        }
    }
}

// Grid: as many blocks as multiprocessors, or as there are steps.
template <class T, int TILES>
__global__ void __launch_bounds__(FLAT_COPY_THREADS, 1)
    flat_copy_kernel(const __grid_constant__ FlatArguments a) {
#ifndef __CUDA_ARCH_FEAT_SM90_ALL // there flat_wgmma.cuh takes what this could
    typedef FlatCopyRing<TILES> Ring;
    extern __shared__ __align__(1024) char memory[];
    const uint32_t ring = shared_at(memory);
    const FlatShare share(a.w, FLAT_COPY_COLUMNS);
    const int begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    let_next_begin();
    kernels_before();
    FlatCopies<T, TILES> copies(a, share, ring, begin, end);
#pragma unroll
    for (int s = 0; s < Ring::STAGES - 1; s++) copies.next();
    float c[TILES][4] = {};
    int tile = begin / share.n_steps, left = share.n_steps - begin % share.n_steps,
        stage = 0; // left: of the tile
#pragma unroll 1
    for (int u = begin; u < end; u++) {
        await_copies<Ring::STAGES - 2>();
        __syncthreads();
        copies.next();
        const uint32_t at = ring + stage * Ring::STAGE;
        multiply_stage<T, TILES>(at, at + Ring::W_BYTES, c);
        stage = stage + 1 == Ring::STAGES ? 0 : stage + 1;
        if (--left > 0 && u + 1 < end) continue;
        if (gather_tile<TILES>(a, share, begin, end, tile, c)) end_tile<T, InOrder, TILES>(a, tile, c);
        tile++, left = share.n_steps;
#pragma unroll
        for (int i = 0; i < TILES; i++) c[i][0] = c[i][1] = c[i][2] = c[i][3] = 0;
    }
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

template <class T, int TILES>
static cudaError_t launch_flat_copy_tiles(const CudaBackend *cuda, const FlatArguments *a) {
    typedef FlatCopyRing<TILES> Ring;
    auto kernel = flat_copy_kernel<T, TILES>;
    const int shared = Ring::STAGES * Ring::STAGE;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (code != cudaSuccess) return code;
    const int blocks = min(cuda->device.card.n_sms, FlatShare(a->w, FLAT_COPY_COLUMNS).total);
    return launch_dependent(cuda, kernel, blocks, FLAT_COPY_THREADS, shared, *a);
}

template <class T> static cudaError_t launch_flat_copy(const CudaBackend *cuda, const FlatArguments *a) {
    if (a->n <= 8) return launch_flat_copy_tiles<T, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_copy_tiles<T, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_copy_tiles<T, 4>(cuda, a);
    return launch_flat_copy_tiles<T, 8>(cuda, a);
}

#endif
