// How a warp of the attend phase goes through its share of the cache.
#ifndef PALAVER_KERNELS_CUDA_DECODE_ATTEND_STREAM_CUH
#define PALAVER_KERNELS_CUDA_DECODE_ATTEND_STREAM_CUH

#include "kernels/cuda/decode/attend_vectors.cuh"

// A warp's way through the chunks of a stream, for query heads first_head … first_head + HEADS - 1 of the group:
//
//            lanes 0 … LANES-1   LANES … 2·LANES-1   …        each lane: eight elements of its slot
//   pass 0   slot 0              slot 1              …
//   pass 1   slot TOGETHER       …                            PASSES passes are a chunk
//
// Of heads of 512 eight of each half.
template <int LANES, int HEADS, class Cache, class Heads> struct AttendStream {
    static constexpr int EIGHTS = Heads::EIGHTS, EACH = 8 * EIGHTS, TOGETHER = 32 / LANES,
                         PASSES = decode_passes(Cache::KIND, HEADS) / EIGHTS, BITS = cache_bits(Cache::KIND);
    static constexpr bool SCALED = Cache::KIND != DECODE_F16;

    const DecodeArguments &a;
    const int group;
    const AttendShared &s;
    int first_head, part, dim, at;
    bool inside;
    // Weights are 2^(score - top), where top is a head's largest score so far; or a base that was `given`, from which
    // float32 reaches far in both directions: see settle().
    bool given, moved = false;
    __half *own; // scales of this warp's chunk: of keys, then of values
    float q[HEADS][EACH], sums[HEADS][EACH] = {}, top[HEADS], weight[HEADS];

    // From a lane's first element to its i-th.
    __device__ static constexpr int behind(int i) { return i % 8 + i / 8 * LANES * 8; }
    __device__ static void unpack(const char *row, int at, uint32_t seen, float (&f)[EACH]) {
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            float eight[8];
            Cache::unpack(row + (at + e * LANES * 8) * BITS / 8, seen, eight);
#pragma unroll
            for (int i = 0; i < 8; i++) f[8 * e + i] = eight[i];
        }
    }

    // base: of the warp's head `lane`, where bases are given.
    __device__ __forceinline__ AttendStream(const Heads &heads, const AttendShared &shared, int first,
                                            bool has_bases, float base)
        : a(heads.a), group(heads.group()), s(shared), first_head(first), given(has_bases) {
        part = threadIdx.x % 32 % LANES * 8, dim = SCALED ? LANES * 8 : heads.dim();
        inside = SCALED || part < dim;
        at = inside ? part : 0; // lanes without elements read the first ones, against a query of 0: no branch
        own = s.chunk_scales + threadIdx.x / 32 * 2 * PASSES * TOGETHER * MOST_GROUPS;
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float own = __shfl_sync(~0u, base, h);
            top[h] = given ? own : -INFINITY;
            weight[h] = 0;
        }
    }

    __device__ __forceinline__ void take_queries(const float *from) {
#pragma unroll
        for (int h = 0; h < HEADS; h++)
#pragma unroll
            for (int i = 0; i < EACH; i++)
                q[h][i] = inside && first_head + h < group
                              ? from[(first_head + h) * dim + part + behind(i)] / Cache::unit(i % 8)
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
            float k[EACH];
            unpack(keys + slot * dim * BITS / 8, at, ~0u, k);
            float scale = SCALED ? scale_of(false, slot, true) : 1;
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float dot = 0;
#pragma unroll
                for (int i = 0; i < EACH; i++) dot += q[h][i] * k[i];
                if (SCALED) dot *= scale;
#pragma unroll
                for (int o = LANES / 2; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
                score[h][p] = mask >> slot & 1 ? dot : -INFINITY;
            }
        }
    }

    // Moves a given base, of which chunks that are gone know nothing, before weights get out of hand: up, when a score is
    // more than 2^60 times too large for it; down, when the first scores seen are all 2^60 times too small. Behind these
    // nothing small is lost, for what it adds to is there. So the sum is at least 2^-60, and at most 2^60 for each score.
    __device__ __forceinline__ void settle(int h, float largest) {
        constexpr float REACH = 60;
        bool first = weight[h] == 0;
        if (largest <= top[h] + REACH && (!first || largest >= top[h] - REACH || largest == -INFINITY))
            return;
        float shrink = first ? 0 : exp2_approx(top[h] - largest);
        moved = true;
        top[h] = largest;
        weight[h] *= shrink;
#pragma unroll
        for (int i = 0; i < EACH; i++) sums[h][i] *= shrink;
    }

    // Scores become weights; what was summed before shrinks where a larger one has come.
    __device__ __forceinline__ void soften(float (&score)[HEADS][PASSES]) {
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            float largest = score[h][0], base;
#pragma unroll
            for (int p = 1; p < PASSES; p++) largest = fmaxf(largest, score[h][p]);
            if (given) {
                settle(h, largest);
                base = top[h];
            } else {
                largest = fmaxf(largest, top[h]);
                base = largest == -INFINITY ? 0 : largest;
                float shrink = exp2_approx(top[h] - base);
                top[h] = largest;
                weight[h] *= shrink;
#pragma unroll
                for (int i = 0; i < EACH; i++) sums[h][i] *= shrink;
            }
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
            float v[EACH];
            uint32_t seen = mask >> slot & 1 ? ~0u : 0; // what is not seen may be anything
            unpack(values + slot * dim * BITS / 8, at, seen, v);
            float scale = SCALED ? scale_of(true, slot, seen) : 1;
#pragma unroll
            for (int h = 0; h < HEADS; h++) {
                float share = SCALED ? score[h][p] * scale : score[h][p];
#pragma unroll
                for (int i = 0; i < EACH; i++) sums[h][i] += share * v[i];
            }
        }
    }

    // The stream's result for the heads into shared memory, over the lanes that had other slots.
    __device__ __forceinline__ void leave(int stream) {
        int lane = threadIdx.x % 32;
        if (given && __any_sync(~0u, moved) && lane == 0) atomicAdd(&a.counts->again, 1ull);
#pragma unroll
        for (int h = 0; h < HEADS; h++) {
            if (weight[h] == 0) top[h] = -INFINITY; // nothing was seen: no base, and not one to go by
            float largest = top[h];
#pragma unroll
            for (int o = LANES; o < 32; o *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
            float shrink = largest == -INFINITY ? 0 : exp2_approx(top[h] - largest);
            weight[h] *= shrink;
#pragma unroll
            for (int o = LANES; o < 32; o *= 2) weight[h] += __shfl_xor_sync(~0u, weight[h], o);
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                sums[h][i] *= shrink / Cache::unit(i % 8);
#pragma unroll
                for (int o = LANES; o < 32; o *= 2) sums[h][i] += __shfl_xor_sync(~0u, sums[h][i], o);
            }
            if (first_head + h >= group) continue;
            int row = stream * group + first_head + h;
            if (lane == 0) s.weights[row] = make_float2(largest, weight[h]);
            if (lane < LANES && inside)
#pragma unroll
                for (int e = 0; e < EACH; e += 8) {
                    float4 *to = (float4 *)(s.sums + row * dim + part + behind(e));
                    to[0] = make_float4(sums[h][e], sums[h][e + 1], sums[h][e + 2], sums[h][e + 3]);
                    to[1] = make_float4(sums[h][e + 4], sums[h][e + 5], sums[h][e + 6], sums[h][e + 7]);
                }
        }
    }
};

// Where a warp attends: in a stream of its block's share, in a layer whose attention window is the window-th.
struct AttendPlace {
    int window, stream;
};

// A warp's chunks; the first one's scales have been asked for.
template <int LANES, int HEADS, class Cache, class Heads, class Scales>
__device__ __forceinline__ void attend_stream(AttendStream<LANES, HEADS, Cache, Heads> &w,
                                              const AttendPlace &place, const DecodeScales &from,
                                              Scales &scales, const CacheShare &c, Ring &ring) {
    const int window = place.window;
    int others = c.sinks; // from this chunk on the queries change
    w.take_queries(others > 0 ? w.s.sinks : w.s.vectors);
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

#endif
