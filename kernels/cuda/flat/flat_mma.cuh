// The flat GEMMs on cards other than Hopper: W and x come by cp.async into rings in shared memory, W in pieces of 128 bytes
// a row (gemm/pieces.cuh), which are a block's steps, x in parts of as many columns or fewer, and go to mma.m16n8k16. A warp
// takes 16 rows of W.
#ifndef PALAVER_KERNELS_CUDA_FLAT_FLAT_MMA_CUH
#define PALAVER_KERNELS_CUDA_FLAT_FLAT_MMA_CUH

#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/flat/flat_epilogue.cuh"
#include "kernels/cuda/gemm/pieces.cuh"

static_assert((int)FLAT_ROWS == PIECE_ROWS && FLAT_WARPS * 32 == PIECE_THREADS, "all warps copy a tile");

template <int FORMAT, int TILES> struct FlatMmaRing {
    static constexpr int COLUMNS = Pieces<FORMAT>::COLUMNS, X_MOST = TILES < 8 ? 256 : 128,
                         X_COLUMNS = COLUMNS < X_MOST ? COLUMNS : X_MOST, // of a part
        PARTS = COLUMNS / X_COLUMNS;                                      // of a piece
    static constexpr int W_BYTES = PIECES_BYTES<FORMAT>, X_BYTES = TILES * 8 * X_COLUMNS * 2;
    // How many parts ahead copies go: what 99 KB hold, for one block a multiprocessor of the cards that have least. Two
    // blocks that have half of it each are no faster (NOTES.md).
    static constexpr int ROOM = 99 << 10;
    static constexpr int pieces_for(int ahead) { return 1 + (ahead + PARTS - 1) / PARTS; }
    static constexpr int bytes_for(int ahead) { return pieces_for(ahead) * W_BYTES + (ahead + 1) * X_BYTES; }
    static constexpr int most_ahead() {
        int ahead = 4 * PARTS;
        while (bytes_for(ahead) > ROOM) ahead--;
        return ahead;
    }
    static constexpr int AHEAD = most_ahead(), X_STAGES = AHEAD + 1, W_STAGES = pieces_for(AHEAD),
                         BYTES = bytes_for(AHEAD);
    static_assert(AHEAD > 0, "a part is copied while another is multiplied");
};

// A block's steps on their way into its rings, of which it has n_steps.
template <class T, int FORMAT, int TILES, class Walk> struct FlatMmaCopies {
    typedef FlatMmaRing<FORMAT, TILES> Ring;
    const FlatArguments &a;
    uint32_t w, x;
    Walk at;
    int left, part = 0; // left: steps that are not on their way
    int w_stage = 0, x_stage = 0;
    PieceCopy<FORMAT> pieces;
    int rows = 0;      // of W that the tile has
    const char *first; // of them

    __device__ FlatMmaCopies(const FlatArguments &arguments, uint32_t ring, const Walk &walk, int n_steps)
        : a(arguments), w(ring), x(ring + Ring::W_STAGES * Ring::W_BYTES), at(walk), left(n_steps) {
        if (left > 0) begin_tile();
    }

    // The first parts: W's before the kernel before has ended, which x waits for.
    __device__ void begin() {
        FlatMmaCopies ahead = *this;
        for (int i = 0; i < Ring::W_STAGES - 1 && ahead.left > 0; i++) ahead.copy_w(), ahead.next_step();
        w_stage = ahead.w_stage;
        kernels_before();
#pragma unroll 1
        for (int i = 0; i < Ring::AHEAD; i++) next(false);
    }

    // The next part, if there is one, as a group of copies; with its first a piece of W.
    __device__ void next(bool with_w = true) {
        if (left > 0) {
            if (part == 0 && with_w) copy_w();
            copy_x();
            if (++part == Ring::PARTS) part = 0, next_step();
        }
        end_copies();
    }

  private:
    __device__ void next_step() {
        const int step = at.step;
        at.next();
        if (--left > 0 && at.step <= step) begin_tile();
    }
    __device__ void begin_tile() {
        int64_t row = 0;
        int there = 0;
        if constexpr (Walk::GROUPED)
            row = at.row(), there = at.rows - at.row_tile * FLAT_ROWS;
        else
            row = (int64_t)at.tile * FLAT_ROWS, there = a.w.rows - (int)row;
        first = a.w.data + row * a.w.row_bytes;
        there = min(there, (int)FLAT_ROWS);
        if (there == rows) return;
        rows = there;
        // As end_heads() wants them: elements d and d + dim/2 of a head. Those beyond the last are that one again.
        const int dim = a.epilogue == EPILOGUE_HEADS ? a.heads.head_dim : 0;
        pieces.set_rows(a.w.row_bytes, [=](int n) {
            if (dim) n = n / dim * dim + n % dim / 16 * 8 + n % 8 + (n % 16 < 8 ? 0 : dim / 2);
            return (uint32_t)min(n, there - 1);
        });
    }
    __device__ void copy_w() {
        pieces.copy(w + w_stage * Ring::W_BYTES, first, a.w, at.step);
        w_stage = w_stage + 1 == Ring::W_STAGES ? 0 : w_stage + 1;
    }
    // Zeros for rows and columns that are not there.
    __device__ void copy_x() {
        constexpr int EACH = TILES * 8 * PIECE_LANES, ALL = EACH * Ring::X_COLUMNS / 64; // pieces of 16 bytes
        const uint32_t to = x + x_stage * Ring::X_BYTES;
        int n = a.n;
        const T *from = (const T *)a.x;
        if constexpr (Walk::GROUPED) n = at.pairs, from += (int64_t)at.first * a.w.cols;
        const int column = at.step * Ring::COLUMNS + part * Ring::X_COLUMNS;
#pragma unroll
        for (int i = 0; i < ALL; i += PIECE_THREADS) {
            const int piece = i + (int)threadIdx.x, row = piece % EACH / PIECE_LANES,
                      lane = piece % PIECE_LANES, col = column + piece / EACH * 64 + lane * 8;
            if (ALL < PIECE_THREADS && piece >= ALL) break;
            copy_piece<16>(to + piece / EACH * EACH * 16 + swizzled(row, lane), from + (row * a.w.cols + col),
                           row < n && col < a.w.cols);
        }
        x_stage = x_stage + 1 == Ring::X_STAGES ? 0 : x_stage + 1;
    }
};

// A part of a piece: c += W · xᵀ, 16 columns after the other; first: the part's first 16 columns among the piece's.
template <class T, int FORMAT, int TILES>
__device__ inline void multiply_part(PieceRows<FORMAT, 1> &w, int first, uint32_t x, float (&c)[TILES][4]) {
    constexpr int N = FlatMmaRing<FORMAT, TILES>::X_COLUMNS / 16;
    const int lane = threadIdx.x % 32;
    uint32_t b[4];
#pragma unroll
    for (int k = 0; k < N; k++) {
        uint32_t rows[1][4];
        const uint32_t at = x + k / 4 * TILES * 8 * 128;
        w.take(first + k, rows);
        if constexpr (TILES == 1) { // of two products at once
            if (k % 2 == 0) load_matrices(b, at + swizzled(lane % 8, 2 * (k % 4) + lane / 8));
            mma_of<T>(c[0], rows[0], b[k % 2 * 2], b[k % 2 * 2 + 1]);
        } else {
#pragma unroll
            for (int i = 0; i < TILES; i += 2) {
                load_matrices(b, at + swizzled(i * 8 + lane / 16 * 8 + lane % 8, 2 * (k % 4) + lane / 8 % 2));
                mma_of<T>(c[i], rows[0], b[0], b[1]);
                mma_of<T>(c[i + 1], rows[0], b[2], b[3]);
            }
        }
    }
}

// c += the products of a tile's steps [step, step + n), while copies go on ahead. Stages: of the rings, those of the first.
template <class T, int FORMAT, int TILES, class Walk>
__device__ inline void flat_mma_steps(FlatMmaCopies<T, FORMAT, TILES, Walk> &copies, int step, int n,
                                      int &w_stage, int &x_stage, float (&c)[TILES][4]) {
    typedef FlatMmaRing<FORMAT, TILES> Ring;
    PieceRows<FORMAT, 1> rows;
#pragma unroll 1
    for (const int end = step + n; step < end; step++) {
        const int columns_left = copies.a.w.cols - step * Ring::COLUMNS;
#pragma unroll
        for (int part = 0; part < Ring::PARTS; part++) {
            await_copies<Ring::AHEAD - 1>();
            __syncthreads();
            copies.next();
            if (part == 0)
                rows.begin(copies.w + w_stage * Ring::W_BYTES, threadIdx.x / 32 * 16, step, columns_left);
            if (part * Ring::X_COLUMNS < columns_left)
                multiply_part<T, FORMAT, TILES>(rows, part * Ring::X_COLUMNS / 16,
                                                copies.x + x_stage * Ring::X_BYTES, c);
            x_stage = x_stage + 1 == Ring::X_STAGES ? 0 : x_stage + 1;
        }
        w_stage = w_stage + 1 == Ring::W_STAGES ? 0 : w_stage + 1;
    }
}

// Grid: as many blocks as multiprocessors, one on each, or as there are steps.
template <class T, int FORMAT, int TILES>
__global__ void __launch_bounds__(PIECE_THREADS, 1) flat_mma_kernel(const __grid_constant__ FlatArguments a) {
#ifndef __CUDA_ARCH_FEAT_SM90_ALL // there flat_wgmma.cuh takes what this could
    typedef FlatMmaRing<FORMAT, TILES> Ring;
    extern __shared__ __align__(1024) char memory[];
    const FlatShare share(a.w, Ring::COLUMNS);
    const int begin = share.begin(blockIdx.x), end = share.begin(blockIdx.x + 1);
    let_next_begin();
    FlatMmaCopies<T, FORMAT, TILES, FlatWalk> copies(a, shared_at(memory), FlatWalk(share, begin),
                                                     end - begin);
    copies.begin();
    int w_stage = 0, x_stage = 0;
    for (int u = begin, tile = u / share.n_steps, step = u % share.n_steps; u < end; tile++, step = 0) {
        const int n = min(end - u, share.n_steps - step);
        float c[TILES][4] = {};
        flat_mma_steps(copies, step, n, w_stage, x_stage, c);
        u += n;
        if (gather_tile<TILES>(a, share, begin, end, tile, c)) end_tile<T, InOrder, TILES>(a, tile, c);
    }
#endif
}

// ---- launchers -----------------------------------------------------------------------------------------------

// Readies a kernel with a ring of so many bytes; *shared: with what it takes besides, so that a multiprocessor has no room
// for a second block: were two on one and none on another, all would wait for them.
template <class Kernel>
static cudaError_t prepare_flat_mma(const CudaBackend *cuda, Kernel kernel, size_t bytes, size_t *shared) {
    const size_t more_than_half = cuda->device.card.shared_limit / 2 + 1;
    *shared = bytes > more_than_half ? bytes : more_than_half;
    return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)*shared);
}

template <class T, int FORMAT, int TILES>
static cudaError_t launch_flat_mma_tiles(const CudaBackend *cuda, const FlatArguments *a) {
    typedef FlatMmaRing<FORMAT, TILES> Ring;
    auto kernel = flat_mma_kernel<T, FORMAT, TILES>;
    size_t shared;
    const cudaError_t code = prepare_flat_mma(cuda, kernel, Ring::BYTES, &shared);
    if (code != cudaSuccess) return code;
    const int blocks = min(cuda->device.card.n_sms, FlatShare(a->w, Ring::COLUMNS).total);
    return launch_dependent(cuda, kernel, blocks, PIECE_THREADS, shared, *a);
}

template <class T, int FORMAT>
static cudaError_t launch_flat_mma(const CudaBackend *cuda, const FlatArguments *a) {
    if (a->n <= 8) return launch_flat_mma_tiles<T, FORMAT, 1>(cuda, a);
    if (a->n <= 16) return launch_flat_mma_tiles<T, FORMAT, 2>(cuda, a);
    if (a->n <= 32) return launch_flat_mma_tiles<T, FORMAT, 4>(cuda, a);
    return launch_flat_mma_tiles<T, FORMAT, 8>(cuda, a);
}

#endif
