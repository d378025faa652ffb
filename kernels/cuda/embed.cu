// embed: x = embedding_scale · embedding[ids]
#include "kernels/cuda/cuda.cuh"

// One block a token, one thread an element and turn.
__global__ void embed_kernel(Weight w, const int32_t *ids, float scale, float *x) {
    const char *row = w.data + (int64_t)ids[blockIdx.x] * w.row_bytes;
    for (int i = threadIdx.x; i < w.cols; i += blockDim.x)
        x[(int64_t)blockIdx.x * w.cols + i] = scale * row_element(w.format, row, w.cols, i);
}

Status cuda_embed(Backend *backend, const Head *head, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    embed_kernel<<<cuda->n_tokens, 256, 0, cuda->stream>>>(head->embedding, cuda->ids,
                                                           cuda->shape->embedding_scale, (float *)x);
    return CUDA_LAUNCHED(error, "embed: %d tokens", cuda->n_tokens);
}
