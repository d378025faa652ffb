// See flat.cuh.
#include "kernels/cuda/flat_mma.cuh"

cudaError_t flat_q8m(const CudaBackend *cuda, const FlatArguments *a) {
    return launch_flat_mma<__half, FORMAT_Q8M>(cuda, a);
}
