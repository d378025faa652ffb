// attend: softmax(attention_scale · q·Kᵀ + mask)·V over the cache, for any number of tokens; tiles of many tokens and
// tiles of few by the kernels that dispatch.h names.
#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/attention/split.cuh"
#include "kernels/cuda/ops/products.cuh"

// Whether rows, strides and beginnings of the cache are multiples of 16 bytes.
static bool in_whole_pieces(const KvLayer &kv, int head_dim) {
    int64_t slot = cache_bytes(kv, kv.slot_stride);
    uint64_t all = (uint64_t)cache_bytes(kv, head_dim) | (uint64_t)slot |
                   (uint64_t)cache_bytes(kv, kv.head_stride) | (uint64_t)(uintptr_t)kv.k |
                   (uint64_t)(uintptr_t)kv.v;
    return all % 16 == 0 && slot <= UINT32_MAX;
}

static AttendCase case_of(const CudaBackend *cuda, const AttendLaunch *l) {
    const CudaStep *step = &cuda->step;
    const KvLayer &kv = l->a.kv;
    AttendCase c = {};
    c.kind = step->kind;
    c.operand = l->type, c.cache = kv.type;
    c.n_sequences = step->n_sequences, c.n_tokens = step->n_tokens;
    c.group = l->a.n_heads / l->a.n_kv_heads;
    c.head_dim = l->a.head_dim, c.tile_rows = step->tile_tokens * c.group;
    c.alibi = l->a.alibi != 0, c.capped = l->a.cap > 0, c.masked = l->a.mask.values != NULL;
    c.latent = kv.k == kv.v, c.sinks = kv.sink_scores != NULL;
    c.evicted = step->evicted, c.in_order = step->in_order;
    c.window = l->a.window;
    c.n_slots = (size_t)step->most_slots, c.page_size = l->a.pages.size;
    c.octets = kv.slot_stride % 8 == 0 && kv.head_stride % 8 == 0;
    c.whole_pieces = in_whole_pieces(kv, l->a.head_dim);
    c.scale_group = kv.group;
    c.halves_bytes = cuda->scratch.weights_bytes, c.halves_want = halves_bytes(l);
    c.n_splits = step->n_splits;
    return c;
}

static cudaError_t attend_by(CudaBackend *cuda, AttendKernel kernel, bool few, AttendLaunch l) {
    if (kernel == ATTEND_PLAIN) return attend_plain(cuda, &l);
    l.a.scale *= LOG2_E;
    switch (kernel) {
    case ATTEND_SPLIT:
        return attend_splits(cuda, &l);
    case ATTEND_WIDE:
        return attend_wide(cuda, &l, few);
    case ATTEND_WIDE_WGMMA:
        return attend_wide_by_wgmma(cuda, &l);
    case ATTEND_WGMMA:
        return attend_by_wgmma(cuda, &l);
    case ATTEND_HALVES:
        return attend_as_halves(cuda, &l);
    case ATTEND_TILE_F16:
        return tile_launch<TILES_OF_F16>(cuda, &l);
    default: // which the operator of its own may ask a first talk's plug-in for
        return is_built(tile_launch<TILES_OF_ANY>) ? tile_launch<TILES_OF_ANY>(cuda, &l)
                                                   : cudaErrorNotSupported;
    }
}

// Tiles of many tokens.
static cudaError_t attend_tiles(CudaBackend *cuda, AttendLaunch l) {
    l.n_tiles = cuda->step.n_tiles;
    if (l.n_tiles == 0) return cudaSuccess;
    AttendCase c = case_of(cuda, &l);
    AttendKernel kernel = dispatch_attend(&cuda->device.card, &c);
    cuda->step.chosen.tiles = dispatch_attend_name(kernel);
    return attend_by(cuda, kernel, false, l);
}

// Tiles of few tokens, which come after the others.
static cudaError_t attend_few(CudaBackend *cuda, AttendLaunch l) {
    l.n_tiles = cuda->step.n_few_tiles;
    if (l.n_tiles == 0) return cudaSuccess;
    AttendCase c = case_of(cuda, &l);
    SplitFit fit = {};
    c.few_tokens = cuda->step.few_tokens;
    cudaError_t code = split_fit(&cuda->device.card, &l.a.kv, &l.heads, c.few_tokens, c.evicted, &fit);
    if (code != cudaSuccess) return code;
    c.split_shared = fit.shared;
    AttendKernel kernel = dispatch_attend(&cuda->device.card, &c);
    cuda->step.chosen.few = kernel == ATTEND_SPLIT && fit.once ? "split wgmma" : dispatch_attend_name(kernel);
    if (kernel != ATTEND_SPLIT && kernel != ATTEND_WIDE)
        l.a.tiles += cuda->step.n_tiles; // splits name their tiles
    return attend_by(cuda, kernel, true, l);
}

Status cuda_attend_step(CudaBackend *cuda, const AttendCall *call, Error *error) {
    const AttendHeads *h = &call->heads;
    const CudaStep *step = &cuda->step;
    AttendLaunch l = {};
    l.a = AttendArguments{
        *call->kv,   step->seen,   call->slot_positions, step->tiles, step->pages, h->n_heads, h->n_kv_heads,
        h->head_dim, call->window, call->scale,          call->cap,   call->alibi, call->mask};
    l.heads = *h, l.type = call->type, l.y = call->y, l.most_slots = step->most_slots;
    Status status = split_reserve(cuda, h, error);
    if (status) return status;
    cuda->step.flat_large = false; // beside the splits there is room for one ring: flat_wgmma.cuh
    cudaError_t code = cuda_queries(cuda, call, &l.queries);
    if (code == cudaSuccess) code = attend_tiles(cuda, l);
    if (code == cudaSuccess) code = attend_few(cuda, l);
    return cuda_check(code, error, "attend: %d tokens, %d heads of %d, up to %d slots, a cache of %s",
                      step->n_tokens, h->n_heads, h->head_dim, step->most_slots, dtype_name(call->kv->type));
}

Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error) {
    CudaBackend *cuda = cuda_backend(backend);
    const DecoderShape *s = cuda->shape;
    AttendCall call = {};
    call.heads = AttendHeads{s->n_heads, kv_layer_heads(s, kv), kv_layer_head_dim(s, kv)};
    Status status = kv->recurs ? STATUS_OK : kv_layer_check(kv, call.heads.head_dim, error);
    if (status) return error_prefix(error, "attend: ");
    if (kv->convolves || kv->recurs) { // qkv() has done all there is to do
        const size_t bytes =
            (size_t)cuda->step.n_tokens * layer_pass_width(s, kv) * operand_bytes(cuda->operand);
        return y == q
                   ? STATUS_OK
                   : cuda_check(cudaMemcpyAsync(y, q, bytes, cudaMemcpyDeviceToDevice, cuda->device.stream),
                                error, "attend: %zu bytes", bytes);
    }
    call.type = cuda->operand;
    call.q = q;
    call.y = y;
    call.kv = kv;
    call.slot_positions = cuda->step.slot_positions;
    call.window = window;
    call.scale = s->attention_scale, call.cap = s->attention_cap;
    call.alibi = !s->alibi ? 0 : s->alibi_scaled ? s->attention_scale : 1;
    status = cuda_attend_step(cuda, &call, error);
    return status ? status : gate_apply(cuda, y, error);
}
