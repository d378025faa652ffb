// What the decoding kernel is told of a step, and what stays on the device from token to token.
#ifndef PALAVER_KERNELS_CUDA_DECODE_DECODE_INTERNAL_CUH
#define PALAVER_KERNELS_CUDA_DECODE_DECODE_INTERNAL_CUH

#include "kernels/cuda/backend.cuh"
#include "kernels/cuda/decode/decode.cuh"

struct Decoder {
    char *memory;                                          // of everything on the device
    uint32_t *qkv, *attended, *middle, *gated, *x, *parts; // middle: x after attention
    uint32_t *routed;                                      // a router's logits
    unsigned long long *weights;
    unsigned *arrived;                                  // [PHASE_END], then [n_kv_heads], every 32nd
    DecodeLayer *table;                                 // [n_layers] on the device
    DecodeLayer *host_table;                            // what is there
    DecodeLayer *wanted;                                // what this step wants
    DecodeScales *scales, *host_scales, *wanted_scales; // the same of quantised caches
    Room pages;                                         // the sequence's table on the device
    int32_t *host_pages;                                // [n_pages] what is there
    int n_pages, room_pages;
    int n_layers, max_splits, n_splits;
    size_t parts_bytes;
    unsigned round, head_round;
};

// See DecodeArguments.
static inline int route_parts(const DecoderShape *s) {
    return (s->hidden_size + ROUTE_PART - 1) / ROUTE_PART;
}

// The arguments for a step, but for its pages; the tables of layers that it wants are left in the decoder. False: the
// kernel is not made for this cache, or it wants more shared memory than there is.
bool arguments_fill(const CudaBackend *cuda, const DecodeStep *t, DecodeArguments *a);

#endif
