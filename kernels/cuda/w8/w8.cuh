// W8A8 (kernels/w8.h) on the device: activations are quantised token by token, multiplied with W8's integers into exact
// int32 sums, and these scaled. The five fused kernels of it stand where the rest of their work does:
//
//   norm + quantise                             norm_quantize_kernel()         norm.cu
//   dequantise + RoPE + into the cache          end_heads(), HeadsEpilogue     flat/flat_epilogue.cuh, tile_…
//   dequantise + residual                       end_tile(), AddEpilogue        likewise
//   dequantise + SiLU·mul; then quantise        end_gated(), GatedEpilogue     likewise; quantize_kernel(), w8.cu
//   dequantise + residual + norm + quantise     finish_norm_kernel()           quantize.cu, of sums in memory
#ifndef PALAVER_KERNELS_CUDA_W8_W8_CUH
#define PALAVER_KERNELS_CUDA_W8_W8_CUH

#include "kernels/cuda/device/ptx_wgmma_int8.cuh"
#include "kernels/w8.h"

#include <cuda_runtime.h>

// w8_result(), whose product no addition behind it takes in: bits are the same in every kernel.
__device__ inline float w8_value(int32_t acc, float token_scale, float channel_scale) {
    return __fmul_rn(__fmul_rn((float)acc, token_scale), channel_scale);
}

// The same of sums of FP8.
__device__ inline float w8_value(float acc, float token_scale, float channel_scale) {
    return __fmul_rn(__fmul_rn(acc, token_scale), channel_scale);
}

// w8_quantize() of a row of this scale without a division: x / scale is rounded as it is there, for the reciprocal is,
// and its product is put right by what it leaves over (Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990). Nothing exceeds 127, for scale is the largest magnitude's 127th part; what has no
// scale becomes 0.
struct W8Divisor {
    float scale, inverse;
    __device__ explicit W8Divisor(float s) {
        scale = s > 0 ? s : 0;
        inverse = s > 0 ? __frcp_rn(s) : 0;
    }
    __device__ int quantize(float x) const {
        float q = x * inverse;
        return __float2int_rn(fmaf(fmaf(-q, scale, x), inverse, q));
    }
    // Four elements of a row as the word that holds them.
    __device__ uint32_t four(float4 v) const {
        uint32_t low = __byte_perm(quantize(v.x), quantize(v.y), 0x0040),
                 high = __byte_perm(quantize(v.z), quantize(v.w), 0x0040);
        return __byte_perm(low, high, 0x5410);
    }
};

// The bits of |x|, whose order as integers is that of magnitudes, infinity and NaN above all.
__device__ inline uint32_t magnitude_bits(float4 v) {
    return max(max(__float_as_uint(fabsf(v.x)), __float_as_uint(fabsf(v.y))),
               max(__float_as_uint(fabsf(v.z)), __float_as_uint(fabsf(v.w))));
}

__device__ inline int dot_16(uint4 w, uint4 x, int sum) {
    sum = __dp4a((int)w.x, (int)x.x, sum);
    sum = __dp4a((int)w.y, (int)x.y, sum);
    sum = __dp4a((int)w.z, (int)x.z, sum);
    return __dp4a((int)w.w, (int)x.w, sum);
}

#endif
