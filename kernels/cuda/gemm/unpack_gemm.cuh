// Launchers of the kernels of unpack_tile.cuh.
#ifndef PALAVER_KERNELS_CUDA_GEMM_UNPACK_GEMM_CUH
#define PALAVER_KERNELS_CUDA_GEMM_UNPACK_GEMM_CUH

#include "kernels/cuda/flat/flat.cuh"

// y = x · Wᵀ by tiles of `tokens` rows of x, 256 or 128; n is any number, what flat GEMMs need besides may be absent.
template <Format FORMAT>
MAY_LACK cudaError_t unpack_launch(const CudaBackend *cuda, const FlatArguments &a,
                                   int tokens); // unpack_format.cu

#endif
