// logits: output·norm(x) + output_bias for chosen tokens.
#include "kernels/cuda/backend.cuh"

Status cuda_logits(Backend *backend, const Head *head, const void *x, const int32_t *tokens, int n_rows,
                   float *logits, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    if (n_rows < 1 || n_rows > cuda->max_logits)
        return error_set(error, STATUS_USAGE, "logits: %d rows, at most %d at once", n_rows,
                         cuda->max_logits);
    for (int i = 0; i < n_rows; i++)
        if (tokens[i] < 0 || tokens[i] >= cuda->n_tokens)
            return error_set(error, STATUS_USAGE, "logits: row %d of a step of %d tokens", tokens[i],
                             cuda->n_tokens);
    // From pageable memory: the copy is staged before the call returns.
    Status status = cuda_check(cudaMemcpyAsync(cuda->rows, tokens, (size_t)n_rows * sizeof *tokens,
                                               cudaMemcpyHostToDevice, cuda->stream),
                               error, "logits: %d rows", n_rows);
    if (!status)
        status = cuda_norm(cuda, (const float *)x, cuda->rows, n_rows, head->norm, cuda->operand,
                           cuda->normed, error);
    Product product = {&head->output, cuda->normed, logits, DTYPE_F32, n_rows, false};
    if (!status) status = cuda_product(cuda, &product, error);
    if (!status)
        status = cuda_add_bias(cuda, head->output_bias, n_rows, cuda->shape->vocab_size, logits, error);
    return status ? error_prefix(error, "logits: ") : STATUS_OK;
}
