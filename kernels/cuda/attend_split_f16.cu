// The kernels for splits of a cache in f16; a file of its own, to be compiled beside others.
#include "kernels/cuda/attend_split_kernel.cuh"

cudaError_t split_f16(CudaBackend *cuda, const SplitArguments *a) {
    return launch_split<Half>(cuda, a);
}
