#include "kernels/cpu/cpu.h"

typedef struct Embed {
    CpuBackend *cpu;
    const Head *head;
    float *x;
} Embed;

enum { AT_ONCE = 256 }; // elements: a multiple of what blocks are unpacked in

static void add_row(const Matrix *m, int64_t row, float *x) {
    const char *data = (const char *)m->data + row * dtype_row_bytes(m->type, m->cols);
    float values[AT_ONCE];
    for (int64_t i = 0; i < m->cols; i += AT_ONCE) {
        int64_t n = m->cols - i < AT_ONCE ? m->cols - i : AT_ONCE;
        quant_load(m->type, data, i, n, values);
        for (int64_t j = 0; j < n; j++) x[i + j] += values[j];
    }
}

static void embed_token(void *context, int64_t token, int thread) {
    const Embed *e = context;
    (void)thread;
    const Matrix *embedding = &e->head->weights.embedding, *positions = &e->head->weights.positions;
    int64_t cols = embedding->cols, row_bytes = dtype_row_bytes(embedding->type, cols);
    float *x = e->x + token * cols, scale = e->cpu->shape->embedding_scale;
    quant_load(embedding->type, (const char *)embedding->data + e->cpu->ids[token] * row_bytes, 0, cols, x);
    for (int64_t i = 0; scale != 1 && i < cols; i++) x[i] *= scale;
    if (positions->data) add_row(positions, e->cpu->positions[token], x);
    if (e->head->embedding_norm.weight) cpu_norm_row(e->cpu, e->head->embedding_norm, x, x);
}

Status cpu_embed(Backend *backend, const Head *head, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    Embed e = {.cpu = cpu, .head = head, .x = x};
    threads_run(cpu->threads, cpu->n_tokens, embed_token, &e);
    if (cpu->shape->token_size > 0) cpu_make_token_rows(cpu, head, x);
    return STATUS_OK;
}
