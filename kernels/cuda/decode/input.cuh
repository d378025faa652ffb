// A phase's input in shared memory, which all rows of weights are multiplied with, in one of four forms, or in the first and
// one of the next two:
//
//   floats  x[i], in blocks of 256: first the first four of every eight, then the last four, so that the lanes'
//           16-byte reads fall into different banks
//   quants  groups of 32 as int8 and a scale: q of the first halves of all groups, then (quant_plane later) of the
//           second halves; then scale [cols/32]; then Σ scale·q over every 16 [cols/16]
//   halves  groups of 32 as halves and a scale, at the place of quants: the first eight of every sixteen elements, then
//           (quant_plane later) the others; then scale [cols/32]
//   whole   q[cols] as int8, at the place of quants; its one scale goes with the products (W8, kernels/w8.h)
#ifndef PALAVER_KERNELS_CUDA_DECODE_INPUT_CUH
#define PALAVER_KERNELS_CUDA_DECODE_INPUT_CUH

#include "kernels/cuda/decode/decode.cuh"

constexpr float QUANT_LEAST = 0x1p-100f, QUANT_MOST = 0x1p120f;

struct Input {
    const float *floats;
    const char *quants;
    int plane;
    const float *scales, *sums;
};

// N times four elements of the input become quants, at place[n] … place[n] + 3; those from cols on are not stored. Eight
// neighbouring lanes hold a group of 32, which is rounded to the nearest multiples of its largest magnitude / 127. All N
// go side by side, for each waits for its shuffles. A group below QUANT_LEAST is zeros; one that holds an infinity or
// NaN, or what has no quick inverse, has scale NaN, so that the error stays visible.
template <int N>
__device__ inline void store_quants(const Input &x, const float4 *f, const int *place, int cols) {
    const float unit = 12582912; // 1.5·2^23: what is added to it is rounded to integers, in the lowest bits
    uint32_t top[N], packed[N];
    float scale[N];
    int sum[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        top[n] = max(__float_as_uint(fabsf(f[n].x)), __float_as_uint(fabsf(f[n].y)));
        top[n] = max(top[n], max(__float_as_uint(fabsf(f[n].z)), __float_as_uint(fabsf(f[n].w))));
    }
#pragma unroll
    for (int o = 1; o < 8; o *= 2)
#pragma unroll
        for (int n = 0; n < N; n++)
            top[n] = max(top[n], __shfl_xor_sync(~0u, top[n], o)); // NaN and infinity are largest
#pragma unroll
    for (int n = 0; n < N; n++) {
        float largest = __uint_as_float(top[n]),
              inverse = largest > QUANT_LEAST ? __fdividef(127, largest) : 0;
        scale[n] = largest < QUANT_MOST ? largest * (1.0f / 127) : __int_as_float(0x7fffffff);
        uint32_t q[4] = {
            __float_as_uint(fmaf(f[n].x, inverse, unit)), __float_as_uint(fmaf(f[n].y, inverse, unit)),
            __float_as_uint(fmaf(f[n].z, inverse, unit)), __float_as_uint(fmaf(f[n].w, inverse, unit))};
        packed[n] = __byte_perm(__byte_perm(q[0], q[1], 0x0040), __byte_perm(q[2], q[3], 0x0040), 0x5410);
        sum[n] = __dp4a((int)packed[n], 0x01010101, 0);
    }
#pragma unroll
    for (int o = 1; o < 4; o *= 2)
#pragma unroll
        for (int n = 0; n < N; n++) sum[n] += __shfl_xor_sync(~0u, sum[n], o);
#pragma unroll
    for (int n = 0; n < N; n++) {
        int i = place[n];
        if (i >= cols) continue;
        *(uint32_t *)(x.quants + (i >> 4 & 1) * x.plane + i / 32 * 16 + i % 16) = packed[n];
        if (i % 32 == 0) ((float *)x.scales)[i / 32] = scale[n];
        if (i % 16 == 0) ((float *)x.sums)[i / 16] = scale[n] * (float)sum[n];
    }
}

// Elements i … i + 3 of the input become halves. Eight neighbouring lanes hold a group of 32, which is divided by the power
// of two below its largest magnitude.
__device__ inline void store_halves(const Input &x, float4 f, int i, int cols) {
    uint32_t top = __float_as_uint(fabsf(f.x));
    top = max(top, __float_as_uint(fabsf(f.y)));
    top = max(top, max(__float_as_uint(fabsf(f.z)), __float_as_uint(fabsf(f.w))));
    for (int o = 1; o < 8; o *= 2) top = max(top, __shfl_xor_sync(~0u, top, o));
    if (i >= cols) return;
    const uint32_t exponent = top & 0x7f800000; // of what is infinite or NaN the result will be NaN
    const float inverse = __uint_as_float(0x7f000000 - exponent);
    const __half2 pairs[2] = {__floats2half2_rn(f.x * inverse, f.y * inverse),
                              __floats2half2_rn(f.z * inverse, f.w * inverse)};
    *(uint2 *)(x.quants + (i >> 3 & 1) * x.plane + i / 16 * 16 + i % 8 * 2) =
        make_uint2(*(const uint32_t *)&pairs[0], *(const uint32_t *)&pairs[1]);
    if (i % 32 == 0) ((float *)x.scales)[i / 32] = __uint_as_float(exponent);
}

__device__ inline int float_index(int i) {
    return (i & ~255) + (i >> 2 & 1) * 128 + (i >> 3 & 31) * 4;
}

#endif
