// queries.cu: what attention multiplies with keys.
#ifndef PALAVER_KERNELS_CUDA_ATTENTION_QUERIES_CUH
#define PALAVER_KERNELS_CUDA_ATTENTION_QUERIES_CUH

#include "kernels/cuda/cache.cuh"

// [n_tokens, n_heads*head_dim] of the call's type each: for the kept prefix of a sequence that lost something after it, and
// for everything else. The call's own q, or in the backend's `wide`.
struct Queries {
    const void *recent, *kept;
};

// Launches nothing if the call's queries will do.
cudaError_t cuda_queries(CudaBackend *cuda, const AttendCall *call, Queries *queries);

#endif
