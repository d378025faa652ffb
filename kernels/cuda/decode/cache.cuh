// The types of cache that the decoding kernel reads, and how its own token gets into a quantised one.
#ifndef PALAVER_KERNELS_CUDA_DECODE_CACHE_CUH
#define PALAVER_KERNELS_CUDA_DECODE_CACHE_CUH

#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/decode/ring.cuh"

// unpack(): a lane's eight elements of a row, as multiples of unit(i), which only powers of two are; `seen` has all
// bits or none: then nothing comes out that is no number, whatever lies there.
struct CacheF16 {
    static constexpr DecodeCacheKind KIND = DECODE_F16;
    __device__ static constexpr float unit(int) { return 1; }
    __device__ static void unpack(const char *from, uint32_t seen, float f[8]) {
        uint4 v = *(const uint4 *)from;
        const uint32_t w[4] = {v.x & seen, v.y & seen, v.z & seen, v.w & seen};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 p = __half22float2(*(const __half2 *)&w[i]);
            f[2 * i] = p.x;
            f[2 * i + 1] = p.y;
        }
    }
};

// Integers become floats by lying in the lowest digits of 2^23, from which they are taken away again.
constexpr uint32_t BITS_2_23 = 0x4b000000;
constexpr float FLOAT_2_23 = 8388608;

struct CacheInt8 {
    static constexpr DecodeCacheKind KIND = DECODE_INT8;
    __device__ static constexpr float unit(int) { return 1; }
    __device__ static void unpack(const char *from, uint32_t, float f[8]) {
        uint2 v = *(const uint2 *)from;
        const uint32_t w[2] = {v.x ^ 0x80808080, v.y ^ 0x80808080};
#pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = __uint_as_float(__byte_perm(w[i / 4], BITS_2_23, 0x7440 | i % 4)) - (FLOAT_2_23 + 128);
    }
};

// A nibble stays where it lies, five in a word and the others behind a shift.
struct CacheInt4 {
    static constexpr DecodeCacheKind KIND = DECODE_INT4;
    __device__ static constexpr float unit(int i) { return (float)(1 << 4 * (i % 5)); }
    __device__ static void unpack(const char *from, uint32_t, float f[8]) {
        uint32_t v = *(const uint32_t *)from ^ 0x88888888;
        const uint32_t w[2] = {v, v >> 20};
#pragma unroll
        for (int i = 0; i < 8; i++)
            f[i] = __uint_as_float((w[i / 5] & 15u << 4 * (i % 5)) | BITS_2_23) - (FLOAT_2_23 + 8 * unit(i));
    }
};

// ---- quantised: scales of chunks -------------------------------------------------------------------------------

// A chunk's scales come past the rings, whose copies are too few and too dear for so few bytes: a warp asks for them a
// chunk ahead, eight bytes a lane, and leaves them in shared memory, keys' and behind them values' [CHUNK, groups].
template <int CHUNK, int DIM> struct ScaleLoader {
    static constexpr int TURNS = (CHUNK * MOST_GROUPS * 2 + 255) / 256;
    uint2 keys[TURNS], values[TURNS];

    __device__ void ask(const DecodeArguments &a, const DecodeScales &s, const CacheShare &c, int chunk) {
        if (chunk >= c.n_chunks) return;
        int index = c.index(chunk), n = min(CHUNK, c.end - index), bytes = (n * DIM >> a.scale_shift) * 2;
        int64_t first = c.kv_head * a.cache.head_stride + (int64_t)c.slot(index) * DIM;
        const char *from = s.keys + (first >> a.scale_shift) * 2,
                   *other = s.values + (first >> a.scale_shift) * 2;
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int at = (t * 32 + threadIdx.x % 32) * 8;
            if (at >= bytes) continue;
            keys[t] = __ldg((const uint2 *)(from + at));
            values[t] = __ldg((const uint2 *)(other + at));
        }
    }

    __device__ void leave(__half *to) const {
        __syncwarp();
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int at = (t * 32 + threadIdx.x % 32) * 4;
            if (TURNS * 256 > CHUNK * MOST_GROUPS * 2 && at >= CHUNK * MOST_GROUPS) continue;
            *(uint2 *)(to + at) = keys[t];
            *(uint2 *)(to + CHUNK * MOST_GROUPS + at) = values[t];
        }
        __syncwarp();
    }
};

// ---- quantised: the token's own --------------------------------------------------------------------------------

// The token's key or value v [dim] in shared memory, with room for as many scales as it has; at: its element in the
// cache.
struct OwnRow {
    bool is_key;
    int64_t at;
    float *v, *scales;
};

// A warp rounds the row, stores it, and leaves it as later tokens will see it. Keys with feedback take
// its rows from the ring, in pieces of FEEDBACK_PIECE floats. What has a ring is inlined, always: called, it puts the
// ring's state into local memory for the whole kernel, rows' products included (q4_0 with an int8 cache: 2.64 ms for 1.9).
template <int DIM>
__device__ __forceinline__ void store_own(const KvLayer &kv, const OwnRow &row, int shift, Ring &ring) {
    constexpr int dim = DIM;
    const bool is_key = row.is_key;
    const int64_t at = row.at;
    float *v = row.v, *scales = row.scales;
    __builtin_assume((kv.group & (kv.group - 1)) == 0 && kv.group >= 8 && kv.group <= 128);
    enter_scales(kv, is_key ? kv.k_scale : kv.v_scale, at >> shift, v, scales, dim);
    if (is_key && kv.key_feedback) {
        constexpr int half = dim / 2, of_piece = FEEDBACK_PIECE / half;
        const char *piece = NULL;
        auto rows = [&](int, int i) {
            if (i % of_piece == 0) {
                if (piece) ring.give_back();
                piece = ring.take();
            }
            return (const float *)piece + i % of_piece * half;
        };
        round_fed_back<1>(kv, rows, TurnedKeys{v, scales, 0, 1, dim});
        ring.give_back();
    } else {
        round_elements(kv, scales, v, dim);
    }
    store_integers(kv, is_key, at, v, dim);
    for (int i = threadIdx.x % 32; i < dim; i += 32) v[i] *= scales[i >> shift];
    __syncwarp();
}

#endif
