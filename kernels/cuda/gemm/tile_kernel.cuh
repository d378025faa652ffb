// The kernel of tile.cu: GEMMs of many rows on Hopper, with an epilogue in registers (tile_epilogue.cuh).
//
// Two blocks of a cluster take 256 tokens and the same COLUMNS of y, that is rows of W: each brings its own tokens and
// half of W's rows into shared memory, the latter for both. In a block one warp copies, STAGES steps of 64 along the
// sum ahead; two warpgroups do the wgmma of 64 tokens each. Tiles go round: blocks stay until all are done.
#ifndef PALAVER_KERNELS_CUDA_GEMM_TILE_KERNEL_CUH
#define PALAVER_KERNELS_CUDA_GEMM_TILE_KERNEL_CUH

#include "kernels/cuda/device/formats.cuh"
#include "kernels/cuda/device/ptx_wgmma_fp8.cuh"
#include "kernels/cuda/dispatch.h"
#include "kernels/cuda/w8/w8.cuh"

enum {
    TILE_DEPTH = 64,     // elements of a row: 128 bytes; of W8 pairs of elements, as everywhere here
    TILE_GEMM_WARPS = 8, // that wgmma_step; a warpgroup besides, for the registers that it leaves them
    TILE_GEMM_THREADS = TILE_GEMM_WARPS * 32 + 128,
};

// Where the scales of W in E4M3 are, and of x by groups.
struct TileFp8 {
    const char *w; // of row 0
    int64_t row_bytes;
    int cols, x_stride; // x_scales of the next 128 columns are x_stride further on
};

struct TileShape {
    int n, rows, cols;                // y [n, rows] = x [n, cols] · Wᵀ
    bool ready;                       // W does not come from the kernel before
    const float *x_scales, *w_scales; // [n], [rows] of W8
    // Of GroupWalk: matrices of n_groups groups, one below the other, each for rows of x by themselves. On the device, of
    // the kernel before: where they begin, and their first pairs of blocks along the tokens, [n_groups + 1] each.
    int n_groups;
    const int32_t *starts, *pairs;
    int64_t w_scale_step; // from a row's of w_scales to the next one's
    TileFp8 fp8;          // of Fp8Groups
};

// Where step i of a row's codes begins, in elements: those of E4M3 lie in chunks, with their scales between.
template <class T> __host__ __device__ constexpr int tile_column(int i) {
    constexpr int FULL = chunk_elements(FORMAT_E4M3), EACH = FULL / (2 * TILE_DEPTH);
    const bool chunks = std::is_same<T, Fp8Rows>::value || std::is_same<T, Fp8Groups>::value;
    return chunks ? i / EACH * (chunk_bytes(FORMAT_E4M3, FULL) / 2) + i % EACH * TILE_DEPTH : i * TILE_DEPTH;
}

// The scales of a tile's columns, for each warp.
template <class T, int COLUMNS> struct TileScales {};
template <int COLUMNS> struct TileScales<Int8Pair, COLUMNS> { float columns[TILE_GEMM_WARPS][COLUMNS]; };
template <int COLUMNS> struct TileScales<Fp8Rows, COLUMNS> : TileScales<Int8Pair, COLUMNS> {};

template <class T, int COLUMNS> struct alignas(1024) TileGemmShared {
    static constexpr int STAGES = COLUMNS > 192 ? 4 : COLUMNS > 128 ? 5 : 6;
    T x[STAGES][TILE_TOKENS * TILE_DEPTH], w[STAGES][COLUMNS * TILE_DEPTH];
    uint64_t full[STAGES], empty[STAGES];
    TileScales<T, COLUMNS> scales;
};

struct TileWalk;
struct GroupWalk;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The tiles of a cluster, one after the other: those that run side by side share W's rows.
struct TileWalk {
    static constexpr bool GROUPED = false;
    int pairs, n, t, end; // pairs of blocks along the tokens; end of the tokens
    template <int COLUMNS> static __device__ TileWalk of(const TileShape &s) {
        int pairs = (s.n + 2 * TILE_TOKENS - 1) / (2 * TILE_TOKENS);
        return TileWalk{pairs, pairs * ((s.rows + COLUMNS - 1) / COLUMNS), (int)blockIdx.x / 2, s.n};
    }
    __device__ int first_row() const { return 0; }
    __device__ bool more() const { return t < n; }
    __device__ void next() { t += gridDim.x / 2; }
    __device__ int token() const { return (t % pairs * 2 + (int)cluster_rank()) * TILE_TOKENS; }
    __device__ int row() const { return t / pairs; } // in tiles
};

// The same over groups, one after the other.
struct GroupWalk {
    static constexpr bool GROUPED = true;
    const int32_t *starts, *first_pairs;
    int rows, row_tiles, n, t, group, begin, pairs, first, end;
    template <int COLUMNS> static __device__ GroupWalk of(const TileShape &s) {
        GroupWalk w = {s.starts, s.pairs, s.rows, (s.rows + COLUMNS - 1) / COLUMNS};
        w.n = s.pairs[s.n_groups] * w.row_tiles, w.t = (int)blockIdx.x / 2, w.group = 0;
        w.seek();
        return w;
    }
    __device__ void seek() {
        if (!more()) return;
        while (t >= first_pairs[group + 1] * row_tiles) group++;
        begin = first_pairs[group] * row_tiles, pairs = first_pairs[group + 1] - first_pairs[group];
        first = starts[group], end = starts[group + 1];
    }
    __device__ bool more() const { return t < n; }
    __device__ void next() {
        t += gridDim.x / 2;
        seek();
    }
    __device__ int token() const {
        return first + ((t - begin) % pairs * 2 + (int)cluster_rank()) * TILE_TOKENS;
    }
    __device__ int row() const { return (t - begin) / pairs; }
    __device__ int first_row() const { return group * rows; }
};

// The copying warp; one lane asks for the copies (flat/flat_ring.cuh).
template <class T, int COLUMNS, class Walk>
__device__ inline void copy_tiles(TileGemmShared<T, COLUMNS> *s, const CUtensorMap *x_map,
                                  const CUtensorMap *w_map, const TileShape &shape) {
    constexpr int STAGES = TileGemmShared<T, COLUMNS>::STAGES, HALF = COLUMNS / 2;
    constexpr uint32_t BYTES = (TILE_TOKENS + COLUMNS) * TILE_DEPTH * sizeof(T);
    const uint64_t once = read_once(), often = read_often();
    const int steps = (shape.cols + TILE_DEPTH - 1) / TILE_DEPTH, rank = (int)cluster_rank();
    auto first_row = [&](const Walk &at) { return at.first_row() + at.row() * COLUMNS + rank * HALF; };
    auto copy_w = [&](int row, int step, int stage) {
        barrier_expect(shared_at(&s->full[stage]), BYTES);
        copy_tile_to(3, shared_at(s->w[stage] + rank * HALF * TILE_DEPTH), w_map, tile_column<T>(step), row,
                     shared_at(&s->full[stage]), once);
    };
    if (Walk::GROUPED) kernels_before(); // it says where the groups are
    Walk at = Walk::template of<COLUMNS>(shape);
    int primed =
        shape.ready && at.more() ? min(STAGES, steps) : 0; // W of these is asked for before x is there
    for (int i = 0, row = primed ? first_row(at) : 0; i < primed; i++)
        if (elected()) copy_w(row, i, i);
    kernels_before();
    let_next_begin();
    int stage = 0, phase = 0, begun = 0;
    for (; at.more(); at.next()) {
        const int row = first_row(at), token = at.token();
        for (int step = 0; step < steps; step++) {
            const bool there = begun < primed; // its W
            if (there) begun++;
            if (!there) barrier_wait(shared_at(&s->empty[stage]), phase ^ 1);
            if (elected()) {
                if (!there) copy_w(row, step, stage);
                copy_tile(shared_at(s->x[stage]), x_map, step * TILE_DEPTH, token, shared_at(&s->full[stage]),
                          often);
            }
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
    }
}

// The sums of a thread, as epilogues take them: pair(i, r) are columns 8i + 2l and the next of its token r. AHEAD:
// tokens for which there are registers ahead.
template <class T, int COLUMNS> struct TileSums {
    static constexpr int AHEAD = 2;
    float v[COLUMNS / 8][4];
    __device__ void begin(TileGemmShared<T, COLUMNS> *, const TileShape &, int, int) {}
    __device__ void end() {}
    __device__ float2 pair(int i, int r) const { return make_float2(v[i][2 * r], v[i][2 * r + 1]); }
};

// Those of W8 become numbers where they are taken, one after the other: numbers and sums of a whole tile have no room
// beside each other. Each warp asks for the scales of the tile's columns, and of its lanes' two tokens, while the
// wgmmas run.
template <class T, int COLUMNS> struct ScaledSums {
    static constexpr int AHEAD = 1;
    typename SumsOf<T>::Sum v[COLUMNS / 8][4];
    uint32_t channels; // this lane's, in shared memory
    float tokens[2];
    __device__ void begin(TileGemmShared<T, COLUMNS> *s, const TileShape &shape, int token, int column) {
        float *mine = s->scales.columns[threadIdx.x / 32];
        channels = shared_at(mine + threadIdx.x % 4 * 2);
        __syncwarp(); // those of the tile before have been read
#pragma unroll
        for (int i = threadIdx.x % 32; i < COLUMNS; i += 32) {
            bool there = column + i < shape.rows;
            copy_piece<4>(shared_at(mine + i),
                          shape.w_scales + (there ? (column + i) * shape.w_scale_step : 0), there);
        }
        end_copies();
#pragma unroll
        for (int r = 0; r < 2; r++) tokens[r] = __ldcg(shape.x_scales + min(token + 8 * r, shape.n - 1));
    }
    __device__ void end() {
        await_copies<0>();
        __syncwarp();
    }
    __device__ float2 pair(int i, int r) const {
        uint32_t channel[2];
        load_words<2>(channels + 32 * i, channel);
        return make_float2(w8_value(v[i][2 * r], tokens[r], __uint_as_float(channel[0])),
                           w8_value(v[i][2 * r + 1], tokens[r], __uint_as_float(channel[1])));
    }
};
template <int COLUMNS> struct TileSums<Int8Pair, COLUMNS> : ScaledSums<Int8Pair, COLUMNS> {};
template <int COLUMNS> struct TileSums<Fp8Rows, COLUMNS> : ScaledSums<Fp8Rows, COLUMNS> {};

// An MMA warpgroup. Of Fp8Groups: tile_groups.cuh.
template <class T, int COLUMNS, class Walk, class Epilogue>
__device__ inline void tile_wgmma(TileGemmShared<T, COLUMNS> *s, const TileShape &shape,
                                  const Epilogue &epilogue) {
    constexpr int STAGES = TileGemmShared<T, COLUMNS>::STAGES;
    int steps = (shape.cols + TILE_DEPTH - 1) / TILE_DEPTH, lane = threadIdx.x % 32;
    int stage = 0, phase = 0;
    uint64_t first_x = matrix_at(shared_at(s->x[0] + threadIdx.x / 128 * 64 * TILE_DEPTH), 16),
             first_w = matrix_at(shared_at(s->w[0]), 16);
    auto release = [&](int which) { // for both blocks: either copies for both
        if (lane < 2) barrier_arrive_at(shared_at(&s->empty[which]), lane);
    };
    kernels_before();
    for (Walk at = Walk::template of<COLUMNS>(shape); at.more(); at.next()) {
        int token = at.token() + (int)threadIdx.x / 32 * 16 + lane / 4, column = at.row() * COLUMNS, last = 0;
        TileSums<T, COLUMNS> sums;
        sums.begin(s, shape, token, column);
        auto wgmma_step = [&](int step) {
            barrier_wait(shared_at(&s->full[stage]), phase);
            uint64_t x = first_x + stage * (sizeof s->x[0] >> 4), w = first_w + stage * (sizeof s->w[0] >> 4);
            wgmma_fence();
#pragma unroll
            for (int d = 0; d < TILE_DEPTH; d += 16) // addresses stand in units of 16 bytes
                wgmma_of<T>(sums.v, x + d * sizeof(T) / 16, w + d * sizeof(T) / 16, step > 0 || d > 0);
            wgmma_commit();
            wgmma_wait_older();
            if (step > 0) release(last);
            last = stage;
            if (++stage == STAGES) stage = 0, phase ^= 1;
        };
        int step = 0;
#pragma unroll 1
        for (; step < steps - 3; step++) wgmma_step(step);
        typename Epilogue::template Ahead<COLUMNS / 8, TileSums<T, COLUMNS>::AHEAD> ahead(
            epilogue, token, column, at.end, shape.rows);
#pragma unroll 1
        for (; step < steps; step++) wgmma_step(step);
        wgmma_wait<0>(sums.v);
        release(last);
        sums.end();
        epilogue(sums, ahead, token, column, at.end, shape.rows);
    }
}

#include "kernels/cuda/gemm/tile_groups.cuh"

#endif

// Grid: clusters of two blocks, as many as fit at once or are needed.
template <class T, int COLUMNS, class Epilogue, class Walk>
__global__ void IN_CLUSTERS_OF(2) __launch_bounds__(TILE_GEMM_THREADS, 1)
    tile_gemm_kernel(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                     const __grid_constant__ TileShape shape, const __grid_constant__ Epilogue epilogue) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    TileGemmShared<T, COLUMNS> *s = (TileGemmShared<T, COLUMNS> *)memory;
    if (threadIdx.x == 0) {
        for (int i = 0; i < s->STAGES; i++) {
            barrier_init(shared_at(&s->full[i]), 1);
            barrier_init(shared_at(&s->empty[i]), 2 * TILE_GEMM_WARPS);
        }
        show_barriers();
    }
    cluster_sync();
    if (threadIdx.x < TILE_GEMM_WARPS * 32) {
        take_registers<232>();
        if constexpr (std::is_same<T, Fp8Groups>::value)
            tile_wgmma_groups<COLUMNS, Walk>(s, shape, epilogue);
        else
            tile_wgmma<T, COLUMNS, Walk>(s, shape, epilogue);
    } else {
        give_registers<40>();
        if (warp_index() == TILE_GEMM_WARPS) copy_tiles<T, COLUMNS, Walk>(s, &x_map, &w_map, shape);
    }
    cluster_sync(); // the other block may still arrive here
#endif
}

#endif
