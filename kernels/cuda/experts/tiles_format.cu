// The kernels of tiles.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M FORMAT_IQ4 FORMAT_FP4
// INSTANCES: FORMAT_Q2 FORMAT_Q3 FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/experts/tiles.cuh"

template <int FORMAT, bool GATED>
static cudaError_t launch(const CudaBackend *cuda, const ExpertTilesCall &a) {
    typedef typename std::conditional<FORMAT == FORMAT_BF16, __nv_bfloat16, __half>::type T;
    auto kernel = expert_tiles_kernel<T, FORMAT, GATED>;
    constexpr int SHARED = ExpertRing<FORMAT>::BYTES;
    int blocks = 0;
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (code == cudaSuccess)
        code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, EXPERT_TILE_THREADS, SHARED);
    return code == cudaSuccess ? launch_dependent(cuda, kernel, dim3(blocks * cuda->device.card.n_sms),
                                                  EXPERT_TILE_THREADS, SHARED, a)
                               : code;
}

template <Format FORMAT> cudaError_t expert_tiles_launch(const CudaBackend *cuda, const ExpertTilesCall &a) {
    return a.gated ? launch<FORMAT, true>(cuda, a) : launch<FORMAT, false>(cuda, a);
}

template cudaError_t expert_tiles_launch<INSTANCE>(const CudaBackend *cuda, const ExpertTilesCall &a);
