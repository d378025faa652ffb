#include "kernels/cpu/cpu.h"

typedef struct Logits {
    CpuBackend *cpu;
    const Matrix *output;
    const float *bias;
    Activations h;
    float *logits;
    int64_t n_parts;
} Logits;

static void logits_part(void *context, int64_t part, int thread) {
    const Logits *c = context;
    Product product = {.w = c->output,
                       .x = &c->h,
                       .first = cpu_part_start(c->output->rows, c->n_parts, part),
                       .end = cpu_part_start(c->output->rows, c->n_parts, part + 1),
                       .y = c->logits,
                       .y_stride = c->output->rows};
    c->cpu->loops->product(&product, cpu_thread_scratch(c->cpu, thread));
    cpu_add_bias(&product, c->bias);
}

Status cpu_logits(Backend *backend, const Head *head, const void *x, const int32_t *tokens, int n_rows,
                  float *logits, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const Matrix *output = &head->weights.output;
    if (n_rows < 1 || n_rows > cpu->max_logits)
        return error_set(error, STATUS_DEVICE, "logits: %d rows, the backend was opened for 1 to %d", n_rows,
                         cpu->max_logits);
    for (int i = 0; i < n_rows; i++)
        if (tokens[i] < 0 || tokens[i] >= cpu->n_tokens)
            return error_set(error, STATUS_DEVICE, "logits: row %d asks for token %d of %d", i, tokens[i],
                             cpu->n_tokens);
    Logits c = {.cpu = cpu,
                .output = output,
                .bias = head->output_bias,
                .logits = logits,
                .n_parts = cpu_row_parts(cpu, output->rows)};
    c.h = cpu_normed(cpu, x, tokens, n_rows, head->norm, &output, 1);
    threads_run(cpu->threads, c.n_parts, logits_part, &c);
    return STATUS_OK;
}
