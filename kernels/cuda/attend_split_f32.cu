// The kernels for splits of a cache in f32; a file of its own, to be compiled beside others.
#include "kernels/cuda/attend_split_kernel.cuh"

cudaError_t split_f32(CudaBackend *cuda, const SplitArguments *a) {
    return launch_split<Float>(cuda, a);
}
