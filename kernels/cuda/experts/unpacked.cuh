// Quantised experts in tiles on Hopper, unpacked on their way: launchers of unpacked_format.cu.
#ifndef PALAVER_KERNELS_CUDA_EXPERTS_UNPACKED_CUH
#define PALAVER_KERNELS_CUDA_EXPERTS_UNPACKED_CUH

#include "kernels/cuda/flat/flat.cuh"

// Of n experts, whose rows of x are from starts[e] on, in tiles of 64 or 128 of them.
struct UnpackedGroups {
    int n, tokens;
    const int32_t *starts; // on the device, [n + 1]
};

// a: w with the data of all experts and the rows of one; x [pairs, w.cols], n pairs; GATED with biases of all gates and of
// all ups, [n, w.rows / 2] each, or NULL, and any activation; or STORE.
template <Format FORMAT>
cudaError_t unpacked_launch(const CudaBackend *cuda, const FlatArguments &a, const UnpackedGroups &groups);

#endif
