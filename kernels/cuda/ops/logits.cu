// logits: cap(output·norm(x) + output_bias) for chosen tokens.
#include "kernels/cuda/gemm/gemm.cuh"

// One thread a logit. Grid: [rows, n/256]; count: so many rows there are, NULL: all.
__global__ void __launch_bounds__(256) cap_kernel(float cap, const int32_t *count, int n, float *logits) {
    const int i = blockIdx.y * 256 + threadIdx.x;
    if (i >= n || (count && blockIdx.x >= *count)) return;
    float *logit = logits + (int64_t)blockIdx.x * n + i;
    *logit = cap * tanhf(*logit / cap);
}

static Status cap_logits(CudaBackend *cuda, const Gemm *gemm, Error *error) {
    const int n = gemm->w->rows;
    if (!(cuda->shape->logit_cap > 0)) return STATUS_OK;
    cap_kernel<<<dim3(gemm->n, (n + 255) / 256), 256, 0, cuda->device.stream>>>(
        cuda->shape->logit_cap, gemm->count, n, (float *)gemm->y);
    return CUDA_LAUNCHED(error, "capping [%d, %d]", gemm->n, n);
}

// Checks the tokens and brings them to the device.
static Status upload_rows(CudaBackend *cuda, const LogitRows *rows, Error *error) {
    for (int i = 0; i < rows->n; i++)
        if (rows->tokens[i] < 0 || rows->tokens[i] >= cuda->step.n_tokens)
            return error_set(error, STATUS_USAGE, "row %d of a step of %d tokens", rows->tokens[i],
                             cuda->step.n_tokens);
    // From pageable memory: the copy is staged before the call returns.
    return cuda_check(cudaMemcpyAsync(cuda->scratch.rows, rows->tokens, (size_t)rows->n * sizeof(int32_t),
                                      cudaMemcpyHostToDevice, cuda->device.stream),
                      error, "%d rows", rows->n);
}

Status cuda_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                   Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const int most = rows->tokens ? cuda->max_logits : cuda->step.n_tokens;
    if (rows->n < 1 || rows->n > most)
        return error_set(error, STATUS_USAGE, "logits: %d rows, at most %d at once", rows->n, most);
    Status status = rows->tokens ? upload_rows(cuda, rows, error) : STATUS_OK;
    const int32_t *tokens = rows->tokens ? cuda->scratch.rows : NULL;
    Gemm gemm = {&head->output, NULL, rows->n, EPILOGUE_FLOAT, logits, head->output_bias};
    gemm.chosen = &cuda->step.chosen.logits;
    // A padded step has tokens to spare, which there are no rows of logits for.
    if (!tokens && cuda->step.padded) gemm.n = cuda->step.n_tokens, gemm.count = cuda->step.count;
    if (!status) status = gemm_take_norm(cuda, &gemm, (const float *)x, tokens, head->norm, error);
    if (!status) status = cuda_gemm(cuda, &gemm, error);
    if (!status) status = cap_logits(cuda, &gemm, error);
    return status ? error_prefix(error, "logits: ") : STATUS_OK;
}
