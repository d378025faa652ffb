// The kernels of flat.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M
#include "kernels/cuda/gemm/flat_mma.cuh"
#include "kernels/cuda/gemm/flat_wgmma.cuh"

template <Format FORMAT> cudaError_t flat_launch(CudaBackend *cuda, FlatArguments *a) {
    if constexpr (FORMAT == FORMAT_F16) {
        if (cuda->compute == 90) return launch_flat<__half>(cuda, a);
        return launch_flat_mma<__half, FORMAT>(cuda, a);
    } else if constexpr (FORMAT == FORMAT_BF16) {
        if (cuda->compute == 90) return launch_flat<__nv_bfloat16>(cuda, a);
        return launch_flat_mma<__nv_bfloat16, FORMAT>(cuda, a);
    } else {
        return launch_flat_mma<__half, FORMAT>(cuda, a);
    }
}

template cudaError_t flat_launch<INSTANCE>(CudaBackend *cuda, FlatArguments *a);
