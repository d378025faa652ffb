// The tile kernel: 128 rows through tensor cores at a time, with the softmax computed as the tiles of keys go by
// (Milakov & Gimelshein, arXiv:1805.02867; Dao, arXiv:2307.08691). It wants operands of 16 bits and a head size that it
// was built for. Keys and values are float16 in shared memory: those of other types are converted on the way there.
//
// Queries stay in registers, so that 99 KB of shared memory hold two stages of keys and values of every head, of more
// than 128 elements 32 keys at a time: one block a multiprocessor, of heads of 64 two. It is no slower than two blocks
// whose queries lie in shared memory, on cards that have room for these.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_TILE_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_TILE_CUH

#include "kernels/cuda/attention/attend.cuh"
#include "kernels/cuda/device/ptx.cuh"

enum { TILE_THREADS = ROWS / 16 * 32 };

template <int HEAD> struct TileShared {
    static constexpr int STRIDE = HEAD + 8; // an odd number of 16-byte pieces: rows fall into different banks
    static constexpr int KEYS = ATTEND_TILE_KEYS(HEAD), BLOCKS = HEAD <= 64 ? 2 : 1; // of a multiprocessor
    __half k[2][KEYS * STRIDE], v[2][KEYS * STRIDE];
    int32_t slot_positions[2][KEYS], row_positions[ROWS];
};

// Brings the 64 keys and values of a unit, and their positions; what does not count is empty. PLAIN: copies that
// are waited for later; else through registers.
template <int HEAD, bool PLAIN>
__device__ inline void load_tile(TileShared<HEAD> *s, int stage, const TileHead &at, const Units &units,
                                 int unit) {
    const AttendArguments &a = at.a;
    const AttendTile &tile = at.tile;
    const int kv_head = at.kv_head;
    constexpr int PIECES = HEAD / 8, KEYS = TileShared<HEAD>::KEYS;
    int first = units.first(unit);
    for (int i = threadIdx.x; i < KEYS * PIECES; i += blockDim.x) {
        int key = i / PIECES, d = i % PIECES * 8, index = first + key;
        bool there = index < tile.n_slots;
        int64_t slot = slot_of(a.pages, tile.first_page, there ? index : first);
        int64_t from = slot * a.kv.slot_stride + kv_head * a.kv.head_stride + d;
        __half *k = &s->k[stage][key * s->STRIDE + d], *v = &s->v[stage][key * s->STRIDE + d];
        if (PLAIN) {
            copy_16(k, (const __half *)a.kv.k + from, there);
            copy_16(v, (const __half *)a.kv.v + from, there);
        } else {
            uint4 zero = make_uint4(0, 0, 0, 0);
            *(uint4 *)k = there ? halves_at(a.kv, true, from) : zero;
            *(uint4 *)v = there ? halves_at(a.kv, false, from) : zero;
        }
    }
    if (threadIdx.x < KEYS) {
        int index = first + threadIdx.x;
        s->slot_positions[stage][threadIdx.x] =
            units.counts(unit, index, tile.n_sinks) ? tile_position(a, tile, index) : -1;
    }
    end_copies();
}

// Brings what the kernel knows of its rows: positions, and which units of keys they see.
template <int HEAD>
__device__ __forceinline__ void begin_tile(TileShared<HEAD> *s, const TileHead &at, const Units &units) {
    const AttendArguments &a = at.a;
    const AttendTile &tile = at.tile;
    int group = a.n_heads / a.n_kv_heads, n_rows = tile.n_tokens * group;
    int lowest = INT32_MAX, highest = -1;
    for (int t = 0; t < tile.n_tokens; t++) {
        int32_t p = a.positions[tile.first_token + t];
        lowest = min(lowest, p);
        highest = max(highest, p);
    }
    if (threadIdx.x < ROWS)
        s->row_positions[threadIdx.x] =
            (int)threadIdx.x < n_rows ? a.positions[tile.first_token + threadIdx.x / group] : -1;
    classify_units(a, tile, units, lowest, highest, (uint8_t *)(s + 1));
}

// An empty slot may hold anything, which even 0 times may be no number: its values become 0.
template <int HEAD> __device__ __forceinline__ void clear_empty(TileShared<HEAD> *s, int stage) {
    for (int i = threadIdx.x; i < s->KEYS * HEAD / 8; i += blockDim.x) {
        int key = i / (HEAD / 8);
        if (s->slot_positions[stage][key] < 0)
            *(uint4 *)&s->v[stage][key * s->STRIDE + i % (HEAD / 8) * 8] = make_uint4(0, 0, 0, 0);
    }
}

// A warp's 16 rows on their way through the keys: lane l has of rows l / 4 and l / 4 + 8 columns 8n + 2(l % 4) and the
// next in [n][0], [1] and [n][2], [3].
template <int HEAD> struct TileRows {
    typedef TileShared<HEAD> Shared;
    static constexpr int KEYS = Shared::KEYS;
    float out[HEAD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};
    float scores[KEYS / 8][4];
    uint32_t queries[HEAD / 16][4]; // as mma() has them

    // The warp's queries as float16.
    template <class T> __device__ __forceinline__ void take_queries(const TileHead &at, const T *q) {
        const int group = at.a.n_heads / at.a.n_kv_heads, n_rows = at.tile.n_tokens * group;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * r,
                      token = at.tile.first_token + row / group;
            const T *from = q + ((int64_t)token * at.a.n_heads + at.kv_head * group + row % group) * HEAD +
                            threadIdx.x % 4 * 2;
            struct alignas(4) Two {
                T v[2];
            };
#pragma unroll
            for (int d = 0; d < HEAD; d += 8) {
                Two two = {};
                if (row < n_rows) two = *(const Two *)(from + d);
                queries[d / 16][d / 8 % 2 * 2 + r] = pack_halves(to_float(two.v[0]), to_float(two.v[1]));
            }
        }
    }

    // Q·Kᵀ of a stage.
    __device__ __forceinline__ void take_keys(const Shared *s, int stage) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[n][i] = 0;
#pragma unroll
        for (int d = 0; d < HEAD; d += 16) {
            uint32_t kb[4];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n += 2) {
                load_matrices(
                    kb, &s->k[stage][(n * 8 + lane / 16 * 8 + lane % 8) * s->STRIDE + d + lane / 8 % 2 * 8]);
                mma(scores[n], queries[d / 16], kb[0], kb[1]);
                mma(scores[n + 1], queries[d / 16], kb[2], kb[3]);
            }
        }
    }

    // limit: in what scores are before they are scaled.
    __device__ __forceinline__ void cap(float limit) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) scores[n][i] = capped(scores[n][i], limit);
    }

    // Hides what a row does not see; slopes: of ALiBi, unless PLAIN.
    template <bool PLAIN>
    __device__ __forceinline__ void mask(const int32_t *slot_positions, const Seen seen[2],
                                         const float slopes[2]) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int32_t p = slot_positions[n * 8 + lane % 4 * 2 + i % 2];
                if (!PLAIN) scores[n][i] -= slopes[i / 2] * (float)(seen[i / 2].high - p);
                if (!visible(p, seen[i / 2])) scores[n][i] = -INFINITY;
            }
    }

    // Scores become weights; what was summed before shrinks where a larger one has come.
    __device__ __forceinline__ void soften(float scale) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float largest = top[r];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
                largest = fmaxf(largest, fmaxf(scores[n][2 * r], scores[n][2 * r + 1]));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
            // A row that has seen nothing yet keeps -inf: take 0 instead, so that no inf - inf arises.
            float base = largest == -INFINITY ? 0 : largest * scale;
            float shrink = exp2_approx((top[r] == -INFINITY ? largest : top[r]) * scale - base);
            if (top[r] == -INFINITY)
                shrink = 0;
            else if (top[r] == largest)
                shrink = 1; // exactly: keys that only other rows see do not show
            top[r] = largest;
            float added = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int i = 2 * r; i < 2 * r + 2; i++) {
                    scores[n][i] = exp2_approx(scores[n][i] * scale - base);
                    added += scores[n][i];
                }
            sum[r] = sum[r] * shrink + added;
#pragma unroll
            for (int n = 0; n < HEAD / 8; n++) {
                out[n][2 * r] *= shrink;
                out[n][2 * r + 1] *= shrink;
            }
        }
    }

    // out += P·V of a stage.
    __device__ __forceinline__ void take_values(const Shared *s, int stage) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t p[4] = {pack_halves(scores[2 * k][0], scores[2 * k][1]),
                             pack_halves(scores[2 * k][2], scores[2 * k][3]),
                             pack_halves(scores[2 * k + 1][0], scores[2 * k + 1][1]),
                             pack_halves(scores[2 * k + 1][2], scores[2 * k + 1][3])};
#pragma unroll
            for (int n = 0; n < HEAD / 8; n += 2) {
                uint32_t vb[4];
                load_matrices_transposed(
                    vb, &s->v[stage][(k * 16 + lane % 16) * s->STRIDE + n * 8 + lane / 16 * 8]);
                mma(out[n], p, vb[0], vb[1]);
                mma(out[n + 1], p, vb[2], vb[3]);
            }
        }
    }
};

// Eight warps, each 16 of the 128 rows; row r is head r % group of token r / group. Units of keys are double-buffered.
// Grid: [KV heads, tiles], the last tiles (which see most) first. HEAD is a multiple of 16.
// PLAIN: the cache is float16, and there is no ALiBi, nor a cap.
template <class T, int HEAD, bool PLAIN>
__global__ void __launch_bounds__(TILE_THREADS, TileShared<HEAD>::BLOCKS)
    tile_kernel(const __grid_constant__ AttendArguments a, const T *q, const T *q_sinks, T *y) {
    extern __shared__ __align__(16) char memory[];
    TileShared<HEAD> *s = (TileShared<HEAD> *)memory;
    const uint8_t *kinds = (uint8_t *)(s + 1);
    AttendTile tile = a.tiles[gridDim.y - 1 - blockIdx.y];
    int kv_head = blockIdx.x, group = a.n_heads / a.n_kv_heads, warp = threadIdx.x / 32,
        lane = threadIdx.x % 32;
    const Units units(s->KEYS, 0, tile.n_slots, tile.n_sinks, tile.n_evicted);
    TileRows<HEAD> rows;
    const TileHead at = {a, tile, kv_head};
    rows.take_queries(at, units.sinks > 0 ? q_sinks : q);
    begin_tile(s, at, units);
    __syncthreads();

    int mine[2] = {warp * 16 + lane / 4, warp * 16 + lane / 4 + 8};
    int32_t row_positions[2] = {s->row_positions[mine[0]], s->row_positions[mine[1]]};
    float slopes[2] = {0, 0}; // by the scale that scores are multiplied with afterwards
    if (!PLAIN && a.alibi != 0)
        for (int r = 0; r < 2; r++)
            slopes[r] =
                alibi_slope(kv_head * group + mine[r] % group, a.n_heads) * a.alibi * LOG2_E / a.scale;
    auto next_unit = [&](int u) {
        while (u < units.n && kinds[u] == TILE_HIDDEN) u++;
        return u;
    };
    int now = next_unit(0), stage = 0;
    bool for_sinks = units.sinks > 0;
    if (now < units.n) load_tile<HEAD, PLAIN>(s, 0, at, units, now);
    while (now < units.n) {
        if (for_sinks && now >= units.sinks) { // the rest is seen by other queries
            for_sinks = false;
            rows.take_queries(at, q);
        }
        int next = next_unit(now + 1);
        if (next < units.n) {
            load_tile<HEAD, PLAIN>(s, stage ^ 1, at, units, next);
            await_copies<1>();
        } else {
            await_copies<0>();
        }
        __syncthreads();
        if (kinds[now] == TILE_MASKED) {
            clear_empty(s, stage);
            __syncthreads();
        }
        rows.take_keys(s, stage);
        if (!PLAIN && a.cap > 0) rows.cap(a.cap * LOG2_E / a.scale);
        if (kinds[now] == TILE_MASKED || (!PLAIN && a.alibi != 0)) {
            Seen seen[2];
#pragma unroll
            for (int r = 0; r < 2; r++)
                seen[r] = seen_from(row_positions[r], a.window, tile.n_sinks, tile.n_evicted, for_sinks);
            rows.template mask<PLAIN>(s->slot_positions[stage], seen, slopes);
        }
        rows.soften(a.scale);
        rows.take_values(s, stage);
        __syncthreads(); // before the next but one tile overwrites this stage
        now = next;
        stage ^= 1;
    }
    const float bases[2] = {rows.top[0] * a.scale, rows.top[1] * a.scale};
    store_rows<T, HEAD>(at, mine, bases, rows.sum, rows.out, y);
}

// ---- launchers ---------------------------------------------------------------------------------------------

template <class T, int HEAD, bool PLAIN>
static cudaError_t launch_head(const CudaBackend *cuda, const AttendLaunch *l) {
    typedef TileShared<HEAD> Shared;
    size_t shared = sizeof(Shared) + (size_t)l->most_slots / Shared::KEYS + 2;
    static_assert(sizeof(Shared) == ATTEND_TILE_BYTES(HEAD), "what dispatch_attend() goes by");
    auto kernel = tile_kernel<T, HEAD, PLAIN>;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code != cudaSuccess) return code;
    kernel<<<dim3(l->a.n_kv_heads, l->n_tiles), TILE_THREADS, shared, cuda->device.stream>>>(
        l->a, (const T *)l->queries.recent, (const T *)l->queries.sinks, (T *)l->y);
    return cudaGetLastError();
}

template <class T, bool PLAIN>
static cudaError_t launch_type(const CudaBackend *cuda, const AttendLaunch *l) {
    switch (l->a.head_dim) {
    case 64:
        return launch_head<T, 64, PLAIN>(cuda, l);
    case 80:
        return launch_head<T, 80, PLAIN>(cuda, l);
    case 96:
        return launch_head<T, 96, PLAIN>(cuda, l);
    case 128:
        return launch_head<T, 128, PLAIN>(cuda, l);
    case 256:
        return launch_head<T, 256, PLAIN>(cuda, l);
    default:
        return cudaErrorInvalidValue; // dispatch_attend() gives no other
    }
}

template <TileCaches CACHES> cudaError_t tile_launch(const CudaBackend *cuda, const AttendLaunch *l) {
    constexpr bool PLAIN = CACHES == TILES_OF_F16;
    return l->type == DTYPE_F16 ? launch_type<__half, PLAIN>(cuda, l)
                                : launch_type<__nv_bfloat16, PLAIN>(cuda, l);
}

#endif
