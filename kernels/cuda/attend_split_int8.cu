// The kernels for splits of a cache in int8; a file of its own, to be compiled beside others.
#include "kernels/cuda/attend_split_kernel.cuh"

cudaError_t split_int8(CudaBackend *cuda, const SplitArguments *a) {
    return launch_split<Int8>(cuda, a);
}
