// attend on Hopper for heads of 512 elements and a cache in f16, of tiles of many tokens: what wide_kernel.cuh does, by wgmmas of
// warpgroups.
//
// A block takes up to 64 rows: whole tokens, of the heads that share a KV head. Two warpgroups multiply; both have the scores of
// all rows, against 64 keys at a time, and each half of the values' elements, so that neither waits for the other:
//
//   loads   K0 │ V0 │ K1      │ V1   │ K2 …       64 KB each, one place for keys and one for values
//   wgmma        S0 │ softmax │ O0 S1 │ softmax │ O1 S2 …
//
// A third brings keys and values. Tiles of 64 slots of which no row sees any are left out.
#include "kernels/cuda/attention/wgmma_load.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/device/launch.cuh"

enum { WIDE_ROWS = 64, TILE_BYTES = 64 * 128, OF_HALF = WIDE_HEAD / 2 }; // TILE_BYTES: 64 rows of 64 elements

// Matrices are eight tiles of 64 columns, one behind the other.
struct alignas(1024) WideWgmmaShared {
    __half q[WIDE_ROWS * WIDE_HEAD], k[KEYS * WIDE_HEAD], v[KEYS * WIDE_HEAD];
    int32_t slot_positions[KEYS]; // INT32_MAX: the slot holds nothing
    uint64_t k_full, k_empty, v_full, v_empty;
    int n_seen;
};
static_assert(sizeof(WideWgmmaShared) == ATTEND_WIDE_WGMMA_BYTES, "what dispatch_attend() goes by");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The tokens of a tile that are a block's.
__device__ inline AttendTile own_tokens(const AttendArguments &a, AttendTile tile) {
    const int each = WIDE_ROWS / (a.n_heads / a.n_kv_heads), first = (gridDim.x - 1 - blockIdx.x) * each;
    tile.first_token += first;
    tile.n_tokens = min(each, tile.n_tokens - first);
    return tile;
}

// Queries as halves, rows behind the last as zeros; row r is head r % group of token r / group.
__device__ inline void load_queries(const TileHead &at, DType type, const void *q, WideWgmmaShared *s) {
    constexpr int PIECES = WIDE_HEAD / 8;
    const int group = at.a.n_heads / at.a.n_kv_heads, n_rows = at.tile.n_tokens * group;
    for (int i = threadIdx.x; i < WIDE_ROWS * PIECES; i += MMA_THREADS) {
        const int r = i / PIECES, piece = i % PIECES;
        const int64_t row =
            (int64_t)(at.tile.first_token + r / group) * at.a.n_heads + at.kv_head * group + r % group;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (r < n_rows) eight = eight_of<__half>(type, q, row * WIDE_HEAD + piece * 8);
        *(uint4 *)((char *)s->q + piece / 8 * TILE_BYTES + swizzled(r, piece % 8)) = eight;
    }
    show_stores();
}

// The loading warpgroup's copies of a tile's keys or values; slots that hold nothing become zeros.
__device__ inline void load_rows(const TileHead &at, int seen, const void *from, __half *to) {
    constexpr int PIECES = WIDE_HEAD / 8, STEP = LOADERS / PIECES;
    const int piece = loader() % PIECES, first = loader() / PIECES, t = seen / 8;
    const char *source =
        (const char *)from +
        (tile_offset(at.a, at.tile, at.kv_head, t) + first * at.a.kv.slot_stride + piece * 8) * 2;
    char *target = (char *)to + piece / 8 * TILE_BYTES;
#pragma unroll 8
    for (int row = first; row < KEYS; row += STEP, source += STEP * at.a.kv.slot_stride * 2) {
        const bool there = seen & ALL_THERE || tile_position(at.a, at.tile, t * KEYS + row) >= 0;
        copy_16(target + swizzled(row, piece % 8), there ? source : (const char *)from, there);
    }
    end_copies();
}

// The loading warpgroup. A load is announced when the next is under way, or before waiting for room.
__device__ inline void load_all(const TileHead &at, WideWgmmaShared *s, const int *seen) {
    uint64_t *pending = NULL;
    auto announce = [&]() {
        show_stores();
        if (pending) barrier_arrive(shared_at(pending));
        pending = NULL;
    };
    auto load = [&](int b, bool values) {
        const uint32_t empty = shared_at(values ? &s->v_empty : &s->k_empty);
        if (b > 0 && !barrier_passed(empty, (b - 1) & 1)) {
            await_copies<0>();
            announce();
            barrier_wait(empty, (b - 1) & 1);
        }
        if (!values && loader() < KEYS) {
            const int32_t p = tile_position(at.a, at.tile, seen[b] / 8 * KEYS + loader());
            s->slot_positions[loader()] = p < 0 ? INT32_MAX : p;
        }
        load_rows(at, seen[b], values ? at.a.kv.v : at.a.kv.k, values ? s->v : s->k);
        await_copies<1>();
        announce();
        pending = values ? &s->v_full : &s->k_full;
    };
    for (int b = 0; b < s->n_seen; b++) load(b, false), load(b, true);
    await_copies<0>();
    announce();
}

// An MMA warpgroup's rows and its half of the values' elements.
struct WideRows {
    WideWgmmaShared *s;
    int half;
    float scores[KEYS / 8][4], out[OF_HALF / 8][4];
    uint32_t weights[KEYS / 16][4];

    __device__ void start_scores(int b) {
        const uint32_t q = shared_at(s->q), k = shared_at(s->k);
        barrier_wait(shared_at(&s->k_full), b & 1);
        wgmma_fence();
#pragma unroll
        for (int d = 0; d < WIDE_HEAD; d += 16)
            wgmma_of<__half>(scores, matrix_at(q + d / 64 * TILE_BYTES + d % 64 * 2, 16),
                             matrix_at(k + d / 64 * TILE_BYTES + d % 64 * 2, 16), d > 0);
        wgmma_commit();
    }

    __device__ void start_sums(int b) {
        const uint32_t v = shared_at(s->v) + half * OF_HALF / 64 * TILE_BYTES;
        barrier_wait(shared_at(&s->v_full), b & 1);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++)
            wgmma_values(out, weights[k], matrix_at(v + k * 16 * 128, TILE_BYTES));
        wgmma_commit();
    }
};

// Half of the rows' results to y.
__device__ inline void store_half(const TileHead &at, DType type, const int rows[2], const float sum[2],
                                  const WideRows &m, void *y) {
    const int group = at.a.n_heads / at.a.n_kv_heads;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = sum[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (rows[r] >= at.tile.n_tokens * group) continue;
        const float scale = total == 0 ? 0 : 1 / total; // NaN stays
        const int token = at.tile.first_token + rows[r] / group, head = at.kv_head * group + rows[r] % group;
        const int64_t to =
            ((int64_t)token * at.a.n_heads + head) * WIDE_HEAD + m.half * OF_HALF + threadIdx.x % 4 * 2;
#pragma unroll
        for (int n = 0; n < OF_HALF / 8; n++) {
            const float a = m.out[n][2 * r] * scale, b = m.out[n][2 * r + 1] * scale;
            if (type == DTYPE_F16)
                *(__half2 *)((__half *)y + to + n * 8) = __floats2half2_rn(a, b);
            else
                *(__nv_bfloat162 *)((__nv_bfloat16 *)y + to + n * 8) = __floats2bfloat162_rn(a, b);
        }
    }
}

__device__ inline void attend_half(const TileHead &at, WideWgmmaShared *s, const int *seen, DType type,
                                   void *y) {
    const AttendArguments &a = at.a;
    const int group = a.n_heads / a.n_kv_heads, n_rows = at.tile.n_tokens * group, n = s->n_seen,
              warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const int rows[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
    int32_t row_positions[2];
    for (int r = 0; r < 2; r++)
        row_positions[r] = rows[r] < n_rows ? a.positions[at.tile.first_token + rows[r] / group] : -1;
    const uint32_t window = a.window > 0 ? (uint32_t)a.window : 1u << 31;
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, shrink[2];
    WideRows m;
    m.s = s, m.half = threadIdx.x / 128;
#pragma unroll
    for (int i = 0; i < OF_HALF / 8; i++) m.out[i][0] = m.out[i][1] = m.out[i][2] = m.out[i][3] = 0;
    auto weigh = [&](int b) {
        if (!(seen[b] & ALL_SEE)) mask(m.scores, s->slot_positions, row_positions, window);
        release_stage(&s->k_empty); // the positions too have been read
        soften(m.scores, a.scale, top, sum, shrink);
        if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) { // rare after the first blocks
#pragma unroll
            for (int i = 0; i < OF_HALF / 8; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) m.out[i][j] *= shrink[j / 2];
        }
        pack_weights(m.scores, m.weights);
    };
    if (n > 0) {
        m.start_scores(0);
        wgmma_wait<0>(m.scores);
    }
#pragma unroll 1
    for (int b = 0; b + 1 < n; b++) {
        weigh(b);
        m.start_sums(b);
        m.start_scores(b + 1);
        wgmma_wait_older();
        release_stage(&s->v_empty);
        wgmma_wait<0>(m.scores);
        wgmma_wait<0>(m.out);
    }
    if (n > 0) {
        weigh(n - 1);
        m.start_sums(n - 1);
        wgmma_wait<0>(m.out);
    }
    store_half(at, type, rows, sum, m, y);
}

#endif

// Grid: [blocks of a tile's tokens, tiles, KV heads], those that see most first. Behind WideWgmmaShared: seen [n tiles of slots],
// kinds [n tiles of slots].
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    wide_wgmma_kernel(const __grid_constant__ WideArguments l) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    WideWgmmaShared *s = (WideWgmmaShared *)memory;
    const AttendArguments &a = l.a;
    kernels_before();
    let_next_begin();
    const AttendTile tile = own_tokens(a, a.tiles[gridDim.y - 1 - blockIdx.y]);
    if (tile.n_tokens <= 0) return;
    const TileHead at = {a, tile, (int)blockIdx.z};
    const int n_tiles = (tile.n_slots + KEYS - 1) / KEYS;
    int *seen = (int *)(s + 1);
    if (threadIdx.x >= MMA_THREADS) {
        give_registers<56>();
        if (loader() == 0) {
            barrier_init(shared_at(&s->k_full), LOADERS);
            barrier_init(shared_at(&s->v_full), LOADERS);
            barrier_init(shared_at(&s->k_empty), MMA_WARPS);
            barrier_init(shared_at(&s->v_empty), MMA_WARPS);
        }
        list_seen(a, tile, &s->n_seen, seen, (uint8_t *)(seen + n_tiles), n_tiles);
        named_barrier_arrive<2, WGMMA_THREADS>();
        load_all(at, s, seen);
        return;
    }
    take_registers<224>();
    load_queries(at, l.type, l.q, s);
    named_barrier_sync<2, WGMMA_THREADS>(); // the list is there, and all queries
    attend_half(at, s, seen, l.type, l.y);
#endif
}

cudaError_t attend_wide_by_wgmma(const CudaBackend *cuda, const AttendLaunch *launch) {
    const AttendHeads *h = &launch->heads;
    const WideArguments l = {launch->a, launch->type, launch->queries.recent, launch->queries.sinks,
                             launch->y};
    const int each = WIDE_ROWS / (h->n_heads / h->n_kv_heads);
    const size_t n_tiles = ((size_t)launch->most_slots + KEYS - 1) / KEYS,
                 shared = sizeof(WideWgmmaShared) + n_tiles * (sizeof(int) + 1);
    cudaError_t code =
        cudaFuncSetAttribute(wide_wgmma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    const dim3 grid((cuda->step.tile_tokens + each - 1) / each, launch->n_tiles, h->n_kv_heads);
    return launch_dependent(cuda, wide_wgmma_kernel, grid, WGMMA_THREADS, shared, l);
}
