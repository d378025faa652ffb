// The kernels for splits of a cache in bf16; a file of its own, to be compiled beside others.
#include "kernels/cuda/attend_split_kernel.cuh"

cudaError_t split_bf16(CudaBackend *cuda, const SplitArguments *a) {
    return launch_split<Bfloat>(cuda, a);
}
