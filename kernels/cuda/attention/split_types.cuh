// How the types of a cache become operands of tensor cores, as float16.
//
// Integers are left where they lie, as the low bits of a float16 below the smallest normal one: bits u mean u·2^-24,
// which tensor cores multiply exactly. u is q + OFFSET, never negative; 16·u where a nibble is the high one of its
// byte. What the offset adds to a sum is known beforehand (keys) or summed up beside it (values), and scales multiply
// sums or weights: no element is touched more than once.
//
// Rows come by ldmatrix, 16 bytes of a row a matrix: lane l = 4·g + t has word t of row g for keys, and 16 bits, at g,
// of rows 2t and 2t + 1 for values. Which elements share an mma is open as long as both operands agree: mma i of a row
// takes elements key_dim(i, t, 0 … 3) of lane t, in the order of its columns, and value_dim(i, g, 0 and 1) as rows g
// and g + 8. They all lie in SPAN elements.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_TYPES_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_SPLIT_TYPES_CUH

#include "kernels/cuda/cache/store.cuh"
#include "kernels/cuda/device/ptx.cuh"

constexpr float TINY = 1.0f / (1 << 24); // what the lowest bit of a float16 means

__device__ inline uint32_t halves(float low, float high) {
    __half2 h = __floats2half2_rn(low, high);
    return *(uint32_t *)&h;
}
// Eight elements of a type of 16 bits as halves, element e times factor(e).
template <class F> __device__ inline uint4 scaled_halves(const uint4 &raw, DType type, F factor) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    uint32_t scaled[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 two = type == DTYPE_F16 ? __half22float2(*(const __half2 *)&words[i])
                                             : __bfloat1622float2(*(const __nv_bfloat162 *)&words[i]);
        scaled[i] = halves(two.x * factor(2 * i), two.y * factor(2 * i + 1));
    }
    return make_uint4(scaled[0], scaled[1], scaled[2], scaled[3]);
}
__device__ inline uint32_t mul_half2(uint32_t a, uint32_t b) {
    __half2 h = __hmul2(*(__half2 *)&a, *(__half2 *)&b);
    return *(uint32_t *)&h;
}

// keys(): how many a warp takes at a time. MMAS: of two matrices beside each other. An operand of element d is
// q + OFFSET times bits(d)·TINY; queries are divided by bits(d)·TINY·UNIT, so that scores are the mma sums times UNIT.
struct Int8 {
    static constexpr int BITS = 8, SPAN = 16, MMAS = 2, OFFSET = 128;
    static constexpr bool INTEGER = true;
    static constexpr float UNIT = 1 << 24;
    __device__ static constexpr int keys(int heads, int group) { return heads > 1 && group == 32 ? 16 : 32; }
    __device__ static constexpr float bits(int) { return 1; }
    __device__ static constexpr int key_dim(int i, int t, int e) { return i * 16 + t * 4 + e; }
    __device__ static constexpr int value_dim(int i, int g, int e) { return i * 16 + g * 2 + e; }
    __device__ static void operands(uint32_t left, uint32_t right, bool values, uint32_t out[MMAS][2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t w = (i ? right : left) ^ 0x80808080;
            out[i][0] = __byte_perm(w, 0, values ? 0x4240 : 0x4140);
            out[i][1] = __byte_perm(w, 0, values ? 0x4341 : 0x4342);
        }
    }
};

struct Int4 {
    static constexpr int BITS = 4, SPAN = 32, MMAS = 4, OFFSET = 8;
    static constexpr bool INTEGER = true;
    static constexpr float UNIT = 1 << 22; // queries times 4 and 1/4, not 1 and 1/16
    __device__ static constexpr int keys(int, int) { return 32; }
    __device__ static constexpr float bits(int d) { return d % 2 ? 16 : 1; }
    __device__ static constexpr int key_dim(int i, int t, int e) {
        return i / 2 * 32 + t * 8 + i % 2 + e % 2 * 4 + e / 2 * 2;
    }
    __device__ static constexpr int value_dim(int i, int g, int e) {
        return i / 2 * 32 + g * 4 + i % 2 + e * 2;
    }
    __device__ static uint32_t low(uint32_t w) { return masked(w, 0x000f000f, 0x00080008); }
    __device__ static uint32_t high(uint32_t w) { return masked(w, 0x00f000f0, 0x00800080); }
    __device__ static void operands(uint32_t left, uint32_t right, bool, uint32_t out[MMAS][2]) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint32_t w = i ? right : left;
            out[2 * i][0] = low(w), out[2 * i + 1][0] = high(w);
            out[2 * i][1] = low(w >> 8), out[2 * i + 1][1] = high(w >> 8);
        }
    }
};

// Types that are no integers: nothing to subtract, and no scales.
struct Plain {
    static constexpr int SPAN = 16, MMAS = 1, OFFSET = 0;
    static constexpr bool INTEGER = false;
    static constexpr float UNIT = 1;
    __device__ static constexpr int keys(int, int) { return 16; }
    __device__ static constexpr float bits(int) { return 1 / TINY; }
    __device__ static constexpr int key_dim(int i, int t, int e) {
        return i * 16 + e / 2 * 8 + t * 2 + e % 2;
    }
    __device__ static constexpr int value_dim(int i, int g, int e) { return i * 16 + e * 8 + g; }
    __device__ static void operands(uint32_t left, uint32_t right, bool, uint32_t out[1][2]) {
        out[0][0] = left, out[0][1] = right;
    }
};

struct Half : Plain {
    static constexpr int BITS = 16;
};

struct Bfloat : Plain {
    static constexpr int BITS = 16;
    __device__ static uint32_t converted(uint32_t w) {
        return halves(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000));
    }
    __device__ static void operands(uint32_t left, uint32_t right, bool, uint32_t out[1][2]) {
        out[0][0] = converted(left), out[0][1] = converted(right);
    }
};

// Converted on the way out of shared memory: see SplitWarp.
struct Float : Plain {
    static constexpr int BITS = 32;
    __device__ static constexpr int key_dim(int i, int t, int e) { return i * 16 + e * 4 + t; }
    __device__ static constexpr int value_dim(int i, int g, int e) { return i * 16 + g * 2 + e; }
};

#endif
