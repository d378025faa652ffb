// What qkv does to heads after its GEMM: norms, RoPE, and their way into the cache.
#ifndef PALAVER_KERNELS_CUDA_HEADS_CUH
#define PALAVER_KERNELS_CUDA_HEADS_CUH

#include "kernels/cuda/cache/cache.cuh"
#include "kernels/cuda/device/built.cuh"
#include "kernels/cuda/dispatch.h"

struct HeadArguments {
    int n_tokens;
    const float *bias, *q_norm, *k_norm, *v_norm; // NULL: none
    const float *temperatures; // [n_tokens] that queries are multiplied by; NULL: they are not
    // [n_tokens] of the whole rows of q and of k, 1 / root mean square; NULL: norms are of heads
    const float2 *row_scales;
    bool norms_turned; // norms of heads come after RoPE
    bool layer_norms;  // of heads, each with weights of its own
    float eps;
    int n_heads, n_kv_heads, head_dim, rotary_dim; // n_kv_heads 0: keys and values are another layer's
    bool interleaved;
    const float2 *rope;
    int rope_stride; // turns of a token, of which rotary_dim/2 are this layer's
    const int32_t *slots;
    KvLayer kv;
};

// Heads that kernels finish in registers: RoPE over the whole head, pairs half a head apart, no norms, and a cache in
// f16.
static inline bool plain_heads(const HeadArguments &a) {
    return !a.interleaved && a.rotary_dim == a.head_dim && a.rope_stride * 2 == a.rotary_dim &&
           a.n_kv_heads > 0 && !a.q_norm && !a.k_norm && !a.v_norm && !a.temperatures &&
           a.kv.type == DTYPE_F16 && !a.kv.rotate_keys && a.kv.head_stride % 2 == 0;
}

struct CudaBackend;
struct ShardRows; // shard_ops.h

// Brings heads, of which a GEMM has stored products in cuda->scratch.wide as `Sum`, to q, in T, and into the cache
// (ops/heads.cu).
template <class T, class Sum>
MAY_LACK cudaError_t heads_finish(const CudaBackend *cuda, HeadsKernel kernel, const HeadArguments &a,
                                  void *q);

// HeadArguments.row_scales, from the same products; in_floats: Sum is float, else the operands' type (ops/row_scales.cu).
cudaError_t row_scales(const CudaBackend *cuda, HeadArguments *a, bool in_floats);
// Where several cards have the heads of a row: what these add to its squares; then the scales from those of all, which
// become zeros.
cudaError_t row_squares(const CudaBackend *cuda, const HeadArguments &a, bool in_floats,
                        const ShardRows *rows);
cudaError_t row_scales_of_squares(const CudaBackend *cuda, HeadArguments *a, const ShardRows *rows);

template <class T> struct alignas(sizeof(T) * 2) Pair { T v[2]; };

#endif
