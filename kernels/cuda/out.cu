// out, down: x += W·y + bias.
#include "kernels/cuda/gemm/gemm.cuh"

// One thread an element. Grid: [n_tokens, n/256].
__global__ void add_bias_kernel(const float *bias, int n, float *x) {
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i < n) x[(int64_t)blockIdx.x * n + i] += bias[i];
}

Status cuda_add_bias(CudaBackend *cuda, const float *bias, int n_rows, int n, float *x, Error *error) {
    if (!bias) return STATUS_OK;
    add_bias_kernel<<<dim3(n_rows, (n + 255) / 256), 256, 0, cuda->device.stream>>>(bias, n, x);
    return CUDA_LAUNCHED(error, "bias for [%d, %d]", n_rows, n);
}

// x += W·y in one kernel, and the bias after it.
static Status add_linear(CudaBackend *cuda, const Gemm *gemm, const float *bias, Error *error) {
    Status status = cuda_gemm(cuda, gemm, error);
    return status ? status : cuda_add_bias(cuda, bias, gemm->n, gemm->w->rows, (float *)gemm->y, error);
}

Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->out, y, cuda->step.n_tokens, EPILOGUE_ADD, x};
    gemm.chosen = &cuda->step.chosen.out;
    Status status = add_linear(cuda, &gemm, layer->bo, error);
    return status ? error_prefix(error, "out: ") : STATUS_OK;
}

Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->down, g, cuda->step.n_tokens, EPILOGUE_ADD, x};
    gemm.chosen = &cuda->step.chosen.down;
    Status status = add_linear(cuda, &gemm, layer->b_down, error);
    return status ? error_prefix(error, "down: ") : STATUS_OK;
}
