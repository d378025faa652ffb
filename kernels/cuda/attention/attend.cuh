// What the kernels of attend share. Those on tiles take 128 rows (tokens × the heads that share a KV head) against 64
// keys and more at a time.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_ATTEND_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_ATTEND_CUH

#include "kernels/alibi.h"
#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/device/built.cuh"
#include "kernels/cuda/device/ptx.cuh"

// A mask of the caller's.
struct AttendMask {
    // Added to the scores of index i: the element at token·row + head·head + mask_column + i. NULL: none.
    const void *values;
    DType type;
    int64_t row, head;
};
// Attention of the step that was staged.
struct AttendCall {
    AttendHeads heads;
    DType type; // of q and y
    const void *q;
    void *y; // may be q
    const KvLayer *kv;
    const int32_t *slot_positions; // NULL: index i holds position i
    int window;
    float scale, cap; // cap: DecoderShape.attention_cap
    float alibi;      // what ALiBi's slopes are multiplied by; 0: it is not asked for
    AttendMask mask;
};
Status cuda_attend_step(CudaBackend *cuda, const AttendCall *call, Error *error); // attend.cu

// What attention multiplies with keys: [n_tokens, n_heads*head_dim] of the call's type each, for the sinks of a
// sequence that lost something after them, and for everything else. The call's own q, or in the backend's `wide`.
struct Queries {
    const void *recent, *sinks;
};
// queries.cu. Launches nothing if the call's queries will do.
cudaError_t cuda_queries(CudaBackend *cuda, const AttendCall *call, Queries *queries);

struct AttendArguments {
    KvLayer kv;
    const int32_t *positions, *slot_positions; // slot_positions NULL: index i holds position i
    const AttendTile *tiles;
    Pages pages;
    int n_heads, n_kv_heads, head_dim, window;
    float scale;     // attention_scale, times log2 e in the kernels on tensor cores
    float cap;       // of scores; 0: none
    float alibi;     // see AttendCall
    AttendMask mask; // for the plain kernel
};

__device__ inline bool visible(int32_t position, Seen seen) {
    return position >= seen.low && position <= seen.high;
}

// The position that index i of a tile's sequence holds, -1 beyond its end.
__device__ inline int32_t tile_position(const AttendArguments &a, const AttendTile &tile, int i) {
    return i < tile.n_slots ? position_at(a.slot_positions, slot_of(a.pages, tile.first_page, i), i) : -1;
}

enum { ROWS = ATTEND_ROWS };

constexpr float LOG2_E = 1.44269504f;

// limit·tanh(x/limit). Where tanh is 1 to all digits, e^2x may be too large; its digits near 0, which are lost, are not
// those of scores in 16 bits.
__device__ __forceinline__ float capped(float x, float limit) {
    float t = exp2_approx(fminf(fmaxf(__fdividef(x, limit), -10.0f), 10.0f) * (2 * LOG2_E));
    return limit * __fdividef(t - 1, t + 1);
}

__device__ inline void copy_16(void *shared, const void *global, bool there) {
    copy_piece<16>(shared_at(shared), global, there);
}

__device__ inline uint32_t pack_halves(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *(uint32_t *)&h;
}

// Eight elements of a cache from `at` on, a multiple of eight, as float16.
__device__ inline uint4 halves_at(const KvLayer &kv, bool is_key, int64_t at) {
    const void *values = is_key ? kv.k : kv.v;
    float f[8];
    if (kv.type == DTYPE_F16) return *(const uint4 *)((const __half *)values + at);
    if (kv.type == DTYPE_F32 || kv.type == DTYPE_BF16 || kv.group % 8) {
#pragma unroll
        for (int i = 0; i < 8; i++) f[i] = kv_at(kv, is_key, at + i);
    } else {
        float scale = scale_at(kv, is_key ? kv.k_scale : kv.v_scale, at / kv.group);
        bool nibbles = kv.type == DTYPE_INT4;
        uint2 raw = nibbles ? make_uint2(*(const uint32_t *)((const char *)values + at / 2), 0)
                            : *(const uint2 *)((const char *)values + at);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int q = nibbles ? (int)(raw.x << (28 - 4 * i)) >> 28
                            : (int8_t)((i < 4 ? raw.x : raw.y) >> 8 * (i % 4));
            f[i] = scale * (float)q;
        }
    }
    return make_uint4(pack_halves(f[0], f[1]), pack_halves(f[2], f[3]), pack_halves(f[4], f[5]),
                      pack_halves(f[6], f[7]));
}

// What a block attends for: a tile's tokens and the query heads that share a KV head.
struct TileHead {
    const AttendArguments &a;
    const AttendTile &tile;
    int kv_head;
};

// What weighted values are divided by, of weights relative to 2^base that add up to `total`: learned attention sinks
// have a share in it. 0: nothing was seen.
__device__ inline float sum_with_sink(const AttendArguments &a, int head, float base, float total) {
    if (!a.kv.sink_scores || total == 0) return total;
    return total + exp2f(a.kv.sink_scores[head] * LOG2_E - base);
}

// The last step of the kernels on tensor cores: two rows of sums by their total weights, which four lanes share, to y.
// Weights are relative to 2^bases.
// A row that saw nothing becomes zeros; weights that are no number stay so. Row r is head r % group of token r / group;
// lane l of four has of a row `half` columns 8n + 2l and the next in out[n][2·half], [2·half + 1].
template <class T, int HEAD>
__device__ inline void store_rows(const TileHead &at, const int rows[2], const float bases[2],
                                  const float weights[2], const float (&out)[HEAD / 8][4], T *y) {
    const AttendArguments &a = at.a;
    const AttendTile &tile = at.tile;
    const int kv_head = at.kv_head;
    int group = a.n_heads / a.n_kv_heads;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = weights[r];
        total += __shfl_xor_sync(~0u, total, 1);
        total += __shfl_xor_sync(~0u, total, 2);
        if (rows[r] >= tile.n_tokens * group) continue;
        int token = tile.first_token + rows[r] / group, head = kv_head * group + rows[r] % group;
        total = sum_with_sink(a, head, bases[r], total);
        float scale = total == 0 ? 0 : 1 / total; // NaN stays
        T *target = y + ((int64_t)token * a.n_heads + head) * HEAD + threadIdx.x % 4 * 2;
        struct alignas(4) Pair {
            T v[2];
        };
#pragma unroll
        for (int n = 0; n < HEAD / 8; n++)
            *(Pair *)(target + n * 8) =
                Pair{from_float<T>(out[n][2 * r] * scale), from_float<T>(out[n][2 * r + 1] * scale)};
    }
}

enum { TILE_HIDDEN, TILE_MASKED, TILE_SEEN };

// For every unit, of 32 or 64 indexes: whether no row sees any of it, some see some, or all see all. A warp a unit.
__device__ inline void classify_units(const AttendArguments &a, const AttendTile &tile, const Units &units,
                                      int lowest, int highest, uint8_t *kinds) {
    int lane = threadIdx.x % 32;
    for (int u = threadIdx.x / 32; u < units.n; u += blockDim.x / 32) {
        Seen first = seen_from(lowest, a.window, tile.n_sinks, tile.n_evicted, u < units.sinks);
        Seen last = seen_from(highest, a.window, tile.n_sinks, tile.n_evicted, u < units.sinks);
        bool any = false, all = true;
        for (int j = 0; j < units.size / 32; j++) {
            int index = units.first(u) + j * 32 + lane;
            int32_t p = units.counts(u, index, tile.n_sinks) ? tile_position(a, tile, index) : -1;
            any |= p >= first.low && p <= last.high;
            all &= p >= last.low && p <= first.high;
        }
        any = __any_sync(~0u, any);
        all = __all_sync(~0u, all);
        if (lane == 0) kinds[u] = all ? TILE_SEEN : any ? TILE_MASKED : TILE_HIDDEN;
    }
}

// Bytes of n elements of a cache, without scales.
static inline int64_t cache_bytes(const KvLayer &kv, int64_t n) {
    return kv.type == DTYPE_INT4 ? n / 2 : kv.type == DTYPE_INT8 ? n : kv.type == DTYPE_F32 ? n * 4 : n * 2;
}

// One kind of tiles, and what goes to their kernel.
struct AttendLaunch {
    AttendArguments a;
    AttendHeads heads;
    DType type; // of queries and y: f16 or bf16, but for the plain kernel
    Queries queries;
    void *y;
    int n_tiles, most_slots;
};

// The kernels' launchers, for what dispatch_attend() gives them.
cudaError_t attend_plain(const CudaBackend *cuda, const AttendLaunch *launch);
cudaError_t attend_by_wgmma(const CudaBackend *cuda, const AttendLaunch *launch);
cudaError_t attend_as_halves(CudaBackend *cuda, const AttendLaunch *launch);
size_t halves_bytes(const AttendLaunch *launch); // scratch for keys and values in f16
enum TileCaches { TILES_OF_ANY, TILES_OF_F16 };  // the latter: caches in f16, no ALiBi
template <TileCaches CACHES>
MAY_LACK cudaError_t tile_launch(const CudaBackend *cuda, const AttendLaunch *launch);

#endif
