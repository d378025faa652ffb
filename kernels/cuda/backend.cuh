// What the files of the CUDA backend share: its state, its weights, and the ops of its table.
//
// The residual stream x is float32. q and g are of the operand type, in which matrices are multiplied: bf16 for
// models in bf16, float32 for models in float32, else f16; it is settled by the first layer that is loaded. Sums
// are float32. All work goes to one stream; only read() and sample() wait for it.
//
// One token of one sequence goes through the persistent kernel of decode.cu, one of each of several sequences through a
// graph of the ops (decode/graph.cu). Every other step takes the ops one by one.
#ifndef PALAVER_KERNELS_CUDA_BACKEND_CUH
#define PALAVER_KERNELS_CUDA_BACKEND_CUH

#include "kernels/cuda/formats.cuh"
#include "kernels/kv_layout.h"
#include "kernels/ops.h"

#include <cuda_runtime.h>

// Several matrices over the same input, rows one below the other; one of them unless their formats differ.
struct Linear {
    Weight part[3];
    int n_parts, rows, cols;
};

// A norm over the hidden size, of the shape's kind.
struct Norm {
    float *weight; // norm_offset added; NULL: there is no norm
    float *bias;   // NULL: none
};

struct Layer {
    Layer *next;
    char *memory; // of everything below
    Norm attn_norm, ffn_norm;
    float *q_norm, *k_norm;                     // norm_offset added; NULL: none
    float *b_qkv, *bo, *b_gate, *b_up, *b_down; // NULL: none
    Linear qkv, out, down;
    bool gated;
    Linear gate_up; // rows gate 0, up 0, gate 1, up 1, …; without a gate those of up
};

struct Head {
    Head *next;
    char *memory;
    Norm norm, embedding_norm;
    float *output_bias; // NULL: none
    Weight embedding;
    Weight positions; // data NULL: not learned
    Linear output;    // its data is the embedding's where the head is tied
};

// A checked build (make SANITIZE_GPU=1 test-gpu) is for compute-sanitizer, which takes sound things for faults: see
// tests/gpu/sanitizer_probe.cu. Lanes that one would speak for arrive each, warps wait where they would only tell that
// they have come, lanes that fill rings do it one after the other, and scratch that cuBLAS writes begins as NaN.
#ifdef PALAVER_CHECKED
constexpr bool CHECKED = true;
#else
constexpr bool CHECKED = false;
#endif

// Tokens of one sequence that attend together, and what they look at: see StepSequence.
struct AttendTile {
    int first_token, n_tokens;
    int first_page, n_slots; // its sequence's table begins at the step's page first_page
    int n_keep, n_gone;
    int first_split, n_splits; // of a tile of one token, split_slots indexes each: see attention/split.cuh
    int split_slots;
    int mask_column; // of index 0, where there is a mask
};

// A step's tables of pages, one after the other.
struct Pages {
    const int32_t *first; // slot of each page's first index
    uint32_t size;
    int shift; // log2 of size, -1 where size is no power of two. A sequence of one page: 31
};

// Memory that grows when more is asked for; what it held is lost then.
struct Room {
    char *memory;
    size_t bytes;
};

struct Upload;       // upload.cu
struct Gemm;         // gemm/library.cu
struct Decoder;      // decode.cu
struct DecodeGraphs; // decode/graph.cu
struct CudaSample;   // sample.cu

struct CudaBackend {
    Backend base;
    const DecoderShape *shape;
    int max_tokens, max_logits;
    int device, n_sms;
    int compute;           // compute capability times ten; 80 where a card runs code for that
    bool portable;         // it is a Hopper, and the plug-in was built without code for sm_90a
    size_t shared_limit;   // bytes of shared memory that a block may ask for
    char device_name[256]; // as long as CUDA's own
    cudaStream_t stream;
    bool random_weights;
    bool operand_known;
    DType operand;
    Layer *layers; // all that were loaded
    Head *heads;

    // The current step, in `step` on the device; `staging` is its pinned source, `staged` says when that may be
    // reused. Tiles of several tokens come first, then those of one; the latter are cut into splits.
    Room step, staging;
    cudaEvent_t staged;
    StepKind kind;
    int n_tokens, n_sequences, n_tiles, n_single_tiles, n_splits;
    int most_slots;                            // of a sequence
    bool gone;                                 // a sequence has n_gone > 0
    bool in_order;                             // STEP_READING: tokens lie at the indexes of their positions
    int32_t *ids, *positions, *slots, *n_gone; // [n_tokens]
    int32_t *rope_sets;                        // [n_tokens]
    int32_t *count;                            // tokens of the step, where n_tokens is padded
    AttendTile *tiles;                         // [n_tiles + n_single_tiles]
    int32_t *split_tiles;                      // [n_splits] the tile of each split; -1: none
    Pages pages;
    float2 *kept_rope;       // [n_tokens, rotary_dim/2] cos and sin of n_gone, if `gone`
    int32_t *slot_positions; // the caller's
    double *inv_freq;        // [n_sets, rotary_dim/2]
    float2 *rope;            // [max_tokens, rotary_dim/2] cos and sin, times the rope's magnitude
    Room flat;               // scratch of products of few rows: flat.cu
    bool flat_large;         // the ring of the one launched last
    // Type of the cache that was attended to last, and how many of its kernel's blocks a multiprocessor holds, 0: not
    // known; what the next step is cut for.
    DType cached;
    int splits_a_sm;
    Room parts, arrived; // what splits of attention hand to each other: see attention/split.cuh

    // Scratch, one allocation.
    char *scratch;
    void *normed;  // [max(max_tokens, max_logits), hidden_size], operand type
    void *wide;    // [max_tokens, max(rows of qkv, of gate_up, two queries)], operand type
    void *weights; // expanded weights, operand type
    int32_t *rows; // [max_logits]
    size_t weights_bytes;

    Upload *upload;       // buffers while weights are loaded, else NULL
    int64_t opened_bytes; // that open() took
    cudaEvent_t *stamps;  // [OPS_MAX_STAMPS], NULL before the first; each made when it is wanted
    Gemm *gemm;
    Decoder *decoder;
    DecodeGraphs *graphs;
    CudaSample *sampler;
};

static inline int cuda_rope_sets(const DecoderShape *shape) {
    return shape->rope.n_sets > 0 ? shape->rope.n_sets : 1;
}

static inline CudaBackend *cuda_backend(Backend *backend) {
    return (CudaBackend *)backend;
}

static inline size_t operand_bytes(DType type) {
    return type == DTYPE_F32 ? 4 : 2;
}

// OK if `code` is success; else fills the error with the formatted what and CUDA's own reason. Out of memory is
// STATUS_MEMORY, a fault after which the device is lost STATUS_FATAL, the rest STATUS_DEVICE.
Status cuda_check(cudaError_t code, Error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The same for the launch just made.
#define CUDA_LAUNCHED(error, ...) cuda_check(cudaGetLastError(), error, __VA_ARGS__)

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

// ---- gemm/library.cu -------------------------------------------------------------------------------------------

// y [n, w->rows] = (add ? y : 0) + x [n, w->cols] · Wᵀ; x is of the operand type, y too or float32.
struct Product {
    const Linear *w;
    const void *x;
    void *y;
    DType y_type;
    int n;
    bool add;
};
Status cuda_product(CudaBackend *cuda, const Product *product, Error *error);
Status gemm_open(CudaBackend *cuda, Error *error); // loads cuBLAS, takes its workspace
void gemm_close(Gemm *gemm);

// ---- expand.cu: rows [first, first + n) of w as a dense matrix of type `type` ---------------------------

Status cuda_expand(CudaBackend *cuda, const Weight *w, int first, int n, DType type, void *dense,
                   Error *error);

// ---- norm.cu: y [n, hidden_size] of `type` = norm(x[rows[i]]), rows NULL: x[i], and then y may be x ---------

Status cuda_norm(CudaBackend *cuda, const float *x, const int32_t *rows, int n, Norm norm, DType type,
                 void *y, Error *error);

// ---- out.cu: x [n_rows, n] += bias [n]; NULL: nothing to do -------------------------------------------------

Status cuda_add_bias(CudaBackend *cuda, const float *bias, int n_rows, int n, float *x, Error *error);

// ---- decode.cu -------------------------------------------------------------------------------------------

Status cuda_decode(Backend *backend, const DecodeStep *step, Error *error);
void decoder_close(Decoder *decoder);
size_t decoder_bytes(const CudaBackend *cuda); // of the device, that decoding will take

// ---- decode/graph.cu: the same for one token of each of several sequences, or what the persistent kernel has no code for ---------

Status cuda_decode_graph(CudaBackend *cuda, const DecodeStep *step, Error *error);
void decode_graphs_close(DecodeGraphs *graphs);
size_t decode_graphs_bytes(const CudaBackend *cuda);

// ---- sample.cu -------------------------------------------------------------------------------------------

Status cuda_sample(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                   int32_t *ids, Error *error);
void cuda_sample_close(CudaSample *sampler);
size_t cuda_sample_bytes(int n_rows); // of the device, without what adjusted logits take

// ---- profile.cu -------------------------------------------------------------------------------------------

Status cuda_stamp(Backend *backend, int i, Error *error);
Status cuda_stamp_seconds(Backend *backend, int n, double *seconds, Error *error);
void cuda_free_stamps(CudaBackend *cuda);

// ---- upload.cu, weights.cu: load_layer, load_head; the rest: one op of ops.h each --------------------------

int64_t cuda_weight_bytes(const Backend *backend, const LayerWeights *layers, const HeadWeights *head);
Status cuda_load_layer(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
Status cuda_load_head(Backend *backend, const HeadWeights *host, Head **head, Error *error);
void cuda_end_upload(CudaBackend *cuda); // waits for what is on its way, frees the buffers of loading
void cuda_free_weights(CudaBackend *cuda);

// ---- backend.cu: at least `bytes` of room, on the device or pinned on the host, named in errors ---------------

Status cuda_room(CudaBackend *cuda, Room *room, size_t bytes, bool pinned, const char *name, Error *error);
// What it takes for that: more, for rooms grow with the pages of a cache, again and again.
static inline size_t cuda_room_bytes(size_t bytes) {
    return bytes + bytes / 2;
}

// ---- step.cu ------------------------------------------------------------------------------------------------

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error);
// Of the device, for the arrays and the splits of any step of at most n_rows sequences that see `window` slots each, in
// pages of 16 slots or more.
size_t cuda_step_bytes(const CudaBackend *cuda, int n_rows, int window);

// What attends: heads of the backend's shape or of cache_attention().
struct AttendHeads {
    int n_heads, n_kv_heads, head_dim;
};

enum { MOST_SPLITS = 256 }; // of a tile

// Query heads of a KV head that a split takes together, and how often the group has so many.
static inline int split_rows(const AttendHeads *h) {
    return h->n_heads / h->n_kv_heads > 8 && h->head_dim <= 128 ? 16 : 8;
}
static inline int split_head_tiles(const AttendHeads *h) {
    return (h->n_heads / h->n_kv_heads + split_rows(h) - 1) / split_rows(h);
}

// Room that a step's arrays have on the device, so that steps of about the same size lie at the same places. Tokens beyond
// the step's have id and position 0 and slot -1: nothing is stored for them.
struct StageRoom {
    int tokens, splits, pages;
};
StageRoom cuda_stage_room(const CudaBackend *cuda, const Step *step,
                          const AttendHeads *heads); // what it needs

// Takes a step's arrays over, cut into tiles for the heads. ids may be NULL; mask_columns [n_sequences] and room, what it
// needs, too.
Status cuda_stage(CudaBackend *cuda, const Step *step, const AttendHeads *heads, const int64_t *mask_columns,
                  const StageRoom *room, Error *error);
// What begin() does once a step is staged.
Status cuda_begin_staged(CudaBackend *cuda, Error *error);

// ---- attend.cu: attention of the step that was staged ------------------------------------------------------

struct AttendMask {
    const void
        *values; // NULL: none. Added to the scores of index i at token·row + head·head + mask_column + i
    DType type;
    int64_t row, head;
};
struct AttendCall {
    AttendHeads heads;
    DType type; // of q and y
    const void *q;
    void *y; // may be q
    const KvLayer *kv;
    const int32_t *slot_positions; // NULL: index i holds position i
    int window;
    float scale;
    bool alibi;
    AttendMask mask;
};
Status cuda_attend_step(CudaBackend *cuda, const AttendCall *call, Error *error);

Status cuda_begin(Backend *backend, const Step *step, Error *error);
Status cuda_embed(Backend *backend, const Head *head, void *x, Error *error);
Status cuda_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                Error *error);
Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status cuda_copy_slots(Backend *backend, const KvLayer *layers, int n_layers, const int32_t *from,
                       const int32_t *to, int n, int32_t *slot_positions, Error *error);
Status cuda_shift_keys(Backend *backend, const KvLayer *layers, int n_layers, const int32_t *slots, int n,
                       int32_t delta, int32_t *slot_positions, Error *error);
Status cuda_cache_attention(Backend *backend, const CacheAttention *attention, Error *error);
Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);
Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);
Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);
Status cuda_logits(Backend *backend, const Head *head, const void *x, const int32_t *tokens, int n_rows,
                   float *logits, Error *error);

#endif
