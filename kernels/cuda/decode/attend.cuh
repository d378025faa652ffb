// The attend phase of the decoding kernel.
//
// A block takes a range of slots (a split) for one KV head and all query heads that share it. Each warp goes
// through chunks of decode_passes()·(32/LANES) slots for up to HEADS query heads; LANES lanes share a slot, eight
// elements each. The warps' results are put together in shared memory. Blocks of the same KV head then exchange theirs,
// and each puts a part of the elements together.
#ifndef PALAVER_KERNELS_CUDA_DECODE_ATTEND_CUH
#define PALAVER_KERNELS_CUDA_DECODE_ATTEND_CUH

#include "kernels/cuda/decode/attend_stream.cuh"

// Puts the splits of a KV head together: this block the elements [split·n, (split + 1)·n) of the group's, four lanes
// an element, each every fourth split. Warps go through it as a whole, lanes without a split or an element too: where
// some of an element's lanes leave the others, a warp falls apart into its elements, which cost 3 µs one after the
// other.
template <class Heads>
__device__ inline void attend_combine(const Heads &heads, const CacheShare &c, unsigned round, int turn) {
    constexpr int LOADS = 4;
    const int group = heads.group(), n_elements = group * heads.dim(), n_splits = heads.n_splits();
    const int begin = c.split * heads.combine_elements(),
              n = min(heads.combine_elements(), n_elements - begin);
    unsigned *counter = heads.arrived() + c.kv_head * 32;
    arrive(counter);
    await(counter, heads.round() + (turn + 1) * n_splits);
#pragma unroll 1
    for (int of_warp = threadIdx.x / 32 * 8; of_warp < n; of_warp += DECODE_THREADS / 4) {
        float largest = -INFINITY, weight = 0, sum = 0;
        const int i = of_warp + threadIdx.x % 32 / 4, e = begin + min(i, n - 1), h = heads.head_of(e);
#pragma unroll 1
        for (int turn = 0; turn < n_splits; turn += 4 * LOADS) {
            const int first = turn + threadIdx.x % 4;
            uint32_t value[LOADS];
            unsigned long long bits[LOADS];
            bool there;
            do {
                there = true;
#pragma unroll
                for (int j = 0; j < LOADS; j++) {
                    int at = c.kv_head * n_splits + first + 4 * j;
                    value[j] = round & ROUND_BITS;
                    bits[j] = (unsigned long long)round << 32 | 0xff800000u; // -inf: nothing
                    if (first + 4 * j >= n_splits) continue;
                    value[j] = load_relaxed(heads.parts() + at * n_elements + e);
                    bits[j] = load_relaxed(heads.weights() + at * group + h);
                }
#pragma unroll
                for (int j = 0; j < LOADS; j++)
                    there = there && of_round(value[j], round) && (unsigned)(bits[j] >> 32) == round;
            } while (__any_sync(~0u, !there));
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
                sum += share * carried(value[j]);
            }
            largest = top;
        }
        float top = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        float shrink = top == -INFINITY ? 0 : exp2_approx(largest - top);
        weight *= shrink;
        sum *= shrink;
#pragma unroll
        for (int o = 1; o < 4; o *= 2) {
            weight += __shfl_xor_sync(~0u, weight, o);
            sum += __shfl_xor_sync(~0u, sum, o);
        }
        if (threadIdx.x % 4 == 0 && i < n)
            publish(heads.a.attended + c.kv_head * n_elements + e, weight > 0 ? __fdividef(sum, weight) : 0,
                    round);
    }
}

// The owner's: scores of the token's own key, behind the `used` streams', by warps that have least to do.
template <class Cache, class Heads>
__device__ __forceinline__ void attend_own(const Heads &heads, const AttendShared &s, int used) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    const int dim = heads.dim(), group = heads.group(), n_elements = group * dim, warp = threadIdx.x / 32,
              lane = threadIdx.x % 32;
    for (int h = PLAIN ? DECODE_WARPS - 1 - warp : 0; h < group; h += PLAIN ? DECODE_WARPS : 1) {
        float dot = 0;
#pragma unroll 2
        for (int d = lane; d < dim; d += 32) dot += s.vectors[h * dim + d] * s.vectors[n_elements + d];
        dot = warp_sum(dot);
        if (lane == 0) s.weights[used * group + h] = make_float2(dot, 1);
    }
}

// Puts the block's streams together, and publishes: the result, or the split's share of it with its log-sum. Learned
// attention sinks have a share in the weights of the token's owner. Where many heads share a key, as of experts, streams
// are few, and a loop's code sooner there.
template <bool EXPERTS, class Heads>
__device__ __forceinline__ void publish_attended(const Heads &heads, const CacheShare &c,
                                                 const AttendShared &s, int used, unsigned round,
                                                 bool sinks) {
    const int dim = heads.dim(), group = heads.group(), n_elements = group * dim,
              n = used + (c.owner ? 1 : 0);
#pragma unroll 1
    for (int e = threadIdx.x * 4; e < n_elements; e += DECODE_THREADS * 4) {
        const int h = heads.head_of(e), at = c.kv_head * heads.n_splits() + c.split;
        float largest = sinks ? s.sink_scores[h] : -INFINITY, weight = 0;
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll(EXPERTS ? 1 : 4)
        for (int i = 0; i < n; i++) largest = fmaxf(largest, s.weights[i * group + h].x);
        float base = largest == -INFINITY ? 0 : largest;
        if (sinks) weight = exp2_approx(s.sink_scores[h] - base);
#pragma unroll(EXPERTS ? 1 : 4)
        for (int i = 0; i < n; i++) {
            const float2 w = s.weights[i * group + h];
            const float f = exp2_approx(w.x - base);
            const float4 v = *(const float4 *)(i < used ? s.sums + i * n_elements + e
                                                        : s.vectors + n_elements + dim + e - h * dim);
            weight += f * w.y;
            sum = make_float4(sum.x + f * v.x, sum.y + f * v.y, sum.z + f * v.z, sum.w + f * v.w);
        }
        const float inverse = weight > 0 ? __fdividef(1, weight) : 0;
        sum = make_float4(sum.x * inverse, sum.y * inverse, sum.z * inverse, sum.w * inverse);
        if (heads.n_splits() == 1) {
            publish_4(heads.a.attended + c.kv_head * n_elements + e, sum, round);
            continue;
        }
        publish_4(heads.parts() + at * n_elements + e, sum, round);
        if (e == h * dim) {
            float log_sum = weight > 0 ? largest + log2f(weight) : -INFINITY;
            unsigned long long packet = (unsigned long long)round << 32 | __float_as_uint(log_sum);
            store_relaxed(heads.weights() + at * group + h, packet);
        }
    }
}

// The phase of one layer; `input`: shared memory.
template <int LANES, int HEADS, class Cache, bool EXPERTS, class Heads>
__device__ __forceinline__ void attend_phase(const Heads &heads, const DecodeLayerView &view, char *input,
                                             const float2 *turns, const CacheShare &c, Ring &ring,
                                             uint32_t multiplied) {
    constexpr bool PLAIN = Cache::KIND == DECODE_F16;
    const DecodeArguments &a = heads.a;
    const int group = heads.group();
    if (!c.any) return sync_warps(); // between two arrivals
    const DecodeLayer &l = view.layer;
    const DecodeScales &scales = view.scales;
    const float2 *rope = turns + max(l.rope, 0) * layer_turns(a);
    unsigned round = a.round + view.index + 1;
    int warp = threadIdx.x / 32, used = min(c.streams, c.n_chunks); // streams that have chunks
    const bool owner = c.owner;
    const AttendShared s = attend_shared<Cache>(heads, c, input);
    // What comes from far and is known already is asked for before the phase begins.
    constexpr int DIM = LANES * 8, CHUNK = decode_passes(Cache::KIND, HEADS) * (32 / LANES);
    ScaleLoader<CHUNK, DIM> chunk_scales;
    int stream = warp / c.parts, first_head = warp % c.parts * HEADS;
    float balance = 0, base = 0, sink = 0;
    if (EXPERTS && owner && l.sinks && (int)threadIdx.x < group)
        sink = __ldg(l.sinks + c.kv_head * group + threadIdx.x) * 1.44269504f;
    if (l.bases && first_head + (int)threadIdx.x % 32 < group)
        base = __ldg(l.bases + c.kv_head * group + first_head + threadIdx.x % 32);
    if constexpr (!PLAIN) {
        if (stream < used) chunk_scales.ask(a, scales, c, next_chunk(c, l.window, stream));
        if (scales.balance && threadIdx.x < DIM)
            balance = __ldg(scales.balance + c.kv_head * DIM + threadIdx.x);
    }

    await(a.phases[PHASE_ATTEND].awaited, round * gridDim.x - a.early);
    receive_vectors(heads, c, round, s.vectors);
    if (!PLAIN && threadIdx.x < DIM) s.balance[threadIdx.x] = balance;
    if (EXPERTS && owner && l.sinks && (int)threadIdx.x < group) s.sink_scores[threadIdx.x] = sink;
    sync_warps();
    finish_vectors<DIM, Cache>(heads, l, !PLAIN && scales.balance ? s.balance : NULL, c, rope, s);
    sync_warps();
    if (threadIdx.x == 0) tell_place(multiplied, view.index, PHASE_ATTEND);

    if (stream < used) {
        AttendStream<LANES, HEADS, Cache, Heads> w(heads, s, first_head, l.bases != NULL, base);
        attend_stream(w, AttendPlace{l.window, stream}, scales, chunk_scales, c, ring);
    }
    if (l.bases && threadIdx.x == 0) atomicAdd(&a.counts->parts, (unsigned long long)(used * c.parts));
    bool last = warp == DECODE_WARPS - 1;
    if (!PLAIN && owner && last) finish_own<DIM>(a, view, c, rope, ring, s);
    if (owner && (PLAIN || last)) attend_own<Cache>(heads, s, used);
    sync_warps();
    publish_attended<EXPERTS>(heads, c, s, used, round, EXPERTS && owner && l.sinks);
    if (heads.n_splits() > 1) attend_combine(heads, c, round, view.turn);
}

#endif
