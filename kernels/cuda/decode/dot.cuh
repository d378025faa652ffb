// Dot products of a chunk of a weight row with the phase's input (input.cuh).
#ifndef PALAVER_KERNELS_CUDA_DECODE_DOT_CUH
#define PALAVER_KERNELS_CUDA_DECODE_DOT_CUH

#include "kernels/cuda/decode/input.cuh"
#include "kernels/cuda/device/codes.cuh"

__device__ inline float2 pair_of(uint32_t v, __half) {
    return __half22float2(*(__half2 *)&v);
}
__device__ inline float2 pair_of(uint32_t v, __nv_bfloat16) {
    return make_float2(__uint_as_float(v << 16), __uint_as_float(v & 0xffff0000u));
}

__device__ inline float2 fma_pair(float2 w, float x, float y, float2 sum) {
    return make_float2(fmaf(w.x, x, sum.x), fmaf(w.y, y, sum.y));
}

// What a lane needs of the input for one chunk of any row, in registers: rows are multiplied several at a time, so
// that shared memory is read once for all of them. A full chunk takes every lane four turns; the last of a row may
// have fewer elements.
//
// load<WHOLE>(x, first, n, lane): the chunk's elements are [first, first + n) of the row. Beyond n the input is 0.
// dot<WHOLE>(chunk, n, lane, sum): adds this lane's share of the dot product. WHOLE: the chunk is a full one. Nothing
// in it branches, so that a turn need not wait for the one before: what lies beyond n is read from the chunk's
// beginning, and multiplied with 0.
template <int FORMAT> struct Slice;

// What a lane's shares of a row's product are added up in, and their sum over the lanes.
template <int FORMAT> struct DotOf {
    typedef float2 Sum;
    static __device__ float total(float2 sum) {
        float v = sum.x + sum.y;
#pragma unroll
        for (int o = 16; o; o /= 2) v += __shfl_xor_sync(~0u, v, o);
        return v;
    }
};
template <> struct DotOf<FORMAT_W8> { // exact
    typedef int Sum;
    static __device__ float total(int sum) { return (float)__reduce_add_sync(~0u, sum); }
};

template <class T, int TURNS = 4> struct Slice16 {
    float4 u[TURNS], v[TURNS];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
        const float *input = x.floats + first + lane * 4;
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            u[t] = v[t] = make_float4(0, 0, 0, 0);
            if (!WHOLE && t * 256 + lane * 8 >= n) continue;
            u[t] = *(const float4 *)(input + t * 256);
            v[t] = *(const float4 *)(input + t * 256 + 128);
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        uint4 w[TURNS];
#pragma unroll
        for (int t = 0; t < TURNS; t++)
            w[t] = *(const uint4 *)(chunk + (WHOLE || t * 256 + lane * 8 < n ? t * 512 + lane * 16 : 0));
        float2 other = make_float2(0, 0);
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            sum = fma_pair(pair_of(w[t].x, T()), u[t].x, u[t].y, sum);
            other = fma_pair(pair_of(w[t].y, T()), u[t].z, u[t].w, other);
            sum = fma_pair(pair_of(w[t].z, T()), v[t].x, v[t].y, sum);
            other = fma_pair(pair_of(w[t].w, T()), v[t].z, v[t].w, other);
        }
        return make_float2(sum.x + other.x, sum.y + other.y);
    }
};
template <> struct Slice<FORMAT_F16> : Slice16<__half> {};
template <> struct Slice<FORMAT_BF16> : Slice16<__nv_bfloat16> {};

// The same of a chunk of at most three quarters, as rows of small experts are.
template <int FORMAT, bool SHORT> struct SliceOf : Slice<FORMAT> {};
template <> struct SliceOf<FORMAT_F16, true> : Slice16<__half, 3> {};
template <> struct SliceOf<FORMAT_BF16, true> : Slice16<__nv_bfloat16, 3> {};

template <> struct Slice<FORMAT_F32> {
    float4 u[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            u[t] = make_float4(0, 0, 0, 0);
            if (WHOLE || t * 128 + lane * 4 < n)
                u[t] = *(const float4 *)(x.floats + float_index(first + t * 128 + lane * 4));
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            float4 w = *(const float4 *)(chunk + (WHOLE || t * 128 + lane * 4 < n ? t * 512 + lane * 16 : 0));
            sum = fma_pair(make_float2(w.x, w.y), u[t].x, u[t].y, sum);
            sum = fma_pair(make_float2(w.z, w.w), u[t].z, u[t].w, sum);
        }
        return sum;
    }
};

// Numbers of 8 bits with a scale for each 128, a lane sixteen a turn: halves times halves, and sums of eight products in
// halves. What these round, 2^-12 of the products' size, is a tenth of what 8 bits of the input would.
template <> struct Slice<FORMAT_E4M3> {
    uint4 u[4], v[4];
    float scale[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int i = t * 512 + lane * 16, at = first + i;
            u[t] = v[t] = make_uint4(0, 0, 0, 0);
            scale[t] = 0;
            if (!WHOLE && i >= n) continue;
            u[t] = *(const uint4 *)(x.quants + at);
            v[t] = *(const uint4 *)(x.quants + x.plane + at);
            scale[t] = x.scales[at / 32];
        }
    }
    static __device__ __half2 of_eight(uint32_t w, uint32_t z, uint4 x) {
        __half2 sum = __hmul2(e4m3_pair(w), *(__half2 *)&x.x);
        sum = __hfma2(e4m3_pair(w >> 16), *(__half2 *)&x.y, sum);
        sum = __hfma2(e4m3_pair(z), *(__half2 *)&x.z, sum);
        return __hfma2(e4m3_pair(z >> 16), *(__half2 *)&x.w, sum);
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        const float *scales = (const float *)(chunk + n);
#pragma unroll
        for (int t = 0; t < 4; t++) {
            const int i = WHOLE || t * 512 + lane * 16 < n ? t * 512 + lane * 16 : 0;
            const uint4 w = *(const uint4 *)(chunk + i);
            const float factor = scales[i / 128] * scale[t];
            const float2 f = __half22float2(__hadd2(of_eight(w.x, w.y, u[t]), of_eight(w.z, w.w, v[t])));
            sum = make_float2(fmaf(factor, f.x, sum.x), fmaf(factor, f.y, sum.y));
        }
        return sum;
    }
};

__device__ inline int dot_4x4(uint4 w, uint4 x) {
    return __dp4a((int)w.x, (int)x.x, __dp4a((int)w.y, (int)x.y, 0)) +
           __dp4a((int)w.z, (int)x.z, __dp4a((int)w.w, (int)x.w, 0));
}

__device__ inline float2 total_of(const float2 shares[4], float2 sum) {
    return make_float2(sum.x + ((shares[0].x + shares[1].x) + (shares[2].x + shares[3].x)),
                       sum.y + ((shares[0].y + shares[1].y) + (shares[2].y + shares[3].y)));
}

// A lane sixteen elements a turn.
template <int FORMAT> struct Slice8 {
    uint4 u[4];
    float scale[4], sums[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 512 + lane * 16, at = first + i;
            u[t] = make_uint4(0, 0, 0, 0);
            scale[t] = sums[t] = 0;
            if (!WHOLE && i >= n) continue;
            u[t] = *(const uint4 *)(x.quants + (lane & 1) * x.plane + at / 32 * 16);
            scale[t] = x.scales[at / 32];
            if (FORMAT == FORMAT_Q8M) sums[t] = x.sums[at / 16];
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        const __half *scales = (const __half *)(chunk + n);
        float2 shares[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || t * 512 + lane * 16 < n ? t * 512 + lane * 16 : 0;
            float dot = scale[t] * (float)dot_4x4(*(const uint4 *)(chunk + i), u[t]);
            shares[t] = make_float2(0, 0);
            if (FORMAT == FORMAT_Q8) shares[t].x = __half2float(scales[i / 32]) * dot;
            if (FORMAT == FORMAT_Q8S) shares[t].x = __half2float(scales[i / 16]) * dot;
            if (FORMAT == FORMAT_Q8M) {
                float2 s = __half22float2(((const __half2 *)scales)[i / 32]);
                shares[t] = make_float2(s.x * dot, s.y * sums[t]);
            }
        }
        return total_of(shares, sum);
    }
};
template <> struct Slice<FORMAT_W8> {
    uint4 u[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 512 + lane * 16;
            u[t] = make_uint4(0, 0, 0, 0);
            if (WHOLE || i < n) u[t] = *(const uint4 *)(x.quants + first + i);
        }
    }
    template <bool WHOLE> __device__ int dot(const char *chunk, int n, int lane, int sum) const {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || t * 512 + lane * 16 < n ? t * 512 + lane * 16 : 0;
            sum += dot_4x4(*(const uint4 *)(chunk + i), u[t]);
        }
        return sum;
    }
};
template <> struct Slice<FORMAT_Q8> : Slice8<FORMAT_Q8> {};
template <> struct Slice<FORMAT_Q8S> : Slice8<FORMAT_Q8S> {};
template <> struct Slice<FORMAT_Q8M> : Slice8<FORMAT_Q8M> {};

// A lane one group of 32 a turn.
template <int FORMAT> struct Slice4 {
    uint4 u[4], v[4];
    float scale[4], sums[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 32 + lane, group = first / 32 + i;
            u[t] = v[t] = make_uint4(0, 0, 0, 0);
            scale[t] = sums[t] = 0;
            if (!WHOLE && i * 32 >= n) continue;
            u[t] = *(const uint4 *)(x.quants + group * 16);
            v[t] = *(const uint4 *)(x.quants + x.plane + group * 16);
            scale[t] = x.scales[group] * 0.0625f; // for 16 times the sums
            float2 both = *(const float2 *)(x.sums + group * 2);
            sums[t] = (both.x + both.y) * (FORMAT == FORMAT_Q4 ? -8 : 1);
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        const char *scales = chunk + n / 2;
        float2 shares[4];
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || (t * 32 + lane) * 32 < n ? t * 32 + lane : 0;
            float dot = (float)nibbles_dot(*(const uint4 *)(chunk + i * 16), u[t], v[t]);
            shares[t] = make_float2(0, 0);
            if (FORMAT == FORMAT_Q4) {
                shares[t].x = __half2float(((const __half *)scales)[i]) * fmaf(scale[t], dot, sums[t]);
            } else {
                float2 s = __half22float2(((const __half2 *)scales)[i]);
                shares[t] = make_float2(s.x * (scale[t] * dot), s.y * sums[t]);
            }
        }
        return total_of(shares, sum);
    }
};
template <> struct Slice<FORMAT_Q4> : Slice4<FORMAT_Q4> {};
template <> struct Slice<FORMAT_Q4M> : Slice4<FORMAT_Q4M> {};

// Likewise, of codes of a codebook.
template <int FORMAT> struct SliceBook {
    uint4 u[4], v[4];
    float scale[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 32 + lane, group = first / 32 + i;
            u[t] = v[t] = make_uint4(0, 0, 0, 0);
            scale[t] = 0;
            if (!WHOLE && i * 32 >= n) continue;
            u[t] = *(const uint4 *)(x.quants + group * 16);
            v[t] = *(const uint4 *)(x.quants + x.plane + group * 16);
            scale[t] = x.scales[group] * (FORMAT == FORMAT_NF4 ? NF4_DOT_UNIT : 1);
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        const char *scales = chunk + n / 2;
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || (t * 32 + lane) * 32 < n ? t * 32 + lane : 0;
            float dot = scale[t] * (float)book_dot<FORMAT>(*(const uint4 *)(chunk + i * 16), u[t], v[t]);
            float &to = t % 2 ? sum.y : sum.x;
            to = fmaf(FORMAT == FORMAT_NF4 ? ((const float *)scales)[i / 2]
                                           : __half2float(((const __half *)scales)[i]),
                      dot, to);
        }
        return sum;
    }
};
template <> struct Slice<FORMAT_IQ4> : SliceBook<FORMAT_IQ4> {};
template <> struct Slice<FORMAT_FP4> : SliceBook<FORMAT_FP4> {};
template <> struct Slice<FORMAT_NF4> : SliceBook<FORMAT_NF4> {};

// Likewise, of groups that hold their scales.
template <int FORMAT> struct SlicePacked {
    uint4 u[4], v[4];
    PackedInput<FORMAT> in[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 32 + lane, group = first / 32 + i;
            u[t] = v[t] = make_uint4(0, 0, 0, 0);
            in[t] = {};
            if (!WHOLE && i * 32 >= n) continue;
            u[t] = *(const uint4 *)(x.quants + group * 16);
            v[t] = *(const uint4 *)(x.quants + x.plane + group * 16);
            in[t] = packed_input<FORMAT>(x.scales[group], *(const float2 *)(x.sums + group * 2));
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || (t * 32 + lane) * 32 < n ? t * 32 + lane : 0;
            sum = packed_product<FORMAT>(packed_group<FORMAT>(chunk, n, i), u[t], v[t], in[t], sum);
        }
        return sum;
    }
};
template <> struct Slice<FORMAT_Q3> : SlicePacked<FORMAT_Q3> {};

// A lane two groups of 32 a turn, which are four apart and have one (d, dmin). Which is first is such that neighbouring
// lanes' reads of the input and of codes fall into different banks.
template <> struct Slice<FORMAT_Q2> {
    enum { TURNS = 2, TURN = 2048 };
    uint4 u[TURNS][2], v[TURNS][2];
    PackedInput<FORMAT_Q2> in[TURNS][2];
    static __device__ int lower_group(int lane) { return lane / 4 * 8 + lane % 4; }
    static __device__ int first_of(int lane) { return (lane / 4 + lane / 8) % 2 * 4; }
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < TURNS; t++)
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int i = t * TURN / 32 + lower_group(lane) + (first_of(lane) ^ 4 * k),
                          group = first / 32 + i;
                u[t][k] = v[t][k] = make_uint4(0, 0, 0, 0);
                in[t][k] = {};
                if (!WHOLE && i * 32 >= n) continue;
                u[t][k] = *(const uint4 *)(x.quants + group * 16);
                v[t][k] = *(const uint4 *)(x.quants + x.plane + group * 16);
                in[t][k] = packed_input<FORMAT_Q2>(x.scales[group], *(const float2 *)(x.sums + group * 2));
            }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
        const char *records = chunk + quant_bytes(FORMAT_Q2, n);
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            if (!WHOLE && t * TURN >= n) continue;
            const int lower = WHOLE || t * TURN + lane / 4 * 256 < n ? t * TURN / 32 + lower_group(lane) : 0;
            const char *record = records + lower / 16 * Q2_RECORD;
            const uint32_t units = *(const uint32_t *)(record + 32 + lower % 16 / 8 * 4);
            float2 sums[2];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const int i = lower + (first_of(lane) ^ 4 * k);
                const uint2 codes = *(const uint2 *)(chunk + i * 8);
                const uint32_t steps = *(const uint16_t *)(record + i % 16 * 2);
                sums[k] = q2_sums(make_uint4(codes.x, codes.y, steps, 0), u[t][k], v[t][k], in[t][k].sums);
            }
            const float2 unit = __half22float2(*(const __half2 *)&units);
            sum.x = fmaf(unit.x, fmaf(in[t][1].scale, sums[1].x, in[t][0].scale * sums[0].x), sum.x);
            sum.y = fmaf(unit.y * Q2_MINIMUMS, fmaf(in[t][1].scale, sums[1].y, in[t][0].scale * sums[0].y),
                         sum.y);
        }
        return sum;
    }
};

// Likewise, of wide codes.
template <int FORMAT> struct SliceWide {
    uint4 u[4], v[4];
    float scale[4];
    float2 sums[4];
    template <bool WHOLE> __device__ void load(const Input &x, int first, int n, int lane) {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = t * 32 + lane, group = first / 32 + i;
            u[t] = v[t] = make_uint4(0, 0, 0, 0);
            scale[t] = 0, sums[t] = make_float2(0, 0);
            if (!WHOLE && i * 32 >= n) continue;
            u[t] = *(const uint4 *)(x.quants + group * 16);
            v[t] = *(const uint4 *)(x.quants + x.plane + group * 16);
            scale[t] = x.scales[group];
            sums[t] = wide_sums<FORMAT>(*(const float2 *)(x.sums + group * 2));
        }
    }
    template <bool WHOLE> __device__ float2 dot(const char *chunk, int n, int lane, float2 sum) const {
#pragma unroll
        for (int t = 0; t < 4; t++) {
            int i = WHOLE || (t * 32 + lane) * 32 < n ? t * 32 + lane : 0;
            sum = wide_product(wide_group<FORMAT>(chunk, n, i), u[t], v[t], scale[t], sums[t], sum);
        }
        return sum;
    }
};
template <> struct Slice<FORMAT_Q5> : SliceWide<FORMAT_Q5> {};
template <> struct Slice<FORMAT_Q5M> : SliceWide<FORMAT_Q5M> {};
template <> struct Slice<FORMAT_Q6> : SliceWide<FORMAT_Q6> {};

#endif
