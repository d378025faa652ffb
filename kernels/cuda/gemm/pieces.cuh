// Rows of W on their way to the tensor cores on cards other than Hopper: by cp.async into shared memory, in pieces of 128
// bytes a row, and from there into registers as operands of mma.m16n8k16, quantised ones unpacked.
//
// A piece is 64 columns of 16 bits, 128 of codes of 8 bits, 256 of 4 and so on. A tile's pieces, those of 128 rows, lie below
// each other, swizzled as ptx_wgmma.cuh has it, so that eight rows' lie in different banks; behind all of them their scales.
// What a step costs a thread is counted: addresses of rows are kept as 32 bits, a tile's order of rows is asked for once.
#ifndef PALAVER_KERNELS_CUDA_GEMM_PIECES_CUH
#define PALAVER_KERNELS_CUDA_GEMM_PIECES_CUH

#include "kernels/cuda/device/ptx_wgmma.cuh"
#include "kernels/cuda/gemm/unpack.cuh"

enum {
    PIECE_BYTES = 128,
    PIECE_LANES = PIECE_BYTES / 16, // threads that copy a row's
    PIECE_ROWS = 128,               // rows of a tile, and
    PIECE_THREADS = 256,            // who copies them
    PIECE_AT_ONCE = PIECE_THREADS / PIECE_LANES,
};

template <int FORMAT, bool QUANTISED = format_grouped(FORMAT)> struct Pieces {
    static constexpr int COLUMNS = Unpack<FORMAT>::COLUMNS, SCALE_BYTES = Unpack<FORMAT>::SCALE_BYTES,
                         TILES_A_BOX = Unpack<FORMAT>::TILES_A_BOX;
};
template <int FORMAT> struct Pieces<FORMAT, false> { // which go to the tensor cores as they are
    static constexpr int COLUMNS = 64, SCALE_BYTES = 0, TILES_A_BOX = 1;
};

// Bytes of a tile's pieces, with their scales.
template <int FORMAT> constexpr int PIECES_BYTES = PIECE_ROWS *(PIECE_BYTES + Pieces<FORMAT>::SCALE_BYTES);

// What a thread copies of a tile's pieces. Of a chunk the quants come first: codes.cuh. What is not there are zeros.
template <int FORMAT> struct PieceCopy {
    typedef Pieces<FORMAT> P;
    static constexpr int EACH = P::SCALE_BYTES / 16, // copies of a row's scales
        N_CODES = PIECE_ROWS / PIECE_AT_ONCE,
                         N_SCALES = (PIECE_ROWS * EACH + PIECE_THREADS - 1) / PIECE_THREADS;
    uint32_t codes[N_CODES]; // where they are in the first piece, in bytes from the tile's first row
    uint32_t scales[N_SCALES > 0 ? N_SCALES : 1]; // the same from where the piece's lie in that row

    // order(n): which of the tile's rows stands as the n-th.
    template <class Order> __device__ void set_rows(int64_t row_bytes, Order order) {
        const int t = threadIdx.x;
#pragma unroll
        for (int i = 0; i < N_CODES; i++)
            codes[i] =
                order(i * PIECE_AT_ONCE + t / PIECE_LANES) * (uint32_t)row_bytes + t % PIECE_LANES * 16;
        if constexpr (EACH > 0)
#pragma unroll
            for (int i = 0; i < N_SCALES; i++) {
                const int n = i * PIECE_THREADS + t;
                scales[i] = order(min(n / EACH, PIECE_ROWS - 1)) * (uint32_t)row_bytes + n % EACH * 16;
            }
    }

    // The step-th piece of each row to `to`; `first`: the tile's first row.
    __device__ void copy(uint32_t to, const char *first, const Weight &w, int step) const {
        constexpr bool QUANTISED = format_grouped(FORMAT);
        constexpr int FULL = chunk_elements(FORMAT), A_CHUNK = FULL / P::COLUMNS; // pieces
        const int chunk = QUANTISED ? step / A_CHUNK : 0, in = step - chunk * A_CHUNK,
                  begin = chunk * chunk_bytes(FORMAT, FULL), lane = threadIdx.x % PIECE_LANES,
                  quants = quant_bytes(FORMAT, QUANTISED ? min(FULL, w.cols - chunk * FULL) : w.cols);
        const char *piece = first + begin + in * PIECE_BYTES;
        const bool there = in * PIECE_BYTES + lane * 16 < quants;
        const uint32_t at = to + swizzled(threadIdx.x / PIECE_LANES, lane);
#pragma unroll
        for (int i = 0; i < N_CODES; i++)
            copy_piece<16>(at + i * PIECE_AT_ONCE * PIECE_BYTES, piece + codes[i], there);
        if constexpr (EACH > 0) {
            const int scales_at = begin + quants + in / P::TILES_A_BOX * P::SCALE_BYTES;
            const bool all = scales_at + P::SCALE_BYTES <= w.row_bytes;
#pragma unroll
            for (int i = 0; i < N_SCALES; i++) {
                const int n = i * PIECE_THREADS + (int)threadIdx.x;
                if (PIECE_ROWS * EACH < N_SCALES * PIECE_THREADS && n >= PIECE_ROWS * EACH) break;
                copy_piece<16>(to + PIECE_ROWS * PIECE_BYTES + n * 16, first + scales_at + scales[i],
                               all || scales_at + n % EACH * 16 < w.row_bytes);
            }
        }
    }
};

// A warp's 16·HALVES rows.
template <int FORMAT, int HALVES, bool QUANTISED = format_grouped(FORMAT)> struct PieceRows {
    Unpack<FORMAT> half[HALVES];
    uint32_t products[HALVES][2][4]; // of a group of 32 columns

    // The step-th pieces of a tile, of whose rows the warp's begin with `row`. columns_left: from their first on.
    __device__ void begin(uint32_t pieces, int row, int step, int columns_left) {
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            half[h].begin(pieces, pieces + PIECE_ROWS * PIECE_BYTES, step, row + 16 * h, columns_left / 32);
    }
    // The operands of the piece's k-th 16 columns, one after the other.
    __device__ void take(int k, uint32_t (&out)[HALVES][4]) {
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            if (k % 2 == 0) {
                uint32_t raw[2][Unpack<FORMAT>::RAW];
                half[h].load(k / 2, raw);
                half[h].fragments(k / 2, raw, products[h]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) out[h][i] = products[h][k % 2][i];
        }
    }
};
template <int FORMAT, int HALVES> struct PieceRows<FORMAT, HALVES, false> {
    uint32_t at;
    int first;
    __device__ void begin(uint32_t pieces, int row, int, int) { at = pieces, first = row; }
    __device__ void take(int k, uint32_t (&out)[HALVES][4]) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int h = 0; h < HALVES; h++)
            load_matrices(out[h], at + swizzled(first + 16 * h + lane % 16, 2 * k + lane / 16));
    }
};

#endif
