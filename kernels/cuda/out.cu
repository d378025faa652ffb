// out, down: x += W·y (+ bias), the sum within the product.
#include "kernels/cuda/cuda.cuh"

// One thread an element. Grid: [n_tokens, n/256].
__global__ void add_bias_kernel(const float *bias, int n, float *x) {
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) x[(int64_t)blockIdx.x * n + i] += bias[i];
}

Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Product product = {&layer->out, y, x, DTYPE_F32, cuda->n_tokens, true};
    Status status = cuda_product(cuda, &product, error);
    if (status || !layer->bo) return status ? error_prefix(error, "out: ") : STATUS_OK;
    int n = cuda->shape->hidden_size;
    add_bias_kernel<<<dim3(cuda->n_tokens, (n + 255) / 256), 256, 0, cuda->stream>>>(layer->bo, n,
                                                                                     (float *)x);
    return CUDA_LAUNCHED(error, "out: bias for [%d, %d]", cuda->n_tokens, n);
}

Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Product product = {&layer->down, g, x, DTYPE_F32, cuda->n_tokens, true};
    Status status = cuda_product(cuda, &product, error);
    return status ? error_prefix(error, "down: ") : STATUS_OK;
}
