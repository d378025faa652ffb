// Gates of attention: what attend() gives is multiplied with the sigmoid of another product of what qkv() has normed.
#include "kernels/cpu/cpu.h"

void cpu_make_gates(CpuBackend *cpu, const Layer *layer, const Activations *h) {
    const Matrix *w = &layer->weights.attn_gate;
    cpu->gated = w->data ? w->rows : 0;
    if (!cpu->gated) return;
    cpu_multiply(cpu, w, h, cpu->gates);
    const Gemm all = {.w = w, .x = h, .first = 0, .end = w->rows, .y = cpu->gates, .y_stride = w->rows};
    cpu_add_bias(&all, layer->attn_gate_bias);
}

typedef struct Gating {
    const float *gates;
    float *y;
    int64_t n, of_gate; // gates of a token, and elements of y for each of them
} Gating;

static void gate_row(void *context, int64_t token, int thread) {
    const Gating *g = context;
    const float *gates = g->gates + token * g->n;
    float *y = g->y + token * g->n * g->of_gate;
    (void)thread;
    for (int64_t gate = 0; gate < g->n; gate++) {
        const float divisor = 1 + expf(-gates[gate]);
        for (int64_t i = 0; i < g->of_gate; i++) *y++ /= divisor;
    }
}

void cpu_apply_gates(CpuBackend *cpu, float *y, int64_t width) {
    Gating gating = {cpu->gates, y, cpu->gated, cpu->gated ? width / cpu->gated : 0};
    if (cpu->gated) threads_run(cpu->threads, cpu->n_tokens, gate_row, &gating);
    cpu->gated = 0;
}
