// Launches of kernels that may begin while the one before them ends (programmatic dependent launch); they call
// kernels_before() ahead of the first access to what others write or still read.
#ifndef PALAVER_KERNELS_CUDA_DEVICE_LAUNCH_CUH
#define PALAVER_KERNELS_CUDA_DEVICE_LAUNCH_CUH

#include "kernels/cuda/backend.cuh"

template <class... Parameters, class... Arguments>
static inline cudaError_t launch_overlapping(const CudaBackend *cuda, void (*kernel)(Parameters...),
                                             dim3 grid, dim3 block, size_t shared,
                                             const Arguments &...arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = cuda->device.stream;
    // Elsewhere kernels_before() is empty.
    config.attrs = &attribute, config.numAttrs = dispatch_features(&cuda->device.card)->overlap;
    return cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...);
}

// Registers of a thread: of a flat GEMM's nine warps, and of the kernels of eight warps that stand beside two of them.
// A quarter of a multiprocessor has 16,384, and five of the GEMMs' 18 warps may fall to it. Where a norm finds no room,
// the GEMM behind it finds some of the multiprocessors taken, and puts two blocks onto others, for which all wait.
enum { FLAT_REGISTERS = 80, FLAT_WHOLE_REGISTERS = 128, BESIDE_REGISTERS = 56 };
static_assert(5 * 32 * FLAT_REGISTERS + 2 * 32 * BESIDE_REGISTERS <= 16384, "two flat GEMMs and a norm");
static_assert(3 * 32 * FLAT_WHOLE_REGISTERS + 2 * 32 * BESIDE_REGISTERS <= 16384,
              "a flat GEMM, alone, and a norm");

// The same for kernels that stand beside GEMMs. All of them divide a multiprocessor's memory in one way, as much as can
// be shared: another division waits until no block is left there.
template <class... Parameters, class... Arguments>
static inline cudaError_t launch_dependent(const CudaBackend *cuda, void (*kernel)(Parameters...), dim3 grid,
                                           dim3 block, size_t shared, const Arguments &...arguments) {
    cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                            cudaSharedmemCarveoutMaxShared);
    return code == cudaSuccess ? launch_overlapping(cuda, kernel, grid, block, shared, arguments...) : code;
}

#endif
