// Inputs in e4m3 (kernels/fp8.h) on the device, for cards that multiply them.
#ifndef PALAVER_KERNELS_CUDA_W8_FP8_CUH
#define PALAVER_KERNELS_CUDA_W8_FP8_CUH

#include "kernels/cuda/w8/w8.cuh"
#include "kernels/fp8.h"

// What a row becomes in 8 bits.
typedef enum RowForm { ROW_W8, ROW_FP8_ROWS, ROW_FP8_GROUPS } RowForm;

// How a row's scales are found, and where those of groups go: the next group's are `stride` further on.
struct Fp8Row {
    float fixed; // 0: none
    bool powers;
    int stride;
    // most: the bits of the largest magnitude.
    __device__ float scale(uint32_t most) const {
        const float own = fp8_scale(__uint_as_float(most));
        if (fixed > 0) return own == own ? fixed : own;
        return powers ? fp8_power(own) : own;
    }
};

// Elements that share a scale, divided as W8Divisor does. Quotients far beyond the largest number stay there.
struct Fp8Divisor {
    float scale, inverse;
    __device__ explicit Fp8Divisor(float s) {
        scale = s > 0 ? s : 0;
        inverse = s > 0 ? __frcp_rn(s) : 0;
    }
    __device__ float quotient(float x) const {
        const float q = fminf(fmaxf(x * inverse, -1e4f), 1e4f);
        return fmaf(fmaf(-q, scale, x), inverse, q);
    }
    __device__ static uint32_t pair(float low, float high) {
        uint16_t codes = 0;
#if __CUDA_ARCH__ >= 890
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
#endif
        return codes;
    }
    __device__ uint32_t four(float4 v) const {
        return pair(quotient(v.x), quotient(v.y)) | pair(quotient(v.z), quotient(v.w)) << 16;
    }
};

template <RowForm FORM> struct DivisorOf { typedef Fp8Divisor Divisor; };
template <> struct DivisorOf<ROW_W8> { typedef W8Divisor Divisor; };

#endif
