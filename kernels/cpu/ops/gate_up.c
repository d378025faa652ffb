// gate_up: norm, two linear layers, activation(gate) · up.
#include "kernels/cpu/cpu.h"

typedef struct GateUp {
    CpuBackend *cpu;
    const GatedLinear *w;
    const Activations *h;
    float *g;
    int64_t n_parts;
} GateUp;

// Rows of a product times the scale of what was multiplied.
static void scale_rows(const Gemm *gemm, const float *scales) {
    for (int64_t t = 0; scales && t < gemm->x->n; t++) {
        float *row = gemm_row(gemm, t);
        for (int64_t j = gemm->first; j < gemm->end; j++) row[j] *= scales[t];
    }
}

void cpu_gated_rows(CpuBackend *cpu, const GatedLinear *w, const GatedRows *rows, void *scratch) {
    const int64_t wide = w->up.rows;
    const bool gated = w->gate.data != NULL;
    Gemm gemm = {.w = &w->up,
                 .x = rows->h,
                 .first = rows->first,
                 .end = rows->end,
                 .y = gated ? rows->up : rows->g,
                 .y_stride = wide};
    cpu->loops->gemm(&gemm, scratch);
    scale_rows(&gemm, rows->scales);
    cpu_add_bias(&gemm, w->b_up);
    if (gated) {
        gemm.w = &w->gate;
        gemm.y = rows->g;
        cpu->loops->gemm(&gemm, scratch);
        scale_rows(&gemm, rows->scales);
        cpu_add_bias(&gemm, w->b_gate);
    }
    for (int64_t t = 0; t < rows->h->n; t++) {
        const int64_t start = t * wide + rows->first, n = rows->end - rows->first;
        if (cpu->shape->activation == ACTIVATION_XIELU)
            cpu->loops->xielu(w->xielu, rows->g + start, n);
        else
            cpu->loops->activate(cpu->shape->activation, rows->g + start, gated ? rows->up + start : NULL, n);
    }
}

// Some rows of both matrices, so that a part can finish what it has begun.
static void gate_up_part(void *context, int64_t part, int thread) {
    const GateUp *c = context;
    const int64_t wide = c->w->up.rows;
    const GatedRows rows = {.h = c->h,
                            .first = cpu_part_start(wide, c->n_parts, part),
                            .end = cpu_part_start(wide, c->n_parts, part + 1),
                            .g = c->g,
                            .up = c->cpu->up};
    cpu_gated_rows(c->cpu, c->w, &rows, cpu_thread_scratch(c->cpu, thread));
}

void cpu_gated(CpuBackend *cpu, const GatedLinear *w, const Activations *h, float *g) {
    GateUp c = {.cpu = cpu, .w = w, .h = h, .g = g, .n_parts = cpu_row_parts(cpu, w->up.rows)};
    threads_run(cpu->threads, c.n_parts, gate_up_part, &c);
}

Status cpu_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const LayerWeights *w = &layer->weights;
    (void)error;
    if (w->router.data) {
        cpu_experts_gate_up(cpu, layer, x, g);
        return STATUS_OK;
    }
    const Matrix *matrices[] = {&w->w_gate, &w->w_up};
    const GatedLinear both = {w->w_gate, w->w_up, layer->b_gate, layer->b_up, &w->xielu};
    Activations h =
        cpu_normed(cpu, &(NormedRows){x, NULL, cpu->n_tokens, layer->ffn_norm, false}, matrices, 2);
    cpu_gated(cpu, &both, &h, g);
    return STATUS_OK;
}
