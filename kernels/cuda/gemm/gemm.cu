// GEMMs of the ops, each to the kernel that dispatch.h names.
#include "kernels/cuda/gemm/gemm.cuh"

// What suits the weights' scales.
static Fp8Inputs suited_inputs(const CudaBackend *cuda, const Gemm *g) {
    const Weight *w = &g->w->part[0];
    const Fp8Inputs how = cuda->shape->fp8_inputs;
    if (g->w->n_parts != 1 || w->format != FORMAT_E4M3 || cuda->shape->latent.rank > 0)
        return FP8_INPUTS_KEPT;
    if (how == FP8_INPUTS_ROWS || (how && g->w->input_scale > 0))
        return w->uniform & WEIGHT_UNIFORM_ROWS ? FP8_INPUTS_ROWS : FP8_INPUTS_KEPT;
    return w->uniform & WEIGHT_UNIFORM_BLOCKS ? how : FP8_INPUTS_KEPT;
}

static GemmCase case_of(const CudaBackend *cuda, const Gemm *g) {
    GemmCase c = {};
    const HeadArguments *h = g->heads;
    c.kind = cuda->step.gemm_kind;
    c.table = cuda->tuned ? &cuda->dispatch : NULL, c.counted = g->count != NULL;
    c.operand = cuda->operand;
    c.n = g->n, c.rows = g->w->rows, c.cols = g->w->cols;
    c.n_parts = g->w->n_parts, c.format = (Format)g->w->part[0].format;
    c.way = measured_way(cuda, c.rows, c.cols, dispatch_type(c.format));
    c.quantised = true;
    for (int i = 0; i < c.n_parts; i++) {
        const Weight *w = &g->w->part[i];
        c.quantised = c.quantised && format_grouped(w->format) && w->rows % 2 == 0;
        c.plain = c.plain || dispatch_flat(&cuda->device.card, c.operand, (Format)w->format) == FLAT_PLAIN;
    }
    c.inputs = suited_inputs(cuda, g);
    c.rounded = c.inputs && g->x_scales;
    c.epilogue = g->epilogue;
    c.activation = cuda->shape->activation;
    c.biased = g->bias || g->other || (h && h->bias);
    if (!h) return c;
    c.head_dim = h->head_dim;
    c.plain_heads = plain_heads(*h);
    c.octets = h->kv.slot_stride % 8 == 0 && h->kv.head_stride % 8 == 0;
    return c;
}

Fp8Inputs gemm_fp8_inputs(const CudaBackend *cuda, const Gemm *g) {
    const GemmCase c = case_of(cuda, g);
    return dispatch_fp8(&cuda->device.card, &c) ? c.inputs : FP8_INPUTS_KEPT;
}

Status cuda_gemm(CudaBackend *cuda, const Gemm *g, Error *error) {
    const Card *card = &cuda->device.card;
    GemmCase c = case_of(cuda, g);
    GemmKernel kernel = dispatch_gemm(card, &c);
    if (g->chosen)
        *g->chosen = kernel == GEMM_FLAT ? dispatch_flat_name(dispatch_flat(card, c.operand, c.format))
                                         : dispatch_gemm_name(kernel);
    Status status;
    switch (kernel) {
    case GEMM_GEMV:
        return gemv_gemm(cuda, g, error);
    case GEMM_FLAT:
        return flat_gemm(cuda, g, error);
    case GEMM_TILE:
        return tile_gemm(cuda, g, error);
    case GEMM_UNPACK:
    case GEMM_LIBRARY:
        status = kernel == GEMM_UNPACK ? unpack_gemm(cuda, g, error) : library_gemm(cuda, g, error);
        if (c.format == FORMAT_W8) return status; // its epilogue is its own
        return status ? status : cuda_add_bias(cuda, g->bias, g->n, c.rows, (float *)g->y, error);
    default:
        return STATUS_UNSUPPORTED;
    }
}
