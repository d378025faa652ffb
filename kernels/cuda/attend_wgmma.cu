// attend on Hopper, for heads of 64 and 128 elements and a cache in f16: the tile kernel of attend.cu by products of
// warpgroups (Shah et al., arXiv:2407.08608).
//
// A block takes 128 rows (tokens × the heads that share a KV head). One warpgroup brings keys and values, 128 at a time, into
// shared memory; two multiply, 64 rows each: scores of the next keys and the values of the last ones go through the tensor
// cores while the softmax of the present ones is computed. Keys come as tiles of 64 slots, of which those that no row
// sees are left out.
#include "kernels/cuda/attend.cuh"
#include "kernels/cuda/wgmma.cuh"

enum {
    BLOCK_KEYS = 2 * KEYS,
    STAGES = 2,
    LOADERS = 128, // threads
    MULTIPLIERS = 256,
    WGMMA_THREADS = LOADERS + MULTIPLIERS,
    MULTIPLYING_WARPS = MULTIPLIERS / 32,
};

// Matrices are HEAD/64 tiles of 64 columns, one behind the other.
template <int HEAD> struct alignas(1024) WgmmaShared {
    __half q[2][64 * HEAD]; // of each multiplying warpgroup
    __half k[STAGES][BLOCK_KEYS * HEAD], v[STAGES][BLOCK_KEYS * HEAD];
    int32_t slot_positions[STAGES][BLOCK_KEYS]; // INT32_MAX: the slot holds nothing
    uint64_t k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    int n_seen; // tiles in `seen`: those that some row sees, eight times their number and what is known of them
};

enum {
    SOME_SEE = 1,
    ALL_SEE = 2,
    ALL_THERE = 4
}; // some row some slot, all rows all slots; every slot holds a token

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void barrier_init(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

__device__ inline void barrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void barrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(
                     shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ inline bool barrier_passed(uint64_t *barrier, uint32_t parity) {
    uint32_t passed;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(passed)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return passed;
}

__device__ inline void sync_loaders() {
    asm volatile("bar.sync 1, %0;" ::"n"((int)LOADERS) : "memory");
}

__device__ inline void show_to_wgmma() { // what this thread has stored in shared memory
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- bringing keys and values ------------------------------------------------------------------------------

// Where tile t of 64 slots begins.
__device__ inline int64_t tile_offset(const AttendArguments &a, const AttendTile &tile, int kv_head, int t) {
    return (tile.first_slot + t * KEYS) * a.kv.slot_stride + kv_head * a.kv.head_stride;
}

// Position of slot i of tile t, -1 behind the end.
__device__ inline int32_t tile_position(const AttendArguments &a, const AttendTile &tile, int t, int i) {
    i += t * KEYS;
    return i < tile.n_slots ? a.slot_positions[tile.first_slot + i] : -1;
}

// The loading warpgroup lists the tiles that some row sees, in order. A warp four tiles at a time, eight lanes a tile.
template <int HEAD>
__device__ inline void list_seen(const AttendArguments &a, const AttendTile &tile, WgmmaShared<HEAD> *s,
                                 int *seen, uint8_t *kinds, int n) {
    int lane = threadIdx.x % 32, lowest = INT32_MAX, highest = -1;
    for (int t = lane; t < tile.n_tokens; t += 32) {
        int32_t p = a.positions[tile.first_token + t];
        lowest = min(lowest, p);
        highest = max(highest, p);
    }
    lowest = __reduce_min_sync(~0u, lowest);
    highest = __reduce_max_sync(~0u, highest);
    for (int t = threadIdx.x / 32 * 4 + lane / 8; t - lane / 8 < n; t += LOADERS / 32 * 4) {
        bool some = false, all = true, there = true;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t p = t < n ? tile_position(a, tile, t, lane % 8 * 8 + i) : -1;
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
    if (threadIdx.x < 32) {
        int listed = 0;
        for (int first = 0; first < n; first += 32) {
            int t = first + lane, kind = t < n ? kinds[t] : 0;
            unsigned some = __ballot_sync(~0u, kind & SOME_SEE);
            if (kind & SOME_SEE) seen[listed + __popc(some & ((1u << lane) - 1))] = t * 8 + kind;
            listed += __popc(some);
        }
        if (lane == 0) s->n_seen = listed;
    }
    sync_loaders();
}

// This thread's copies of a tile's keys or values: the same piece of every STEP-th row. Slots that hold nothing become
// zeros, whatever lies there.
template <int HEAD>
__device__ inline void load_tile(const AttendArguments &a, const AttendTile &tile, int kv_head, int seen,
                                 bool any, const char *from, char *to) {
    constexpr int PIECES = HEAD / 8, STEP = LOADERS / PIECES, TURNS = KEYS / STEP;
    int piece = threadIdx.x % PIECES, first = threadIdx.x / PIECES, t = seen / 8;
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
        there |= (uint32_t)(any && tile_position(a, tile, t, first + i * STEP) >= 0) << i;
#pragma unroll 1
    for (int i = 0; i < TURNS; i++) {
        bool copied = there >> i & 1;
        copy_16(to + i * STEP * 128, copied ? source + i * step : from, copied);
    }
}

// A block of keys or values: two tiles.
template <int HEAD>
__device__ inline void load_block(const AttendArguments &a, const AttendTile &tile, int kv_head,
                                  const int *seen, int n, const void *from, __half *to) {
    int piece = threadIdx.x % (HEAD / 8), first = threadIdx.x / (HEAD / 8);
    char *target = (char *)to + piece / 8 * BLOCK_KEYS * 128 + swizzled(first, piece % 8);
    load_tile<HEAD>(a, tile, kv_head, seen[0], true, (const char *)from, target);
    load_tile<HEAD>(a, tile, kv_head, seen[n - 1], n > 1, (const char *)from, target + KEYS * 128);
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// The loading warpgroup. A load is announced when the next is under way, or before waiting for room.
template <int HEAD>
__device__ inline void load_blocks(const AttendArguments &a, const AttendTile &tile, int kv_head,
                                   WgmmaShared<HEAD> *s, const int *seen) {
    int n_blocks = (s->n_seen + 1) / 2;
    uint64_t *pending = NULL;
    auto announce = [&]() {
        show_to_wgmma();
        if (pending) barrier_arrive(pending);
        pending = NULL;
    };
    auto load = [&](int b, bool values) {
        int stage = b % STAGES, n = min(2, s->n_seen - 2 * b);
        uint64_t *empty = values ? &s->v_empty[stage] : &s->k_empty[stage];
        if (b >= STAGES && !barrier_passed(empty, (b / STAGES - 1) & 1)) {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
            announce();
            barrier_wait(empty, (b / STAGES - 1) & 1);
        }
        if (!values) {
            int32_t p = (int)threadIdx.x < n * KEYS
                            ? tile_position(a, tile, seen[2 * b + threadIdx.x / KEYS] / 8, threadIdx.x % KEYS)
                            : -1;
            s->slot_positions[stage][threadIdx.x] = p < 0 ? INT32_MAX : p;
        }
        load_block<HEAD>(a, tile, kv_head, seen + 2 * b, n, values ? a.kv.v : a.kv.k,
                         values ? s->v[stage] : s->k[stage]);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        announce();
        pending = values ? &s->v_full[stage] : &s->k_full[stage];
    };
    for (int b = 0; b < n_blocks; b++) {
        load(b, false);
        if (b > 0) load(b - 1, true);
    }
    if (n_blocks > 0) load(n_blocks - 1, true);
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    announce();
}

// ---- multiplying -------------------------------------------------------------------------------------------

// Softmax of a block's scores as it goes by: scores become weights, `top` and `sum` go on; shrink is what earlier sums are to be
// multiplied with.
__device__ inline void soften(float scores[16][4], float scale, float top[2], float sum[2], float shrink[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float largest = top[r];
#pragma unroll
        for (int n = 0; n < 16; n++) largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        // A row that has seen nothing yet keeps -inf: take 0 instead, so that no inf - inf arises.
        float base = largest == -INFINITY ? 0 : largest * scale;
        shrink[r] = top[r] == -INFINITY ? 0 : power(top[r] * scale - base);
        top[r] = largest;
        float added = 0;
#pragma unroll
        for (int n = 0; n < 16; n++)
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; i++) {
                scores[n][i] = power(scores[n][i] * scale - base);
                added += scores[n][i];
            }
        sum[r] = sum[r] * shrink[r] + added;
    }
}

// Hides what a row does not see: it sees distances 0 … window - 1.
__device__ inline void mask(float scores[16][4], const int32_t *slot_positions,
                            const int32_t row_positions[2], uint32_t window) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < 16; n++) {
        int2 p = *(const int2 *)&slot_positions[n * 8 + lane % 4 * 2];
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)(row_positions[i / 2] - (i % 2 ? p.y : p.x)) >= window) scores[n][i] = -INFINITY;
    }
}

template <int HEAD> struct Multiplier {
    WgmmaShared<HEAD> *s;
    uint32_t q;
    float scores[16][4], out[HEAD / 8][4];
    uint32_t weights[BLOCK_KEYS / 16][4];

    __device__ void multiply_keys(int b) {
        uint32_t k = shared_address(s->k[b % STAGES]);
        barrier_wait(&s->k_full[b % STAGES], b / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (int d = 0; d < HEAD; d += 16)
            wgmma_scores(scores, matrix_at(q + d / 64 * 64 * 128 + d % 64 * 2, 16),
                         matrix_at(k + d / 64 * BLOCK_KEYS * 128 + d % 64 * 2, 16), d > 0);
        wgmma_commit();
    }

    __device__ void multiply_values(int b) {
        uint32_t v = shared_address(s->v[b % STAGES]);
        barrier_wait(&s->v_full[b % STAGES], b / STAGES & 1);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BLOCK_KEYS / 16; k++)
            wgmma_values(out, weights[k], matrix_at(v + k * 16 * 128, BLOCK_KEYS * 128));
        wgmma_commit();
    }

    __device__ void pack() {
#pragma unroll
        for (int k = 0; k < BLOCK_KEYS / 16; k++) {
            weights[k][0] = pack_halves(scores[2 * k][0], scores[2 * k][1]);
            weights[k][1] = pack_halves(scores[2 * k][2], scores[2 * k][3]);
            weights[k][2] = pack_halves(scores[2 * k + 1][0], scores[2 * k + 1][1]);
            weights[k][3] = pack_halves(scores[2 * k + 1][2], scores[2 * k + 1][3]);
        }
    }

    __device__ void release(uint64_t *empty) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) barrier_arrive(empty);
    }
};

// A multiplying warpgroup, the `part`-th.
template <class T, int HEAD>
__device__ inline void multiply_blocks(const AttendArguments &a, const AttendTile &tile, int kv_head,
                                       WgmmaShared<HEAD> *s, const int *seen, int part, T *y) {
    int group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, n_blocks = (s->n_seen + 1) / 2;
    int rows[2] = {part * 64 + warp * 16 + lane / 4, part * 64 + warp * 16 + lane / 4 + 8};
    int32_t row_positions[2];
    for (int r = 0; r < 2; r++)
        row_positions[r] = rows[r] < n_rows ? a.positions[tile.first_token + rows[r] / group] : -1;
    uint32_t window = a.window > 0 ? (uint32_t)a.window : 1u << 31;
    float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, shrink[2];
    Multiplier<HEAD> m;
    m.s = s;
    m.q = shared_address(s->q[part]);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) m.out[n][i] = 0;
    auto weigh = [&](int b) {
        bool whole = 2 * b + 1 < s->n_seen && (seen[2 * b] & seen[2 * b + 1] & ALL_SEE);
        if (!whole) mask(m.scores, s->slot_positions[b % STAGES], row_positions, window);
        m.release(&s->k_empty[b % STAGES]); // the positions too have been read
        soften(m.scores, a.scale, top, sum, shrink);
    };
    if (n_blocks > 0) {
        m.multiply_keys(0);
        wgmma_wait<0>(m.scores);
        weigh(0);
        m.pack();
    }
#pragma unroll 1
    for (int b = 1; b < n_blocks; b++) {
        m.multiply_keys(b);
        m.multiply_values(b - 1);
        wgmma_wait<1>(m.scores);
        weigh(b);
        wgmma_wait<0>(m.out);
        m.release(&s->v_empty[(b - 1) % STAGES]);
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) m.out[n][i] *= shrink[i / 2];
        m.pack();
    }
    if (n_blocks > 0) {
        m.multiply_values(n_blocks - 1);
        wgmma_wait<0>(m.out);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = sum[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        float scale = total > 0 ? 1 / total : 0;
        if (rows[r] >= n_rows) continue;
        int token = tile.first_token + rows[r] / group, head = kv_head * group + rows[r] % group;
        T *target = y + ((int64_t)token * a.n_heads + head) * HEAD + lane % 4 * 2;
        struct alignas(4) Pair {
            T v[2];
        };
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(Pair *)(target + n * 8) =
                Pair{from_float<T>(m.out[n][2 * r] * scale), from_float<T>(m.out[n][2 * r + 1] * scale)};
    }
}

// Queries as halves, rows behind the last as zeros; row r is head r % group of token r / group. The multiplying
// warpgroups.
template <class T, int HEAD>
__device__ inline void load_queries(const AttendArguments &a, const AttendTile &tile, int kv_head, const T *q,
                                    WgmmaShared<HEAD> *s) {
    int group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
#pragma unroll
    for (int turn = 0; turn < ROWS * HEAD / 8 / MULTIPLIERS; turn++) {
        int i = turn * MULTIPLIERS + threadIdx.x - LOADERS;
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
    show_to_wgmma();
}

#endif

// ---- the kernel --------------------------------------------------------------------------------------------

// Grid: [KV heads, tiles], the last tiles (which see most) first. Behind WgmmaShared: seen [n tiles], kinds [n tiles].
template <class T, int HEAD>
__global__ void __launch_bounds__(WGMMA_THREADS, 1) wgmma_kernel(AttendArguments a, const T *q, T *y) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char memory[];
    WgmmaShared<HEAD> *s = (WgmmaShared<HEAD> *)memory;
    AttendTile tile = a.tiles[gridDim.y - 1 - blockIdx.y];
    int kv_head = blockIdx.x, n_tiles = (tile.n_slots + KEYS - 1) / KEYS;
    int *seen = (int *)(s + 1);
    if (threadIdx.x < LOADERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (threadIdx.x == 0)
            for (int i = 0; i < STAGES; i++) {
                barrier_init(&s->k_full[i], LOADERS);
                barrier_init(&s->v_full[i], LOADERS);
                barrier_init(&s->k_empty[i], MULTIPLYING_WARPS);
                barrier_init(&s->v_empty[i], MULTIPLYING_WARPS);
            }
        list_seen<HEAD>(a, tile, s, seen, (uint8_t *)(seen + n_tiles), n_tiles);
        asm volatile("bar.arrive 2, %0;" ::"n"((int)WGMMA_THREADS) : "memory");
        load_blocks<HEAD>(a, tile, kv_head, s, seen);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        load_queries<T, HEAD>(a, tile, kv_head, q, s);
        asm volatile("bar.sync 2, %0;" ::"n"((int)WGMMA_THREADS)
                     : "memory"); // the list is there, and all queries
        multiply_blocks<T, HEAD>(a, tile, kv_head, s, seen, threadIdx.x / 128 - 1, y);
    }
#endif
}

template <class T, int HEAD>
static cudaError_t launch(const CudaBackend *cuda, const AttendArguments &a, const T *q, T *y) {
    size_t n_tiles = ((size_t)cuda->most_slots + KEYS - 1) / KEYS;
    size_t shared = sizeof(WgmmaShared<HEAD>) + n_tiles * (sizeof(int) + 1);
    if (shared > cuda->shared_limit) return cudaErrorNotSupported;
    cudaError_t code =
        cudaFuncSetAttribute(wgmma_kernel<T, HEAD>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    wgmma_kernel<T, HEAD>
        <<<dim3(a.n_kv_heads, cuda->n_tiles), WGMMA_THREADS, shared, cuda->stream>>>(a, q, y);
    return cudaGetLastError();
}

cudaError_t attend_by_wgmma(const CudaBackend *cuda, const AttendArguments *a, const void *q, void *y) {
    int head = cuda->shape->head_dim;
    if (cuda->compute != 90 || (head != 64 && head != 128)) return cudaErrorNotSupported;
    bool bf16 = cuda->operand == DTYPE_BF16;
    if (head == 64)
        return bf16 ? launch<__nv_bfloat16, 64>(cuda, *a, (const __nv_bfloat16 *)q, (__nv_bfloat16 *)y)
                    : launch<__half, 64>(cuda, *a, (const __half *)q, (__half *)y);
    return bf16 ? launch<__nv_bfloat16, 128>(cuda, *a, (const __nv_bfloat16 *)q, (__nv_bfloat16 *)y)
                : launch<__half, 128>(cuda, *a, (const __half *)q, (__half *)y);
}
