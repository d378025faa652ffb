// Weights of few bits: what their codes stand for, and products of a group of 32 of them with activations in 8 bits.
//
// A group of the formats IQ4 and FP4 is four words; word j has the codes of elements 4j … 4j + 3 in its lower half and of
// 16 + 4j … in its upper one, so that half a word selects four entries of a codebook at once (`prmt`). A group of Q2 and
// Q3 is four words with everything, its scales too:
//
//   Q2   codes of elements 0 … 15; of 16 … 31; f16 (scale, min) of the first sixteen; of the last
//   Q3   the same of the codes' two low bits; their third bits; f16 scale of the first sixteen, of the last
//
// Element 4k + b of sixteen has its two bits at 8b + 2k of the word; of the third bits, those of half i are at 8b + 4i + k.
// So a shift and a mask give four neighbours as bytes.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_CODES_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_CODES_CUH

#include "kernels/cuda/device/formats.cuh"
#include "kernels/cuda/device/ptx.cuh"

// ---- codebooks ---------------------------------------------------------------------------------------------------

// Entries 0 … 7 (LOW) and 8 … 15 (HIGH) of a codebook, four to a word: magnitudes, of which one half is negative, and
// values above -128, as bytes.
template <int FORMAT> struct Book;
template <> struct Book<FORMAT_IQ4> {
    static constexpr uint32_t LOW_0 = 0x4153687f, LOW_4 = 0x0a162331, HIGH_0 = 0x26190d01,
                              HIGH_4 = 0x71594535;
    static constexpr uint32_t LOW_RAISED_0 = 0x3f2d1801, LOW_RAISED_4 = 0x766a5d4f,
                              HIGH_RAISED_0 = 0xa6998d81, HIGH_RAISED_4 = 0xf1d9c5b5;
    static constexpr bool HIGH_NEGATIVE = false;
};
template <> struct Book<FORMAT_FP4> {
    static constexpr uint32_t LOW_0 = 0x03020100, LOW_4 = 0x0c080604, HIGH_0 = 0x03020100,
                              HIGH_4 = 0x0c080604;
    static constexpr uint32_t LOW_RAISED_0 = 0x83828180, LOW_RAISED_4 = 0x8c888684,
                              HIGH_RAISED_0 = 0x7d7e7f80, HIGH_RAISED_4 = 0x74787a7c;
    static constexpr bool HIGH_NEGATIVE = true;
};

// The entries, 128 added, of the four codes in the lower half of w.
template <int FORMAT> __device__ inline uint32_t book_bytes(uint32_t w) {
    typedef Book<FORMAT> B;
    uint32_t low = __byte_perm(B::LOW_RAISED_0, B::LOW_RAISED_4, w);
    uint32_t high = __byte_perm(B::HIGH_RAISED_0, B::HIGH_RAISED_4, w);
    return __byte_perm(low, high, (w >> 1 & 0x4444) | 0x3210);
}

__device__ inline int book_entry(int format, int code) {
    uint32_t raised = format == FORMAT_IQ4 ? book_bytes<FORMAT_IQ4>(code) : book_bytes<FORMAT_FP4>(code);
    return (int)(raised & 255) - 128;
}

__device__ inline uint32_t word_of(const uint4 &v, int i) {
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// The sum of a group's entries times x: u has its first sixteen elements, v the others.
template <int FORMAT> __device__ inline int book_dot(uint4 q, uint4 u, uint4 v) {
    typedef Book<FORMAT> B;
    int low = 0, high = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        uint32_t w = word_of(q, j), other = w ^ 0x88888888;
        int x = (int)word_of(u, j), y = (int)word_of(v, j);
        low = __dp4a((int)bytes_or_zero(B::LOW_0, B::LOW_4, w), x, low);
        low = __dp4a((int)bytes_or_zero(B::LOW_0, B::LOW_4, w >> 16), y, low);
        high = __dp4a((int)bytes_or_zero(B::HIGH_0, B::HIGH_4, other), x, high);
        high = __dp4a((int)bytes_or_zero(B::HIGH_0, B::HIGH_4, other >> 16), y, high);
    }
    return B::HIGH_NEGATIVE ? low - high : high - low;
}

// ---- groups of four words ------------------------------------------------------------------------------------------

// Four neighbours' codes of half i, from 4k on, as bytes.
template <int FORMAT> __device__ inline uint32_t packed_bytes(const uint4 &q, int i, int k) {
    uint32_t codes = (i ? q.y : q.x) >> 2 * k & 0x03030303;
    int at = 4 * i + k; // of the third bits; they go to bit 2
    if (FORMAT == FORMAT_Q3) codes |= (at < 2 ? q.z << (2 - at) : q.z >> (at - 2)) & 0x04040404;
    return codes;
}

// The group's element `in`, 0 … 31.
template <int FORMAT> __device__ inline float packed_element(const uint4 &q, int in) {
    int i = in / 16, code = (int)(packed_bytes<FORMAT>(q, i, in % 16 / 4) >> in % 4 * 8 & 255);
    uint32_t scales = FORMAT == FORMAT_Q2 && i == 0 ? q.z : q.w;
    float2 s = __half22float2(*(__half2 *)&scales);
    if (FORMAT == FORMAT_Q2) return s.x * (float)code + s.y;
    return (i ? s.y : s.x) * (float)(code - 4);
}

// What both halves of a group add to a product: x ≈ scale times the integers in u and v, which add up to `sums` (with
// the scale).
template <int FORMAT>
__device__ inline float2 packed_product(uint4 q, uint4 u, uint4 v, float scale, float2 sums) {
    int first = 0, second = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        first = __dp4a((int)packed_bytes<FORMAT>(q, 0, k), (int)word_of(u, k), first);
        second = __dp4a((int)packed_bytes<FORMAT>(q, 1, k), (int)word_of(v, k), second);
    }
    float2 s = __half22float2(*(__half2 *)&q.w),
           dots = make_float2(scale * (float)first, scale * (float)second);
    if (FORMAT == FORMAT_Q3)
        return make_float2(s.x * fmaf(-4, sums.x, dots.x), s.y * fmaf(-4, sums.y, dots.y));
    float2 r = __half22float2(*(__half2 *)&q.z);
    return make_float2(fmaf(r.x, dots.x, r.y * sums.x), fmaf(s.x, dots.y, s.y * sums.y));
}

#endif
