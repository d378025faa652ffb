// What the files of the CUDA backend share: its state, its weights, and the ops of its table.
//
// The residual stream x is float32. q and g are of the operand type, in which matrices are multiplied: bf16 for
// models in bf16, float32 for models in float32, else f16; it is settled by the first layer that is loaded. Sums
// are float32. All work goes to one stream; only read() and sample() wait for it.
//
// One token of one sequence goes through decode(): the whole step in one persistent kernel. Every other step
// takes the ops one by one.
#ifndef PALAVER_KERNELS_CUDA_CUDA_CUH
#define PALAVER_KERNELS_CUDA_CUDA_CUH

#include "kernels/cuda/formats.cuh"
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

// Tokens of one sequence that attend together, and the slots they look at.
struct AttendTile {
    int first_token, n_tokens, first_slot, n_slots;
};

struct Upload;     // upload.cu
struct Gemm;       // gemm.cu
struct Decoder;    // decode.cu
struct CudaSample; // sample.cu

struct CudaBackend {
    Backend base;
    const DecoderShape *shape;
    int max_tokens, max_logits;
    int device, n_sms, compute; // compute capability times ten
    size_t shared_limit;        // bytes of shared memory that a block may ask for
    char device_name[256];      // as long as CUDA's own
    cudaStream_t stream;
    bool random_weights;
    bool operand_known;
    DType operand;
    Layer *layers; // all that were loaded
    Head *heads;

    // The current step, on the device; `staging` is its pinned source, `staged` says when that may be reused.
    int n_tokens, n_tiles, most_slots; // most_slots: of a sequence
    int32_t *ids, *positions, *slots;  // [max_tokens]
    AttendTile *tiles;                 // [max_tokens]
    int32_t *slot_positions;           // the caller's
    int32_t *staging;
    cudaEvent_t staged;
    double *inv_freq; // [rotary_dim/2]
    float2 *rope;     // [max_tokens, rotary_dim/2] cos and sin, times the rope's magnitude

    // Scratch, one allocation.
    char *scratch;
    void *normed;  // [max(max_tokens, max_logits), hidden_size], operand type
    void *wide;    // [max_tokens, max(rows of qkv, of gate_up)], operand type
    void *weights; // expanded weights, operand type
    int32_t *rows; // [max_logits]
    size_t weights_bytes;

    Upload *upload;       // buffers while weights are loaded, else NULL
    int64_t opened_bytes; // that open() took
    cudaEvent_t *stamps;  // [OPS_MAX_STAMPS], NULL before the first; each made when it is wanted
    Gemm *gemm;
    Decoder *decoder;
    CudaSample *sampler;
};

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

// Runs `call<T>(…)` for a plain type; for the backend's operand type.
#define WITH_OPERAND(cuda, call) WITH_TYPE((cuda)->operand, call)
#define WITH_TYPE(type, call)                                                                                \
    do {                                                                                                     \
        if ((type) == DTYPE_F32) {                                                                           \
            using T = float;                                                                                 \
            call;                                                                                            \
        } else if ((type) == DTYPE_BF16) {                                                                   \
            using T = __nv_bfloat16;                                                                         \
            call;                                                                                            \
        } else {                                                                                             \
            using T = __half;                                                                                \
            call;                                                                                            \
        }                                                                                                    \
    } while (0)

// ---- gemm.cu -------------------------------------------------------------------------------------------

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

// ---- sample.cu -------------------------------------------------------------------------------------------

Status cuda_sample(Backend *backend, const float *logits, const SampleParams *params, int32_t *id,
                   Error *error);
void cuda_sample_close(CudaSample *sampler);

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

Status cuda_check_step(const CudaBackend *cuda, const Step *step, Error *error);
Status cuda_begin(Backend *backend, const Step *step, Error *error);
Status cuda_embed(Backend *backend, const Head *head, void *x, Error *error);
Status cuda_qkv(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                Error *error);
Status cuda_attend(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);
Status cuda_out(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);
Status cuda_gate_up(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);
Status cuda_down(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);
Status cuda_logits(Backend *backend, const Head *head, const void *x, const int32_t *tokens, int n_rows,
                   float *logits, Error *error);

#endif
