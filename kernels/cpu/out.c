// out, down: x += norm(W·y + bias), mostly without that norm.
#include "kernels/cpu/cpu.h"

Status cpu_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    const Matrix *wo = &layer->weights.wo;
    if (cpu->shape->latent.rank > 0) y = cpu_latent_values(cpu, layer, y);
    Activations activations = cpu_activations(cpu, y, cpu->n_tokens, wo->cols, &wo, 1);
    cpu_add_linear(cpu, &(AddedLinear){wo, layer->bo, layer->attn_post_norm}, &activations, x);
    return STATUS_OK;
}

Status cpu_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    (void)error;
    const Matrix *w = &layer->weights.w_down;
    if (layer->weights.router.data) {
        cpu_experts_down(cpu, layer, g, x);
    } else {
        Activations activations = cpu_activations(cpu, g, cpu->n_tokens, w->cols, &w, 1);
        cpu_add_linear(cpu, &(AddedLinear){w, layer->b_down, layer->ffn_post_norm}, &activations, x);
    }
    if (layer->weights.token_gate.data) cpu_add_token_rows(cpu, layer, x);
    cpu_scale_x(cpu, layer, x);
    return STATUS_OK;
}
