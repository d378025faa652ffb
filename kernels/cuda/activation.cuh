// The activations of the feed-forward layer.
#ifndef PALAVER_KERNELS_CUDA_ACTIVATION_CUH
#define PALAVER_KERNELS_CUDA_ACTIVATION_CUH

#include "kernels/ops.h"

__device__ inline float silu(float x) {
    return x / (1 + __expf(-x));
}

// The tanh approximation (Hendrycks & Gimpel, arXiv:1606.08415).
__device__ inline float gelu_tanh(float x) {
    return 0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

__device__ inline float activate(Activation activation, float x) {
    return activation == ACTIVATION_SILU ? silu(x) : gelu_tanh(x);
}

#endif
