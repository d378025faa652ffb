// The kernels for splits of a cache, of one type each, compiled by themselves.
// INSTANCES: DTYPE_F32 DTYPE_F16 DTYPE_BF16 DTYPE_INT8 DTYPE_INT4
#include "kernels/cuda/attention/split_kernel.cuh"

template cudaError_t split_launch<INSTANCE>(CudaBackend *cuda, const SplitArguments *a);
template cudaError_t split_fit_of<INSTANCE>(const Card *card, const KvLayer *kv, const AttendHeads *heads,
                                            int tokens, SplitFit *fit);
