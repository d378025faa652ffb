// Which decoding kernel a kind of cache, a head size, a number of query heads to a KV head and formats take.
#include "kernels/cuda/decode/decode_internal.cuh"

struct KernelOf {
    int lanes, heads;
    DecodeLaunch *launch; // NULL: see device/built.cuh
};

// The kernels of a kind for heads of up to 128 elements; NULL: there is none.
template <DecodeCacheKind KIND, bool EXPERTS, DecodeFormats FORMATS>
static const KernelOf *kernel_for(int lanes, int heads) {
    static const KernelOf KERNELS[] = {{8, 1, decode_launch<KIND, 8, 1, EXPERTS, FORMATS>},
                                       {8, 2, decode_launch<KIND, 8, 2, EXPERTS, FORMATS>},
                                       {8, 4, decode_launch<KIND, 8, 4, EXPERTS, FORMATS>},
                                       {16, 1, decode_launch<KIND, 16, 1, EXPERTS, FORMATS>},
                                       {16, 2, decode_launch<KIND, 16, 2, EXPERTS, FORMATS>},
                                       {16, 4, decode_launch<KIND, 16, 4, EXPERTS, FORMATS>}};
    for (auto &k : KERNELS)
        if (k.lanes == lanes && k.heads == heads) return &k;
    return NULL;
}

// What a plug-in for a first talk lacks of few formats' kernels, that of all formats does.
static const KernelOf *built_of(const KernelOf *few, const KernelOf *all) {
    return few && is_built(few->launch) ? few : all;
}

// For layers of experts.
static const KernelOf *experts_kernel(DecodeFormats formats, int lanes, int heads) {
    const KernelOf *few =
        formats == DECODE_FEW ? kernel_for<DECODE_F16, true, DECODE_FEW>(lanes, heads) : NULL;
    return built_of(few, kernel_for<DECODE_F16, true, DECODE_ALL>(lanes, heads));
}

// For a cache in 16 bits and dense layers.
static const KernelOf *plain_kernel(DecodeFormats formats, int lanes, int heads) {
    static const KernelOf LARGE[] = {{32, 1, decode_launch<DECODE_F16, 32, 1, false>},
                                     {32, 2, decode_launch<DECODE_F16, 32, 2, false>}};
    if (lanes == 32) return &LARGE[heads == 1 ? 0 : 1];
    const KernelOf *few = formats == DECODE_FEW    ? kernel_for<DECODE_F16, false, DECODE_FEW>(lanes, heads)
                          : formats == DECODE_FOUR ? kernel_for<DECODE_F16, false, DECODE_FOUR>(lanes, heads)
                          : formats == DECODE_TWO  ? kernel_for<DECODE_F16, false, DECODE_TWO>(lanes, heads)
                                                   : NULL;
    return built_of(few, kernel_for<DECODE_F16, false, DECODE_ALL>(lanes, heads));
}

// For gates and layers that recur.
template <DecodeFormats FORMATS>
static const KernelOf *kernel_for_states(bool experts, int lanes, int heads) {
    static const KernelOf OF_EXPERTS = {32, 2, decode_launch<DECODE_F16, 32, 2, true, FORMATS, true>};
    if (experts) return lanes == OF_EXPERTS.lanes && heads == OF_EXPERTS.heads ? &OF_EXPERTS : NULL;
    static const KernelOf KERNELS[] = {{8, 1, decode_launch<DECODE_F16, 8, 1, false, FORMATS, true>},
                                       {8, 2, decode_launch<DECODE_F16, 8, 2, false, FORMATS, true>},
                                       {8, 4, decode_launch<DECODE_F16, 8, 4, false, FORMATS, true>},
                                       {32, 2, decode_launch<DECODE_F16, 32, 2, false, FORMATS, true>}};
    for (auto &k : KERNELS)
        if (k.lanes == lanes && k.heads == heads) return &k;
    return NULL;
}

static const KernelOf *states_kernel(DecodeCacheKind kind, bool experts, DecodeFormats formats, int lanes,
                                     int heads) {
    const KernelOf *few =
        formats == DECODE_FEW_RATES    ? kernel_for_states<DECODE_FEW_RATES>(experts, lanes, heads)
        : formats == DECODE_FOUR_RATES ? kernel_for_states<DECODE_FOUR_RATES>(experts, lanes, heads)
                                       : NULL;
    return kind == DECODE_F16 ? built_of(few, kernel_for_states<DECODE_ALL>(experts, lanes, heads)) : NULL;
}

static const KernelOf *kernel_of(DecodeCacheKind kind, bool experts, bool recurs, DecodeFormats formats,
                                 int lanes, int heads) {
    return recurs                ? states_kernel(kind, experts, formats, lanes, heads)
           : experts             ? experts_kernel(formats, lanes, heads)
           : kind == DECODE_INT8 ? kernel_for<DECODE_INT8, false, DECODE_ALL>(lanes, heads)
           : kind == DECODE_INT4 ? kernel_for<DECODE_INT4, false, DECODE_ALL>(lanes, heads)
                                 : plain_kernel(formats, lanes, heads);
}

// For layers of two kinds.
static DecodeLaunch *kinds_kernel(DecodeFormats formats) {
    DecodeLaunch *few = formats == DECODE_FEW    ? decode_launch_kinds<DECODE_FEW>
                        : formats == DECODE_FOUR ? decode_launch_kinds<DECODE_FOUR>
                                                 : NULL;
    return few && is_built(few) ? few : decode_launch_kinds<DECODE_ALL>;
}

bool decode_built(DecodeCacheKind kind, const DecoderShape *s, int n_slots) {
    LayerHeads wide;
    if (kinds_of(s, &wide)) return is_built(kinds_kernel(DECODE_ALL));
    const int lanes = dispatch_decode_lanes(s->head_dim);
    const KernelOf *k = kernel_of(kind, s->experts.n > 0, s->delta.n_value_heads > 0, DECODE_ALL, lanes,
                                  dispatch_decode_heads(s->n_heads / s->n_kv_heads, lanes, n_slots));
    return !k || is_built(k->launch);
}

bool decode_has_states(const DecodeArguments *a) {
    const int lanes = dispatch_decode_lanes(a->head_dim);
    return states_kernel(a->kind, a->experts.n > 0, DECODE_ALL, lanes,
                         dispatch_decode_heads(a->group, lanes, a->n_slots));
}

cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    if (a->kinds) return kinds_kernel(a->formats)(a, n_blocks, stream);
    const int lanes = dispatch_decode_lanes(a->head_dim);
    const KernelOf *k = kernel_of(a->kind, a->experts.n > 0, a->gated != NULL, a->formats, lanes,
                                  dispatch_decode_heads(a->group, lanes, a->n_slots));
    return k && is_built(k->launch) ? k->launch(a, n_blocks, stream) : cudaErrorInvalidValue;
}

template <bool EXPERTS, DecodeFormats FORMATS> static const KernelOf *kernel_for_cards(int lanes, int heads) {
    static const KernelOf KERNELS[] = {{8, 1, decode_launch_cards<8, 1, EXPERTS, FORMATS>},
                                       {8, 2, decode_launch_cards<8, 2, EXPERTS, FORMATS>},
                                       {8, 4, decode_launch_cards<8, 4, EXPERTS, FORMATS>},
                                       {16, 1, decode_launch_cards<16, 1, EXPERTS, FORMATS>},
                                       {16, 2, decode_launch_cards<16, 2, EXPERTS, FORMATS>},
                                       {16, 4, decode_launch_cards<16, 4, EXPERTS, FORMATS>}};
    for (auto &k : KERNELS)
        if (k.lanes == lanes && k.heads == heads) return &k;
    return NULL;
}

static const KernelOf *kernel_of_cards(const DecodeArguments *a) {
    const int lanes = dispatch_decode_lanes(a->head_dim),
              heads = dispatch_decode_heads(a->group, lanes, a->n_slots);
    return a->kind != DECODE_F16       ? NULL
           : a->experts.n > 0          ? kernel_for_cards<true, DECODE_ALL>(lanes, heads)
           : a->formats == DECODE_FEW  ? kernel_for_cards<false, DECODE_FEW>(lanes, heads)
           : a->formats == DECODE_FOUR ? kernel_for_cards<false, DECODE_FOUR>(lanes, heads)
           : a->formats == DECODE_TWO  ? kernel_for_cards<false, DECODE_TWO>(lanes, heads)
                                       : kernel_for_cards<false, DECODE_ALL>(lanes, heads);
}

bool decode_has_cards(const DecodeArguments *a) {
    return kernel_of_cards(a) != NULL;
}

bool decode_built_cards(const DecodeArguments *a) {
    return is_built(kernel_of_cards(a)->launch);
}

cudaError_t decode_launch_on_cards(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    const KernelOf *k = kernel_of_cards(a);
    return k && is_built(k->launch) ? k->launch(a, n_blocks, stream) : cudaErrorInvalidValue;
}
