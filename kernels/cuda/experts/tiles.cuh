// Experts' GEMMs of many tokens on any card, quantised ones and biased ones too: all experts in one launch, by
// mma.m16n8k16. W is the tall side of the tensor cores' operands, rows of x, the pairs of a token and an expert, the
// wide one, as in the flat GEMMs.
//
// A tile is 128 rows of an expert's W and up to 128 of its pairs. Both come by cp.async, 64 columns a step, ahead of the
// products, from one tile into the next: x in a ring of X_STAGES steps, W in pieces of 128 bytes a row, which of
// quantised weights are several steps. Of eight warps each has 32 rows of W and every other 16 of the pairs, so that
// those of an expert with few are shared out evenly; what nobody wants is neither copied nor multiplied.
//
//                   pairs  0 … 15 │ 16 … 31 │ 32 … 47 │ … 127       W, x: rows of 128 bytes, pieces of 16 swizzled
//     W  0 … 31     warp     0    │    1    │    0    │             so that eight rows' lie in different banks
//       32 … 63              2    │    3    │    2    │
//          …
//
// Tiles go round: blocks stay until all are done. A sum is added up in the order of the columns, whatever stands beside.
#ifndef PALAVER_KERNELS_CUDA_EXPERTS_TILES_CUH
#define PALAVER_KERNELS_CUDA_EXPERTS_TILES_CUH

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/gemm/pieces.cuh"

enum { EXPERT_TILE_ROWS = PIECE_ROWS, EXPERT_TILE_DEPTH = 64, EXPERT_TILE_THREADS = PIECE_THREADS };

template <int FORMAT> struct ExpertRing {
    static constexpr int COLUMNS = Pieces<FORMAT>::COLUMNS,
                         PARTS = COLUMNS / EXPERT_TILE_DEPTH; // steps of a piece of W
    // Of what 99 KB hold.
    static constexpr int X_STAGES = Pieces<FORMAT>::SCALE_BYTES > 64 ? 2 : 3,
                         W_STAGES = 1 + (X_STAGES - 1 + PARTS - 1) / PARTS;
    static constexpr int X_BYTES = EXPERT_TILE_PAIRS * 128, STAGE = PIECES_BYTES<FORMAT>;
    static constexpr int BYTES = X_STAGES * X_BYTES + W_STAGES * STAGE;
    static constexpr int BLOCKS = format_grouped(FORMAT) ? 1 : 2; // of a multiprocessor, by registers
    static_assert(BYTES <= 99 << 10, "a block's shared memory on the cards that have least");
};

// A block's tiles, one after the other; those that run side by side share rows of W.
struct ExpertWalk {
    const ExpertTilesCall &a;
    int row_tiles, n, t, expert, first, pairs,
        row; // pairs: of the tile, from `first` on; row: of the expert's W

    __device__ explicit ExpertWalk(const ExpertTilesCall &call) : a(call) {
        row_tiles = (a.rows + EXPERT_TILE_ROWS - 1) / EXPERT_TILE_ROWS;
        n = a.tiles[a.n_experts] * row_tiles, t = (int)blockIdx.x, expert = 0;
        seek();
    }
    __device__ bool more() const { return t < n; }
    __device__ void next() {
        t += (int)gridDim.x;
        seek();
    }

  private:
    // The expert whose tiles hold t: the last one that begins at it or before.
    __device__ void seek() {
        if (!more()) return;
        for (int beyond = a.n_experts; beyond - expert > 1;) {
            int middle = (expert + beyond) / 2;
            if (a.tiles[middle] * row_tiles <= t)
                expert = middle;
            else
                beyond = middle;
        }
        const int begin = a.tiles[expert], across = a.tiles[expert + 1] - begin, in = t - begin * row_tiles;
        first = a.start[expert] + in % across * EXPERT_TILE_PAIRS;
        pairs = min(a.start[expert + 1] - first, (int)EXPERT_TILE_PAIRS);
        row = in / across * EXPERT_TILE_ROWS;
    }
};

// Copies, as far ahead as the rings go.
template <class T, int FORMAT> struct ExpertCopies {
    typedef ExpertRing<FORMAT> Ring;
    uint32_t x, w; // the rings in shared memory
    int steps;     // of a tile, whole pieces of W
    ExpertWalk at;
    int step = 0, x_stage = 0, w_stage = 0;
    PieceCopy<FORMAT> pieces;
    int rows = 0;      // of W that the tile has
    const char *first; // of them

    __device__ ExpertCopies(const ExpertTilesCall &a, uint32_t x_ring, uint32_t w_ring, int tile_steps)
        : x(x_ring), w(w_ring), steps(tile_steps), at(a) {
        if (at.more()) begin_tile();
    }

    // The next step, if there is one, as a group of copies.
    __device__ void next() {
        if (at.more()) {
            if (step % Ring::PARTS == 0) copy_w();
            if (step * EXPERT_TILE_DEPTH < at.a.w.cols) copy_x();
            x_stage = x_stage + 1 == Ring::X_STAGES ? 0 : x_stage + 1;
            if (++step == steps) next_tile();
        }
        end_copies();
    }

  private:
    __device__ void next_tile() {
        step = 0, at.next();
        if (at.more()) begin_tile();
    }
    __device__ void begin_tile() {
        const int there = min(at.a.rows - at.row, (int)EXPERT_TILE_ROWS);
        first = at.a.w.data + ((int64_t)at.expert * at.a.rows + at.row) * at.a.w.row_bytes;
        if (there == rows) return;
        rows = there;
        // Rows beyond the last are that one again; nobody wants their sums.
        pieces.set_rows(at.a.w.row_bytes, [=](int n) { return (uint32_t)min(n, there - 1); });
    }
    __device__ void copy_x() const {
        const int piece = threadIdx.x % 8, col = step * EXPERT_TILE_DEPTH + piece * 8, cols = at.a.w.cols;
        const T *from = (const T *)at.a.x + (int64_t)at.first * cols + (col < cols ? col : 0);
#pragma unroll
        for (int i = 0; i < EXPERT_TILE_PAIRS; i += EXPERT_TILE_THREADS / 8) {
            const int row = i + (int)threadIdx.x / 8;
            if (row < at.pairs)
                copy_piece<16>(x + x_stage * Ring::X_BYTES + swizzled(row, piece), from + (int64_t)row * cols,
                               col < cols);
        }
    }

    __device__ void copy_w() {
        pieces.copy(w + w_stage * Ring::STAGE, first, at.a.w, step / Ring::PARTS);
        w_stage = w_stage + 1 == Ring::W_STAGES ? 0 : w_stage + 1;
    }
};

// ---- epilogues: lane l = 4·g + t of a warp has in sums[h][p][i] of rows 16h + g and 8 further, pairs 32p + 8i + 2t and
// the next, as mma has them ------------------------------------------------------------------------------------------

enum { EXPERT_TILE_TURNS = EXPERT_TILE_PAIRS / 32 }; // of a warp, 16 pairs each
typedef float ExpertSums[2][EXPERT_TILE_TURNS][2][4];

// y [pairs, rows] = sums: pairs of rows lie side by side in y, so that 8 × 8 sums are transposed first.
template <class T>
__device__ inline void store_expert_tile(const ExpertTilesCall &a, const ExpertWalk &at, int row, int pair,
                                         const ExpertSums &sums) {
    const int lane = threadIdx.x % 32;
    struct alignas(4) Two {
        T v[2];
    };
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 0; i < 2 * EXPERT_TILE_TURNS; i++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const float *c = sums[h][i / 2][i % 2] + 2 * r;
                const Two two = {from_float<T>(c[0]), from_float<T>(c[1])};
                const uint32_t turned = transposed(*(const uint32_t *)&two);
                const int to = pair + i / 2 * 32 + i % 2 * 8 + lane / 4,
                          unit = at.row + row + 16 * h + 8 * r + lane % 4 * 2;
                if (to < at.pairs && unit < a.rows)
                    *(uint32_t *)((T *)a.y + (int64_t)(at.first + to) * a.rows + unit) = turned;
            }
}

// g [pairs, rows / 2] = activation(gate + bias) · (up + bias). Gates are in lanes of even rows, ups in those of odd
// ones: the former finish the fragment's upper rows, the latter the lower.
template <class T>
__device__ inline void gate_expert_tile(const ExpertTilesCall &a, const ExpertWalk &at, int row, int pair,
                                        const ExpertSums &sums) {
    const int lane = threadIdx.x % 32, size = a.rows / 2;
    const bool odd = lane / 4 % 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int unit = (at.row + row) / 2 + 8 * h + lane / 8 + (odd ? 4 : 0);
        const bool there = unit < size;
        const int64_t bias = (int64_t)at.expert * size + unit;
        const float gate_bias = a.bias && there ? a.bias[bias] : 0,
                    up_bias = a.other && there ? a.other[bias] : 0;
#pragma unroll
        for (int i = 0; i < 2 * EXPERT_TILE_TURNS; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const float *c = sums[h][i / 2][i % 2] + j;
                const float got = __shfl_xor_sync(~0u, odd ? c[0] : c[2], 4);
                const float gate = (odd ? got : c[0]) + gate_bias, up = (odd ? c[2] : got) + up_bias;
                const int to = pair + i / 2 * 32 + i % 2 * 8 + lane % 4 * 2 + j;
                if (there && to < at.pairs)
                    ((T *)a.y)[(int64_t)(at.first + to) * size + unit] =
                        from_float<T>(activate_pair(a.activation, gate, up));
            }
    }
}

// ---- the kernel -------------------------------------------------------------------------------------------------

// A step of 64 columns; live: pairs of the warp that somebody wants, counted from its first.
template <class T, int FORMAT>
__device__ inline void expert_step(PieceRows<FORMAT, 2> &rows, uint32_t x, int part, int pair, int live,
                                   ExpertSums &sums) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < EXPERT_TILE_DEPTH / 16; k++) {
        uint32_t w[2][4];
        rows.take(part * (EXPERT_TILE_DEPTH / 16) + k, w);
#pragma unroll
        for (int p = 0; p < EXPERT_TILE_TURNS; p++) {
            if (32 * p >= live) break;
            uint32_t b[4];
            load_matrices(b, x + swizzled(pair + 32 * p + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
            for (int h = 0; h < 2; h++) {
                mma_of<T>(sums[h][p][0], w[h], b[0], b[1]);
                mma_of<T>(sums[h][p][1], w[h], b[2], b[3]);
            }
        }
    }
}

// Grid: as many blocks as fit at once.
template <class T, int FORMAT, bool GATED>
__global__ void __launch_bounds__(EXPERT_TILE_THREADS, ExpertRing<FORMAT>::BLOCKS)
    expert_tiles_kernel(const __grid_constant__ ExpertTilesCall a) {
    typedef ExpertRing<FORMAT> Ring;
    extern __shared__ __align__(1024) char memory[];
    const uint32_t x = shared_at(memory), w = x + Ring::X_STAGES * Ring::X_BYTES;
    const int pieces = (a.w.cols + Ring::COLUMNS - 1) / Ring::COLUMNS, steps = pieces * Ring::PARTS;
    const int row = threadIdx.x / 64 * 32, pair = threadIdx.x / 32 % 2 * 16;
    kernels_before();
    ExpertCopies<T, FORMAT> copies(a, x, w, steps);
#pragma unroll
    for (int i = 0; i < Ring::X_STAGES - 1; i++) copies.next();
    int x_stage = 0, w_stage = 0;
    for (ExpertWalk at(a); at.more(); at.next()) {
        ExpertSums sums = {};
        PieceRows<FORMAT, 2> rows;
#pragma unroll 1
        for (int n = 0; n < pieces; n++) {
            const int left = a.w.cols - n * Ring::COLUMNS;
#pragma unroll // registers of a piece's scales are named by its parts
            for (int part = 0; part < Ring::PARTS; part++) {
                await_copies<Ring::X_STAGES - 2>();
                __syncthreads();
                copies.next();
                if (part == 0) rows.begin(w + w_stage * Ring::STAGE, row, n, left);
                if (part * EXPERT_TILE_DEPTH < left)
                    expert_step<T, FORMAT>(rows, x + x_stage * Ring::X_BYTES, part, pair, at.pairs - pair,
                                           sums);
                x_stage = x_stage + 1 == Ring::X_STAGES ? 0 : x_stage + 1;
            }
            w_stage = w_stage + 1 == Ring::W_STAGES ? 0 : w_stage + 1;
        }
        if (GATED)
            gate_expert_tile<T>(a, at, row, pair, sums);
        else
            store_expert_tile<T>(a, at, row, pair, sums);
    }
    await_copies<0>();
}

#endif
