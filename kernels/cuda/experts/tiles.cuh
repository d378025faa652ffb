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
#include "kernels/cuda/device/ptx_wgmma.cuh"
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/gemm/unpack.cuh"

enum { EXPERT_TILE_ROWS = 128, EXPERT_TILE_DEPTH = 64, EXPERT_TILE_THREADS = 256 };

// Rows of W in shared memory: 16-bit ones go to the tensor cores as they are.
template <int FORMAT, bool QUANTISED = format_grouped(FORMAT)> struct ExpertPieces {
    static constexpr int COLUMNS = Unpack<FORMAT>::COLUMNS, SCALE_BYTES = Unpack<FORMAT>::SCALE_BYTES,
                         TILES_A_BOX = Unpack<FORMAT>::TILES_A_BOX;
};
template <int FORMAT> struct ExpertPieces<FORMAT, false> {
    static constexpr int COLUMNS = EXPERT_TILE_DEPTH, SCALE_BYTES = 0, TILES_A_BOX = 1;
};

template <int FORMAT> struct ExpertRing {
    typedef ExpertPieces<FORMAT> Pieces;
    static constexpr bool QUANTISED = format_grouped(FORMAT);
    static constexpr int PARTS = Pieces::COLUMNS / EXPERT_TILE_DEPTH; // steps of a piece of W
    // Of what 99 KB hold.
    static constexpr int X_STAGES = Pieces::SCALE_BYTES > 64 ? 2 : 3,
                         W_STAGES = 1 + (X_STAGES - 1 + PARTS - 1) / PARTS;
    static constexpr int X_BYTES = EXPERT_TILE_PAIRS * 128, W_BYTES = EXPERT_TILE_ROWS * 128,
                         STAGE = W_BYTES + EXPERT_TILE_ROWS * Pieces::SCALE_BYTES;
    static constexpr int BYTES = X_STAGES * X_BYTES + W_STAGES * STAGE;
    static constexpr int BLOCKS = QUANTISED ? 1 : 2; // of a multiprocessor, by registers
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

    __device__ ExpertCopies(const ExpertTilesCall &a, uint32_t x_ring, uint32_t w_ring, int tile_steps)
        : x(x_ring), w(w_ring), steps(tile_steps), at(a) {}

    // The next step, if there is one, as a group of copies.
    __device__ void next() {
        if (at.more()) {
            if (step % Ring::PARTS == 0) copy_w();
            if (step * EXPERT_TILE_DEPTH < at.a.w.cols) copy_x();
            x_stage = x_stage + 1 == Ring::X_STAGES ? 0 : x_stage + 1;
            if (++step == steps) step = 0, at.next();
        }
        end_copies();
    }

  private:
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

    // Rows beyond the last are that one again; nobody wants their sums.
    __device__ const char *row_of(int row) const {
        const int64_t above = (int64_t)at.expert * at.a.rows;
        return at.a.w.data + (above + min(at.row + row, at.a.rows - 1)) * at.a.w.row_bytes;
    }

    __device__ void copy_w() {
        typedef ExpertPieces<FORMAT> Pieces;
        const int col = step * EXPERT_TILE_DEPTH, piece = threadIdx.x % 8, cols = at.a.w.cols;
        const uint32_t to = w + w_stage * Ring::STAGE, scales = to + Ring::W_BYTES;
        // Of a chunk its quants come first: codes.cuh. What is not there are zeros.
        constexpr int FULL = chunk_elements(FORMAT), EACH = Pieces::COLUMNS * Pieces::TILES_A_BOX;
        const int begin = Ring::QUANTISED ? col / FULL * FULL : 0, in = col - begin,
                  chunk = Ring::QUANTISED ? col / FULL * chunk_bytes(FORMAT, FULL) : 0,
                  quants = quant_bytes(FORMAT, Ring::QUANTISED ? min(FULL, cols - begin) : cols),
                  at_quants = quant_bytes(FORMAT, in) + piece * 16;
#pragma unroll
        for (int i = 0; i < EXPERT_TILE_ROWS; i += EXPERT_TILE_THREADS / 8) {
            const int row = i + (int)threadIdx.x / 8;
            const bool there = at_quants < quants;
            copy_piece<16>(to + swizzled(row, piece), row_of(row) + (there ? chunk + at_quants : 0), there);
        }
        if constexpr (Pieces::SCALE_BYTES > 0) {
            constexpr int EACH_ROW = Pieces::SCALE_BYTES / 16;
            const int from = chunk + quants + in / EACH * Pieces::SCALE_BYTES;
            for (int i = threadIdx.x; i < EXPERT_TILE_ROWS * EACH_ROW; i += EXPERT_TILE_THREADS) {
                const int row = i / EACH_ROW, place = from + i % EACH_ROW * 16;
                const bool there = place < at.a.w.row_bytes;
                copy_piece<16>(scales + i * 16, row_of(row) + (there ? place : 0), there);
            }
        }
        w_stage = w_stage + 1 == Ring::W_STAGES ? 0 : w_stage + 1;
    }
};

// A warp's 32 rows of W on their way to the tensor cores.
template <int FORMAT, bool QUANTISED = format_grouped(FORMAT)> struct ExpertRows {
    Unpack<FORMAT> half[2];
    uint32_t products[2][2][4]; // of a group of 32 columns

    // A piece of W, the n-th of its rows; columns_left: from its first on.
    __device__ void begin(uint32_t tile, int row, int n, int columns_left) {
#pragma unroll
        for (int h = 0; h < 2; h++)
            half[h].begin(tile, tile + ExpertRing<FORMAT>::W_BYTES, n, row + 16 * h, columns_left / 32);
    }
    // The operands of 16 columns, the k-th of the piece's part.
    __device__ void take(int part, int k, uint32_t (&out)[2][4]) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (k % 2 == 0) {
                uint32_t raw[2][Unpack<FORMAT>::RAW];
                half[h].load(part * 2 + k / 2, raw);
                half[h].fragments(part * 2 + k / 2, raw, products[h]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) out[h][i] = products[h][k % 2][i];
        }
    }
};
template <int FORMAT> struct ExpertRows<FORMAT, false> {
    uint32_t at;
    int row;
    __device__ void begin(uint32_t tile, int first_row, int, int) { at = tile, row = first_row; }
    __device__ void take(int, int k, uint32_t (&out)[2][4]) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int h = 0; h < 2; h++)
            load_matrices(out[h], at + swizzled(row + 16 * h + lane % 16, 2 * k + lane / 16));
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
__device__ inline void expert_step(ExpertRows<FORMAT> &rows, uint32_t x, int part, int pair, int live,
                                   ExpertSums &sums) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < EXPERT_TILE_DEPTH / 16; k++) {
        uint32_t w[2][4];
        rows.take(part, k, w);
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
    const int pieces = (a.w.cols + Ring::Pieces::COLUMNS - 1) / Ring::Pieces::COLUMNS,

              steps = pieces * Ring::PARTS;
    const int row = threadIdx.x / 64 * 32, pair = threadIdx.x / 32 % 2 * 16;
    kernels_before();
    ExpertCopies<T, FORMAT> copies(a, x, w, steps);
#pragma unroll
    for (int i = 0; i < Ring::X_STAGES - 1; i++) copies.next();
    int x_stage = 0, w_stage = 0;
    for (ExpertWalk at(a); at.more(); at.next()) {
        ExpertSums sums = {};
        ExpertRows<FORMAT> rows;
#pragma unroll 1
        for (int n = 0; n < pieces; n++) {
            const int left = a.w.cols - n * Ring::Pieces::COLUMNS;
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
