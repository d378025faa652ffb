// out, down: x += W·y + bias, the sum within the product.
#include "kernels/cuda/backend.cuh"

// One thread an element. Grid: [n_tokens, n/256].
__global__ void add_bias_kernel(const float *bias, int n, float *x) {
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) x[(int64_t)blockIdx.x * n + i] += bias[i];
}

Status cuda_add_bias(CudaBackend *cuda, const float *bias, int n_rows, int n, float *x, Error *error) {
    if (!bias) return STATUS_OK;
    add_bias_kernel<<<dim3(n_rows, (n + 255) / 256), 256, 0, cuda->stream>>>(bias, n, x);
    return CUDA_LAUNCHED(error, "bias for [%d, %d]", n_rows, n);
}

static Status add_product(CudaBackend *cuda, const Linear *w, const float *bias, const void *y, void *x,
                          Error *error) {
    Product product = {w, y, x, DTYPE_F32, cuda->n_tokens, true};
    Status status = cuda_product(cuda, &product, error);
    return status ? status : cuda_add_bias(cuda, bias, cuda->n_tokens, w->rows, (float *)x, error);
}

Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    Status status = add_product(cuda_backend(backend), &layer->out, layer->bo, y, x, error);
    return status ? error_prefix(error, "out: ") : STATUS_OK;
}

Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    Status status = add_product(cuda_backend(backend), &layer->down, layer->b_down, g, x, error);
    return status ? error_prefix(error, "down: ") : STATUS_OK;
}
