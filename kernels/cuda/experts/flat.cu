// Experts' GEMMs of few tokens by the tiles of flat.cuh, to the kernels of their weights' format.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/device/by_format.cuh"

// Operands of bf16 become f16 where both matrices are quantised and what the gates give has a bound.
static bool flat_takes(const CudaBackend *cuda, const Layer *layer, const Linear *w) {
    const int format = w->part[0].format;
    if (format == (cuda->operand == DTYPE_BF16 ? FORMAT_BF16 : FORMAT_F16)) return true;
    return format_grouped(format) && w->rows / cuda->shape->experts.n % 2 == 0 &&
           (cuda->operand == DTYPE_F16 ||
            (experts_quantised(layer) && cuda->shape->activation == ACTIVATION_CLAMPED_SWIGLU));
}

bool experts_flat(const CudaBackend *cuda, const Layer *layer) {
    const DecoderShape *s = cuda->shape;
    return cuda->operand != DTYPE_F32 && s->hidden_size % 8 == 0 && s->experts.size % 8 == 0 &&
           flat_takes(cuda, layer, &layer->gate_up) && flat_takes(cuda, layer, &layer->down);
}

int experts_flat_pairs(const CudaBackend *cuda) {
    const Experts *e = &cuda->shape->experts;
    return dispatch_expert_pairs(cuda->step.n_tokens * e->n_active, e->n);
}

static Status launch(CudaBackend *cuda, const Gemm *g, Error *error) {
    const CudaRoutes *r = &cuda->scratch.routes;
    const Experts *e = &cuda->shape->experts;
    FlatArguments a = flat_arguments(cuda, g, 0, 0, 0);
    a.n = g->n, a.w.rows = g->w->rows / e->n;
    a.y_stride = g->epilogue == EPILOGUE_GATED ? a.w.rows / 2 : a.w.rows;
    const ExpertFlatTiles tiles = {experts_flat_pairs(cuda), e->n, r->tiles + e->n, r->tile_pairs};
    auto kernels = by_format<FORMAT_F16>(a.w.format, [](auto f) { return expert_flat_launch<f.value>; });
    return cuda_check(kernels(cuda, &a, tiles), error, "experts' flat GEMMs of %d rows by [%d, %d]", g->n,
                      g->w->rows, g->w->cols);
}

Status experts_flat_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error) {
    Gemm gemm = {&layer->gate_up, cuda->scratch.routes.pairs,
                 cuda->step.n_tokens * cuda->shape->experts.n_active,
                 layer->gated ? EPILOGUE_GATED : EPILOGUE_STORE, g};
    gemm.bias = layer->b_gate, gemm.other = layer->b_up;
    return launch(cuda, &gemm, error);
}

Status experts_flat_down(CudaBackend *cuda, const Layer *layer, const void *g, Error *error) {
    const Gemm gemm = {&layer->down, g, cuda->step.n_tokens * cuda->shape->experts.n_active, EPILOGUE_STORE,
                       cuda->scratch.routes.pairs};
    return launch(cuda, &gemm, error);
}
