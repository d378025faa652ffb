// embed: x = embedding_scale · embedding[ids] + positions[position], normed where there is a norm.
#include "kernels/cuda/device/element.cuh"
#include "kernels/cuda/ops/out.cuh"

// One thread an element: one after the other they would each wait for memory. Grid: [n_tokens, cols / 256], block: 256.
// learned.data NULL: positions are not.
__global__ void embed_kernel(Weight w, const int32_t *ids, float scale, Weight learned,
                             const int32_t *positions, float *x) {
    const int i = (int)(blockIdx.y * blockDim.x + threadIdx.x);
    if (i >= w.cols) return;
    float value = scale * weight_element(w, ids[blockIdx.x], i);
    if (learned.data) value += weight_element(learned, positions[blockIdx.x], i);
    x[(int64_t)blockIdx.x * w.cols + i] = value;
}

Status cuda_embed(Backend *backend, const Head *head, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const dim3 grid((unsigned)cuda->step.n_tokens, (unsigned)((head->embedding.cols + 255) / 256));
    embed_kernel<<<grid, 256, 0, cuda->device.stream>>>(head->embedding, cuda->step.ids,
                                                        cuda->shape->embedding_scale, head->positions,
                                                        cuda->step.positions, (float *)x);
    Status status = CUDA_LAUNCHED(error, "embed: %d tokens", cuda->step.n_tokens);
    const NormCall norm = {(const float *)x, NULL, cuda->step.n_tokens, head->embedding_norm, DTYPE_F32, x};
    if (!status && head->embedding_norm.weight) status = cuda_norm(cuda, &norm, error);
    if (!status && cuda->shape->token_size > 0) status = token_rows_make(cuda, head, (const float *)x, error);
    return status ? error_prefix(error, "embed: ") : STATUS_OK;
}
