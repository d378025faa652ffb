// Per-layer embeddings: a row of every token for each layer, made behind embed(), added at the layers' ends (ops.h,
// DecoderShape.token_size).
#include "kernels/cpu/cpu.h"

#include <math.h>

typedef struct MakeRows {
    CpuBackend *cpu;
    const Head *head;
} MakeRows;

static void make_row(void *context, int64_t token, int thread) {
    const MakeRows *m = context;
    const DecoderShape *s = m->cpu->shape;
    const Matrix *embedding = &m->head->weights.token_embedding;
    const float of_x = 1 / sqrtf((float)s->hidden_size), of_id = sqrtf((float)s->token_size);
    const char *data = (const char *)embedding->data +
                       m->cpu->ids[token] * dtype_row_bytes(embedding->type, embedding->cols);
    float *rows = m->cpu->of_tokens + token * embedding->cols;
    float *own = m->cpu->token_part + token * s->token_size;
    (void)thread;
    for (int64_t at = 0; at < embedding->cols; at += s->token_size) {
        float *row = rows + at;
        for (int i = 0; i < s->token_size; i++) row[i] *= of_x;
        m->cpu->loops->rms_norm(row, m->head->token_norm, s->token_size, s->norm_eps, row);
        quant_load(embedding->type, data, at, s->token_size, own);
        for (int i = 0; i < s->token_size; i++) row[i] = (row[i] + of_id * own[i]) * (float)M_SQRT1_2;
    }
}

void cpu_make_token_rows(CpuBackend *cpu, const Head *head, const float *x) {
    const Matrix *w = &head->weights.token_projection;
    MakeRows m = {cpu, head};
    const Activations in = cpu_activations(cpu, x, cpu->n_tokens, w->cols, &w, 1);
    cpu_multiply(cpu, w, &in, cpu->of_tokens);
    threads_run(cpu->threads, cpu->n_tokens, make_row, &m);
}

void cpu_add_token_rows(CpuBackend *cpu, const Layer *layer, float *x) {
    const DecoderShape *s = cpu->shape;
    const Matrix *gate = &layer->weights.token_gate, *up = &layer->weights.token_up;
    float *part = cpu->token_part;
    Activations in = cpu_activations(cpu, x, cpu->n_tokens, gate->cols, &gate, 1);
    cpu_multiply(cpu, gate, &in, part);
    for (int64_t t = 0; t < cpu->n_tokens; t++) {
        float *row = cpu->of_tokens + (t * s->n_layers + layer->weights.index) * s->token_size;
        cpu->loops->activate(s->activation, part + t * s->token_size, row, s->token_size);
    }
    in = cpu_activations(cpu, part, cpu->n_tokens, up->cols, &up, 1);
    cpu_add_linear(cpu, &(AddedLinear){up, NULL, layer->token_norm}, &in, x);
}

void cpu_scale_x(const CpuBackend *cpu, const Layer *layer, float *x) {
    const float by = layer->weights.x_scale;
    for (int64_t i = 0; by != 0 && by != 1 && i < (int64_t)cpu->n_tokens * cpu->shape->hidden_size; i++)
        x[i] *= by;
}
