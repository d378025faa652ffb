// GEMVs: y [n, w.rows] = x [n, w.cols] · Wᵀ for n = 1 … GEMV_MOST rows of x, on CUDA cores, on every card. What decides
// is how fast W comes: each warp takes two rows of W at a time (of gated ones a pair), with the next chunk of both on
// its way while it multiplies with the last.
//
// Plain weights are multiplied with x as it is. For quantised ones a block rounds x to 8 bits in groups of 32 first,
// into shared memory, and multiplies integers, as the decoding kernel does (decode/input.cuh): a relative error of some
// 5e-3 of normal numbers. Sums are float32. A row's result has the same bits for every n and wherever the row stands.
#ifndef PALAVER_KERNELS_CUDA_GEMM_GEMV_CUH
#define PALAVER_KERNELS_CUDA_GEMM_GEMV_CUH

#include "kernels/cuda/flat/flat.cuh"

// Kernels for weights of one format each; a->n <= GEMV_MOST.
typedef cudaError_t GemvLaunch(const CudaBackend *cuda, const FlatArguments *a);
template <Format FORMAT>
MAY_LACK cudaError_t gemv_launch(const CudaBackend *cuda, const FlatArguments *a); // gemv_format.cu
bool gemv_built(int format);                                                       // whether it is there

#endif
