#include "kernels/cpu/cpu.h"

typedef struct Embed {
    CpuBackend *cpu;
    const Matrix *embedding;
    float *x;
} Embed;

static void embed_token(void *context, int64_t token, int thread) {
    const Embed *e = context;
    (void)thread;
    int64_t cols = e->embedding->cols, row_bytes = dtype_row_bytes(e->embedding->type, cols);
    float *x = e->x + token * cols, scale = e->cpu->shape->embedding_scale;
    dequantize(e->embedding->type, (const char *)e->embedding->data + e->cpu->ids[token] * row_bytes, 0, cols,
               x);
    if (scale == 1) return;
    for (int64_t i = 0; i < cols; i++) x[i] *= scale;
}

Status cpu_embed(Backend *backend, const Head *head, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    Embed e = {.cpu = cpu, .embedding = &head->weights.embedding, .x = x};
    threads_run(cpu->threads, cpu->n_tokens, embed_token, &e);
    return STATUS_OK;
}
