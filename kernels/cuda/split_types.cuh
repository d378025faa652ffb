// How the types of a cache become operands of tensor cores: float16, exact for integers, which are multiplied with their
// scales afterwards.
//
// Integers are put below the leading bit of 1024 as float16: what is multiplied is 1024 + 128 + q of an int8, 1024 + 8 +
// q of a nibble, or 1024 + 16·(8 + q) of one that is left where it lies in its byte. Keys may stay so: what the offset
// adds to a dot product is known beforehand.
#ifndef PALAVER_KERNELS_CUDA_SPLIT_TYPES_CUH
#define PALAVER_KERNELS_CUDA_SPLIT_TYPES_CUH

#include "kernels/cuda/cache.cuh"

__device__ inline uint32_t halves(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *(uint32_t *)&h;
}
__device__ inline uint32_t subtract(uint32_t a, __half2 b) {
    __half2 h = __hsub2(*(__half2 *)&a, b);
    return *(uint32_t *)&h;
}
__device__ inline uint32_t multiply(uint32_t a, __half2 b) {
    __half2 h = __hmul2(*(__half2 *)&a, b);
    return *(uint32_t *)&h;
}

// Of eight neighbouring elements: pair(r), r < 4, of one row for keys, columns(…) of two rows for values. OFFSET: what
// is to be subtracted from pair r. FIRST, SECOND: which two elements pair r holds.
struct Int8 {
    static constexpr int BITS = 8;
    static constexpr bool INTEGER = true;
    typedef uint2 Eight;
    __device__ static constexpr int first(int r) { return 2 * r; }
    __device__ static constexpr int second(int r) { return 2 * r + 1; }
    __device__ static constexpr float offset(int) { return 1152; }
    __device__ static constexpr float factor(int) { // of what is left in pair r
        return 1;
    }
    __device__ static void pairs(Eight v, uint32_t out[4]) {
        uint32_t a = v.x ^ 0x80808080, b = v.y ^ 0x80808080;
        out[0] = __byte_perm(a, 0x64646464, 0x4140);
        out[1] = __byte_perm(a, 0x64646464, 0x4342);
        out[2] = __byte_perm(b, 0x64646464, 0x4140);
        out[3] = __byte_perm(b, 0x64646464, 0x4342);
    }
    __device__ static void columns(Eight v, Eight w, uint32_t out[8]) {
        const __half2 off = __float2half2_rn(1152);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t a = (i ? v.y : v.x) ^ 0x80808080, b = (i ? w.y : w.x) ^ 0x80808080;
            uint32_t low = __byte_perm(a, b, 0x5140), high = __byte_perm(a, b, 0x7362);
            out[4 * i] = subtract(__byte_perm(low, 0x64646464, 0x4140), off);
            out[4 * i + 1] = subtract(__byte_perm(low, 0x64646464, 0x4342), off);
            out[4 * i + 2] = subtract(__byte_perm(high, 0x64646464, 0x4140), off);
            out[4 * i + 3] = subtract(__byte_perm(high, 0x64646464, 0x4342), off);
        }
    }
};

struct Int4 {
    static constexpr int BITS = 4;
    static constexpr bool INTEGER = true;
    typedef uint32_t Eight;
    __device__ static constexpr int first(int r) { return r; }
    __device__ static constexpr int second(int r) { return r + 4; }
    __device__ static constexpr float offset(int r) { return r % 2 ? 1152 : 1032; }
    __device__ static constexpr float factor(int r) { return r % 2 ? 16 : 1; }
    // Nibbles 0 and 4, 1 and 5 of w.
    __device__ static uint32_t low(uint32_t w) { return (w & 0x000f000f) ^ 0x64086408; }
    __device__ static uint32_t high(uint32_t w) { return (w & 0x00f000f0) ^ 0x64806480; }
    __device__ static void pairs(Eight v, uint32_t out[4]) {
        out[0] = low(v), out[1] = high(v);
        out[2] = low(v >> 8), out[3] = high(v >> 8);
    }
    __device__ static void columns(Eight v, Eight w, uint32_t out[8]) {
        const __half2 off = __float2half2_rn(1032), sixteenth = __float2half2_rn(0.0625f),
                      off_high = __float2half2_rn(-72);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t a = __byte_perm(v, w, i ? 0x7632 : 0x5410);
#pragma unroll
            for (int j = 0; j < 2; j++, a >>= 8) {
                uint32_t h = high(a);
                __half2 odd = __hfma2(*(__half2 *)&h, sixteenth, off_high);
                out[4 * i + 2 * j] = subtract(low(a), off);
                out[4 * i + 2 * j + 1] = *(uint32_t *)&odd;
            }
        }
    }
};

// Types that are no integers: nothing to subtract.
struct Plain {
    static constexpr bool INTEGER = false;
    __device__ static constexpr int first(int r) { return 2 * r; }
    __device__ static constexpr int second(int r) { return 2 * r + 1; }
    __device__ static constexpr float offset(int) { return 0; }
    __device__ static constexpr float factor(int) { return 1; }
};

struct Half : Plain {
    static constexpr int BITS = 16;
    typedef uint4 Eight;
    __device__ static void pairs(Eight v, uint32_t out[4]) {
        out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
    }
    __device__ static void columns(Eight v, Eight w, uint32_t out[8]) {
        const uint32_t a[4] = {v.x, v.y, v.z, v.w}, b[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out[2 * i] = __byte_perm(a[i], b[i], 0x5410);
            out[2 * i + 1] = __byte_perm(a[i], b[i], 0x7632);
        }
    }
};

struct Bfloat : Plain {
    static constexpr int BITS = 16;
    typedef uint4 Eight;
    __device__ static float low(uint32_t w) { return __uint_as_float(w << 16); }
    __device__ static float high(uint32_t w) { return __uint_as_float(w & 0xffff0000); }
    __device__ static void pairs(Eight v, uint32_t out[4]) {
        out[0] = halves(low(v.x), high(v.x)), out[1] = halves(low(v.y), high(v.y));
        out[2] = halves(low(v.z), high(v.z)), out[3] = halves(low(v.w), high(v.w));
    }
    __device__ static void columns(Eight v, Eight w, uint32_t out[8]) {
        const uint32_t a[4] = {v.x, v.y, v.z, v.w}, b[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            out[2 * i] = halves(low(a[i]), low(b[i]));
            out[2 * i + 1] = halves(high(a[i]), high(b[i]));
        }
    }
};

struct Float : Plain {
    static constexpr int BITS = 32;
    struct Eight {
        float4 x, y;
    };
    __device__ static void pairs(Eight v, uint32_t out[4]) {
        out[0] = halves(v.x.x, v.x.y), out[1] = halves(v.x.z, v.x.w);
        out[2] = halves(v.y.x, v.y.y), out[3] = halves(v.y.z, v.y.w);
    }
    __device__ static void columns(Eight v, Eight w, uint32_t out[8]) {
        out[0] = halves(v.x.x, w.x.x), out[1] = halves(v.x.y, w.x.y);
        out[2] = halves(v.x.z, w.x.z), out[3] = halves(v.x.w, w.x.w);
        out[4] = halves(v.y.x, w.y.x), out[5] = halves(v.y.y, w.y.y);
        out[6] = halves(v.y.z, w.y.z), out[7] = halves(v.y.w, w.y.w);
    }
};

#endif
