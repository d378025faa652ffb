// What the attend phase of the decoding kernel begins with: the group's queries, and for the owner of the token its own
// key and value, from the blocks whose GEMV gave them to shared memory, with norms and RoPE.
#ifndef PALAVER_KERNELS_CUDA_DECODE_ATTEND_VECTORS_CUH
#define PALAVER_KERNELS_CUDA_DECODE_ATTEND_VECTORS_CUH

#include "kernels/cuda/decode/cache.cuh"
#include "kernels/cuda/decode/exchange.cuh"
#include "kernels/cuda/decode/heads.cuh"

// A layer, in shared memory, its number, and that among those that attend.
struct DecodeLayerView {
    const DecodeLayer &layer;
    const DecodeScales &scales;
    int index, turn;
};

// Shared memory of the phase, in the place of its input.
struct AttendShared {
    float *vectors; // [group + 2, head_dim] the group's queries, then the token's own key and value
    float *sinks;   // [group, head_dim] the queries for the attention sinks, where tokens were evicted
    float2
        *weights; // [streams + 1, group] largest score and sum of each stream's; the last is the token's own
    float *sink_scores; // [group] learned attention sinks, times log2 e
    float *sums;        // [streams, group, head_dim]
    // Where the cache is quantised: scales of the token's own key or value [head_dim / 8], the KV head's balance
    // [head_dim], and of each warp's chunk: see ScaleLoader.
    float *own_scales, *balance;
    __half *chunk_scales;
};

// Shared memory of the phase from `input` on.
template <class Cache, class Heads>
__device__ __forceinline__ AttendShared attend_shared(const Heads &heads, const CacheShare &c, char *input) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    const int dim = heads.dim(), group = heads.group(), n_elements = group * dim;
    AttendShared s;
    s.vectors = (float *)input;
    s.sums = s.vectors + (group + 2) * dim;
    s.weights = (float2 *)(s.sums + c.streams * n_elements);
    s.sink_scores = (float *)(s.weights + (c.streams + 1) * group);
    s.own_scales = s.sink_scores + 2 * group;
    s.balance = s.own_scales + (PLAIN ? 0 : dim / 8);
    s.sinks = s.balance + (PLAIN ? 0 : dim);
    s.chunk_scales = (__half *)(s.sinks + (c.sinks > 0 ? n_elements : 0));
    return s;
}

// The group's queries, and for the owner of the token its key and value, from the blocks whose GEMV gave them.
template <class Heads>
__device__ __forceinline__ void receive_vectors(const Heads &heads, const CacheShare &c, unsigned round,
                                                float *vectors) {
    const int dim = heads.dim(), n_elements = heads.group() * dim, q_dim = heads.q_dim();
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < n_elements + (c.owner ? 2 * dim : 0); i += DECODE_THREADS * 4) {
        int from = i < n_elements         ? c.kv_head * n_elements + i
                   : i < n_elements + dim ? q_dim + c.kv_head * dim + i - n_elements
                                          : q_dim + heads.kv_dim() + c.kv_head * dim + i - n_elements - dim;
        *(float4 *)(vectors + i) = receive_4(heads.a.qkv + from, round);
    }
}

// A warp's norm and RoPE of vector i: a query, the token's own key or its value. Queries become what cached keys are
// multiplied with.
template <class Heads>
__device__ inline void finish_vector(const Heads &heads, const DecodeLayer &l, const CacheShare &c,
                                     const float2 *rope, int i, const AttendShared &s) {
    const DecodeArguments &a = heads.a;
    const int lane = threadIdx.x % 32, dim = heads.dim(), group = heads.group();
    const int rotary_dim = l.rope < 0 ? 0 : heads.rotary_dim();
    float *v = s.vectors + i * dim;
    bool is_query = i < group, is_value = i == group + 1;
    const float *norm = is_value ? heads.v_norm() : is_query ? l.q_norm : l.k_norm;
    if (norm) {
        float squares = 0;
        for (int d = lane; d < dim; d += 32) squares += v[d] * v[d];
        norm_head(norm, squares, a.eps, v, dim);
        __syncwarp();
    }
    if (is_query && c.sinks > 0) {
        float *other = s.sinks + i * dim;
        for (int d = lane + rotary_dim; d < dim; d += 32) other[d] = v[d] * a.score_scale;
        rope_head(rope + a.rotary_dim / 2, rotary_dim, a.interleaved, a.score_scale, v, other);
        __syncwarp();
    }
    if (!is_value) rope_head(rope, rotary_dim, a.interleaved, 1, v, v);
    __syncwarp();
    if (is_query)
        for (int d = lane; d < dim; d += 32) v[d] *= a.score_scale;
}

// A warp turns query i as the cache's keys are turned.
template <int DIM> __device__ inline void turn_query(const float *balance, float *v) {
    for (int d = threadIdx.x % 32; balance && d < DIM; d += 32) v[d] *= balance[d];
    warp_hadamard(v, DIM);
}

// The vectors, a warp each; the token's own key and value go into the cache, unless that is quantised: this is the last
// warp's, which has no chunks.
template <int DIM, class Cache, class Heads>
__device__ inline void finish_vectors(const Heads &heads, const DecodeLayer &l, const float *balance,
                                      const CacheShare &c, const float2 *rope, const AttendShared &s) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    const DecodeArguments &a = heads.a;
    const int lane = threadIdx.x % 32, dim = heads.dim(), group = heads.group();
    for (int i = threadIdx.x / 32; i < group + (PLAIN && c.owner ? 2 : 0); i += DECODE_WARPS) {
        finish_vector(heads, l, c, rope, i, s);
        if (!PLAIN && a.cache.rotate_keys) {
            turn_query<DIM>(balance, s.vectors + i * DIM);
            if (c.sinks > 0) turn_query<DIM>(balance, s.sinks + i * DIM);
        }
        if (i < group) continue;
        float *v = s.vectors + i * dim;
        __half *cached = (__half *)(i == group ? l.keys : l.values) + c.kv_head * heads.head_stride() +
                         a.slot * heads.slot_stride();
        for (int d = lane; d < dim; d += 32) {
            __half rounded = __float2half_rn(v[d]); // as later tokens will see it
            cached[d] = rounded;
            v[d] = __half2float(rounded);
        }
    }
}

// The last warp's of the block that owns the token, where the cache is quantised: its key and value.
template <int DIM>
__device__ __forceinline__ void finish_own(const DecodeArguments &a, const DecodeLayerView &view,
                                           const CacheShare &c, const float2 *rope, Ring &ring,
                                           const AttendShared &shared) {
    const DecodeLayer &l = view.layer;
    const DecodeScales &s = view.scales;
    float *key = shared.vectors + a.group * DIM;
    KvLayer kv = a.cache;
    kv.k = l.keys, kv.v = l.values, kv.k_scale = s.keys, kv.v_scale = s.values;
    kv.key_balance = s.balance, kv.key_feedback = s.feedback;
    int64_t at = element_of(kv, a.slot, c.kv_head);
    finish_vector(AlikeHeads{a}, l, c, rope, a.group, shared);
    turn_key(kv, s.balance ? shared.balance : NULL, key, DIM);
    store_own<DIM>(kv, OwnRow{true, at, key, shared.own_scales}, a.scale_shift, ring);
    store_own<DIM>(kv, OwnRow{false, at, key + DIM, shared.own_scales}, a.scale_shift, ring);
}

#endif
