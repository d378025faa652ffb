// Products of several linear layers with one input, norm(x), kept for kernels that go on with them.
#ifndef PALAVER_KERNELS_CUDA_OPS_PRODUCTS_CUH
#define PALAVER_KERNELS_CUDA_OPS_PRODUCTS_CUH

#include "kernels/cuda/gemm/gemm.cuh"

// The input, and the GEMM that has taken it last, whose form of it another one may share; w NULL: none has, and the first one's
// kernel is told to taken.chosen.
struct LayerInput {
    const float *x;
    Norm norm;
    const int32_t *order;
    Gemm taken;
};

// y [n_tokens, w->rows], of a type that *type is told: float32, but where inputs are rounded to FP8, whose tiles store the
// operand type alone.
Status input_products(CudaBackend *cuda, const Linear *w, LayerInput *input, void *y, DType *type,
                      Error *error);

// Element i of them.
__device__ inline float product_at(const void *products, DType type, int64_t i) {
    return type == DTYPE_F32   ? ((const float *)products)[i]
           : type == DTYPE_F16 ? __half2float(((const __half *)products)[i])
                               : __bfloat162float(((const __nv_bfloat16 *)products)[i]);
}

// Elements i, …, i + 3, i being a multiple of 4.
__device__ inline float4 products_at(const void *products, DType type, int64_t i) {
    if (type == DTYPE_F32) return *(const float4 *)((const float *)products + i);
    const uint2 halves = *(const uint2 *)((const __half *)products + i);
    return make_float4(product_at(&halves, type, 0), product_at(&halves, type, 1),
                       product_at(&halves, type, 2), product_at(&halves, type, 3));
}

// ---- gate.cu: gates behind attention -----------------------------------------------------------------------------

// A layer's gates, in scratch.gates, as cuda->step.gate names them, for attend().
Status gate_make(CudaBackend *cuda, const Layer *layer, LayerInput *input, Error *error);
// y [n_tokens, width], in operand type, times the sigmoids of cuda->step.gate; without one nothing.
Status gate_apply(CudaBackend *cuda, void *y, Error *error);

#endif
