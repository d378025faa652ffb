// Prompts of layers that recur in chunks: whether, and by which kernels. See delta_chunks.cuh.
#include "kernels/cuda/recurring/delta_chunks.cuh"

bool delta_chunks_fit(const DeltaArguments &a) {
    const DeltaRule *r = &a.rule;
    return a.n_tokens >= DELTA_CHUNK && (r->key_dim == 128 || r->key_dim == 64) && r->value_dim % 64 == 0;
}

cudaError_t delta_chunks(const CudaBackend *cuda, const DeltaArguments &a) {
    const cudaError_t code = delta_before(cuda, a);
    if (code != cudaSuccess) return code;
    return a.turns ? delta_by_wgmma(cuda, a) : delta_by_mma(cuda, a);
}
