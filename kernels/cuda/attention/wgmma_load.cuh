// The kernel of attention/wgmma.cu, its loading half: which tiles of 64 slots some row sees, and their keys and values
// into shared memory.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_WGMMA_LOAD_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_WGMMA_LOAD_CUH

#include "kernels/cuda/attention/attend.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/device/ptx_wgmma.cuh"

enum {
    KEYS = ATTEND_KEYS,
    BLOCK_KEYS = 2 * KEYS,
    STAGES = 2,
    LOADERS = 128, // threads, behind those that multiply
    MMA_THREADS = 256,
    WGMMA_THREADS = LOADERS + MMA_THREADS,
    MMA_WARPS = MMA_THREADS / 32,
};

// Matrices are HEAD/64 tiles of 64 columns, one behind the other.
template <int HEAD> struct alignas(1024) WgmmaShared {
    __half q[2][64 * HEAD]; // of each MMA warpgroup
    __half k[STAGES][BLOCK_KEYS * HEAD], v[STAGES][BLOCK_KEYS * HEAD];
    int32_t slot_positions[STAGES][BLOCK_KEYS]; // INT32_MAX: the slot holds nothing
    uint64_t k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    int n_seen; // tiles in `seen`: those that some row sees, eight times their number and what is known of them
};

// A split's of them: whole blocks.
struct SeenTiles {
    const int *seen;
    int n;
    __device__ SeenTiles(const int *all, int n_seen, int split, int n_splits) {
        const int blocks = (n_seen + 1) / 2, first = blocks * split / n_splits * 2,
                  end = blocks * (split + 1) / n_splits * 2;
        seen = all + first, n = min(end, n_seen) - first;
    }
    __device__ int n_blocks() const { return (n + 1) / 2; }
};

enum {
    SOME_SEE = 1,
    ALL_SEE = 2,
    ALL_THERE = 4
}; // some row some slot, all rows all slots; every slot holds a token

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void sync_loaders() {
    named_barrier_sync<1, LOADERS>();
}
__device__ inline int loader() {
    return (int)threadIdx.x - MMA_THREADS;
}

// ---- bringing keys and values ------------------------------------------------------------------------------

// Where tile t of 64 slots begins: it lies in one page.
__device__ inline int64_t tile_offset(const AttendArguments &a, const AttendTile &tile, int kv_head, int t) {
    int64_t slot = slot_of(a.pages, tile.first_page, t * KEYS);
    return slot * a.kv.slot_stride + kv_head * a.kv.head_stride;
}

// The loading warpgroup lists the tiles that some row sees, in order. A warp four tiles at a time, eight lanes a tile.
__device__ inline void list_seen(const AttendArguments &a, const AttendTile &tile, int *n_seen, int *seen,
                                 uint8_t *kinds, int n) {
    int lane = threadIdx.x % 32, lowest = INT32_MAX, highest = -1;
    for (int t = lane; t < tile.n_tokens; t += 32) {
        int32_t p = a.positions[tile.first_token + t];
        lowest = min(lowest, p);
        highest = max(highest, p);
    }
    lowest = __reduce_min_sync(~0u, lowest);
    highest = __reduce_max_sync(~0u, highest);
    for (int t = loader() / 32 * 4 + lane / 8; t - lane / 8 < n; t += LOADERS / 32 * 4) {
        bool some = false, all = true, there = true;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t p = t < n ? tile_position(a, tile, t * KEYS + lane % 8 * 8 + i) : -1;
            some |= p >= 0 && p <= highest && (a.window <= 0 || lowest - p < a.window);
            all &= p >= 0 && p <= lowest && (a.window <= 0 || highest - p < a.window);
            there &= p >= 0;
        }
        unsigned mine = 0xffu << lane / 8 * 8, rest = ~mine;
        int kind = (__ballot_sync(~0u, some) & mine ? SOME_SEE : 0) |
                   ((__ballot_sync(~0u, all) | rest) == ~0u ? ALL_SEE : 0) |
                   ((__ballot_sync(~0u, there) | rest) == ~0u ? ALL_THERE : 0);
        if (t < n && lane % 8 == 0) kinds[t] = (uint8_t)kind;
    }
    sync_loaders();
    if (loader() < 32) {
        int listed = 0;
        for (int first = 0; first < n; first += 32) {
            int t = first + lane, kind = t < n ? kinds[t] : 0;
            unsigned some = __ballot_sync(~0u, kind & SOME_SEE);
            if (kind & SOME_SEE) seen[listed + __popc(some & ((1u << lane) - 1))] = t * 8 + kind;
            listed += __popc(some);
        }
        if (lane == 0) *n_seen = listed;
    }
    sync_loaders();
}

// This thread's copies of a tile's keys or values: the same piece of every STEP-th row. Slots that hold nothing become
// zeros, whatever lies there.
template <int HEAD>
__device__ inline void load_tile(const TileHead &at, int seen, bool any, const char *from, char *to) {
    const AttendArguments &a = at.a;
    const AttendTile &tile = at.tile;
    const int kv_head = at.kv_head;
    constexpr int PIECES = HEAD / 8, STEP = LOADERS / PIECES, TURNS = KEYS / STEP;
    int piece = loader() % PIECES, first = loader() / PIECES, t = seen / 8;
    const char *source = from + (tile_offset(a, tile, kv_head, t) + first * a.kv.slot_stride + piece * 8) * 2;
    int64_t step = STEP * a.kv.slot_stride * 2;
    if (any && seen & ALL_THERE) {
#pragma unroll
        for (int i = 0; i < TURNS; i++) copy_16(to + i * STEP * 128, source + i * step, true);
        return;
    }
    uint32_t there = 0;
#pragma unroll
    for (int i = 0; i < TURNS; i++)
        there |= (uint32_t)(any && tile_position(a, tile, t * KEYS + first + i * STEP) >= 0) << i;
#pragma unroll 1
    for (int i = 0; i < TURNS; i++) {
        bool copied = there >> i & 1;
        copy_16(to + i * STEP * 128, copied ? source + i * step : from, copied);
    }
}

// A block of keys or values: two tiles.
template <int HEAD>
__device__ inline void load_block(const TileHead &at, const int *seen, int n, const void *from, __half *to) {
    int piece = loader() % (HEAD / 8), first = loader() / (HEAD / 8);
    char *target = (char *)to + piece / 8 * BLOCK_KEYS * 128 + swizzled(first, piece % 8);
    load_tile<HEAD>(at, seen[0], true, (const char *)from, target);
    load_tile<HEAD>(at, seen[n - 1], n > 1, (const char *)from, target + KEYS * 128);
    end_copies();
}

// The loading warpgroup. A load is announced when the next is under way, or before waiting for room.
template <int HEAD>
__device__ inline void load_blocks(const AttendArguments &a, const AttendTile &tile, int kv_head,
                                   WgmmaShared<HEAD> *s, const SeenTiles &tiles) {
    const int n_blocks = tiles.n_blocks(), *seen = tiles.seen;
    uint64_t *pending = NULL;
    auto announce = [&]() {
        show_stores();
        if (pending) barrier_arrive(shared_at(pending));
        pending = NULL;
    };
    auto load = [&](int b, bool values) {
        int stage = b % STAGES, n = min(2, tiles.n - 2 * b);
        uint64_t *empty = values ? &s->v_empty[stage] : &s->k_empty[stage];
        if (b >= STAGES && !barrier_passed(shared_at(empty), (b / STAGES - 1) & 1)) {
            await_copies<0>();
            announce();
            barrier_wait(shared_at(empty), (b / STAGES - 1) & 1);
        }
        if (!values) {
            int32_t p =
                loader() < n * KEYS
                    ? tile_position(a, tile, seen[2 * b + loader() / KEYS] / 8 * KEYS + loader() % KEYS)
                    : -1;
            s->slot_positions[stage][loader()] = p < 0 ? INT32_MAX : p;
        }
        load_block<HEAD>(TileHead{a, tile, kv_head}, seen + 2 * b, n, values ? a.kv.v : a.kv.k,
                         values ? s->v[stage] : s->k[stage]);
        await_copies<1>();
        announce();
        pending = values ? &s->v_full[stage] : &s->k_full[stage];
    };
    for (int b = 0; b < n_blocks; b++) {
        load(b, false);
        if (b > 0) load(b - 1, true);
    }
    if (n_blocks > 0) load(n_blocks - 1, true);
    await_copies<0>();
    announce();
}

#endif
#endif
