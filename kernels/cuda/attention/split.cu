// What the kernels of split.cuh are told.
#include "kernels/cuda/attention/wide.cuh"
#include "kernels/cuda/attention/split.cuh"

// Of what splits hand to each other: `arrived` has at most one for each head.
static size_t parts_bytes(int n_parts, const AttendHeads *h) {
    return (size_t)n_parts * (size_t)h->n_heads * ((size_t)h->head_dim + 2) * sizeof(float);
}
static size_t arrived_bytes(int n_parts, const AttendHeads *h) {
    return (size_t)n_parts * (size_t)h->n_heads * sizeof(unsigned);
}

// Of splits of tiles of many tokens, each of which leaves the results of a tile's rows.
static size_t tile_parts_bytes(const Card *card, int head_dim) {
    if (head_dim != 64 && head_dim != 128) return 0;
    return (size_t)dispatch_most_tile_splits(card) * ATTEND_ROWS * ((size_t)head_dim + 2) * sizeof(float);
}
static size_t tile_arrived_bytes(const Card *card) {
    return (size_t)dispatch_most_tile_splits(card) * sizeof(unsigned);
}

size_t tile_split_bytes(const Card *card) {
    return cuda_room_bytes(tile_parts_bytes(card, 128)) + cuda_room_bytes(tile_arrived_bytes(card));
}

int tile_splits(const CudaBackend *cuda, const AttendLaunch *l) {
    return dispatch_tile_splits(&cuda->device.card, cuda->step.kind, l->a.n_kv_heads * l->n_tiles,
                                l->most_slots);
}

size_t split_bytes(int n_splits, const AttendHeads *heads, int tokens) {
    return cuda_room_bytes(parts_bytes(n_splits * tokens, heads)) +
           cuda_room_bytes(arrived_bytes(n_splits * tokens, heads));
}

Status split_reserve(CudaBackend *cuda, const AttendHeads *heads, Error *error) {
    const char *what = "splits of attention";
    const Card *card = &cuda->device.card;
    const int n_parts =
        cuda->step.n_splits * cuda->step.few_tokens * wide_pieces(heads, cuda->step.cut_kv_heads);
    size_t parts = parts_bytes(n_parts, heads), arrived = arrived_bytes(n_parts, heads);
    // Tiles of many tokens may be cut, too, and those of few for which there is no kernel of splits.
    if (cuda->step.kind == STEP_ANY && (cuda->step.n_tiles > 0 || cuda->step.few_tokens > 1)) {
        const size_t of_tiles = tile_parts_bytes(card, heads->head_dim),
                     arrived_of_tiles = tile_arrived_bytes(card);
        if (parts < of_tiles) parts = of_tiles;
        if (arrived < arrived_of_tiles) arrived = arrived_of_tiles;
    }
    Status status = cuda_room(cuda, &cuda->scratch.parts, parts, false, what, error);
    if (!status && cuda->step.kind == STEP_ANY) status = cuda_reserve_handover(cuda, error);
    return status ? status : cuda_room(cuda, &cuda->scratch.arrived, arrived, false, what, error);
}

bool scales_fit(const SplitArguments *a, int group, int bytes) {
    const KvLayer &kv = a->l.a.kv;
    uint64_t all = (uint64_t)a->scale_slot_bytes | (uint64_t)a->scale_head_bytes |
                   (uint64_t)(uintptr_t)kv.k_scale | (uint64_t)(uintptr_t)kv.v_scale;
    return kv.scale_type == DTYPE_F16 && kv.group == group && a->l.a.head_dim / group * 2 == bytes &&
           all % (uint64_t)(bytes < 16 ? bytes : 16) == 0;
}

// NULL: see device/built.cuh.
static decltype(&split_launch<DTYPE_F16>) launcher_of(DType type) {
    switch (type) {
    case DTYPE_F32:
        return split_launch<DTYPE_F32>;
    case DTYPE_F16:
        return split_launch<DTYPE_F16>;
    case DTYPE_BF16:
        return split_launch<DTYPE_BF16>;
    case DTYPE_INT8:
        return split_launch<DTYPE_INT8>;
    default:
        return split_launch<DTYPE_INT4>;
    }
}

bool split_built(DType type) {
    return is_built(launcher_of(type));
}

static SplitRowsCase rows_of(const KvLayer *kv, const AttendHeads *heads, int tokens, bool evicted) {
    const int rows = tokens * (heads->n_heads / heads->n_kv_heads);
    return {kv->type, heads->n_kv_heads, heads->head_dim, tokens, rows, evicted, kv->score_bases != NULL};
}

static bool by_wgmma(const Card *card, const KvLayer *kv, const AttendHeads *heads, int tokens,
                     bool evicted) {
    const SplitRowsCase c = rows_of(kv, heads, tokens, evicted);
    return dispatch_splits_by_wgmma(card, &c);
}

int split_few_tokens(const Card *card, const KvLayer *kv, const AttendHeads *heads, bool evicted,
                     int n_slots) {
    const SplitRowsCase tile = rows_of(kv, heads, tile_tokens(heads), evicted);
    return dispatch_few_tokens(card, &tile, n_slots);
}

cudaError_t split_fit(const Card *card, const KvLayer *kv, const AttendHeads *heads, int tokens, bool evicted,
                      SplitFit *fit) {
    *fit = SplitFit{};
    if (by_wgmma(card, kv, heads, tokens, evicted)) return split_wgmma_fit(heads->head_dim, fit);
    if (is_wide(heads->head_dim)) {
        const int rows = tokens * (heads->n_heads / heads->n_kv_heads);
        const WideForm form = wide_form(card, heads->head_dim, rows);
        *fit = SplitFit{16 * form.tiles, wide_shared(heads->head_dim, form) + ATTEND_WIDE_STATIC, 1};
        return cudaSuccess;
    }
    switch (kv->type) {
    case DTYPE_F32:
        return split_fit_of<DTYPE_F32>(card, kv, heads, tokens, fit);
    case DTYPE_F16:
        return split_fit_of<DTYPE_F16>(card, kv, heads, tokens, fit);
    case DTYPE_BF16:
        return split_fit_of<DTYPE_BF16>(card, kv, heads, tokens, fit);
    case DTYPE_INT8:
        return split_fit_of<DTYPE_INT8>(card, kv, heads, tokens, fit);
    default:
        return split_fit_of<DTYPE_INT4>(card, kv, heads, tokens, fit);
    }
}

static SplitArguments arguments_of(const CudaBackend *cuda, const AttendLaunch *l) {
    const KvLayer &kv = l->a.kv;
    SplitArguments a = {};
    a.l = SplitLaunch{l->a, l->type, l->queries.recent, l->queries.sinks, l->y};
    a.split_tiles = cuda->step.split_tiles;
    a.independent = cuda->step.kind == STEP_DECODING;
    // Without positions of slots (cache_attention) those of the tokens do not tell which keys are the step's own.
    a.early = a.independent || (cuda->step.n_sequences == 1 && l->a.slot_positions);
    a.parts = cuda->step.few_tokens * l->a.n_heads;
    a.slot_bytes = (uint32_t)cache_bytes(kv, kv.slot_stride);
    a.head_bytes = cache_bytes(kv, kv.head_stride);
    if (is_quantised(kv)) {
        int size = kv.scale_type == DTYPE_F16 ? 2 : 4;
        a.group_shift = __builtin_ctz((unsigned)kv.group);
        a.scale_slot_bytes = (uint32_t)(kv.slot_stride / kv.group * size);
        a.scale_head_bytes = kv.head_stride / kv.group * size;
    }
    size_t rows = (size_t)cuda->step.n_splits * (size_t)a.parts;
    a.sums = (float *)cuda->scratch.parts.memory;
    a.weights = (float2 *)(a.sums + rows * (size_t)l->a.head_dim);
    a.counts = cuda->counts;
    a.arrived = (unsigned *)cuda->scratch.arrived.memory;
    return a;
}

cudaError_t attend_splits(CudaBackend *cuda, const AttendLaunch *launch) {
    SplitArguments a = arguments_of(cuda, launch);
    if (by_wgmma(&cuda->device.card, &launch->a.kv, &launch->heads, cuda->step.few_tokens,
                 cuda->step.evicted))
        return split_wgmma_launch(cuda, &a);
    return launcher_of(launch->a.kv.type)(cuda, &a);
}
