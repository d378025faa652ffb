// Weights of few bits: what their codes stand for, and products of a group of 32 of them with activations in 8 bits.
//
// A group of the formats IQ4 and FP4 is four words; word j has the codes of elements 4j … 4j + 3 in its lower half and of
// 16 + 4j … in its upper one, so that half a word selects four entries of a codebook at once (`prmt`). A group of Q2 and
// Q3 is four words with everything, its scales too: of Q2 when it is read. What of its elements is at bit 8b + … belongs
// to the b-th of four neighbours, so that a mask gives four of them as bytes; `four` counts them, 0 … 7:
//
//   Q2   fours 0, 1, 4, 5, at 0, 2, 4, 6; fours 2, 3, 6, 7 likewise, so that the first sixteen elements are below the
//        last; min, scale of the last sixteen, scale of the first, min of the last, at 0, 4, 8, 12; f16 (d, dmin), which is
//        negative. The second pair of words is put together from a record of 512 elements: the groups' two bytes;
//        (d, dmin) of both halves; 8 bytes of nothing
//   Q3   fours 0, 1, at 3·four; 2, 3; 4, 5; two f16 scales. Above those are, at 6 of the first two words, the lower two
//        bits of fours 6 and 7, and in the third word, at 6 and 7, their third bits
//
// Wide formats have codes of five or six bits: the four words have those of fours 0 … 3 in their lower bits and the upper
// three (two) bits of fours 4 … 7 above them. What is left of these stands in words of a record behind all groups:
//
//   Q5   two groups' rest, a word each, four 4 + i at 2·i; their two f16 scales
//   Q5M  a group's rest likewise; f16 (scale, min)
//   Q6   a group's rest in two words, fours 4 and 6, 5 and 7, at 0 and 4; f16 scales of the first and the last sixteen
#ifndef PALAVER_KERNELS_CUDA_DEVICE_CODES_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_CODES_CUH

#include "kernels/cuda/device/formats.cuh"
#include "kernels/cuda/device/ptx.cuh"

// ---- 8-bit floats ----------------------------------------------------------------------------------------------

// The e4m3 numbers of the lower two bytes of w, exactly. A byte's exponent and fraction are those of a half, whose exponent
// counts from 15 instead of 7.
__device__ inline __half2 e4m3_pair(uint32_t w) {
#if __CUDA_ARCH__ >= 890
    return e4m3_halves((uint16_t)w);
#else
    uint32_t upper = __byte_perm(w, 0, 0x1404), halves = (upper & 0x80008000) | (upper >> 1 & 0x3f803f80);
    return __hmul2(*(__half2 *)&halves, __float2half2_rn(256));
#endif
}

// A scale for e4m3_scaled(): of trained weights a scale is often below what a half has with all of its bits, 256 times it
// is not.
__device__ inline uint32_t e4m3_scale(float scale) {
    __half2 both = __float2half2_rn(scale * 256);
    return *(uint32_t *)&both;
}

// The numbers of the lower two bytes of w times the scale, as halves.
__device__ inline uint32_t e4m3_scaled(uint32_t w, uint32_t scale) {
    __half2 v = __hmul2(__hmul2(e4m3_pair(w), __float2half2_rn(1.0f / 256)), *(__half2 *)&scale);
    return *(uint32_t *)&v;
}

// ---- codebooks ---------------------------------------------------------------------------------------------------

// Entries 0 … 7 and 8 … 15 of a codebook, four to a word, in two forms. RAISED: 128 added. Else one half is as it is, and
// negative, so that bytes_or_sign() gives -1 for a code of the other half, whose entries make up for it by a one that is
// added; the upper half is back to front. FP4 has no code 8, a second zero.
template <int FORMAT> struct Book;
template <> struct Book<FORMAT_IQ4> {
    static constexpr uint32_t LOW_0 = 0xbfad9881, LOW_4 = 0xf6eaddcf, HIGH_0 = 0x36465a72,
                              HIGH_4 = 0x020e1a27;
    static constexpr uint32_t LOW_RAISED_0 = 0x3f2d1801, LOW_RAISED_4 = 0x766a5d4f,
                              HIGH_RAISED_0 = 0xa6998d81, HIGH_RAISED_4 = 0xf1d9c5b5;
};
template <> struct Book<FORMAT_FP4> {
    static constexpr uint32_t LOW_0 = 0x04030201, LOW_4 = 0x0d090705, HIGH_0 = 0xfcfaf8f4,
                              HIGH_4 = 0xfffffefd;
    static constexpr uint32_t LOW_RAISED_0 = 0x83828180, LOW_RAISED_4 = 0x8c888684,
                              HIGH_RAISED_0 = 0x7d7e7f80, HIGH_RAISED_4 = 0x74787a7c;
};

// The bytes of a table (0 … 7 in a and b, 8 … 15 in c and d) for the four codes in the lower half of w.
__device__ inline uint32_t table_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t w) {
    return __byte_perm(__byte_perm(a, b, w), __byte_perm(c, d, w), (w >> 1 & 0x4444) | 0x3210);
}

// The entries, 128 added, of the four codes in the lower half of w.
template <int FORMAT> __device__ inline uint32_t book_bytes(uint32_t w) {
    typedef Book<FORMAT> B;
    return table_bytes(B::LOW_RAISED_0, B::LOW_RAISED_4, B::HIGH_RAISED_0, B::HIGH_RAISED_4, w);
}

// A scale's bits as a half.
__device__ inline uint32_t half_of(float scale) {
    return __half_as_ushort(__float2half_rn(scale));
}

// NF4's book is of no small integers: its entries are taken as 32512 times of them in 16 bits, two signed bytes, or as
// halves.
constexpr float NF4_UNIT = 1.0f / 32512;
__device__ inline uint32_t nf4_upper(uint32_t w) {
    return table_bytes(0xcebda881, 0x00f4e9dc, 0x2b1f140a, 0x7f5c4738, w);
}
__device__ inline uint32_t nf4_lower(uint32_t w) {
    return table_bytes(0xd8519500, 0x007089e0, 0xea42701b, 0x00d174f8, w);
}
__device__ inline void nf4_halves(uint32_t w, uint32_t out[2]) {
    uint32_t upper = table_bytes(0xb6b8b9bc, 0x00adb1b4, 0x3533312d, 0x3c393837, w),
             lower = table_bytes(0x52339200, 0x00d4ea8d, 0x68e02618, 0x00c9800d, w);
    out[0] = __byte_perm(lower, upper, 0x5140), out[1] = __byte_perm(lower, upper, 0x7362);
}

__device__ inline int book_entry(int format, int code) {
    if (format == FORMAT_NF4) return 256 * (int8_t)nf4_upper(code) + (int8_t)nf4_lower(code);
    uint32_t raised = format == FORMAT_IQ4 ? book_bytes<FORMAT_IQ4>(code) : book_bytes<FORMAT_FP4>(code);
    return (int)(raised & 255) - 128;
}

__device__ inline uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// What these products wait for is the pipe of logic, shifts, prmt and moves. A 1 that the compiler does not know lets
// multiplications stand for some of them, and keeps a constant in a register that would be moved there for every use.
__device__ inline int unknown_one() {
    return (int)threadIdx.z + 1;
}

// The sum of a group's entries times x: u has its first sixteen elements, v the others. minus: for ~w.
template <int FORMAT> __device__ inline int book_dot(uint4 q, uint4 u, uint4 v) {
    typedef Book<FORMAT> B;
    const uint32_t one = unknown_one(), minus = 0u - one, low = B::LOW_0 * one, high = B::HIGH_0 * one;
    int sum = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t w = word_of(q, j), upper = w >> 16;
        int x = (int)word_of(u, j), y = (int)word_of(v, j);
        sum = __dp4a((int)bytes_or_sign(low, B::LOW_4, w), x, sum);
        sum = __dp4a((int)bytes_or_sign(high, B::HIGH_4, w * minus + minus), x, sum);
        sum = __dp4a((int)bytes_or_sign(low, B::LOW_4, upper), y, sum);
        sum = __dp4a((int)bytes_or_sign(high, B::HIGH_4, upper * minus + minus), y, sum);
    }
    return sum;
}

// Of NF4 in units of its own: with x in 8 bits its entries are taken in 8 as well, negative ones as 1/108.96 and the others
// as 1/124.765 of an integer, which they miss least: by 0.0012 in the mean, 0.0024 at most (a bf16 misses them by 0.0006
// and 0.002). Neither half has a sign, so that a code of the other half gives 0. The units are as 69 to 79.
constexpr float NF4_DOT_UNIT = 1.0f / (124.765f * 69);
template <> __device__ inline int book_dot<FORMAT_NF4>(uint4 q, uint4 u, uint4 v) {
    const uint32_t one = unknown_one(), minus = 0u - one, low = 0x2b394c6du * one, high = 0x37465a7du * one;
    int below = 0, above = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const uint32_t w = word_of(q, j), upper = w >> 16;
        const int x = (int)word_of(u, j), y = (int)word_of(v, j);
        below = __dp4a((int)bytes_or_sign(low, 0x000a141f, w), x, below);
        above = __dp4a((int)bytes_or_sign(high, 0x0a141f2a, w * minus + minus), x, above);
        below = __dp4a((int)bytes_or_sign(low, 0x000a141f, upper), y, below);
        above = __dp4a((int)bytes_or_sign(high, 0x0a141f2a, upper * minus + minus), y, above);
    }
    return above * 69 - below * 79;
}

// 16 times the sum of a group's nibbles times x: the upper ones stay where they are.
__device__ inline int nibbles_dot(uint4 q, uint4 u, uint4 v) {
    int low = 0, high = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        low = __dp4a((int)(word_of(q, j) & 0x0f0f0f0f), (int)word_of(u, j), low);
        high = dot_bytes(word_of(q, j) & 0xf0f0f0f0, word_of(v, j), high);
    }
    return low * 16 + high;
}

// ---- groups of four words ------------------------------------------------------------------------------------------

// Group i of the chunk that has n elements.
template <int FORMAT> __device__ inline uint4 packed_group(const char *chunk, int n, int i) {
    if (FORMAT == FORMAT_Q3) return *(const uint4 *)(chunk + i * 16);
    const uint2 codes = *(const uint2 *)(chunk + i * 8);
    const char *record = chunk + quant_bytes(FORMAT, n) + i / 16 * Q2_RECORD;
    return make_uint4(codes.x, codes.y, *(const uint16_t *)(record + i % 16 * 2),
                      *(const uint32_t *)(record + 32 + i % 16 / 8 * 4));
}

// The codes of a four, as bytes.
template <int FORMAT> __device__ inline uint32_t packed_bytes(const uint4 &q, int four) {
    if (FORMAT == FORMAT_Q2) return (four / 2 % 2 ? q.y : q.x) >> (four % 2 * 2 + four / 4 * 4) & 0x03030303;
    if (four < 6) return word_of(q, four / 2) >> four % 2 * 3 & 0x07070707;
    return (word_of(q, four - 6) >> 6 & 0x03030303) | (q.z >> (four - 2) & 0x04040404);
}

// The element `in` of a group that holds its scales, 0 … 31.
template <int FORMAT> __device__ inline float packed_element(const uint4 &q, int in) {
    int code = (int)(packed_bytes<FORMAT>(q, in / 4) >> in % 4 * 8 & 255);
    float2 s = __half22float2(*(const __half2 *)&q.w);
    if (FORMAT == FORMAT_Q2) {
        uint32_t scale = q.z >> (in < 16 ? 8 : 4) & 15, min = q.z >> (in < 16 ? 0 : 12) & 15;
        return s.x * (float)scale * (float)code + s.y * (float)min;
    }
    return (in < 16 ? s.x : s.y) * (float)(code - 4);
}

// Of Q2, f16 (scale, min) of the group's first sixteen elements (i = 0), or of its last.
__device__ inline uint32_t packed_scales(const uint4 &q, int i) {
    const uint32_t both_steps = i ? q.z >> 4 | q.z << 4 : q.z >> 8 | q.z << 16;
    const uint32_t raised = masked(both_steps, 0x000f000f, 0x64006400);
    __half2 both = __hsub2(*(const __half2 *)&raised, __float2half2_rn(1024));
    both = __hmul2(both, *(const __half2 *)&q.w);
    return *(uint32_t *)&both;
}

// Sums of both halves' codes times x: of Q2 4 and 64 times, of Q3 64 times. Bits are left where they are, and products
// weighed instead.
template <int FORMAT> __device__ inline int2 packed_dots(uint4 q, uint4 u, uint4 v);
template <> __device__ inline int2 packed_dots<FORMAT_Q2>(uint4 q, uint4 u, uint4 v) {
    int by_1 = __dp4a((int)(q.x & 0x03030303), (int)u.x, 0),
        by_4 = __dp4a((int)(q.x & 0x0c0c0c0c), (int)u.y, 0);
    by_1 = __dp4a((int)(q.y & 0x03030303), (int)u.z, by_1);
    by_4 = __dp4a((int)(q.y & 0x0c0c0c0c), (int)u.w, by_4);
    int by_16 = __dp4a((int)(q.x & 0x30303030), (int)v.x, 0), by_64 = dot_bytes(q.x & 0xc0c0c0c0, v.y, 0);
    by_16 = __dp4a((int)(q.y & 0x30303030), (int)v.z, by_16), by_64 = dot_bytes(q.y & 0xc0c0c0c0, v.w, by_64);
    return make_int2(by_1 * 4 + by_4, by_16 * 4 + by_64);
}
template <> __device__ inline int2 packed_dots<FORMAT_Q3>(uint4 q, uint4 u, uint4 v) {
    const int one = unknown_one(), two = 2 * one, four = 4 * one, eight = 8 * one, most = 64 * one;
    int by_1 = __dp4a((int)(q.x & 0x07070707), (int)u.x, 0),
        by_8 = __dp4a((int)(q.x & 0x38383838), (int)u.y, 0);
    by_1 = __dp4a((int)(q.y & 0x07070707), (int)u.z, by_1),
    by_8 = __dp4a((int)(q.y & 0x38383838), (int)u.w, by_8);
    int first = by_1 * most + by_8 * eight;
    by_1 = __dp4a((int)(q.z & 0x07070707), (int)v.x, 0), by_8 = __dp4a((int)(q.z & 0x38383838), (int)v.y, 0);
    int by_64 = dot_bytes(q.y & 0xc0c0c0c0, v.w, dot_bytes(q.x & 0xc0c0c0c0, v.z, 0));
    int third_6 = __dp4a((int)(q.z & 0x40404040), (int)v.z, 0), third_7 = dot_bytes(q.z & 0x80808080, v.w, 0);
    return make_int2(first, by_1 * most + (by_8 * eight + (third_6 * four + (third_7 * two + by_64))));
}

// What packed_product() takes of an input. Q3: its scale, for sums of 64 times the integers, and of the sums of the first
// sixteen elements and the last what belongs to the codes' offset. Q2: its scale, for q2_sums(), and the integers' sums, of
// the first sixteen elements 16 times.
template <int FORMAT> struct PackedInput { float scale; };
template <> struct PackedInput<FORMAT_Q2> {
    float scale;
    uint32_t sums;
};
template <> struct PackedInput<FORMAT_Q3> {
    float scale;
    float2 sums;
};
template <int FORMAT> __device__ inline PackedInput<FORMAT> packed_input(float scale, float2 sums);
template <> __device__ inline PackedInput<FORMAT_Q2> packed_input(float scale, float2 sums) {
    const float unit = 12582912, inverse = scale > 0 ? __fdividef(1, scale) : 0; // see store_quants()
    uint32_t first = __float_as_uint(fmaf(sums.x, 16 * inverse, unit)),
             last = __float_as_uint(fmaf(sums.y, inverse, unit));
    return PackedInput<FORMAT_Q2>{scale * 0x1p-10f, __byte_perm(first, last, 0x5410)};
}
template <> __device__ inline PackedInput<FORMAT_Q3> packed_input(float scale, float2 sums) {
    return PackedInput<FORMAT_Q3>{scale * 0.015625f, make_float2(-4 * sums.x, -4 * sums.y)};
}

// Of a group of Q2, integers: 1024 times the sum of its codes times their scales times x, and 16 times that of its
// minimums times x (Q2_MINIMUMS times that are 1024). Both halves' scales and minimums stay where they are as well, for the
// codes are weighed the other way.
constexpr float Q2_MINIMUMS = 64;
__device__ inline float2 q2_sums(const uint4 &q, uint4 u, uint4 v, uint32_t sums) {
    const int2 dots = packed_dots<FORMAT_Q2>(q, u, v);
    return make_float2((float)((int)(q.z & 0x0f00) * dots.x + (int)(q.z & 0x00f0) * dots.y),
                       (float)dot_halves(sums, q.z & 0xf00f, 0));
}

// `sum` and the product of a group with its 32 elements of x.
template <int FORMAT>
__device__ inline float2 packed_product(const uint4 &q, uint4 u, uint4 v, const PackedInput<FORMAT> &x,
                                        float2 sum) {
    float2 s = __half22float2(*(const __half2 *)&q.w);
    if constexpr (FORMAT == FORMAT_Q3) {
        int2 dots = packed_dots<FORMAT>(q, u, v);
        return make_float2(fmaf(s.x, fmaf(x.scale, (float)dots.x, x.sums.x), sum.x),
                           fmaf(s.y, fmaf(x.scale, (float)dots.y, x.sums.y), sum.y));
    } else {
        float2 sums = q2_sums(q, u, v, x.sums);
        return make_float2(fmaf(s.x, x.scale * sums.x, sum.x),
                           fmaf(s.y * Q2_MINIMUMS, x.scale * sums.y, sum.y));
    }
}

// ---- wide codes -----------------------------------------------------------------------------------------------------

constexpr int WIDE_WORDS = 2; // of a group's rest, at most

template <int FORMAT> struct WideGroup {
    uint4 codes;
    uint32_t rest[WIDE_WORDS]; // of Q5 and Q5M one
    uint32_t scales;
};

// What lies with group i of the chunk that has n elements.
template <int FORMAT>
__device__ inline void load_rest(const char *chunk, int n, int i, WideGroup<FORMAT> *g) {
    const char *records = chunk + quant_bytes(FORMAT, n);
    if (FORMAT == FORMAT_Q6) {
        const uint32_t *record = (const uint32_t *)records + 3 * i;
        g->rest[0] = record[0], g->rest[1] = record[1], g->scales = record[2];
    } else if (FORMAT == FORMAT_Q5M) {
        uint2 record = ((const uint2 *)records)[i];
        g->rest[0] = record.x, g->scales = record.y;
    } else {
        const uint32_t *record = (const uint32_t *)records + i / 2 * 3;
        g->rest[0] = record[i % 2], g->scales = ((const uint16_t *)(record + 2))[i % 2];
    }
}

template <int FORMAT> __device__ inline WideGroup<FORMAT> wide_group(const char *chunk, int n, int i) {
    WideGroup<FORMAT> g;
    g.codes = *(const uint4 *)(chunk + i * 16);
    load_rest<FORMAT>(chunk, n, i, &g);
    return g;
}

// The codes of a four, as bytes.
template <int FORMAT> __device__ inline uint32_t wide_bytes(const WideGroup<FORMAT> &g, int four) {
    const uint32_t w = word_of(g.codes, four % 4);
    const int i = four % 4;
    if (FORMAT == FORMAT_Q6)
        return four < 4 ? w & 0x3f3f3f3f : (w >> 2 & 0x30303030) | (g.rest[i % 2] >> i / 2 * 4 & 0x0f0f0f0f);
    return four < 4 ? w & 0x1f1f1f1f : (w >> 3 & 0x1c1c1c1c) | (g.rest[0] >> 2 * i & 0x03030303);
}

// What code `in` of the group stands for.
template <int FORMAT> __device__ inline float wide_value(const WideGroup<FORMAT> &g, int code, int in) {
    float2 s = __half22float2(*(const __half2 *)&g.scales);
    if (FORMAT == FORMAT_Q5M) return s.x * (float)code + s.y;
    if (FORMAT == FORMAT_Q5) return s.x * (float)(code - 16);
    return (in < 16 ? s.x : s.y) * (float)(code - 32);
}

// The group's element `in`, 0 … 31.
template <int FORMAT> __device__ inline float wide_element(const WideGroup<FORMAT> &g, int in) {
    return wide_value(g, (int)(wide_bytes(g, in / 4) >> in % 4 * 8 & 255), in);
}

// What wide_product() takes of an input's sums of the first sixteen elements and the last.
template <int FORMAT> __device__ inline float2 wide_sums(float2 sums) {
    if (FORMAT == FORMAT_Q6) return make_float2(-32 * sums.x, -32 * sums.y);
    return make_float2((sums.x + sums.y) * (FORMAT == FORMAT_Q5 ? -16 : 1), 0);
}

// Sums of codes times x, bits left where they are and weighed as those of packed_dots(): of Q6 the first half's, and 16
// times the last's; of the others 64 times the whole group's.
template <int FORMAT> __device__ inline int2 wide_dots(const WideGroup<FORMAT> &g, uint4 u, uint4 v) {
    const uint32_t lower = FORMAT == FORMAT_Q6 ? 0x3f3f3f3f : 0x1f1f1f1f;
    const int one = unknown_one(), four = 4 * one, sixteen = 16 * one;
    int first = 0, upper = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        first = __dp4a((int)(word_of(g.codes, i) & lower), (int)word_of(u, i), first);
        upper = dot_bytes(word_of(g.codes, i) & ~lower, word_of(v, i), upper);
    }
    if (FORMAT == FORMAT_Q6) {
        int by_16 = dot_bytes(g.rest[0] & 0xf0f0f0f0, v.z, dot_bytes(g.rest[1] & 0xf0f0f0f0, v.w, 0));
        int by_1 = __dp4a((int)(g.rest[0] & 0x0f0f0f0f), (int)v.x, 0);
        by_1 = __dp4a((int)(g.rest[1] & 0x0f0f0f0f), (int)v.y, by_1);
        return make_int2(first, by_1 * sixteen + (upper * four + by_16));
    }
    const uint32_t r = g.rest[0];
    first = __dp4a((int)(r & 0x03030303), (int)v.x, first);
    int by_4 = __dp4a((int)(r & 0x0c0c0c0c), (int)v.y, 0), by_16 = __dp4a((int)(r & 0x30303030), (int)v.z, 0);
    int by_64 = dot_bytes(r & 0xc0c0c0c0, v.w, 0);
    int sum = by_16 * four + by_64;
    sum = upper * (8 * one) + sum;
    sum = by_4 * sixteen + sum;
    return make_int2(first * (64 * one) + sum, 0);
}

// `sum` and the product of a group with its 32 elements of x, whose scale is `scale`.
template <int FORMAT>
__device__ inline float2 wide_product(const WideGroup<FORMAT> &g, uint4 u, uint4 v, float scale, float2 sums,
                                      float2 sum) {
    int2 dots = wide_dots(g, u, v);
    float2 s = __half22float2(*(const __half2 *)&g.scales);
    if (FORMAT == FORMAT_Q6)
        return make_float2(fmaf(s.x, fmaf(scale, (float)dots.x, sums.x), sum.x),
                           fmaf(s.y, fmaf(scale * 0.0625f, (float)dots.y, sums.y), sum.y));
    float dot = scale * 0.015625f;
    if (FORMAT == FORMAT_Q5) return make_float2(fmaf(s.x, fmaf(dot, (float)dots.x, sums.x), sum.x), sum.y);
    return make_float2(fmaf(s.x, dot * (float)dots.x, sum.x), fmaf(s.y, sums.x, sum.y));
}

#endif
