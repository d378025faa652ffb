#include "kernels/cpu/cpu.h"

#include <math.h>

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
    Gemm gemm = {.w = c->output,
                 .x = &c->h,
                 .first = cpu_part_start(c->output->rows, c->n_parts, part),
                 .end = cpu_part_start(c->output->rows, c->n_parts, part + 1),
                 .y = c->logits,
                 .y_stride = c->output->rows};
    c->cpu->loops->gemm(&gemm, cpu_thread_scratch(c->cpu, thread));
    cpu_add_bias(&gemm, c->bias);
    const float cap = c->cpu->shape->logit_cap;
    for (int64_t t = 0; cap > 0 && t < c->h.n; t++)
        for (int64_t r = gemm.first; r < gemm.end; r++) {
            float *logit = &gemm.y[t * gemm.y_stride + r];
            *logit = cap * tanhf(*logit / cap);
        }
}

Status cpu_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                  Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const Matrix *output = &head->weights.output;
    const int most = rows->tokens ? cpu->max_logits : cpu->n_tokens;
    if (rows->n < 1 || rows->n > most)
        return error_set(error, STATUS_DEVICE, "logits: %d rows, the backend was opened for 1 to %d", rows->n,
                         most);
    for (int i = 0; i < rows->n; i++) {
        int32_t token = rows->tokens ? rows->tokens[i] : i;
        if (token < 0 || token >= cpu->n_tokens)
            return error_set(error, STATUS_DEVICE, "logits: row %d asks for token %d of %d", i, token,
                             cpu->n_tokens);
    }
    Logits c = {.cpu = cpu,
                .output = output,
                .bias = head->output_bias,
                .logits = logits,
                .n_parts = cpu_row_parts(cpu, output->rows)};
    c.h = cpu_normed(cpu, &(NormedRows){x, rows->tokens, rows->n, head->norm, .exact = true}, &output, 1);
    threads_run(cpu->threads, c.n_parts, logits_part, &c);
    return STATUS_OK;
}
