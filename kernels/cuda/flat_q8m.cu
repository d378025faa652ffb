// See flat.cuh.
#include "kernels/cuda/flat_mma.cuh"

cudaError_t flat_q8m(CudaBackend *cuda, FlatArguments *a) {
    return launch_flat_mma<__half, FORMAT_Q8M>(cuda, a);
}
