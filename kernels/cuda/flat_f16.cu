// See flat.cuh.
#include "kernels/cuda/flat_mma.cuh"
#include "kernels/cuda/flat_wgmma.cuh"

cudaError_t flat_f16(CudaBackend *cuda, FlatArguments *a) {
    return cuda->compute == 90 ? launch_flat<__half>(cuda, a) : launch_flat_mma<__half, FORMAT_F16>(cuda, a);
}
