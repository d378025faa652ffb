// Experts' GEMMs of few tokens: those of flat/flat_wgmma.cuh on Hopper, of flat/flat_mma.cuh on other cards, over many
// matrices that lie one below the other, each for rows of x of its own, the pairs of a token and an expert in the experts'
// order.
//
// A tile is 128 rows of an expert's W and up to 8·TILES of its pairs. Blocks have runs of neighbours, as long as each
// other's. No tile is shared: its sums are one block's, over all columns in their order, so that what a pair gives depends
// on nothing else, however many pairs a tile has room for.
#ifndef PALAVER_KERNELS_CUDA_EXPERTS_FLAT_CUH
#define PALAVER_KERNELS_CUDA_EXPERTS_FLAT_CUH

#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/flat/flat_mma.cuh"
#include "kernels/cuda/flat/flat_wgmma.cuh"

// A walk through a block's steps, tile after tile: for all pairs of one, its expert's rows one below the other.
struct ExpertFlatWalk {
    static constexpr bool GROUPED = true;
    const int4 *next_pairs;
    int rows, n_steps, row_tiles;
    int left; // tiles that the block still has, this one included
    int row_tile, step, expert, first, pairs;

    // Of matrices of rows_each rows, in n_steps_each steps. Two blocks of a multiprocessor share the run that it would have
    // if they were one.
    __device__ ExpertFlatWalk(const ExpertFlatTiles &tiles, int rows_each, int n_steps_each, int blocks_a_sm)
        : rows(rows_each), n_steps(n_steps_each), row_tiles((rows_each + FLAT_ROWS - 1) / FLAT_ROWS), step(0),
          expert(0), first(0), pairs(0) {
        const int64_t all = (int64_t)__ldcg(tiles.n) * row_tiles;
        const int runs = (int)gridDim.x / blocks_a_sm, run = (int)blockIdx.x % runs;
        int begin = (int)(all * run / runs);
        left = (int)(all * (run + 1) / runs) - begin;
        const int half = (left + 1) / 2;
        if (blocks_a_sm > 1 && (int)blockIdx.x < runs) left = half;
        if (blocks_a_sm > 1 && (int)blockIdx.x >= runs) begin += half, left -= half;
        next_pairs = tiles.pairs + begin / row_tiles, row_tile = begin % row_tiles;
        if (left > 0) take_pairs();
    }
    __device__ int row() const { return expert * rows + row_tile * FLAT_ROWS; }
    __device__ void next() {
        if (++step == n_steps) next_tile();
    }
    __device__ void next_tile() {
        step = 0, left--;
        if (++row_tile < row_tiles) return;
        row_tile = 0;
        if (left > 0) take_pairs();
    }

  private:
    // Past the L1, which may still hold those of the layer before.
    __device__ void take_pairs() {
        const int4 at = __ldcg(next_pairs++);
        expert = at.x, first = at.y, pairs = at.z;
    }
};

// A tile's epilogue.
template <class T, class Order, int TILES>
__device__ inline void end_expert_tile(const FlatArguments &a, const ExpertFlatWalk &walk,
                                       float (&c)[TILES][4]) {
    FlatArguments own = a;
    own.n = walk.pairs;
    own.y = (T *)a.y + (int64_t)walk.first * a.y_stride;
    if (a.bias) own.bias += (int64_t)walk.expert * a.y_stride;
    if (a.other) own.other += (int64_t)walk.expert * a.y_stride;
    end_tile<T, Order, TILES>(own, walk.row_tile, c);
}

// ---- by wgmma ---------------------------------------------------------------------------------------------------

// Blocks of a multiprocessor, beside each other in half of its memory each: where numbers are made by few instructions,
// the warps of one do not keep it busy, and a tile's end stands beside the other's products. Where they are made by many,
// the next kernel's ring, which then waits, is worth more (NOTES).
template <int FORMAT, int TILES>
constexpr int EXPERT_FLAT_BLOCKS = format_in_quads(FORMAT) && !FlatRing<FORMAT, TILES>::WHOLE ? 2 : 1;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class T, int FORMAT, int TILES>
__device__ inline void expert_flat_tiles(const FlatRing<FORMAT, TILES> &ring, const FlatArguments &a,
                                         ExpertFlatWalk walk) {
    typedef FlatRing<FORMAT, TILES> Ring;
    FlatPosition<Ring> at;
    FlatUnpackIf<FORMAT> unpack = {};
    kernels_before();
    if (!Ring::NEXT_LATE) let_next_begin();
    for (; walk.left > 0; walk.next_tile()) {
        float c[TILES][4] = {};
        flat_steps<T, FORMAT>(ring, a.w.cols, 0, walk.n_steps, at, unpack, c);
        end_expert_tile<T, FlatOrder<FORMAT, Ring>, TILES>(a, walk, c);
    }
}

#endif

// What the tiles are may be read at once: when this begins, the kernels that say so have ended (route.cu).
template <class T, int FORMAT, int TILES>
__global__ void __maxnreg__((FlatRing<FORMAT, TILES>::REGISTERS))
    expert_flat_kernel(const __grid_constant__ FlatMaps maps, const __grid_constant__ FlatArguments a,
                       const ExpertFlatTiles tiles) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef FlatRing<FORMAT, TILES> Ring;
    extern __shared__ __align__(1024) char memory[];
    const Ring ring(memory, a.room);
    if (threadIdx.x == 0) ring.open();
    __syncthreads();
    const ExpertFlatWalk walk(tiles, a.w.rows, (a.w.cols + Ring::COLUMNS - 1) / Ring::COLUMNS,
                              EXPERT_FLAT_BLOCKS<FORMAT, TILES>);
    if (warp_index() < FLAT_WARPS)
        expert_flat_tiles<T, FORMAT, TILES>(ring, a, walk);
    else
        FlatCopy<Ring, FORMAT, ExpertFlatWalk>(ring, maps, a, walk).all(walk.left * walk.n_steps);
#endif
}

// ---- by mma -----------------------------------------------------------------------------------------------------

// Grid: as many blocks as multiprocessors.
template <class T, int FORMAT, int TILES>
__global__ void __launch_bounds__(PIECE_THREADS, 1)
    expert_flat_mma_kernel(const __grid_constant__ FlatArguments a, const ExpertFlatTiles tiles) {
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
    typedef FlatMmaRing<FORMAT, TILES> Ring;
    extern __shared__ __align__(1024) char memory[];
    ExpertFlatWalk walk(tiles, a.w.rows, (a.w.cols + Ring::COLUMNS - 1) / Ring::COLUMNS, 1);
    FlatMmaCopies<T, FORMAT, TILES, ExpertFlatWalk> copies(a, shared_at(memory), walk,
                                                           walk.left * walk.n_steps);
    copies.begin();
    let_next_begin();
    int w_stage = 0, x_stage = 0;
    for (; walk.left > 0; walk.next_tile()) {
        float c[TILES][4] = {};
        flat_mma_steps(copies, 0, walk.n_steps, w_stage, x_stage, c);
        end_expert_tile<T, InOrder, TILES>(a, walk, c);
    }
#endif
}

#endif
