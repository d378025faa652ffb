// out, down: x += norm(W·y + bias), mostly without that norm.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/ptx.cuh"
#include "kernels/cuda/ops/gate_up.cuh"
#include "kernels/cuda/latent/latent.cuh"
#include "kernels/cuda/ops/out.cuh"

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

// Four elements a thread; n is a multiple of 4. Grid: [n / 1024], block: 256.
__global__ void __launch_bounds__(256) clear_kernel(int64_t n, float *x) {
    const int64_t i = ((int64_t)blockIdx.x * 256 + threadIdx.x) * 4;
    let_next_begin();
    kernels_before();
    if (i < n) *(float4 *)(x + i) = make_float4(0, 0, 0, 0);
}

Status out_clear(const CudaBackend *cuda, int64_t n, float *x, Error *error) {
    const dim3 grid((unsigned)((n / 4 + 255) / 256));
    return cuda_check(launch_dependent(cuda, clear_kernel, grid, 256, 0, n, x), error, "clearing %lld sums",
                      (long long)n);
}

// With a norm: added to zeros, where no input of these ops lies; then normed, and added to x.
Status out_add(CudaBackend *cuda, Gemm *gemm, const float *bias, Norm norm, const void *y, Error *error) {
    float *x = (float *)gemm->y, *sums = (float *)cuda->scratch.normed;
    const int n = cuda->step.n_tokens;
    if (!norm.weight) return add_linear(cuda, gemm, bias, y, error);
    gemm->y = sums, gemm->next = NULL, cuda->step.normed = NULL;
    Status status = out_clear(cuda, (int64_t)n * cuda->shape->hidden_size, sums, error);
    if (!status) status = add_linear(cuda, gemm, bias, y, error);
    return status ? status : cuda_add_normed(cuda, sums, n, norm, x, error);
}

Norm out_norm_behind(const CudaBackend *cuda, Norm norm) {
    return cuda->shape->adds_shares ? Norm{} : norm;
}

Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->out};
    gemm.y = x, gemm.order = layer->orders.out, gemm.chosen = &cuda->step.chosen.out;
    // What comes of one card of several is normed once all have added theirs.
    if (!cuda->shape->parallel_residual && layer->ffn_norm.weight && !layer->router && !cuda->peers)
        gemm.next = &layer->gate_up, gemm.next_norm = layer->ffn_norm.weight;
    Status status = cuda->shape->latent.rank > 0 ? latent_values(cuda, layer, y, &y, error) : STATUS_OK;
    if (!status) status = cuda_norm_residual(cuda, layer->attn_norm, (float *)x, error);
    if (!status)
        status = out_add(cuda, &gemm, layer->bo, out_norm_behind(cuda, layer->attn_post_norm), y, error);
    return status ? error_prefix(error, "out: ") : STATUS_OK;
}

Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    Gemm gemm = {&layer->down};
    gemm.y = x, gemm.order = layer->orders.down, gemm.chosen = &cuda->step.chosen.down;
    Status status = cuda_norm_residual(cuda, layer->ffn_norm, (float *)x, error);
    if (!status)
        status = layer->router ? experts_down(cuda, layer, g, (float *)x, error)
                               : out_add(cuda, &gemm, layer->b_down,
                                         out_norm_behind(cuda, layer->ffn_post_norm), g, error);
    if (!status) status = token_rows_end_layer(cuda, layer, (float *)x, error);
    return status ? error_prefix(error, "down: ") : STATUS_OK;
}
