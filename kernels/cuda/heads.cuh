// What qkv does to heads after its product: norms, RoPE, and their way into the cache.
#ifndef PALAVER_KERNELS_CUDA_HEADS_CUH
#define PALAVER_KERNELS_CUDA_HEADS_CUH

#include "kernels/cuda/cache.cuh"

struct HeadArguments {
    int n_tokens;
    const float *bias, *q_norm, *k_norm; // NULL: none
    float eps;
    int n_heads, n_kv_heads, head_dim, rotary_dim;
    bool interleaved;
    const float2 *rope;
    const int32_t *slots;
    KvLayer kv;
};

template <class T> struct alignas(sizeof(T) * 2) Pair { T v[2]; };

#endif
