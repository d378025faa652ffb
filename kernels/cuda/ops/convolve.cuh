// What qkv does in a layer that convolves (Convolution in kernels/decoder_shape.h), after its GEMM.
#ifndef PALAVER_KERNELS_CUDA_OPS_CONVOLVE_CUH
#define PALAVER_KERNELS_CUDA_OPS_CONVOLVE_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/device/built.cuh"

struct ConvolveArguments {
    int n_tokens;
    bool alone;                    // each is of a sequence of its own
    const float *bias;             // [3·n_heads·head_dim] of queries, keys and values; NULL: none
    const float *conv, *conv_bias; // [n_heads·head_dim, taps], [n_heads·head_dim]; the latter NULL: none
    int taps, n_heads, n_kv_heads, head_dim;
    const int32_t *slots;   // [n_tokens]; -1: there is no such token
    const int32_t *earlier; // [n_tokens, taps - 1] of the tokens before, the nearest first; -1: there is none
    KvLayer kv;
};

// From what a GEMM has stored in cuda->scratch.wide as `Sum`, [n_tokens, 3, n_heads·head_dim], to y, in T.
template <class T, class Sum>
MAY_LACK cudaError_t convolve_finish(const CudaBackend *cuda, const ConvolveArguments &a, void *y);

#endif
