// Which decoding kernel a kind of cache, a head size and a number of query heads to a KV head take.
#include "kernels/cuda/decode/decode.cuh"

// The kernels of a kind for heads of up to 128 elements, or NULL.
template <DecodeCacheKind KIND, bool EXPERTS> static DecodeLaunch *kernel_for(int lanes, int heads) {
    static const struct {
        int lanes, heads;
        DecodeLaunch *launch;
    } KERNELS[] = {
        {8, 1, decode_launch<KIND, 8, 1, EXPERTS>},   {8, 2, decode_launch<KIND, 8, 2, EXPERTS>},
        {8, 4, decode_launch<KIND, 8, 4, EXPERTS>},   {16, 1, decode_launch<KIND, 16, 1, EXPERTS>},
        {16, 2, decode_launch<KIND, 16, 2, EXPERTS>}, {16, 4, decode_launch<KIND, 16, 4, EXPERTS>}};
    for (auto &k : KERNELS)
        if (k.lanes == lanes && k.heads == heads) return k.launch;
    return NULL;
}

cudaError_t decode_launch(const DecodeArguments *a, int n_blocks, cudaStream_t stream) {
    const bool experts = a->experts.n > 0;
    int lanes = dispatch_decode_lanes(a->head_dim),
        heads = dispatch_decode_heads(a->group, lanes, a->n_slots);
    DecodeLaunch *launch = experts                  ? kernel_for<DECODE_F16, true>(lanes, heads)
                           : a->kind == DECODE_INT8 ? kernel_for<DECODE_INT8, false>(lanes, heads)
                           : a->kind == DECODE_INT4 ? kernel_for<DECODE_INT4, false>(lanes, heads)
                                                    : kernel_for<DECODE_F16, false>(lanes, heads);
    if (lanes == 32 && a->kind == DECODE_F16 && !experts)
        launch =
            heads == 1 ? decode_launch<DECODE_F16, 32, 1, false> : decode_launch<DECODE_F16, 32, 2, false>;
    return launch ? launch(a, n_blocks, stream) : cudaErrorInvalidValue;
}
