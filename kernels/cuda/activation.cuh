// The activations of the feed-forward layer.
#ifndef PALAVER_KERNELS_CUDA_ACTIVATION_CUH
#define PALAVER_KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/ops.h"
#include "kernels/cuda/device/ptx.cuh"

// By two approximations of the special function unit, 2 ulp each; where e^-x overflows, -0.
__device__ inline float silu(float x) {
    return x * reciprocal_approx(1 + exp2_approx(x * -1.44269504f));
}

// The tanh approximation (Hendrycks & Gimpel, arXiv:1606.08415).
__device__ inline float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

__device__ inline float activate(Activation activation, float x) {
    return activation == ACTIVATION_SILU ? silu(x) : gelu_tanh(x);
}

// Every activation but xIELU, whose numbers only a kernel of its own has (ops/gate_up.cu); the persistent decoding kernel
// has code for those of activate(), and clamped_swiglu().
__device__ inline float activate_any(Activation activation, float x) {
    if (activation == ACTIVATION_GELU) return x * normcdff(x);
    if (activation == ACTIVATION_RELU) return x < 0 ? 0 : x; // NaN stays
    if (activation == ACTIVATION_RELU2) return x < 0 ? 0 : x * x;
    return activate(activation, x);
}

__device__ inline float clamped_swiglu(float gate, float up) {
    const float limit = CLAMPED_SWIGLU_LIMIT;
    gate = gate > limit ? limit : gate; // NaN stays
    up = up > limit ? limit : up < -limit ? -limit : up;
    return gate / (1 + expf(-CLAMPED_SWIGLU_ALPHA * gate)) * (up + 1);
}

// By expm1f(): near 0 e^x − 1 and x all but cancel each other.
__device__ inline float xielu(const Xielu &by, float x) {
    const float linear = by.beta * x;
    return x > 0 ? fmaf(by.alpha_p * x, x, linear)
                 : fmaf(by.alpha_n, expm1f(x > by.eps ? by.eps : x) - x, linear); // NaN stays
}

// activation(gate) · up.
__device__ inline float activate_pair(Activation activation, float gate, float up) {
    return activation == ACTIVATION_CLAMPED_SWIGLU ? clamped_swiglu(gate, up)
                                                   : activate_any(activation, gate) * up;
}

#endif
