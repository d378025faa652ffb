// The kernels of flat.cuh for weights of one format each, compiled by themselves.
// INSTANCES: FORMAT_F16 FORMAT_BF16 FORMAT_Q8 FORMAT_Q8S FORMAT_Q8M FORMAT_Q4 FORMAT_Q4M
// INSTANCES: FORMAT_IQ4 FORMAT_FP4 FORMAT_Q2 FORMAT_Q3 FORMAT_Q5 FORMAT_Q5M FORMAT_Q6 FORMAT_E4M3 FORMAT_NF4
#include "kernels/cuda/flat/flat_mma.cuh"
#include "kernels/cuda/flat/flat_wgmma.cuh"

// The operand type of a format's weights.
template <Format FORMAT> struct OperandOf { typedef __half T; };
template <> struct OperandOf<FORMAT_BF16> { typedef __nv_bfloat16 T; };

template <Format FORMAT> cudaError_t flat_launch(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a) {
    typedef typename OperandOf<FORMAT>::T T;
    if (kernel == FLAT_WGMMA) return launch_flat<T, T, FORMAT>(cuda, a);
    return launch_flat_mma<T, FORMAT>(cuda, a);
}

template cudaError_t flat_launch<INSTANCE>(CudaBackend *cuda, FlatKernel kernel, FlatArguments *a);
