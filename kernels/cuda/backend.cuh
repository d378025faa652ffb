// What the files of the CUDA backend share: its state, and the ops of its table.
//
// The residual stream x is float32. q and g are of the operand type, in which matrices are multiplied: bf16 for
// models in bf16, float32 for models in float32, else f16; it is settled by the first layer that is loaded, where the
// layers are W8 by the head. Sums are float32. All work goes to one stream; only read() and sample() wait for it.
//
// How a step goes through these files: NOTES.md, "How a step runs". Which kernels it takes: dispatch.h.
#ifndef PALAVER_KERNELS_CUDA_BACKEND_CUH
#define PALAVER_KERNELS_CUDA_BACKEND_CUH

#include "kernels/cuda/layers.cuh"
#include "kernels/cuda/step.cuh"
#include "kernels/cuda/w8/fp8.cuh"

// Memory that grows when more is asked for; what it held is lost then.
struct Room {
    char *memory;
    size_t bytes;
};

// Which experts a step's tokens take: experts/experts.cuh. Pairs of a token and an expert are in the order of experts.
struct CudaRoutes {
    float *logits;       // [max_tokens, n + 1]
    float *group_sums;   // [max_tokens, n_groups]
    unsigned *arrived;   // [max_tokens] zero between launches
    int32_t *ids;        // [max_tokens, n_active]
    float *weights;      // likewise
    float *shared;       // [max_tokens] the shared expert's weight
    int32_t *start;      // [n + 1] the first pair of each expert
    int32_t *tiles;      // [n + 1] its first tile: experts_sort()
    int4 *tile_pairs;    // [max_tokens·n_active] what each tile has: ExpertFlatTiles
    int32_t *token;      // [max_tokens·n_active] of each pair
    int32_t *where;      // [max_tokens, n_active] the pair of each
    void *pairs;         // [max_tokens·n_active, hidden_size], operand type
    float *beside;       // [2, max_tokens, hidden_size] what the dense part and the experts beside it give
    int32_t *host_start; // pinned
};

// Of models with layers that recur (recurring/delta.cuh), what their kernels hand to each other.
struct CudaRecurring {
    float *mixed;    // [max_tokens, channels] queries, keys and values behind the convolution
    float2 *rates;   // [max_tokens, n_value_heads] γ and β
    float *dots;     // [max_tokens, n_key_heads] q·k
    float *rows;     // [max_tokens, 2·n_value_heads] products of Layer.rates
    float *chunks;   // of DELTA_CHUNK tokens each, as recurring/delta_chunks.cuh has them
    float4 *factors; // likewise
};

// Memory of the device that a step works in. Its contents mean nothing to the next one.
struct CudaScratch {
    char *memory;       // of the following, of a fixed size
    float2 *rope;       // [n_tables, max_tokens, rotary_dim/2] cos and sin, times the table's magnitude
    float2 *row_scales; // [max_tokens] of norms of whole rows of q and k
    void *normed;       // [max(max_tokens, max_logits), hidden_size], operand type
    void *wide;         // [max_tokens, max(rows of qkv, of gate_up, two queries)], operand type
    void *weights;      // expanded weights, operand type
    // Of a shape with a latent, operand type: [max_tokens, q_rank], and of all heads [max_tokens, expanded queries, then
    // values].
    // Of one with orders_inputs, which has none: [max_tokens, widest input], put in order.
    void *low, *expanded;
    // [max_tokens, gate_width] what gates, and layers that recur beside their channels, are made of.
    void *gates;
    int64_t gate_width;
    CudaRecurring recurring;
    // Of per-layer embeddings: [max_tokens, n_layers·token_size], and what a layer makes of its own, operand type.
    float *of_tokens;
    void *token_part;
    int32_t *rows, *drawn; // [max_logits] each; the ids of the last draw, or less than 0
    size_t weights_bytes;
    CudaRoutes routes; // of models with experts

    Room step, staging;  // a step's arrays, and their pinned source
    cudaEvent_t staged;  // when that may be written again
    Room handover;       // what blocks of a launch leave each other: device/handover.cuh
    Room parts, arrived; // what splits of attention hand to each other: attention/split.cuh
};

struct Upload;       // weights/upload.cu
struct Library;      // gemm/library.cu
struct Decoder;      // decode/decode.cu
struct DecodeGraphs; // decode/graph.cu
struct CudaSample;   // sample/sample.cu
struct Measurement;  // measure.cu
struct CudaPeers;    // peers/peers.cuh

struct CudaBackend {
    Backend base;
    const DecoderShape *shape;
    int max_tokens, max_logits;
    bool random_weights;
    DispatchTable dispatch; // of BackendOptions, if `tuned`
    bool tuned;
    LinearWay
        way; // that linear layers of one shape go while they are measured (measure.cu); else LINEAR_BY_TABLE

    CudaDevice device;
    CudaStep step;
    CudaScratch scratch;
    DeviceCounts *counts; // since open()

    // The model, as far as it is loaded.
    bool operand_known;
    DType operand;
    Layer *layers;
    Head *heads;
    Upload *upload; // buffers while weights are loaded, else NULL

    // What is made when it is first wanted, and kept.
    Library *library;
    Decoder *decoder;
    DecodeGraphs *graphs;
    CudaSample *sampler;
    Measurement *measurement;
    cudaEvent_t *stamps;  // [OPS_MAX_STAMPS]
    int64_t opened_bytes; // of the device, that open() took
    struct Visit *visit;  // weights/visit.cu; NULL: no layers visit
    CudaPeers *peers;     // NULL: it is one card
};

static inline CudaBackend *cuda_backend(Backend *backend) {
    return (CudaBackend *)backend;
}

// What turns a layer's heads; its tokens' turns in scratch.rope, and what turns back its queries for the sinks.
static inline const float2 *cuda_turns(const CudaBackend *cuda, const KvLayer *kv) {
    return cuda->scratch.rope +
           (kv->rope < 0 ? 0 : (int64_t)kv->rope * cuda->max_tokens * (cuda->shape->rope.rotary_dim / 2));
}
static inline const float2 *cuda_sink_turns(const CudaBackend *cuda, const KvLayer *kv) {
    const int pairs = cuda->shape->rope.rotary_dim / 2;
    if (!cuda->step.sink_rope || kv->rope < 0 || pairs == 0) return NULL;
    return cuda->step.sink_rope + (int64_t)kv->rope * cuda->step.n_tokens * pairs;
}

// Elements of a token in what qkv() of a layer gives, and attend().
static inline size_t layer_pass_width(const DecoderShape *s, const KvLayer *kv) {
    return kv->recurs ? (size_t)delta_width(&s->delta)
                      : (size_t)s->n_heads * (size_t)kv_layer_head_dim(s, kv);
}

static inline size_t operand_bytes(DType type) {
    return type == DTYPE_F32 ? 4 : 2;
}

// Runs `call<T>(…)` for a plain type, of 16 bits or any; for the backend's operand type.
#define WITH_OPERAND(cuda, call) WITH_TYPE((cuda)->operand, call)
#define WITH_TYPE(type, call)                                                                                \
    do {                                                                                                     \
        if ((type) == DTYPE_F32) {                                                                           \
            using T = float;                                                                                 \
            call;                                                                                            \
        } else {                                                                                             \
            WITH_TYPE_16(type, call);                                                                        \
        }                                                                                                    \
    } while (0)
#define WITH_TYPE_16(type, call)                                                                             \
    do {                                                                                                     \
        if ((type) == DTYPE_BF16) {                                                                          \
            using T = __nv_bfloat16;                                                                         \
            call;                                                                                            \
        } else {                                                                                             \
            using T = __half;                                                                                \
            call;                                                                                            \
        }                                                                                                    \
    } while (0)

// ---- shape.cu: STATUS_UNSUPPORTED, unless there are kernels for such layers --------------------------------------------

// Tokens that a prompt of layers that recur takes at once; floats of a square of them in tiles of 8, up to its diagonal.
enum { DELTA_CHUNK = 32, DELTA_LOWER = DELTA_CHUNK * (DELTA_CHUNK + 8) / 2 };
enum { DELTA_MOST_DIM = 256 }; // elements of a head's keys, and of its values, in layers that recur
Status cuda_check_shape(const DecoderShape *shape, Error *error);

// ---- gemm/library.cu: cuBLAS and its workspace ---------------------------------------------------------------

Status library_open(CudaBackend *cuda, Error *error);
void library_close(Library *library);

// ---- norm.cu: y [n, hidden_size] of `type` = norm(x[rows[i]]), rows NULL: x[i], and then y may be x. A norm without
// weights is none: y = x ---------

struct NormCall {
    const float *x;
    const int32_t *rows;
    int n;
    Norm norm;
    DType type;
    void *y;
};
Status cuda_norm(CudaBackend *cuda, const NormCall *call, Error *error);

// cuda_norm() in 8 bits, for W8 (kernels/w8.h) and FP8 (kernels/fp8.h): y are integers, or e4m3, [n, hidden_size rounded
// up to W8_ALIGNMENT], scales [n], or by groups [hidden_size / FP8_GROUP, fp8.stride]; `type` means nothing. hidden_size <=
// NORM_QUANTIZE_MOST, in FP8 a multiple of FP8_GROUP.
enum { NORM_QUANTIZE_MOST = 32768 };
struct QuantizedRows {
    RowForm form;
    float *scales;
    Fp8Row fp8;
};
Status cuda_norm_quantize(CudaBackend *cuda, const NormCall *call, const QuantizedRows &to, Error *error);

// x [n, hidden_size] += norm(y [n, hidden_size]), both float32.
Status cuda_add_normed(CudaBackend *cuda, const float *y, int n, Norm norm, float *x, Error *error);
// Of a shape with a normed_residual, x [n_tokens, hidden_size] = normed_residual·norm(x); else nothing.
Status cuda_norm_residual(CudaBackend *cuda, Norm norm, float *x, Error *error);

// ---- out.cu: x [n_rows, n] += bias [n]; NULL: nothing to do -------------------------------------------------

Status cuda_add_bias(CudaBackend *cuda, const float *bias, int n_rows, int n, float *x, Error *error);

// ---- decode/decode.cu -------------------------------------------------------------------------------------

Status cuda_decode(Backend *backend, const DecodeStep *step, Error *error);
void decoder_close(Decoder *decoder);
size_t decoder_bytes(const CudaBackend *cuda); // of the device, that decoding will take

// ---- decode/graph.cu: a step of one token each as a captured graph of the ops --------------------------------------

Status cuda_decode_graph(CudaBackend *cuda, const DecodeStep *step, Error *error);
int decode_graph_rows(const CudaBackend *cuda); // most rows of a graph
void decode_graphs_close(DecodeGraphs *graphs);
size_t decode_graphs_bytes(const CudaBackend *cuda);

// ---- sample/sample.cu -------------------------------------------------------------------------------------------

Status cuda_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                   int32_t *ids, Error *error);
Status cuda_sample_begin(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                         Error *error);
Status cuda_sample_end(Backend *backend, int32_t *ids, Error *error);
void cuda_sample_close(CudaSample *sampler);
size_t cuda_sample_bytes(int n_rows); // of the device, without what adjusted logits take

// ---- profile.cu -------------------------------------------------------------------------------------------

Status cuda_stamp(Backend *backend, int i, Error *error);
Status cuda_stamp_seconds(Backend *backend, int n, double *seconds, Error *error);
void cuda_free_stamps(CudaBackend *cuda);
void cuda_kernels(const Backend *backend, char *text, size_t size);

// ---- measure.cu: kernels/tuning.h ----------------------------------------------------------------------------

extern const struct TuningOps CUDA_TUNING;
void measurement_close(Measurement *measurement);
// The way of a linear layer while a trial is made ready; LINEAR_BY_TABLE: the usual one.
LinearWay measured_way(const CudaBackend *cuda, int rows, int cols, DType type);

// ---- peers/peers.cu: kernels/shards/shard_ops.h --------------------------------------------------------------

extern const struct ShardOps CUDA_SHARDS;

// ---- weights/upload.cu, weights/weights.cu: load_layer, load_head -----------------------------------------------------

int64_t cuda_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *head);
Status cuda_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
Status cuda_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error);
void cuda_end_upload(CudaBackend *cuda); // waits for what is on its way, frees the buffers of loading
// The same before a step; where layers visit, steps wait instead, and the buffers stay.
Status cuda_settle_upload(CudaBackend *cuda, Error *error);
void cuda_free_weights(CudaBackend *cuda);

// ---- weights/visit.cu: layers that lie on the host ---------------------------------------------------------------

extern const VisitOps CUDA_VISITS;
void visit_close(struct Visit *visit);

// ---- backend.cu: at least `bytes` of room, on the device or pinned on the host, named in errors ---------------

Status cuda_room(CudaBackend *cuda, Room *room, size_t bytes, bool pinned, const char *name, Error *error);
// What it takes for that: more, for rooms grow with the pages of a cache, again and again.
static inline size_t cuda_room_bytes(size_t bytes) {
    return bytes + bytes / 2;
}
// scratch.handover, which an op sees to, but may not while a graph is captured.
Status cuda_reserve_handover(CudaBackend *cuda, Error *error);
size_t cuda_handover_bytes(const CudaBackend *cuda);

// ---- one op of ops.h each --------------------------------------------------------------------------------------

Status cuda_begin(Backend *backend, const Step *step, const KvLayer *kv, Error *error);
Status cuda_narrow(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                   Error *error);
Status cuda_embed(Backend *backend, const Head *head, void *x, Error *error);
Status cuda_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                Error *error);
Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status cuda_copy_slots(Backend *backend, const CacheSlots *from, const int32_t *to, Error *error);
Status cuda_shift_keys(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error);
Status cuda_cache_attention(Backend *backend, const CacheAttention *attention, Error *error);
Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);
Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);
Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);
Status cuda_logits(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                   Error *error);

// ---- what a plug-in for a first talk lacks (device/built.cuh): first_talk.cu ------------------------------------

// Whether there are kernels for weights of such a format: GEMVs, and with them all others but experts'.
bool first_talk_has(int format);
// Whether there are all that such a model needs, whatever its weights; a cache's type is looked at by begin, and by what
// decodes.
Status first_talk_check(const DecoderShape *shape, Error *error);

#endif
