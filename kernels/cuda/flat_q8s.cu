// See flat.cuh.
#include "kernels/cuda/flat_mma.cuh"

cudaError_t flat_q8s(CudaBackend *cuda, FlatArguments *a) {
    return launch_flat_mma<__half, FORMAT_Q8S>(cuda, a);
}
