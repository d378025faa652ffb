// GEMMs of many rows of x by quantised weights on Hopper: W is unpacked in registers, on its way to the tensor cores.
//
// W is the tall side of the tensor cores' operands and x the wide one, as in the flat GEMMs. Two blocks of a cluster
// take 256 rows of W, 128 each, and the same TOKENS rows of x: each brings half of these into the shared memory of
// both. In a block one warp copies ahead, W 128 bytes of a row at a time, x 64 columns at a time; two warpgroups unpack
// 64 rows of W each and multiply them with all TOKENS. While the wgmmas of 64 columns run, the next ones' W is unpacked
// into other registers.
//
//                 x [TOKENS, 64 columns] in shared memory, a stage of X_STAGES
//                 ├──────────────────────────┤
//     W   128 ┬   warpgroup 0: registers → 64 × TOKENS sums
//             ┴   warpgroup 1: registers → 64 × TOKENS sums
//
// Blocks stay until all tiles are done, cluster after cluster. Tiles that would leave half of the clusters idle in the
// last round are halved along the tokens. A row's sum is added up in the order of the columns, however wide its tile
// is. Or tiles of 128 tokens are shared (FlatArguments.shared), as in flat GEMMs: every cluster has as long a run of all
// tiles' steps, and of a tile whose columns fall to several the first adds the others' sums, in their order. Which tiles
// there are a walk says: those of one matrix, or of many one below the other, each for rows of x by themselves (experts).
#ifndef PALAVER_KERNELS_CUDA_GEMM_UNPACK_TILE_CUH
#define PALAVER_KERNELS_CUDA_GEMM_UNPACK_TILE_CUH

#include "kernels/cuda/gemm/unpack.cuh"
#include "kernels/cuda/gemm/unpack_epilogue.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"

#include <cuda.h>

enum {
    UNPACK_TILE_THREADS =
        FLAT_WARPS * 32 + 128, // a warpgroup besides, for the registers that it leaves the others
    UNPACK_DEPTH = 64,         // columns of x at a time: 128 bytes
};

template <int FORMAT, int TOKENS> struct alignas(1024) UnpackTileShared {
    static constexpr int SCALES = FLAT_ROWS * Unpack<FORMAT>::SCALE_BYTES, W_STAGES = 3,
                         X_STAGES = TOKENS <= 128   ? 8
                                    : SCALES > 6144 ? 4
                                                    : 5; // of what 227 KB hold
    static constexpr int X_BYTES = TOKENS * 128, W_BYTES = FLAT_ROWS * 128;
    char x[X_STAGES][X_BYTES], w[W_STAGES][W_BYTES], scales[W_STAGES][SCALES ? SCALES : 16];
    uint64_t x_full[X_STAGES], x_empty[X_STAGES], w_full[W_STAGES], w_empty[W_STAGES];
};

struct UnpackTileMaps {
    CUtensorMap w, scales, x, half_x; // of x: what a block brings of a tile, and of half a tile
};

// The matrices of UnpackGroupWalk: a.w's data has those of n groups, a.w.rows of each, one below the other. On the device,
// of the kernel before: where each one's rows of x begin, [n + 1].
struct UnpackGroups {
    int n; // 0: there is one matrix
    const int32_t *starts;
};

template <int TOKENS> struct UnpackWalk;
template <int TOKENS> struct UnpackGroupWalk;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Stages of a ring one after the other; `phase` is the parity of the round.
template <int STAGES> struct RingPlace {
    int stage = 0, phase = 0;
    __device__ void next() {
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
};

// The tiles of a cluster, one after the other: `whole` ones, then halves of the others; or, shared, a run of all tiles'
// steps. Those that run side by side share W's rows.
template <int TOKENS> struct UnpackWalk {
    static constexpr bool GROUPED = false;
    const bool shared;
    const int steps, wide; // of a tile; tiles along the tokens
    int whole, n, t;       // n: whole tiles and halves; shared: the run's last step and the one at hand
    __device__ UnpackWalk(const FlatArguments &a, const UnpackGroups &, int n_steps)
        : shared(TOKENS <= 128 && a.shared), steps(n_steps), wide((a.n + TOKENS - 1) / TOKENS) {
        const int clusters = (int)gridDim.x / 2,
                  tiles = wide * ((a.w.rows + 2 * FLAT_ROWS - 1) / (2 * FLAT_ROWS)), last = tiles % clusters;
        whole = tiles;
        if (shared) {
            t = begin_of((int)blockIdx.x / 2), n = begin_of((int)blockIdx.x / 2 + 1);
            return;
        }
        if (2 * last <= clusters) whole -= last;
        n = whole + 2 * (tiles - whole), t = (int)blockIdx.x / 2;
    }
    __device__ int begin_of(int cluster) const { return whole * steps * cluster / ((int)gridDim.x / 2); }
    __device__ int cluster_of(int step) const {
        return ((step + 1) * ((int)gridDim.x / 2) - 1) / (whole * steps);
    }
    __device__ bool more() const { return t < n; }
    __device__ void next() { t = shared ? (t / steps + 1) * steps : t + (int)gridDim.x / 2; }
    __device__ bool half() const { return !shared && t >= whole; }
    __device__ int tile() const { return shared ? t / steps : half() ? whole + (t - whole) / 2 : t; }
    __device__ int token() const {
        return tile() % wide * TOKENS + (half() ? (t - whole) % 2 * (TOKENS / 2) : 0);
    }
    __device__ int row_tile() const { return tile() / wide * 2 + (int)cluster_rank(); } // of FLAT_ROWS
    __device__ int first_row() const { return 0; }
    __device__ const FlatArguments &arguments(const FlatArguments &a) const { return a; }
    // Of a tile's steps those that are this cluster's.
    __device__ int first_step() const { return shared ? t % steps : 0; }
    __device__ int end_step() const { return shared ? min(steps, t % steps + n - t) : steps; }
    // Puts the sums of a tile that several clusters share together in the first of them: whether this one goes on with them.
    template <int TILES> __device__ bool gather(const FlatArguments &a, float (&sums)[TILES][4]) const {
        if (!shared || (first_step() == 0 && end_step() == steps)) return true;
        constexpr int EACH = FLAT_WARPS * TILES * 32; // of a block
        static_assert(TOKENS > 128 || TILES <= FLAT_PART_ROWS / 8, "FlatArguments.parts");
        const int clusters = (int)gridDim.x / 2, cluster = (int)blockIdx.x / 2;
        uint4 *part = a.parts + (int64_t)((int)cluster_rank() * clusters + cluster) * EACH +
                      threadIdx.x / 32 * TILES * 32 + threadIdx.x % 32;
        if (first_step() > 0) {
            leave_part<TILES>(part, sums);
            return false;
        }
        take_parts<TILES>(part + EACH, cluster_of((t / steps + 1) * steps - 1) - cluster, sums);
        return true;
    }
};

// The same over groups, one after the other, all of them whole.
template <int TOKENS> struct UnpackGroupWalk {
    static constexpr bool GROUPED = true;
    const int32_t *starts;
    int n, rows, row_tiles, t, group, begin, end, wide, first; // first: tile of the group
    const int steps;
    __device__ UnpackGroupWalk(const FlatArguments &a, const UnpackGroups &groups, int n_steps)
        : starts(groups.starts), n(groups.n), rows(a.w.rows),
          row_tiles((a.w.rows + 2 * FLAT_ROWS - 1) / (2 * FLAT_ROWS)), t((int)blockIdx.x / 2), group(-1),
          begin(0), end(starts[0]), wide(0), first(0), steps(n_steps) {
        seek();
    }
    __device__ void seek() {
        while (group < n && t >= first + wide * row_tiles) {
            first += wide * row_tiles, group++, begin = end;
            if (group < n) end = starts[group + 1];
            wide = (end - begin + TOKENS - 1) / TOKENS;
        }
    }
    static __device__ int first_step() { return 0; }
    __device__ int end_step() const { return steps; }
    template <int TILES> static __device__ bool gather(const FlatArguments &, float (&)[TILES][4]) {
        return true;
    }
    __device__ bool more() const { return group < n; }
    __device__ void next() {
        t += gridDim.x / 2;
        seek();
    }
    static __device__ constexpr bool half() { return false; }
    __device__ int token() const { return begin + (t - first) % wide * TOKENS; }
    __device__ int row_tile() const { return (t - first) / wide * 2 + (int)cluster_rank(); }
    __device__ int first_row() const { return group * rows; }
    // What epilogues are told: where the group's rows of x end, and its biases, of pairs of gate and up.
    __device__ FlatArguments arguments(const FlatArguments &a) const {
        FlatArguments own = a;
        own.n = end;
        if (a.bias) own.bias += (int64_t)group * (rows / 2);
        if (a.other) own.other += (int64_t)group * (rows / 2);
        return own;
    }
};

// The copying warp; one lane asks for the copies (flat/flat_ring.cuh).
template <int FORMAT, int TOKENS, class Walk>
__device__ inline void copy_unpack_tiles(UnpackTileShared<FORMAT, TOKENS> *s, const UnpackTileMaps &maps,
                                         const FlatArguments &a, const UnpackGroups &groups) {
    typedef UnpackTileShared<FORMAT, TOKENS> Shared;
    typedef Unpack<FORMAT> W;
    constexpr int FULL = chunk_elements(FORMAT), PARTS = W::COLUMNS / UNPACK_DEPTH, HALF = TOKENS / 2,
                  EACH = W::COLUMNS * W::TILES_A_BOX; // columns of a box of scales
    const uint64_t often = read_often();
    const int steps = (a.w.cols + W::COLUMNS - 1) / W::COLUMNS, rank = (int)cluster_rank();
    RingPlace<Shared::W_STAGES> w;
    RingPlace<Shared::X_STAGES> x;
    auto tile = [&](const CUtensorMap *map, void *to, int at, int row, int head, uint32_t barrier) {
        if (a.epilogue == EPILOGUE_HEADS)
            copy_tile_of_five(shared_at(to), map, at, head, barrier, often);
        else
            copy_tile(shared_at(to), map, at, row, barrier, often);
    };
    auto copy_w = [&](int row, int head, int col) {
        int first = col / FULL * FULL, in = col - first, n = min(FULL, a.w.cols - first);
        int chunk = col / FULL * chunk_bytes(FORMAT, FULL); // columns of the maps are of two bytes
        uint32_t full = shared_at(&s->w_full[w.stage]);
        barrier_wait(shared_at(&s->w_empty[w.stage]), w.phase ^ 1);
        if (elected()) {
            barrier_expect(full, Shared::W_BYTES + Shared::SCALES);
            tile(&maps.w, s->w[w.stage], (chunk + quant_bytes(FORMAT, in)) / 2, row, head, full);
            if constexpr (W::SCALE_BYTES > 0)
                tile(&maps.scales, s->scales[w.stage],
                     (chunk + quant_bytes(FORMAT, n)) / 2 + in / EACH * (W::SCALE_BYTES / 2), row, head,
                     full);
        }
        w.next();
    };
    auto copy_x = [&](bool half, int token, int col) { // this block's share of it, to both
        uint32_t full = shared_at(&s->x_full[x.stage]);
        int tokens = half ? HALF / 2 : HALF;
        barrier_wait(shared_at(&s->x_empty[x.stage]), x.phase ^ 1);
        if (elected()) {
            barrier_expect(full, 2 * tokens * 128);
            copy_tile_to(3, shared_at(s->x[x.stage] + rank * tokens * 128), half ? &maps.half_x : &maps.x,
                         col, token + rank * tokens, full, often);
        }
        x.next();
    };
    if (Walk::GROUPED) kernels_before(); // it says where the groups are
    Walk at(a, groups, steps);
    bool first = true;
    auto begin = [&] { // before x is there; W of more steps would stand in front of it (NOTES)
        kernels_before();
        let_next_begin();
        first = false;
    };
    for (; at.more(); at.next()) {
        const int row = at.first_row() + at.row_tile() * FLAT_ROWS, token = at.token(),
                  head = a.epilogue == EPILOGUE_HEADS ? row / a.heads.head_dim : 0;
        for (int step = at.first_step(), end = at.end_step(); step < end; step++) {
            copy_w(row, head, step * W::COLUMNS);
            if (first) begin();
            for (int i = 0; i < PARTS; i++) copy_x(at.half(), token, step * W::COLUMNS + i * UNPACK_DEPTH);
        }
    }
    if (first) begin();
}

// A multiplying warpgroup's way through the rings.
template <int FORMAT, int TOKENS> struct UnpackMultiplier {
    typedef UnpackTileShared<FORMAT, TOKENS> Shared;
    typedef Unpack<FORMAT> W;
    Shared *s;
    int cols;
    int steps = (cols + W::COLUMNS - 1) / W::COLUMNS;
    RingPlace<Shared::W_STAGES> w;
    RingPlace<Shared::X_STAGES> x;
    W unpack;

    // For both blocks: either copies for both.
    __device__ void release_x(int stage) const {
        int lane = threadIdx.x % 32;
        if (lane < 2) barrier_arrive_at(shared_at(&s->x_empty[stage]), lane);
    }

    // The next tile's sums, of 8·TILES tokens, over the columns that are this cluster's.
    template <int TILES, class Walk> __device__ void multiply(const Walk &at, float (&sums)[TILES][4]) {
        constexpr int PARTS = W::COLUMNS / UNPACK_DEPTH;
        const int end = at.end_step();
        int last = -1; // the stage of x before, read until a GEMM later
        uint64_t first_x = matrix_at(shared_at(s->x[0]), 16);
#pragma unroll
        for (int i = 0; i < TILES; i++) sums[i][0] = sums[i][1] = sums[i][2] = sums[i][3] = 0;
#pragma unroll 1
        for (int step = at.first_step(); step < end; step++) {
            uint32_t fragments[2][4][4];
            barrier_wait(shared_at(&s->w_full[w.stage]), w.phase);
            unpack.begin(shared_at(s->w[w.stage]), shared_at(s->scales[w.stage]), step, threadIdx.x / 32 * 16,
                         (cols - step * W::COLUMNS) / 32);
#pragma unroll
            for (int i = 0; i < PARTS; i++) {
                uint32_t raw[2][2][W::RAW];
                auto &f = fragments[i % 2];
                unpack.load(2 * i, raw[0]);
                unpack.load(2 * i + 1, raw[1]);
                unpack.fragments(2 * i, raw[0], &f[0]);
                unpack.fragments(2 * i + 1, raw[1], &f[2]);
                if (i == PARTS - 1 && threadIdx.x % 32 == 0) barrier_arrive(shared_at(&s->w_empty[w.stage]));
                barrier_wait(shared_at(&s->x_full[x.stage]), x.phase);
                uint64_t tokens = matrix_beyond(first_x, x.stage * (Shared::X_BYTES >> 4));
                wgmma_fence();
#pragma unroll
                for (int p = 0; p < 4; p++) wgmma_add_values(sums, f[p], matrix_beyond(tokens, 2 * p));
                wgmma_commit();
                wgmma_wait_older();
                if (last >= 0) release_x(last);
                last = x.stage;
                x.next();
            }
            w.next();
        }
        wgmma_wait<0>(sums);
        release_x(last);
    }
};

template <int FORMAT, int TOKENS, class Epilogue, class Walk>
__device__ inline void multiply_unpacked(UnpackTileShared<FORMAT, TOKENS> *s, const FlatArguments &a,
                                         const UnpackGroups &groups) {
    UnpackMultiplier<FORMAT, TOKENS> m = {s, a.w.cols};
    kernels_before();
    Walk at(a, groups, m.steps);
    for (; at.more() && !at.half(); at.next()) {
        float sums[TOKENS / 8][4];
        m.multiply(at, sums);
        if (at.gather(a, sums)) Epilogue::end(at.arguments(a), at.row_tile(), at.token(), sums);
    }
    if constexpr (!Walk::GROUPED)
        for (; at.more(); at.next()) {
            float sums[TOKENS / 16][4];
            m.multiply(at, sums);
            Epilogue::end(a, at.row_tile(), at.token(), sums);
        }
}

#endif

// Grid: clusters of two blocks, as many as fit at once or are needed.
template <int FORMAT, int TOKENS, class Epilogue, class Walk>
__global__ void IN_CLUSTERS_OF(2) __launch_bounds__(UNPACK_TILE_THREADS, 1)
    unpack_tile_kernel(const __grid_constant__ UnpackTileMaps maps, const __grid_constant__ FlatArguments a,
                       const UnpackGroups groups) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    auto *s = (UnpackTileShared<FORMAT, TOKENS> *)memory;
    if (threadIdx.x == 0) {
        for (int i = 0; i < s->X_STAGES; i++) {
            barrier_init(shared_at(&s->x_full[i]), 1);
            barrier_init(shared_at(&s->x_empty[i]), 2 * FLAT_WARPS);
        }
        for (int i = 0; i < s->W_STAGES; i++) {
            barrier_init(shared_at(&s->w_full[i]), 1);
            barrier_init(shared_at(&s->w_empty[i]), FLAT_WARPS);
        }
        show_barriers();
    }
    cluster_sync();
    if (threadIdx.x < FLAT_WARPS * 32) {
        take_registers<232>();
        multiply_unpacked<FORMAT, TOKENS, Epilogue, Walk>(s, a, groups);
    } else {
        give_registers<40>();
        if (warp_index() == FLAT_WARPS) copy_unpack_tiles<FORMAT, TOKENS, Walk>(s, maps, a, groups);
    }
    cluster_sync(); // the other block may still arrive here
#endif
}

#endif
