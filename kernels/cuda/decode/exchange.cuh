// How blocks of the decoding kernel hand activations to each other: see decode.cuh.
#ifndef PALAVER_KERNELS_CUDA_DECODE_EXCHANGE_CUH
#define PALAVER_KERNELS_CUDA_DECODE_EXCHANGE_CUH

#include "kernels/cuda/decode/dot.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/w8/w8.cuh"
#include "kernels/cuda/rope.cuh"

__device__ inline void publish(uint32_t *to, float value, unsigned round) {
    uint32_t bits = (__float_as_uint(value) & ~(uint32_t)ROUND_BITS) | (round & ROUND_BITS);
    store_relaxed(to, bits);
}

__device__ inline void publish_4(uint32_t *to, float4 v, unsigned round) {
    const uint32_t bits = ~(uint32_t)ROUND_BITS, carry = round & ROUND_BITS;
    store_relaxed((uint4 *)to,
                  make_uint4((__float_as_uint(v.x) & bits) | carry, (__float_as_uint(v.y) & bits) | carry,
                             (__float_as_uint(v.z) & bits) | carry, (__float_as_uint(v.w) & bits) | carry));
}

// The float without its round, which would else show in the last bits of all that comes of it: the same step is to give
// the same logits whatever ran before.
__device__ inline float carried(uint32_t v) {
    return __uint_as_float(v & ~(uint32_t)ROUND_BITS);
}

__device__ inline float4 carried_4(const uint4 &v) {
    return make_float4(carried(v.x), carried(v.y), carried(v.z), carried(v.w));
}

__device__ inline bool of_round(uint32_t v, unsigned round) {
    return ((v ^ round) & ROUND_BITS) == 0;
}

__device__ inline float4 receive_4(const uint32_t *from, unsigned round) {
    uint4 v;
    do v = load_relaxed_4(from);
    while (((v.x ^ round) | (v.y ^ round) | (v.z ^ round) | (v.w ^ round)) & ROUND_BITS);
    return carried_4(v);
}

// The warps that compute; __syncthreads() would wait for those that copy.
__device__ inline void sync_warps() {
    named_barrier_sync<1, DECODE_THREADS>();
}

// All warps: this block has read its input of a phase and published its output.
__device__ inline void arrive(unsigned *counter) {
    if (!CHECKED && threadIdx.x >= 32) {
        named_barrier_arrive<2, DECODE_THREADS>();
    } else {
        named_barrier_sync<2, DECODE_THREADS>();
        if (threadIdx.x == 0) count_relaxed(counter);
    }
}

// All warps: until `target` arrivals. What lies in shared memory may be overwritten afterwards.
__device__ inline void await(const unsigned *counter, unsigned target) {
    if (threadIdx.x == 0)
        while ((int)(load_relaxed(counter) - target) < 0) {
        }
    sync_warps();
}

// ---- a phase's input -------------------------------------------------------------------------------------------

struct InputSource {
    const uint32_t *from; // [cols] published in `round`; NULL: the residual stream, which is there
    unsigned round;
    const unsigned *counter;
    unsigned target;
    const float *norm; // [cols] or NULL
    const float
        *post; // [cols]: `from` is normed by it and added to the residual stream, which is the input; or NULL
    int cols;
    bool floats, quants, halves, whole; // its forms: see input.cuh
    bool keep;                          // as the residual stream
    // In shared memory every `piece` elements begin `gap` further than they would one behind the other; piece_factor:
    // i / piece = i·piece_factor >> 32. gap 0: they do not.
    int gap, width; // width: of all with their gaps
    unsigned piece_factor;
    float x_scale; // of the residual stream, once `from` is added to it

    __device__ int place(int i) const { return gap ? i + (int)__umulhi((unsigned)i, piece_factor) * gap : i; }
};

enum { INPUT_SPAN = DECODE_THREADS * 4, NORM_TURNS = 4, TURNS_AT_ONCE = 2 }; // turns that go side by side

// Elements first + t·INPUT_SPAN + 4·thread … of the input: all loads at once, and again until all are there.
template <int TURNS>
__device__ inline void receive_turns(const InputSource &s, int first, uint4 (&v)[TURNS]) {
    uint32_t wrong;
    do {
        wrong = 0;
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            v[t] = make_uint4(s.round, s.round, s.round, s.round);
            if (first + t * INPUT_SPAN < s.cols) v[t] = load_relaxed_4(s.from + first + t * INPUT_SPAN);
        }
#pragma unroll
        for (int t = 0; t < TURNS; t++)
            wrong |= (v[t].x ^ s.round) | (v[t].y ^ s.round) | (v[t].z ^ s.round) | (v[t].w ^ s.round);
    } while (wrong & ROUND_BITS);
}

// The sum over the block's warps, of which each has left its own in sums [16]; zeros behind them.
__device__ __forceinline__ float sum_of_warps(const float *sums) {
    float total = 0;
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        float4 v = *(const float4 *)(sums + i);
        total += v.x + v.y + v.z + v.w;
    }
    return total;
}

// The first turns' weights of the norm, which are there before the input is: they come from far.
__device__ __forceinline__ void ask_norms(const InputSource &s, float4 (&norms)[NORM_TURNS]) {
    const int mine = threadIdx.x * 4;
#pragma unroll
    for (int t = 0; t < NORM_TURNS; t++) {
        norms[t] = make_float4(1, 1, 1, 1);
        if (s.norm && mine + t * INPUT_SPAN < s.cols)
            norms[t] = __ldg((const float4 *)(s.norm + mine + t * INPUT_SPAN));
    }
}

// What comes next to the front.
template <class T, int N> __device__ __forceinline__ void move_up(T (&v)[N]) {
#pragma unroll
    for (int t = 0; t < N - TURNS_AT_ONCE; t++) v[t] = v[t + TURNS_AT_ONCE];
}

// Brings a phase's input into shared memory, and returns what its dot products are to be multiplied with: the RMS
// norm's factor, or 1. Four elements a thread and turn, TURNS turns asked for at once. PIECES: it may have gaps. What is
// done with them is a loop whose registers move up, not TURNS times the code: run once a phase, that takes longer to come
// (12 cycles an instruction) than to run.
template <int TURNS, bool PIECES>
__device__ inline float load_input(const DecodeArguments &a, const InputSource &s, const Input &x,
                                   float *residual, float *sums) {
    const int width = PIECES ? s.width : s.cols, mine = threadIdx.x * 4;
    float squares = 0;
    float4 norms[NORM_TURNS];
    ask_norms(s, norms);
    if (s.from)
        await(s.counter, s.target);
    else
        sync_warps();
#pragma unroll 1
    for (int begin = 0; begin < s.cols; begin += TURNS * INPUT_SPAN) {
        uint4 v[TURNS];
        if (s.from) receive_turns(s, begin + mine, v);
        const int end = min(s.cols, begin + TURNS * INPUT_SPAN);
#pragma unroll 1
        for (int first = begin; first < end; first += TURNS_AT_ONCE * INPUT_SPAN) {
            float4 all[TURNS_AT_ONCE];
            int at[TURNS_AT_ONCE];
#pragma unroll
            for (int t = 0; t < TURNS_AT_ONCE; t++) {
                const int i = first + t * INPUT_SPAN + mine;
                float4 f = make_float4(0, 0, 0, 0), w = norms[t];
                if (i < s.cols) {
                    f = s.from ? carried_4(v[t]) : *(const float4 *)(residual + i);
                    if (s.from && s.keep) *(float4 *)(residual + i) = f;
                    if (s.norm && first >= NORM_TURNS * INPUT_SPAN) w = __ldg((const float4 *)(s.norm + i));
                }
                if (s.norm) {
                    squares += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
                    f = make_float4(f.x * w.x, f.y * w.y, f.z * w.z, f.w * w.w);
                }
                at[t] = PIECES ? s.place(i) : i;
                if (s.floats && i < s.cols) *(float4 *)(x.floats + float_index(at[t])) = f;
                all[t] = f;
            }
            if (s.halves)
#pragma unroll
                for (int t = 0; t < TURNS_AT_ONCE; t++) store_halves(x, all[t], at[t], width);
            if (s.quants) store_quants<TURNS_AT_ONCE>(x, all, at, width);
            move_up(v);
            move_up(norms);
        }
    }
    if (s.norm) {
        squares = warp_sum(squares);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
    }
    sync_warps();
    return s.norm ? rsqrtf(__fdividef(sum_of_warps(sums), (float)s.cols) + a.eps) : 1;
}

// The same where what comes is normed before it is added: of at most TURNS turns, which stay in registers until their
// mean square is known; weights of both norms come before that. SCALES: x is then scaled.
template <int TURNS, bool SCALES>
__device__ __forceinline__ float take_added_input(float eps, const InputSource &s, const Input &x,
                                                  float *residual, float *sums) {
    const int mine = threadIdx.x * 4;
    const float4 ones = make_float4(1, 1, 1, 1);
    float squares = 0;
    uint4 v[TURNS];
    float4 posts[TURNS], norms[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const bool there = t * INPUT_SPAN + mine < s.cols;
        posts[t] = there ? __ldg((const float4 *)(s.post + t * INPUT_SPAN + mine)) : ones;
        norms[t] = there && s.norm ? __ldg((const float4 *)(s.norm + t * INPUT_SPAN + mine)) : ones;
    }
    await(s.counter, s.target);
    receive_turns(s, mine, v);
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        if (t * INPUT_SPAN + mine >= s.cols) continue;
        float4 y = carried_4(v[t]);
        squares += y.x * y.x + y.y * y.y + y.z * y.z + y.w * y.w;
    }
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = squares;
    sync_warps();
    const float scale = rsqrtf(__fdividef(sum_of_warps(sums), (float)s.cols) + eps);
    squares = 0;
    float4 all[TURNS];
    int at[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const int i = at[t] = t * INPUT_SPAN + mine;
        float4 f = make_float4(0, 0, 0, 0);
        if (i < s.cols) {
            const float4 y = carried_4(v[t]), u = posts[t], w = norms[t];
            f = *(const float4 *)(residual + i);
            f = make_float4(f.x + y.x * scale * u.x, f.y + y.y * scale * u.y, f.z + y.z * scale * u.z,
                            f.w + y.w * scale * u.w);
            if (SCALES) f = make_float4(f.x * s.x_scale, f.y * s.x_scale, f.z * s.x_scale, f.w * s.x_scale);
            *(float4 *)(residual + i) = f;
            squares += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
            f = make_float4(f.x * w.x, f.y * w.y, f.z * w.z, f.w * w.w);
        }
        if (s.floats && i < s.cols) *(float4 *)(x.floats + float_index(i)) = f;
        if (s.halves && t * INPUT_SPAN < s.cols) store_halves(x, f, i, s.cols);
        all[t] = f;
    }
    if (s.quants) store_quants<TURNS>(x, all, at, s.cols);
    squares = warp_sum(squares);
    if (threadIdx.x % 32 == 0) sums[16 + threadIdx.x / 32] = squares;
    sync_warps();
    return s.norm ? rsqrtf(__fdividef(sum_of_warps(sums + 16), (float)s.cols) + eps) : 1;
}

// Apart from the rest, whose registers it would take.
template <int TURNS>
__device__ __noinline__ float load_added_input(float eps, InputSource s, Input x, float *residual,
                                               float *sums) {
    return take_added_input<TURNS, false>(eps, s, x, residual, sums);
}

// The same for W8: a row of integers by its largest magnitude, which is known when all of the input is there. Of
// norm(x) the factor that is the same for all elements is left to the scale. A row that has more turns than registers
// is read again: nobody writes to it before this block has arrived. sums: of 16 warps their squares, and behind them
// what is largest. FLOATS: the phase may have other rows besides, whose input is divided by the integers' scale, so that one
// factor is of all.
template <int TURNS, bool FLOATS>
__device__ inline float load_whole_input(const DecodeArguments &a, const InputSource &s, const Input &x,
                                         float *residual, float *sums) {
    float4 norms[NORM_TURNS];
    uint4 v[TURNS] = {};
    auto four = [&](int t) {
        return make_float4(__uint_as_float(v[t].x), __uint_as_float(v[t].y), __uint_as_float(v[t].z),
                           __uint_as_float(v[t].w));
    };
    float squares = 0;
    uint32_t top = 0;
    int mine = threadIdx.x * 4;
    const bool again = s.cols > TURNS * INPUT_SPAN;
#pragma unroll
    for (int t = 0; t < NORM_TURNS; t++) {
        norms[t] = make_float4(1, 1, 1, 1);
        if (s.norm && mine + t * INPUT_SPAN < s.cols)
            norms[t] = __ldg((const float4 *)(s.norm + mine + t * INPUT_SPAN));
    }
    // Elements begin + t·INPUT_SPAN + mine …, times the norm's weights; `first`: for the first time.
    auto bring = [&](int begin, bool first) {
        if (s.from) receive_turns(s, begin + mine, v);
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            int i = begin + t * INPUT_SPAN + mine;
            if (begin + t * INPUT_SPAN >= s.cols) continue; // for all threads
            float4 f = make_float4(0, 0, 0, 0);
            if (i < s.cols) {
                f = s.from ? carried_4(v[t]) : *(const float4 *)(residual + i);
                if (s.from && s.keep && first) *(float4 *)(residual + i) = f;
            }
            if (s.norm) {
                float4 w = norms[t < NORM_TURNS ? t : 0];
                if ((begin > 0 || t >= NORM_TURNS) && i < s.cols) w = __ldg((const float4 *)(s.norm + i));
                squares += f.x * f.x + f.y * f.y + f.z * f.z + f.w * f.w;
                f = make_float4(f.x * w.x, f.y * w.y, f.z * w.z, f.w * w.w);
            }
            top = max(top, magnitude_bits(f));
            v[t] = make_uint4(__float_as_uint(f.x), __float_as_uint(f.y), __float_as_uint(f.z),
                              __float_as_uint(f.w));
        }
    };
    if (s.from)
        await(s.counter, s.target);
    else
        sync_warps();
#pragma unroll 1
    for (int begin = 0; begin < s.cols; begin += TURNS * INPUT_SPAN) bring(begin, true);
    squares = warp_sum(squares);
    top = __reduce_max_sync(~0u, top);
    if (threadIdx.x % 32 == 0)
        sums[threadIdx.x / 32] = squares, sums[16 + threadIdx.x / 32] = __uint_as_float(top);
    sync_warps();
    float total = 0;
#pragma unroll
    for (int i = 0; i < 16; i += 4) { // zeros behind the warps'
        float4 part = *(const float4 *)(sums + i);
        uint4 tops = *(const uint4 *)(sums + 16 + i);
        total += part.x + part.y + part.z + part.w;
        top = max(max(top, max(tops.x, tops.y)), max(tops.z, tops.w));
    }
    const float scale = w8_scale(__uint_as_float(top));
    const W8Divisor by(scale);
#pragma unroll 1
    for (int begin = 0; begin < s.cols; begin += TURNS * INPUT_SPAN) {
        if (again) bring(begin, false);
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            if (begin + t * INPUT_SPAN >= s.cols) continue;
            int i = begin + t * INPUT_SPAN + mine;
            if (i < s.cols) *(uint32_t *)(x.quants + i) = by.four(four(t));
            if (FLOATS && s.floats && i < s.cols) {
                const float4 f = four(t);
                *(float4 *)(x.floats + float_index(i)) =
                    make_float4(f.x * by.inverse, f.y * by.inverse, f.z * by.inverse, f.w * by.inverse);
            }
        }
    }
    sync_warps();
    return s.norm ? scale * rsqrtf(__fdividef(total, (float)s.cols) + a.eps) : scale;
}

#endif
