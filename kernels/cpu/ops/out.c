// out, down: x += norm(W·y + bias), mostly without that norm; of some models x is what was read, many times, first.
#include "kernels/cpu/cpu.h"

typedef struct NormResidual {
    const CpuBackend *cpu;
    Norm norm;
    float *x;
} NormResidual;

static void norm_residual_row(void *context, int64_t token, int thread) {
    const NormResidual *r = context;
    const int n = r->cpu->shape->hidden_size;
    float *x = r->x + token * n;
    (void)thread;
    cpu_norm_row(r->cpu, r->norm, x, x);
    for (int i = 0; i < n; i++) x[i] *= r->cpu->shape->normed_residual;
}

// What a part read, times normed_residual, takes the place of x.
static void norm_residual(const CpuBackend *cpu, Norm norm, float *x) {
    NormResidual r = {cpu, norm, x};
    if (cpu->shape->normed_residual != 0) threads_run(cpu->threads, cpu->n_tokens, norm_residual_row, &r);
}

Norm cpu_norm_behind(const CpuBackend *cpu, Norm norm) {
    const Norm none = {0};
    return cpu->shape->adds_shares ? none : norm;
}

Status cpu_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    const Matrix *wo = &layer->weights.wo;
    if (cpu->shape->latent.rank > 0) y = cpu_latent_values(cpu, layer, y);
    Activations activations = cpu_activations(cpu, y, cpu->n_tokens, wo->cols, &wo, 1);
    norm_residual(cpu, layer->attn_norm, x);
    cpu_add_linear(cpu, &(AddedLinear){wo, layer->bo, cpu_norm_behind(cpu, layer->attn_post_norm)},
                   &activations, x);
    return STATUS_OK;
}

Status cpu_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    const Matrix *w = &layer->weights.w_down;
    norm_residual(cpu, layer->ffn_norm, x);
    if (layer->weights.router.data) {
        cpu_experts_down(cpu, layer, g, x);
    } else {
        Activations activations = cpu_activations(cpu, g, cpu->n_tokens, w->cols, &w, 1);
        cpu_add_linear(cpu, &(AddedLinear){w, layer->b_down, cpu_norm_behind(cpu, layer->ffn_post_norm)},
                       &activations, x);
    }
    if (layer->weights.token_gate.data) cpu_add_token_rows(cpu, layer, x);
    cpu_scale_x(cpu, layer, x);
    return STATUS_OK;
}
