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

// x += W·y + bias: in one kernel where W is W8, else the bias after it.
static Status add_linear(CudaBackend *cuda, Gemm *gemm, const float *bias, const void *y, Error *error) {
    gemm->n = cuda->step.n_tokens, gemm->epilogue = EPILOGUE_ADD;
    Status status = gemm_take(cuda, gemm, y, error);
    if (linear_is_w8(gemm->w)) gemm->bias = bias, bias = NULL;
    if (!status) status = cuda_gemm(cuda, gemm, error);
    return status ? status : cuda_add_bias(cuda, bias, gemm->n, gemm->w->rows, (float *)gemm->y, error);
}

Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->out};
    gemm.y = x, gemm.chosen = &cuda->step.chosen.out;
    if (!cuda->shape->parallel_residual) gemm.next = &layer->gate_up, gemm.next_norm = layer->ffn_norm.weight;
    Status status = add_linear(cuda, &gemm, layer->bo, y, error);
    return status ? error_prefix(error, "out: ") : STATUS_OK;
}

Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->down};
    gemm.y = x, gemm.chosen = &cuda->step.chosen.down;
    Status status = add_linear(cuda, &gemm, layer->b_down, g, error);
    return status ? error_prefix(error, "down: ") : STATUS_OK;
}
