// attend on Hopper, for heads of 64 and 128 elements and a cache in f16: the tile kernel of attend.cu by wgmmas of
// warpgroups (Shah et al., arXiv:2407.08608).
//
// A block takes 128 rows (tokens × the heads that share a KV head). One warpgroup brings keys and values, 128 at a
// time, into shared memory; two multiply, 64 rows each: scores of the next keys and the values of the last ones go
// through the tensor cores while the softmax of the present ones is computed. Keys come as tiles of 64 slots, of which
// those that no row sees are left out.
//
// Where the blocks are half as many as multiprocessors or fewer, as for a paragraph that is pasted into a long talk, several
// share a tile's keys: each leaves sums of its own, and puts a share of the rows together.
#include "kernels/cuda/attention/split_results.cuh"
#include "kernels/cuda/attention/wgmma_load.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int HEAD> struct WgmmaRows {
    WgmmaShared<HEAD> *s;
    uint32_t q;
    float scores[16][4], out[HEAD / 8][4];
    uint32_t weights[BLOCK_KEYS / 16][4];

    __device__ void start_scores(int b) {
        uint32_t k = shared_at(s->k[b % STAGES]);
        barrier_wait(shared_at(&s->k_full[b % STAGES]), b / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (int d = 0; d < HEAD; d += 16)
            wgmma_of<__half>(scores, matrix_at(q + d / 64 * 64 * 128 + d % 64 * 2, 16),
                             matrix_at(k + d / 64 * BLOCK_KEYS * 128 + d % 64 * 2, 16), d > 0);
        wgmma_commit();
    }

    __device__ void start_sums(int b) {
        uint32_t v = shared_at(s->v[b % STAGES]);
        barrier_wait(shared_at(&s->v_full[b % STAGES]), b / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BLOCK_KEYS / 16; k++)
            wgmma_values(out, weights[k], matrix_at(v + k * 16 * 128, BLOCK_KEYS * 128));
        wgmma_commit();
    }
};

// Where a split leaves sums that are not the whole: of row r at first + r.
struct WgmmaPart {
    bool there;
    float *sums;     // [.., HEAD]
    float2 *weights; // base and sum
    int64_t first;
};

// store_rows() of a split.
template <int HEAD>
__device__ inline void leave_rows(const WgmmaPart &part, const int rows[2], const float bases[2],
                                  const float weights[2], const float (&out)[HEAD / 8][4]) {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = weights[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        const int64_t row = part.first + rows[r];
        if (t == 0) part.weights[row] = make_float2(bases[r], total);
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(float2 *)(part.sums + row * HEAD + n * 8 + t * 2) =
                make_float2(out[n][2 * r], out[n][2 * r + 1]);
    }
}

// An MMA warpgroup, the `part`-th, through a split's tiles.
template <class T, int HEAD>
__device__ inline void attend_blocks(const TileHead &at, WgmmaShared<HEAD> *s, const SeenTiles &tiles,
                                     int part, T *y, const WgmmaPart left) {
    const AttendArguments &a = at.a;
    const AttendTile &tile = at.tile;
    int group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, n_blocks = tiles.n_blocks();
    const int *seen = tiles.seen;
    int rows[2] = {part * 64 + warp * 16 + lane / 4, part * 64 + warp * 16 + lane / 4 + 8};
    int32_t row_positions[2];
    for (int r = 0; r < 2; r++)
        row_positions[r] = rows[r] < n_rows ? a.positions[tile.first_token + rows[r] / group] : -1;
    uint32_t window = a.window > 0 ? (uint32_t)a.window : 1u << 31;
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, shrink[2];
    WgmmaRows<HEAD> m;
    m.s = s;
    m.q = shared_at(s->q[part]);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) m.out[n][i] = 0;
    auto weigh = [&](int b) {
        bool whole = 2 * b + 1 < tiles.n && (seen[2 * b] & seen[2 * b + 1] & ALL_SEE);
        if (!whole) mask(m.scores, s->slot_positions[b % STAGES], row_positions, window);
        release_stage(&s->k_empty[b % STAGES]); // the positions too have been read
        soften(m.scores, a.scale, top, sum, shrink);
    };
    if (n_blocks > 0) {
        m.start_scores(0);
        wgmma_wait<0>(m.scores);
        weigh(0);
        pack_weights(m.scores, m.weights);
    }
#pragma unroll 1
    for (int b = 1; b < n_blocks; b++) {
        m.start_scores(b);
        m.start_sums(b - 1);
        wgmma_wait<1>(m.scores);
        weigh(b);
        wgmma_wait<0>(m.out);
        release_stage(&s->v_empty[(b - 1) % STAGES]);
        if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) { // rare after the first blocks
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) m.out[n][i] *= shrink[i / 2];
        }
        pack_weights(m.scores, m.weights);
    }
    if (n_blocks > 0) {
        m.start_sums(n_blocks - 1);
        wgmma_wait<0>(m.out);
    }
    const float bases[2] = {top[0] * a.scale, top[1] * a.scale};
    if (left.there)
        leave_rows<HEAD>(left, rows, bases, sum, m.out);
    else
        store_rows<T, HEAD>(at, rows, bases, sum, m.out, y);
}

// What join_splits() asks for: a split's share of a tile's rows, half of them at most.
struct WgmmaJoin {
    static constexpr int HEADS = ROWS / 2, WARPS = MMA_WARPS;
};

// Waits until all n blocks that share a tile's rows have left their results; who is the last to know it clears the counter for
// the next launch. Only where all are there at once.
__device__ inline void meet_splits(unsigned *arrived, unsigned n) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (load_relaxed(arrived) < n) {
        }
        __threadfence();
        if (atomicAdd(arrived, 1) == 2 * n - 1) *arrived = 0;
    }
    __syncthreads();
}

// The MMA warpgroups put a share of the tile's rows together, once all splits have left theirs.
template <int HEAD>
__device__ inline void join_tile(const SplitArguments &s, const TileHead &at, unsigned *arrived,
                                 int64_t first, void *memory) {
    __shared__ int64_t places[WgmmaJoin::HEADS];
    const int n = gridDim.z, group = at.a.n_heads / at.a.n_kv_heads;
    const SplitRows rows = {0, at.tile.n_tokens * group, group, at.tile.first_token, at.kv_head * group};
    const int each = (rows.n + n - 1) / n, own = blockIdx.z * each, n_rows = min(each, rows.n - own);
    if ((int)threadIdx.x < n_rows) places[threadIdx.x] = rows.place(at.a.n_heads, own + threadIdx.x) * HEAD;
    meet_splits(arrived, (unsigned)n);
    if (n_rows > 0) join_splits<WgmmaJoin, HEAD>(s, places, n_rows, n, first + own, memory);
}

// Queries as halves, rows behind the last as zeros; row r is head r % group of token r / group. The MMA
// warpgroups.
template <class T, int HEAD>
__device__ inline void load_queries(const AttendArguments &a, const AttendTile &tile, int kv_head, const T *q,
                                    WgmmaShared<HEAD> *s) {
    int group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
#pragma unroll
    for (int turn = 0; turn < ROWS * HEAD / 8 / MMA_THREADS; turn++) {
        int i = turn * MMA_THREADS + threadIdx.x;
        int r = i / (HEAD / 8), piece = i % (HEAD / 8), token = tile.first_token + r / group;
        int head = kv_head * group + r % group;
        struct alignas(16) Octet {
            T v[8];
        } in = {};
        if (r < n_rows) in = *(const Octet *)(q + ((int64_t)token * a.n_heads + head) * HEAD + piece * 8);
        uint4 out;
        out.x = pack_halves(to_float(in.v[0]), to_float(in.v[1]));
        out.y = pack_halves(to_float(in.v[2]), to_float(in.v[3]));
        out.z = pack_halves(to_float(in.v[4]), to_float(in.v[5]));
        out.w = pack_halves(to_float(in.v[6]), to_float(in.v[7]));
        *(uint4 *)((char *)s->q[r / 64] + piece / 8 * 64 * 128 + swizzled(r % 64, piece % 8)) = out;
    }
    show_stores();
}

#endif

// ---- the kernel --------------------------------------------------------------------------------------------

// Grid: [KV heads, tiles, splits], the last tiles (which see most) first. Behind WgmmaShared: seen [n tiles], kinds [n
// tiles]. Of s.sums and s.weights: [splits, tiles, KV heads, ROWS].
template <class T, int HEAD>
__global__ void __launch_bounds__(WGMMA_THREADS, 1)
    wgmma_kernel(const __grid_constant__ SplitArguments call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    WgmmaShared<HEAD> *s = (WgmmaShared<HEAD> *)memory;
    const AttendArguments &a = call.l.a;
    kernels_before();
    let_next_begin();
    AttendTile tile = a.tiles[gridDim.y - 1 - blockIdx.y];
    int kv_head = blockIdx.x, n_tiles = (tile.n_slots + KEYS - 1) / KEYS;
    int *seen = (int *)(s + 1);
    if (threadIdx.x >= MMA_THREADS) {
        give_registers<56>();
        if (loader() == 0)
            for (int i = 0; i < STAGES; i++) {
                barrier_init(shared_at(&s->k_full[i]), LOADERS);
                barrier_init(shared_at(&s->v_full[i]), LOADERS);
                barrier_init(shared_at(&s->k_empty[i]), MMA_WARPS);
                barrier_init(shared_at(&s->v_empty[i]), MMA_WARPS);
            }
        list_seen(a, tile, &s->n_seen, seen, (uint8_t *)(seen + n_tiles), n_tiles);
        named_barrier_arrive<2, WGMMA_THREADS>();
        load_blocks<HEAD>(a, tile, kv_head, s, SeenTiles(seen, s->n_seen, blockIdx.z, gridDim.z));
        return;
    }
    take_registers<224>();
    const TileHead at = {a, tile, kv_head};
    load_queries<T, HEAD>(a, tile, kv_head, (const T *)call.l.q, s);
    named_barrier_sync<2, WGMMA_THREADS>(); // the list is there, and all queries
    const int head = blockIdx.y * gridDim.x + blockIdx.x;
    const WgmmaPart part = {gridDim.z > 1, call.sums, call.weights,
                            ((int64_t)blockIdx.z * gridDim.y * gridDim.x + head) * ROWS};
    attend_blocks<T, HEAD>(at, s, SeenTiles(seen, s->n_seen, blockIdx.z, gridDim.z), threadIdx.x / 128,
                           (T *)call.l.y, part);
    if (part.there) join_tile<HEAD>(call, at, call.arrived + head, (int64_t)head * ROWS, memory);
#endif
}

template <int HEAD> static size_t shared_bytes(const AttendLaunch *l) {
    static_assert(sizeof(WgmmaShared<HEAD>) == ATTEND_WGMMA_BYTES(HEAD), "what dispatch_attend() goes by");
    size_t n_tiles = ((size_t)l->most_slots + KEYS - 1) / KEYS;
    return sizeof(WgmmaShared<HEAD>) + n_tiles * (sizeof(int) + 1);
}

template <class T, int HEAD> static cudaError_t launch(const CudaBackend *cuda, const AttendLaunch *l) {
    size_t shared = shared_bytes<HEAD>(l);
    cudaError_t code =
        cudaFuncSetAttribute(wgmma_kernel<T, HEAD>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    const dim3 grid(l->a.n_kv_heads, l->n_tiles, tile_splits(cuda, l));
    SplitArguments s = {};
    s.l = SplitLaunch{l->a, l->type, l->queries.recent, l->queries.sinks, l->y};
    s.parts = (int)(grid.x * grid.y) * ROWS;
    s.sums = (float *)cuda->scratch.parts.memory;
    s.weights = (float2 *)(s.sums + (int64_t)grid.z * s.parts * HEAD);
    s.arrived = (unsigned *)cuda->scratch.arrived.memory;
    return launch_dependent(cuda, wgmma_kernel<T, HEAD>, grid, WGMMA_THREADS, shared, s);
}

cudaError_t attend_by_wgmma(const CudaBackend *cuda, const AttendLaunch *l) {
    int head = l->a.head_dim;
    bool bf16 = l->type == DTYPE_BF16;
    if (head == 64) return bf16 ? launch<__nv_bfloat16, 64>(cuda, l) : launch<__half, 64>(cuda, l);
    return bf16 ? launch<__nv_bfloat16, 128>(cuda, l) : launch<__half, 128>(cuda, l);
}
