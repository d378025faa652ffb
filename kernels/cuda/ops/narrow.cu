// narrow: a step of some of the tokens in hand, and their rows to the front.
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/backend.cuh"

#include <string.h>

struct ToFront {
    int32_t tokens[NARROW_MOST];
    int n;
    size_t width; // of a row, in halves of words
    uint16_t *rows;
};

// One thread a column: it brings one row's after the other's, so that none is written to before it was read.
// Grid: [width / 128], block: 128.
__global__ void __launch_bounds__(128) to_front_kernel(const __grid_constant__ ToFront a) {
    const size_t i = (size_t)blockIdx.x * 128 + threadIdx.x;
    if (i >= a.width) return;
    for (int row = 0; row < a.n; row++)
        a.rows[row * a.width + i] = a.rows[(size_t)a.tokens[row] * a.width + i];
}

static Status to_front(CudaBackend *cuda, const Step *step, const int32_t *tokens, size_t row_bytes,
                       void *rows, Error *error) {
    ToFront a = {{}, step->n_tokens, row_bytes / sizeof(uint16_t), (uint16_t *)rows};
    memcpy(a.tokens, tokens, (size_t)a.n * sizeof *tokens);
    to_front_kernel<<<(unsigned)((a.width + 127) / 128), 128, 0, cuda->device.stream>>>(a);
    return CUDA_LAUNCHED(error, "narrow: %d tokens", a.n);
}

Status cuda_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                   Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    const AttentionGate gate = cuda->step.gate;
    if (step->n_tokens < 1 || step->n_tokens > NARROW_MOST)
        return error_set(error, STATUS_USAGE, "narrow: %d tokens, 1 to %d may be", step->n_tokens,
                         NARROW_MOST);
    Status status =
        to_front(cuda, step, rows->tokens, (size_t)s->hidden_size * sizeof(float), rows->x, error);
    if (!status && (!kv->recurs || kv->states)) // else no layer left anything there
        status = to_front(cuda, step, rows->tokens, layer_pass_width(s, kv) * operand_bytes(cuda->operand),
                          rows->q, error);
    if (!status && gate.products)
        status = to_front(cuda, step, rows->tokens, (size_t)gate.stride * operand_bytes(gate.type),
                          gate.products, error);
    const Chosen before = cuda->step.chosen;
    if (!status) status = cuda_begin(backend, step, kv, error);
    if (!status) cuda->step.before = before, cuda->step.gate = gate;
    return status;
}
