// The attend phase of the decoding kernel.
//
// A block takes a range of slots (a split) for one KV head and all query heads that share it. Each warp goes
// through chunks of decode_passes()·(32/LANES) slots for up to HEADS query heads; LANES lanes share a slot, eight elements each.
// The warps' results are put together in shared memory. Blocks of the same KV head then exchange theirs, and each
// puts a part of the elements together.
#ifndef PALAVER_KERNELS_CUDA_DECODE_ATTEND_CUH
#define PALAVER_KERNELS_CUDA_DECODE_ATTEND_CUH

#include "kernels/cuda/decode/cache.cuh"
#include "kernels/cuda/decode/exchange.cuh"

// A layer, in shared memory, and its number.
struct DecodeLayerView {
    const DecodeLayer &layer;
    const DecodeScales &scales;
    int index;
};

// Shared memory of the phase, in the place of its input.
struct AttendShared {
    float *vectors; // [group + 2, head_dim] the group's queries, then the token's own key and value
    float *kept;    // [group, head_dim] the queries for the kept prefix, where something is gone
    float2
        *weights; // [streams + 1, group] largest score and sum of each stream's; the last is the token's own
    float *sums;  // [streams, group, head_dim]
    // Where the cache is quantised: scales of the token's own key or value [head_dim / 8], the KV head's balance
    // [head_dim], and of each warp's chunk: see ScaleLoader.
    float *own_scales, *balance;
    __half *chunk_scales;
};

// A warp's norm and RoPE of vector i: a query, the token's own key or its value. Queries become what cached keys are
// multiplied with.
__device__ inline void finish_vector(const DecodeArguments &a, const DecodeLayer &l, const CacheShare &c,
                                     const float2 *rope, int i, const AttendShared &s) {
    int lane = threadIdx.x % 32, dim = a.head_dim;
    float *v = s.vectors + i * dim;
    bool is_query = i < a.group, is_value = i == a.group + 1;
    const float *norm = is_value ? NULL : is_query ? l.q_norm : l.k_norm;
    if (norm) {
        float squares = 0;
        for (int d = lane; d < dim; d += 32) squares += v[d] * v[d];
        norm_head(norm, squares, a.eps, v, dim);
        __syncwarp();
    }
    if (is_query && c.kept > 0) {
        float *other = s.kept + i * dim;
        for (int d = lane + a.rotary_dim; d < dim; d += 32) other[d] = v[d] * a.score_scale;
        rope_head(rope + a.rotary_dim / 2, a.rotary_dim, a.interleaved, a.score_scale, v, other);
        __syncwarp();
    }
    if (!is_value) rope_head(rope, a.rotary_dim, a.interleaved, 1, v, v);
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
template <int DIM, class Cache>
__device__ inline void finish_vectors(const DecodeArguments &a, const DecodeLayer &l, const float *balance,
                                      const CacheShare &c, const float2 *rope, const AttendShared &s) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    int lane = threadIdx.x % 32, dim = a.head_dim;
    for (int i = threadIdx.x / 32; i < a.group + (PLAIN && c.owner ? 2 : 0); i += DECODE_WARPS) {
        finish_vector(a, l, c, rope, i, s);
        if (!PLAIN && a.cache.rotate_keys) {
            turn_query<DIM>(balance, s.vectors + i * DIM);
            if (c.kept > 0) turn_query<DIM>(balance, s.kept + i * DIM);
        }
        if (i < a.group) continue;
        float *v = s.vectors + i * dim;
        __half *cached = (__half *)(i == a.group ? l.keys : l.values) + c.kv_head * a.cache.head_stride +
                         (int64_t)a.slot * dim;
        for (int d = lane; d < dim; d += 32) {
            __half rounded = __float2half_rn(v[d]); // as later tokens will see it
            cached[d] = rounded;
            v[d] = __half2float(rounded);
        }
    }
}

// The last warp's of the block that owns the token, where the cache is quantised: its key and value.
template <int DIM>
__device__ inline void finish_own(const DecodeArguments &a, const DecodeLayerView &view, const CacheShare &c,
                                  const float2 *rope, Ring &ring, const AttendShared &shared) {
    const DecodeLayer &l = view.layer;
    const DecodeScales &s = view.scales;
    float *key = shared.vectors + a.group * DIM;
    KvLayer kv = a.cache;
    kv.k = l.keys, kv.v = l.values, kv.k_scale = s.keys, kv.v_scale = s.values;
    kv.key_balance = s.balance, kv.key_feedback = s.feedback;
    int64_t at = element_of(kv, a.slot, c.kv_head);
    finish_vector(a, l, c, rope, a.group, shared);
    turn_key(kv, s.balance ? shared.balance : NULL, key, DIM);
    store_own<DIM>(kv, true, at, a.scale_shift, ring, key, shared.own_scales);
    store_own<DIM>(kv, false, at, a.scale_shift, ring, key + DIM, shared.own_scales);
}

// A warp's way through the chunks of a stream, for query heads first_head … first_head + HEADS - 1 of the group:
//
//            lanes 0 … LANES-1   LANES … 2·LANES-1   …        each lane: eight elements of its slot
//   pass 0   slot 0              slot 1              …
//   pass 1   slot TOGETHER       …                            PASSES passes are a chunk
template <int LANES, int HEADS, class Cache> struct AttendStream {
    static constexpr int TOGETHER = 32 / LANES, PASSES = decode_passes(Cache::KIND, HEADS),
                         BITS = cache_bits(Cache::KIND);
    static constexpr bool SCALED = Cache::KIND != DECODE_F16;

    const DecodeArguments &a;
    const AttendShared &s;
    int first_head, part, dim, at;
    bool inside;
    __half *own; // scales of this warp's chunk: of keys, then of values
    float q[HEADS][8], sums[HEADS][8] = {}, top[HEADS], weight[HEADS];

    __device__ __forceinline__ AttendStream(const DecodeArguments &arguments, const AttendShared &shared,
                                            int first)
        : a(arguments), s(shared), first_head(first) {
        part = threadIdx.x % 32 % LANES * 8, dim = SCALED ? LANES * 8 : a.head_dim;
        inside = SCALED || part < dim;
        at = inside ? part : 0; // lanes without elements read the first ones, against a query of 0: no branch
        own = s.chunk_scales + threadIdx.x / 32 * 2 * PASSES * TOGETHER * MOST_GROUPS;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            top[h] = -INFINITY;
            weight[h] = 0;
        }
    }

    __device__ __forceinline__ void take_queries(const float *from) {
#pragma unroll
        for (int h = 0; h < HEADS; h++)
#pragma unroll
            for (int i = 0; i < 8; i++)
                q[h][i] = inside && first_head + h < a.group
                              ? from[(first_head + h) * dim + part + i] / Cache::unit(i)
                              : 0;
    }

    // What a lane's elements of a slot are to be multiplied with; 0 where it is not seen.
    __device__ __forceinline__ float scale_of(bool values, int slot, bool seen) const {
        const __half *plane = own + (values ? PASSES * TOGETHER * MOST_GROUPS : 0);
        __half scale = plane[slot * (dim >> a.scale_shift) + (part >> a.scale_shift)];
        return seen ? __half2float(scale) : 0.0f;
    }

    __device__ __forceinline__ void take_keys(const char *keys, uint32_t mask,
                                              float (&score)[HEADS][PASSES]) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            int slot = p * TOGETHER + lane / LANES;
            float k[8];
            Cache::unpack(keys + (slot * dim + at) * BITS / 8, ~0u, k);
            float scale = SCALED ? scale_of(false, slot, true) : 1;
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float dot = 0;
#pragma unroll
                for (int i = 0; i < 8; i++) dot += q[h][i] * k[i];
                if (SCALED) dot *= scale;
#pragma unroll
                for (int o = LANES / 2; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
                score[h][p] = mask >> slot & 1 ? dot : -INFINITY;
            }
        }
    }

    // Scores become weights; what was summed before shrinks where a larger one has come.
    __device__ __forceinline__ void soften(float (&score)[HEADS][PASSES]) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float largest = top[h];
#pragma unroll
            for (int p = 0; p < PASSES; p++) largest = fmaxf(largest, score[h][p]);
            float base = largest == -INFINITY ? 0 : largest, shrink = exp2_approx(top[h] - base);
            top[h] = largest;
            weight[h] *= shrink;
#pragma unroll
            for (int i = 0; i < 8; i++) sums[h][i] *= shrink;
#pragma unroll
            for (int p = 0; p < PASSES; p++) {
                score[h][p] = exp2_approx(score[h][p] - base);
                weight[h] += score[h][p];
            }
        }
    }

    __device__ __forceinline__ void take_values(const char *values, uint32_t mask,
                                                const float (&score)[HEADS][PASSES]) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int p = 0; p < PASSES; p++) {
            int slot = p * TOGETHER + lane / LANES;
            float v[8];
            uint32_t seen = mask >> slot & 1 ? ~0u : 0; // what is not seen may be anything
            Cache::unpack(values + (slot * dim + at) * BITS / 8, seen, v);
            float scale = SCALED ? scale_of(true, slot, seen) : 1;
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float share = SCALED ? score[h][p] * scale : score[h][p];
#pragma unroll
                for (int i = 0; i < 8; i++) sums[h][i] += share * v[i];
            }
        }
    }

    // The stream's result for the heads into shared memory, over the lanes that had other slots.
    __device__ __forceinline__ void leave(int stream) {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float largest = top[h];
#pragma unroll
            for (int o = LANES; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
            float shrink = largest == -INFINITY ? 0 : exp2_approx(top[h] - largest);
            weight[h] *= shrink;
#pragma unroll
            for (int o = LANES; o < 32; o *= 2) weight[h] += __shfl_xor_sync(~0u, weight[h], o);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                sums[h][i] *= shrink / Cache::unit(i);
#pragma unroll
                for (int o = LANES; o < 32; o *= 2) sums[h][i] += __shfl_xor_sync(~0u, sums[h][i], o);
            }
            if (first_head + h >= a.group) continue;
            int row = stream * a.group + first_head + h;
            if (lane == 0) s.weights[row] = make_float2(largest, weight[h]);
            if (lane < LANES && inside) {
                float4 *to = (float4 *)(s.sums + row * dim + part);
                to[0] = make_float4(sums[h][0], sums[h][1], sums[h][2], sums[h][3]);
                to[1] = make_float4(sums[h][4], sums[h][5], sums[h][6], sums[h][7]);
            }
        }
    }
};

// Where a warp attends: in a stream of its block's share, in a layer whose attention window is the window-th.
struct AttendPlace {
    int window, stream;
};

// A warp's chunks; the first one's scales have been asked for.
template <int LANES, int HEADS, class Cache, class Scales>
__device__ __forceinline__ void attend_stream(AttendStream<LANES, HEADS, Cache> &w, const AttendPlace &place,
                                              const DecodeScales &from, Scales &scales, const CacheShare &c,
                                              Ring &ring) {
    const int window = place.window;
    int others = c.kept; // from this chunk on the queries change
    w.take_queries(others > 0 ? w.s.kept : w.s.vectors);
#pragma unroll 1
    for (int chunk = next_chunk(c, window, place.stream); chunk < c.n_chunks;
         chunk = next_chunk(c, window, chunk + c.streams)) {
        uint32_t mask = c.masks[window * c.n_chunks + chunk];
        if constexpr (w.SCALED) {
            scales.leave(w.own);
            scales.ask(w.a, from, c, next_chunk(c, window, chunk + c.streams));
        }
        if (others > 0 && chunk >= others) {
            others = 0;
            w.take_queries(w.s.vectors);
        }
        float score[HEADS][w.PASSES];
        w.take_keys(ring.take(), mask, score);
        ring.give_back();
        w.soften(score);
        w.take_values(ring.take(), mask, score);
        ring.give_back();
    }
    w.leave(place.stream);
}

// Puts the splits of a KV head together: this block the elements [split·n, (split + 1)·n) of the group's, four lanes
// an element, each every fourth split.
__device__ inline void attend_combine(const DecodeArguments &a, const CacheShare &c, unsigned round,
                                      int layer) {
    constexpr int LOADS = 4;
    int n_elements = a.group * a.head_dim;
    int begin = c.split * a.combine_elements, n = min(a.combine_elements, n_elements - begin);
    unsigned *counter = a.head_arrived + c.kv_head * 32;
    arrive(counter);
    await(counter, a.head_round + (layer + 1) * a.n_splits);
#pragma unroll 1
    for (int i = threadIdx.x / 4; i < n; i += DECODE_THREADS / 4) {
        unsigned group = 15u << (threadIdx.x % 32 / 4 * 4); // the four lanes go together
        float largest = -INFINITY, weight = 0, sum = 0;
        int e = begin + i, h = e * a.head_factor >> 22;
#pragma unroll 1
        for (int first = threadIdx.x % 4; first < a.n_splits; first += 4 * LOADS) {
            uint32_t value[LOADS];
            unsigned long long bits[LOADS];
            bool there;
            do {
                there = true;
#pragma unroll
                for (int j = 0; j < LOADS; j++) {
                    int at = c.kv_head * a.n_splits + first + 4 * j;
                    value[j] = round;
                    bits[j] = (unsigned long long)round << 32 | 0xff800000u; // -inf: nothing
                    if (first + 4 * j >= a.n_splits) continue;
                    value[j] = load_relaxed(a.parts + at * n_elements + e);
                    bits[j] = load_relaxed(a.weights + at * a.group + h);
                }
#pragma unroll
                for (int j = 0; j < LOADS; j++)
                    there = there && of_round(value[j], round) && (unsigned)(bits[j] >> 32) == round;
            } while (!there);
            float top = largest;
#pragma unroll
            for (int j = 0; j < LOADS; j++) top = fmaxf(top, __uint_as_float((uint32_t)bits[j]));
            float base = top == -INFINITY ? 0 : top, shrink = exp2_approx(largest - base);
            weight *= shrink;
            sum *= shrink;
#pragma unroll
            for (int j = 0; j < LOADS; j++) {
                float share = exp2_approx(__uint_as_float((uint32_t)bits[j]) - base);
                weight += share;
                sum += share * __uint_as_float(value[j]);
            }
            largest = top;
        }
        float top = fmaxf(largest, __shfl_xor_sync(group, largest, 1));
        top = fmaxf(top, __shfl_xor_sync(group, top, 2));
        float shrink = top == -INFINITY ? 0 : exp2_approx(largest - top);
        weight *= shrink;
        sum *= shrink;
#pragma unroll
        for (int o = 1; o < 4; o *= 2) {
            weight += __shfl_xor_sync(group, weight, o);
            sum += __shfl_xor_sync(group, sum, o);
        }
        if (threadIdx.x % 4 == 0)
            publish(a.attended + c.kv_head * n_elements + e, weight > 0 ? __fdividef(sum, weight) : 0, round);
    }
}

// Shared memory of the phase from `input` on.
template <class Cache>
__device__ __forceinline__ AttendShared attend_shared(const DecodeArguments &a, const CacheShare &c,
                                                      char *input) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    int dim = a.head_dim, n_elements = a.group * dim;
    AttendShared s;
    s.vectors = (float *)input;
    s.sums = s.vectors + (a.group + 2) * dim;
    s.weights = (float2 *)(s.sums + c.streams * n_elements);
    s.own_scales = (float *)(s.weights + (c.streams + 1) * a.group);
    s.balance = s.own_scales + (PLAIN ? 0 : dim / 8);
    s.kept = s.balance + (PLAIN ? 0 : dim);
    s.chunk_scales = (__half *)(s.kept + (c.kept > 0 ? n_elements : 0));
    return s;
}

// The group's queries, and for the owner of the token its key and value, from the blocks that multiplied them.
__device__ __forceinline__ void receive_vectors(const DecodeArguments &a, const CacheShare &c, unsigned round,
                                                float *vectors) {
    int dim = a.head_dim, n_elements = a.group * dim;
#pragma unroll 1
    for (int i = threadIdx.x * 4; i < n_elements + (c.owner ? 2 * dim : 0); i += DECODE_THREADS * 4) {
        int from = i < n_elements         ? c.kv_head * n_elements + i
                   : i < n_elements + dim ? a.q_dim + c.kv_head * dim + i - n_elements
                                          : a.q_dim + a.kv_dim + c.kv_head * dim + i - n_elements - dim;
        *(float4 *)(vectors + i) = receive_4(a.qkv + from, round);
    }
}

// The owner's: scores of the token's own key, behind the `used` streams', by warps that have least to do.
template <class Cache>
__device__ __forceinline__ void attend_own(const DecodeArguments &a, const AttendShared &s, int used) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    int dim = a.head_dim, n_elements = a.group * dim, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int h = PLAIN ? DECODE_WARPS - 1 - warp : 0; h < a.group; h += PLAIN ? DECODE_WARPS : 1) {
        float dot = 0;
#pragma unroll 2
        for (int d = lane; d < dim; d += 32) dot += s.vectors[h * dim + d] * s.vectors[n_elements + d];
        dot = warp_sum(dot);
        if (lane == 0) s.weights[used * a.group + h] = make_float2(dot, 1);
    }
}

// Puts the block's streams together, and publishes: the result, or the split's share of it with its log-sum.
__device__ __forceinline__ void publish_attended(const DecodeArguments &a, const CacheShare &c,
                                                 const AttendShared &s, int used, unsigned round) {
    int dim = a.head_dim, n_elements = a.group * dim, n = used + (c.owner ? 1 : 0);
#pragma unroll 1
    for (int e = threadIdx.x; e < n_elements; e += DECODE_THREADS) {
        int h = e * a.head_factor >> 22;
        float largest = -INFINITY, weight = 0, sum = 0;
#pragma unroll 4
        for (int i = 0; i < n; i++) largest = fmaxf(largest, s.weights[i * a.group + h].x);
        float base = largest == -INFINITY ? 0 : largest;
#pragma unroll 4
        for (int i = 0; i < n; i++) {
            float2 w = s.weights[i * a.group + h];
            float f = exp2_approx(w.x - base);
            weight += f * w.y;
            sum += f * (i < used ? s.sums[i * n_elements + e] : s.vectors[n_elements + dim + e - h * dim]);
        }
        float mean = weight > 0 ? __fdividef(sum, weight) : 0;
        if (a.n_splits == 1) {
            publish(a.attended + c.kv_head * n_elements + e, mean, round);
            continue;
        }
        int at = c.kv_head * a.n_splits + c.split;
        publish(a.parts + at * n_elements + e, mean, round);
        if (e == h * dim) {
            float log_sum = weight > 0 ? largest + log2f(weight) : -INFINITY;
            unsigned long long packet = (unsigned long long)round << 32 | __float_as_uint(log_sum);
            store_relaxed(a.weights + at * a.group + h, packet);
        }
    }
}

// The phase of one layer; `input`: shared memory.
template <int LANES, int HEADS, class Cache>
__device__ inline void attend_phase(const DecodeArguments &a, const DecodeLayerView &view, char *input,
                                    const float2 *rope, const CacheShare &c, Ring &ring) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    if (!c.any) return sync_warps(); // between two arrivals
    const DecodeLayer &l = view.layer;
    const DecodeScales &scales = view.scales;
    unsigned round = a.round + view.index + 1;
    int warp = threadIdx.x / 32, used = min(c.streams, c.n_chunks); // streams that have chunks
    const bool owner = c.owner;
    const AttendShared s = attend_shared<Cache>(a, c, input);
    // What comes from far and is known already is asked for before the phase begins.
    constexpr int DIM = LANES * 8, CHUNK = decode_passes(Cache::KIND, HEADS) * (32 / LANES);
    ScaleLoader<CHUNK, DIM> chunk_scales;
    int stream = warp / c.parts;
    float balance = 0;
    if constexpr (!PLAIN) {
        if (stream < used) chunk_scales.ask(a, scales, c, next_chunk(c, l.window, stream));
        if (scales.balance && threadIdx.x < DIM)
            balance = __ldg(scales.balance + c.kv_head * DIM + threadIdx.x);
    }

    await(a.phases[PHASE_ATTEND].awaited, round * gridDim.x);
    receive_vectors(a, c, round, s.vectors);
    if (!PLAIN && threadIdx.x < DIM) s.balance[threadIdx.x] = balance;
    sync_warps();
    finish_vectors<DIM, Cache>(a, l, !PLAIN && scales.balance ? s.balance : NULL, c, rope, s);
    sync_warps();

    if (stream < used) {
        AttendStream<LANES, HEADS, Cache> w(a, s, warp % c.parts * HEADS);
        attend_stream(w, AttendPlace{l.window, stream}, scales, chunk_scales, c, ring);
    }
    bool last = warp == DECODE_WARPS - 1;
    if (!PLAIN && owner && last) finish_own<DIM>(a, view, c, rope, ring, s);
    if (owner && (PLAIN || last)) attend_own<Cache>(a, s, used);
    sync_warps();
    publish_attended(a, c, s, used, round);
    if (a.n_splits > 1) attend_combine(a, c, round, view.index);
}

#endif
