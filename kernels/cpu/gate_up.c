// gate_up: norm, two linear layers, activation(gate) · up.
#include "kernels/cpu/cpu.h"

typedef struct GateUp {
    CpuBackend *cpu;
    const Layer *layer;
    Activations h;
    float *g;
    int64_t n_parts;
} GateUp;

// Some rows of both matrices, so that a part can finish what it has begun. Without a gate, w_up's go to g.
static void gate_up_part(void *context, int64_t part, int thread) {
    const GateUp *c = context;
    CpuBackend *cpu = c->cpu;
    void *scratch = cpu_thread_scratch(cpu, thread);
    int64_t wide = cpu->shape->intermediate_size;
    bool gated = c->layer->weights.w_gate.data != NULL;
    Gemm gemm = {.w = &c->layer->weights.w_up,
                 .x = &c->h,
                 .first = cpu_part_start(wide, c->n_parts, part),
                 .end = cpu_part_start(wide, c->n_parts, part + 1),
                 .y = gated ? cpu->up : c->g,
                 .y_stride = wide};
    cpu->loops->gemm(&gemm, scratch);
    cpu_add_bias(&gemm, c->layer->b_up);
    if (gated) {
        gemm.w = &c->layer->weights.w_gate;
        gemm.y = c->g;
        cpu->loops->gemm(&gemm, scratch);
        cpu_add_bias(&gemm, c->layer->b_gate);
    }
    for (int64_t t = 0; t < cpu->n_tokens; t++) {
        int64_t start = t * wide + gemm.first;
        cpu->loops->activate(cpu->shape->activation, c->g + start, gated ? cpu->up + start : NULL,
                             gemm.end - gemm.first);
    }
}

Status cpu_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    const Matrix *matrices[] = {&layer->weights.w_gate, &layer->weights.w_up};
    GateUp c = {.cpu = cpu, .layer = layer, .g = g};
    c.n_parts = cpu_row_parts(cpu, cpu->shape->intermediate_size);
    c.h = cpu_normed(cpu, &(NormedRows){x, NULL, cpu->n_tokens, layer->ffn_norm}, matrices, 2);
    threads_run(cpu->threads, c.n_parts, gate_up_part, &c);
    return STATUS_OK;
}
