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
    unsigned *arrived;       // [PHASE_END], then [n_kv_heads] of each kind, every 32nd
    DecodeLayer *table;      // [n_layers] on the device
    DecodeLayer *host_table; // what is there
    DecodeLayer *wanted;     // what this step wants
    DecodeScales *scales, *host_scales, *wanted_scales; // the same of quantised caches
    DecodeGated *gates, *host_gates, *wanted_gates;     // the same where layers recur, else NULL
    DecodeKind *kinds, *host_kinds, *wanted_kinds;      // the same where they are of two kinds, else NULL
    uint32_t *wide_parts;                               // the second kind's, behind `parts`
    unsigned long long *wide_weights;                   // likewise
    int wide_max_splits, wide_splits;
    unsigned wide_round; // its head_round
    Room pages;          // the sequence's table on the device
    int32_t *host_pages; // [n_pages] what is there
    int n_pages, room_pages;
    int n_layers, max_splits, n_splits;
    size_t parts_bytes;
    unsigned round, head_round;
};

// See DecodeArguments.
static inline int route_parts(const DecoderShape *s) {
    return (s->hidden_size + ROUTE_PART - 1) / ROUTE_PART;
}

static inline int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// ---- what the model is (describe.cu) ---------------------------------------------------------------------------

// A matrix in chunks; n_chunks 0 if the kernel cannot count them, or copy one.
DecodeMatrix matrix_in_chunks(const char *data, int format, int cols, int64_t row_bytes);
DecodeMatrix matrix_of(const Weight *w);
bool multiplies(const DecodeArguments *a, const DecodeMatrix *m);

// What the layers' caches have in common, from the first; a layer by itself; whether its cache is as the first's. False: the
// kernel has no code for it.
bool describe_cache(const DecoderShape *s, const KvLayer *kv, const Step *step, DecodeArguments *a);
bool describe_layer(const Layer *layer, const KvLayer *kv, int window, DecodeArguments *a, DecodeLayer *l);
bool fits_cache(const KvLayer *kv, const DecodeArguments *a, DecodeScales *scales);

// What the layer has besides where layers recur; false: as above.
bool describe_gated(const DecodeArguments *a, const Layer *layer, const KvLayer *kv, DecodeLayer *l,
                    DecodeGated *g);

// Whether layers that recur are such as there is code for, and all that attend have heads alike.
bool states_decodable(const DecoderShape *s);

// Where layers are of two kinds that there is a kernel for (kinds.cu): the second one's heads.
bool kinds_of(const DecoderShape *s, LayerHeads *wide);
// DecodeArguments.kinds and what of its caches and heads; the table that the step wants. False: as above.
bool kinds_fill(const CudaBackend *cuda, const DecodeStep *t, DecodeArguments *a);
// What is to be known of a step that was launched.
void kinds_done(const DecodeArguments *a, Decoder *d);

// The least set of formats that has all of these matrices'.
DecodeFormats formats_of(const DecodeLayer *layers, const DecodeGated *gated, int n,
                         const DecodeMatrix &output);

// ---- how a step is gone about (plan.cu) ------------------------------------------------------------------------

// Slots of a chunk of the cache.
int chunk_slots(const DecodeArguments *a);

// Once all is described: early phases, rows in halves, splits, shared memory, copies under way; changes the layers that the
// step wants. False: there is not enough shared memory.
bool plan_step(const CudaBackend *cuda, DecodeArguments *a);

// ---- both (arguments.cu) ---------------------------------------------------------------------------------------

// The arguments for a step, but for its pages; the tables of layers that it wants are left in the decoder. False: the
// kernel is not made for this cache, or it wants more shared memory than there is.
bool arguments_fill(const CudaBackend *cuda, const DecodeStep *t, DecodeArguments *a);

#endif
