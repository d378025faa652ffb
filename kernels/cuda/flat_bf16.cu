// See flat.cuh.
#include "kernels/cuda/flat_mma.cuh"
#include "kernels/cuda/flat_wgmma.cuh"

cudaError_t flat_bf16(CudaBackend *cuda, FlatArguments *a) {
    return cuda->compute == 90 ? launch_flat<__nv_bfloat16>(cuda, a)
                               : launch_flat_mma<__nv_bfloat16, FORMAT_BF16>(cuda, a);
}
