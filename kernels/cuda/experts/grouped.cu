// All experts' GEMMs in one launch each, by the tiles of gemm/tile_kernel.cuh or, of quantised weights, of
// gemm/unpack_tile.cuh, on cards other than Hopper of tiles.cuh: they find their expert's rows of x and of W in a table
// on the device.
#include "kernels/cuda/experts/experts.cuh"
#include "kernels/cuda/device/by_format.cuh"
#include "kernels/cuda/experts/unpacked.cuh"
#include "kernels/cuda/gemm/tile_launch.cuh"

enum { GROUP_COLUMNS = 256 };

// Tiles of 16-bit weights have gates by SiLU or tanh's GELU, without biases; unpacked ones any gates, and operands in f16:
// also where the operand type is bf16, if what the gates give has a bound. Those by mma have whatever their weights are.
enum GroupWay { GROUPS_APART, GROUPS_TILED, GROUPS_UNPACKED, GROUPS_BY_MMA };

static bool by_mma(const CudaBackend *cuda, const Layer *layer) {
    const DecoderShape *s = cuda->shape;
    const bool halves = s->activation == ACTIVATION_CLAMPED_SWIGLU && experts_quantised(layer);
    const ExpertsCase c = {cuda->operand == DTYPE_BF16 && halves ? DTYPE_F16 : cuda->operand,
                           (Format)layer->gate_up.part[0].format, (Format)layer->down.part[0].format,
                           s->hidden_size, s->experts.size};
    return dispatch_experts_by_mma(&cuda->device.card, &c);
}

static GroupWay way_of(const CudaBackend *cuda, const Layer *layer, const Linear *w) {
    const DType type = cuda->operand;
    const int format = w->part[0].format;
    const Activation activation = cuda->shape->activation;
    const bool gated = layer->gated && w == &layer->gate_up,
               plain = !gated || ((activation == ACTIVATION_SILU || activation == ACTIVATION_GELU_TANH) &&
                                  !layer->b_gate && !layer->b_up);
    if (by_mma(cuda, layer)) return GROUPS_BY_MMA;
    if (!dispatch_features(&cuda->device.card)->wgmma || type == DTYPE_F32) return GROUPS_APART;
    if (format == (type == DTYPE_BF16 ? FORMAT_BF16 : FORMAT_F16)) return plain ? GROUPS_TILED : GROUPS_APART;
    const bool halves = type == DTYPE_F16 || activation == ACTIVATION_CLAMPED_SWIGLU;
    return halves && format_grouped(format) && w->rows / cuda->shape->experts.n % 2 == 0 ? GROUPS_UNPACKED
                                                                                         : GROUPS_APART;
}

int experts_tile_pairs(const CudaBackend *cuda, const Layer *layer) {
    return by_mma(cuda, layer) ? EXPERT_TILE_PAIRS : 2 * TILE_TOKENS;
}

bool experts_tiled(const CudaBackend *cuda, const Layer *layer) {
    const GroupWay up = way_of(cuda, layer, &layer->gate_up), down = way_of(cuda, layer, &layer->down);
    return cuda->operand == DTYPE_BF16 ? up && up == down : up && down;
}

// Tiles of as many pairs as most experts fill: W is unpacked once for each of an expert's tiles.
static Status launch_unpacked(CudaBackend *cuda, Gemm *g, Error *error) {
    const Experts *e = &cuda->shape->experts;
    const int tokens = g->n > 64 * e->n ? 128 : 64;
    FlatArguments a = flat_arguments(cuda, g, 0, 0, 0);
    a.n = g->n, a.w.rows = g->w->rows / e->n;
    a.y_stride = g->epilogue == EPILOGUE_GATED ? a.w.rows / 2 : a.w.rows;
    const UnpackedGroups groups = {e->n, tokens, cuda->scratch.routes.start};
    auto launch = by_format<FORMAT_Q8>(a.w.format, [](auto f) { return unpacked_launch<f.value>; });
    return cuda_check(launch(cuda, a, groups), error, "experts' GEMMs of %d rows by quantised [%d, %d]", g->n,
                      g->w->rows, g->w->cols);
}

// Rows of x for the pairs of the step, rows of W of each expert.
template <class T, class Epilogue>
static Status launch_groups(CudaBackend *cuda, const Linear *w, const void *x, const Epilogue &epilogue,
                            Error *error) {
    auto kernel = tile_gemm_kernel<T, GROUP_COLUMNS, Epilogue, GroupWalk>;
    const Experts *e = &cuda->shape->experts;
    const CudaRoutes *r = &cuda->scratch.routes;
    const size_t shared = sizeof(TileGemmShared<T, GROUP_COLUMNS>);
    const int n = cuda->step.n_tokens * e->n_active;
    TileShape shape = {n, w->rows / e->n, w->cols, false, NULL, NULL, e->n, r->start, r->tiles};
    CUtensorMap x_map, w_map;
    cudaError_t code = make_tile_map(&x_map, x, n, w->cols, TILE_TOKENS);
    if (code == cudaSuccess)
        code = make_tile_map(&w_map, w->part[0].data, w->rows, w->cols, GROUP_COLUMNS / 2);
    if (code == cudaSuccess)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (code == cudaSuccess)
        code = launch_dependent(cuda, kernel, dim3(cuda->device.card.n_sms / 2 * 2), TILE_GEMM_THREADS,
                                shared, x_map, w_map, shape, epilogue);
    return cuda_check(code, error, "experts' GEMMs of %d rows by [%d, %d]", n, w->rows, w->cols);
}

Status experts_tile_gate_up(CudaBackend *cuda, const Layer *layer, void *g, Error *error) {
    const int size = cuda->shape->experts.size;
    Status status;
    const GroupWay way = way_of(cuda, layer, &layer->gate_up);
    if (way == GROUPS_UNPACKED || way == GROUPS_BY_MMA) {
        Gemm gemm = {&layer->gate_up, cuda->scratch.routes.pairs,
                     cuda->step.n_tokens * cuda->shape->experts.n_active,
                     layer->gated ? EPILOGUE_GATED : EPILOGUE_STORE, g};
        gemm.bias = layer->b_gate, gemm.other = layer->b_up;
        return way == GROUPS_BY_MMA ? expert_tiles_gemm(cuda, &gemm, error)
                                    : launch_unpacked(cuda, &gemm, error);
    }
    const void *x = cuda->scratch.routes.pairs;
    if (!layer->gated)
        WITH_TYPE_16(cuda->operand, (status = launch_groups<T>(cuda, &layer->gate_up, x,
                                                               StoreEpilogue<T>{(T *)g, size}, error)));
    else if (cuda->shape->activation == ACTIVATION_SILU)
        WITH_TYPE_16(cuda->operand,
                     (status = launch_groups<T>(cuda, &layer->gate_up, x,
                                                GatedEpilogue<T, ACTIVATION_SILU>{(T *)g, size}, error)));
    else
        WITH_TYPE_16(cuda->operand, (status = launch_groups<T>(
                                         cuda, &layer->gate_up, x,
                                         GatedEpilogue<T, ACTIVATION_GELU_TANH>{(T *)g, size}, error)));
    return status;
}

Status experts_tile_down(CudaBackend *cuda, const Layer *layer, const void *g, Error *error) {
    const int hidden = cuda->shape->hidden_size;
    Status status;
    const GroupWay way = way_of(cuda, layer, &layer->down);
    if (way == GROUPS_UNPACKED || way == GROUPS_BY_MMA) {
        Gemm gemm = {&layer->down, g, cuda->step.n_tokens * cuda->shape->experts.n_active, EPILOGUE_STORE,
                     cuda->scratch.routes.pairs};
        return way == GROUPS_BY_MMA ? expert_tiles_gemm(cuda, &gemm, error)
                                    : launch_unpacked(cuda, &gemm, error);
    }
    WITH_TYPE_16(cuda->operand, (status = launch_groups<T>(
                                     cuda, &layer->down, g,
                                     StoreEpilogue<T>{(T *)cuda->scratch.routes.pairs, hidden}, error)));
    return status;
}
