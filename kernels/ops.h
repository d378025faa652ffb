// The contract between the engine and a backend: the decoder's operations, at the grain a GPU wants.
//
// engine/forward.c calls them in one loop for n >= 1 tokens of b >= 1 sequences; decoding is prefill
// with n = 1. kernels/cpu has one table of them, kernels/cuda another; tests compare the two.
//
//   begin → embed → (qkv → attend → out → gate_up → down) × n_layers → logits → sample
//   with parallel_residual: … (qkv → attend → gate_up → out → down) …
//
// Conventions
//  - Pointers named `host` are host memory. Everything else that a backend's alloc() returned is
//    backend memory: only its ops, read() and write() touch it.
//  - Shapes stand in brackets, row-major. Sizes are elements unless a name says bytes.
//  - Activations are of the backend's own types, of at most `activation_bytes` each (float32 on the CPU; on CUDA
//    x is float32, q and g are of the type that its matrices are multiplied in); logits are float32 everywhere.
//  - Linear layers are y = W·x, W [n_out, n_in], as files store them. Sums are accumulated in float32.
//  - Ops work in order; read() waits for what was asked before it. A backend serves one thread.
//  - A failing op returns a Status other than STATUS_OK and fills the Error with op, shapes and cause;
//    the contents of its outputs are then unspecified, and nothing else has changed.
#ifndef PALAVER_KERNELS_OPS_H
#define PALAVER_KERNELS_OPS_H

#include "kernels/dtype.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- weights -----------------------------------------------------------------------------------------

// A matrix (or, with rows = 1, a vector) in a file's own type, in mapped host memory. data == NULL: absent.
typedef struct Matrix {
    DType type;
    int64_t rows, cols; // cols is the contiguous dimension, a multiple of the type's block size
    const void *data;   // [rows, cols]
} Matrix;

// The weights of one decoder layer, as the file has them. Absent ones have data == NULL.
typedef struct LayerWeights {
    Matrix attn_norm, attn_norm_bias; // [hidden_size]; a bias only with layer norm
    Matrix wq, bq;                    // [n_heads*head_dim, hidden_size], [n_heads*head_dim]
    Matrix wk, bk;                    // [n_kv_heads*head_dim, hidden_size], [n_kv_heads*head_dim]
    Matrix wv, bv;                    // likewise
    Matrix q_norm, k_norm;            // [head_dim]: RMS norm of each head before RoPE (Qwen3)
    Matrix wo, bo;                    // [hidden_size, n_heads*head_dim], [hidden_size]
    Matrix ffn_norm, ffn_norm_bias;   // [hidden_size]
    Matrix w_gate, b_gate; // [intermediate_size, hidden_size], [intermediate_size]; absent: no gate
    Matrix w_up, b_up;     // likewise
    Matrix w_down, b_down; // [hidden_size, intermediate_size], [hidden_size]
} LayerWeights;

typedef struct HeadWeights {
    Matrix embedding;                           // [vocab_size, hidden_size]
    Matrix positions;                           // [n_positions, hidden_size], where positions are learned
    Matrix embedding_norm, embedding_norm_bias; // [hidden_size], of what embed() gives (BLOOM)
    Matrix norm, norm_bias;                     // [hidden_size]
    Matrix output, output_bias; // [vocab_size, hidden_size], [vocab_size]; output has the same data as
                                // embedding where the head is tied
} HeadWeights;

// ---- the decoder's shape ---------------------------------------------------------------------------

// RMS norm (Zhang & Sennrich, arXiv:1910.07467): x / sqrt(mean(x²) + eps) · w. Layer norm (Ba et al.,
// arXiv:1607.06450): (x − mean(x)) / sqrt(variance(x) + eps) · w + b. Statistics in float32.
typedef enum NormKind { NORM_RMS, NORM_LAYER } NormKind;

// x·sigmoid(x); x·Φ(x) (Hendrycks & Gimpel, arXiv:1606.08415) by its approximation with tanh, and exact; max(x, 0).
typedef enum Activation {
    ACTIVATION_SILU,
    ACTIVATION_GELU_TANH,
    ACTIVATION_GELU,
    ACTIVATION_RELU
} Activation;

// How the pairs of a head's first rotary_dim elements lie: (i, i + rotary_dim/2), as Hugging Face
// stores them, or (2i, 2i+1), as Meta and GGUF's LLaMA do.
typedef enum RopeKind { ROPE_HALF_SPLIT, ROPE_INTERLEAVED } RopeKind;

// Rotary position embedding (Su et al., arXiv:2104.09864). Pair i at position p turns by the angle
// p·inv_freq[i], computed in double and reduced before it becomes float; cos and sin are multiplied by
// `magnitude` (YaRN's attention factor; 1 elsewhere). Scaling schemes are already in inv_freq.
typedef struct Rope {
    RopeKind kind;
    int rotary_dim; // even, <= head_dim; further elements are left as they are; 0: no rotary embedding
    const double *inv_freq; // host [rotary_dim/2], owned by the caller for the life of the backend
    double magnitude;
} Rope;

typedef struct DecoderShape {
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    NormKind norm; // of layers, embedding and head; heads of q and k have RMS norms
    float norm_eps;
    float norm_offset;     // added to every norm's weight: 0, or 1 where a file stores w - 1
    float embedding_scale; // 1, or √hidden_size for models that scale their embeddings
    float attention_scale; // multiplies q·k: usually 1/√head_dim
    Activation activation;
    Rope rope;
    int n_positions;        // rows of HeadWeights.positions: positions end there; 0: not learned, without end
    bool parallel_residual; // attention and feed-forward read the same x: gate_up comes before out
} DecoderShape;

// ---- the cache, as ops see it -------------------------------------------------------------------------

// One layer's keys and values. A slot holds the key and value of one token in every layer; where slot s,
// KV head h, element d lies is s*slot_stride + h*head_stride + d. Layouts are strides: no op knows more.
// Keys are stored after RoPE.
typedef struct KvLayer {
    DType type; // DTYPE_F32 or DTYPE_F16
    void *k, *v;
    int64_t slot_stride, head_stride; // elements
} KvLayer;

// ---- one step ------------------------------------------------------------------------------------------

// The tokens of one sequence in a step, and the slots they may look at. A query at position p sees slot s
// of [first_slot, first_slot + n_slots) if 0 <= slot_positions[s] <= p, and, with a sliding window,
// p - slot_positions[s] < window: a token sees itself, an empty slot (position -1) is never seen. Where a
// slot lies within the range has no meaning, so rings and gaps need no code.
typedef struct StepSequence {
    int first_token, n_tokens; // range of the step's tokens; n_tokens >= 1
    int first_slot, n_slots;   // range of the cache's slots, including those this step fills
} StepSequence;

// What one pass evaluates. Host arrays, read by begin() and free for reuse when it returns.
typedef struct Step {
    int n_tokens; // >= 1, at most max_tokens
    int n_sequences;
    const int32_t *ids;            // [n_tokens] 0 <= id < vocab_size
    const int32_t *positions;      // [n_tokens] >= 0, and < n_positions where they are learned
    const int32_t *slots;          // [n_tokens] where each token's key and value go; no slot twice
    const StepSequence *sequences; // [n_sequences], in order, covering all tokens
    int32_t *slot_positions;       // backend memory [n_slots of the cache]; begin() enters the step's tokens
} Step;

// ---- sampling ------------------------------------------------------------------------------------------

// One token's adjustment: l = (l > 0 ? l / divide : l * divide) - subtract. Repetition penalties (Keskar
// et al., arXiv:1909.05858), frequency and presence penalties, DRY and logit_bias all reduce to it.
typedef struct LogitAdjustment {
    int32_t id;
    float divide;   // 1 = none
    float subtract; // 0 = none; +INFINITY bans the token
} LogitAdjustment;

// The chain, in this order: adjustments → top_k → typical_p → top_p → min_p → temperature → draw.
//  - Probabilities of every filter are the softmax of the adjusted logits over what is left, before temperature.
//  - top_k: the k largest; of equal ones the lower ids. 0: all.
//  - typical_p (Meister et al., arXiv:2202.00666): the smallest set, by |−ln p − H|, with mass >= typical_p. 1: off.
//  - top_p (Holtzman et al., arXiv:1904.09751): the smallest set of the most probable, with mass >= top_p. 1: off.
//  - min_p (arXiv:2407.01082): those with p >= min_p · max p. 0: off.
//  - temperature 0 is greedy: the largest adjusted logit, the lowest id of equals; no random number is drawn.
//  - draw: from softmax(l / temperature) over what is left, by inverting the cumulative sum in order of
//    (probability descending, id ascending) at u, with u from Philox4x32-10 (Salmon et al., SC'11): the first
//    curand_uniform() after curand_init(seed, conversation, position·4): see kernels/philox.h.
// Probabilities and their sums are the integers of kernels/sample_math.h, so that every backend takes the same
// token from the same logits.
typedef struct SampleParams {
    float temperature, top_p, min_p, typical_p;
    int top_k;
    uint64_t seed, conversation, position;
    int n_adjustments;
    const LogitAdjustment *adjustments; // host [n_adjustments], each id once
} SampleParams;

// ---- one token at once --------------------------------------------------------------------------------------

// A step of one token of one sequence, with everything that the ops would be given one after the other.
typedef struct DecodeStep {
    const struct Step *step; // n_tokens = n_sequences = 1
    const struct Head *head;
    const struct Layer *const *layers; // host [n_layers]
    const KvLayer *kv;                 // host [n_layers]
    const int *windows;                // host [n_layers]
    float *logits;                     // backend memory [vocab_size]
} DecodeStep;

// ---- the table ------------------------------------------------------------------------------------------

typedef struct Backend Backend; // begins with `const Ops *ops`
typedef struct Layer Layer;     // one layer's weights in the backend's own form
typedef struct Head Head;       // embedding, final norm and output matrix, likewise

typedef struct BackendOptions {
    const char *device;        // "cpu", "cpu:reference" (plain loops, to compare with), "cuda", "cuda:1"
    int n_threads;             // CPU: 0 = one for each core this process may use
    const DecoderShape *shape; // kept by reference: outlives the backend
    int max_tokens;            // most tokens of a step
    int max_logits;            // most rows of logits()
    bool random_weights; // for measuring: data of matrices is not read, values of sane scale are made up
} BackendOptions;

enum { OPS_ABI = 2 }; // counts changes of this header that a plug-in built before would not know

typedef struct Ops {
    const char *name; // "cpu", "cuda"
    size_t activation_bytes;
    int chunk; // tokens of a prefill step that suit it

    Status (*open)(const BackendOptions *options, Backend **backend, Error *error);
    void (*close)(Backend *backend); // also frees layers and heads; memory from alloc() is the caller's
    // One line about the device and how it is used: "2 threads, AVX2".
    void (*describe)(const Backend *backend, char *text, size_t size);
    // Bytes of the device that are there and free now.
    void (*memory)(const Backend *backend, int64_t *total, int64_t *available);
    // Bytes that open() takes for its own scratch, so that need can be compared with what is free first.
    int64_t (*scratch_bytes)(const BackendOptions *options);

    Status (*alloc)(Backend *backend, size_t bytes, void **memory, Error *error); // 64-byte aligned, zeroed
    void (*free)(Backend *backend, void *memory);
    Status (*write)(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
    Status (*read)(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);

    // Takes weights over: by reference where the mapped file is used as it is (the mapping outlives the
    // backend), else uploaded and repacked. Refuses, naming the weight, what the backend has no code for.
    Status (*load_layer)(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
    Status (*load_head)(Backend *backend, const HeadWeights *host, Head **head, Error *error);

    // Checks a step, takes its arrays over, computes cos and sin of its positions, and enters
    // slot_positions[slots[i]] = positions[i].
    Status (*begin)(Backend *backend, const Step *step, Error *error);

    // x [n_tokens, hidden_size] = embedding_scale · embedding[ids] + positions[position], the latter where they are
    // learned; normed where there is an embedding_norm
    Status (*embed)(Backend *backend, const Head *head, void *x, Error *error);

    // h = norm(x; attn_norm);  q, k, v = W·h + b, each head of q and k normed where the layer has
    // q_norm, k_norm;  q and k turned by RoPE;  k and v stored in their slots of `kv`.
    // x [n_tokens, hidden_size] → q [n_tokens, n_heads*head_dim]
    Status (*qkv)(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                  Error *error);

    // softmax(attention_scale · q·Kᵀ + mask)·V for each head, KV head h·n_kv_heads/n_heads, mask as told at
    // StepSequence; window 0: none. A query that sees no slot gives zeros. q and y may be the same memory.
    // q [n_tokens, n_heads*head_dim] → y [n_tokens, n_heads*head_dim]
    Status (*attend)(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);

    // x [n_tokens, hidden_size] += wo·y + bo
    Status (*out)(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);

    // h = norm(x; ffn_norm);  g [n_tokens, intermediate_size] = activation(w_gate·h + b_gate) · (w_up·h + b_up), or,
    // without a gate, activation(w_up·h + b_up)
    Status (*gate_up)(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);

    // x [n_tokens, hidden_size] += w_down·g + b_down
    Status (*down)(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);

    // For each i: logits[i] = output·norm(x[tokens[i]]) + output_bias. tokens host [n_rows], n_rows <= max_logits.
    // logits backend memory float32 [n_rows, vocab_size]
    Status (*logits)(Backend *backend, const Head *head, const void *x, const int32_t *tokens, int n_rows,
                     float *logits, Error *error);

    // Optional (NULL: none): begin, embed, every layer and logits of a DecodeStep in one go, with the results of
    // the ops. STATUS_UNSUPPORTED without an error message: not this step, and nothing was done; take the ops.
    Status (*decode)(Backend *backend, const DecodeStep *step, Error *error);

    // Draws one token from one row [vocab_size] of logits, which is left as it was. NaN anywhere, or nothing
    // left to choose from, is an error. Returns the id on the host.
    Status (*sample)(Backend *backend, const float *logits, const SampleParams *params, int32_t *id,
                     Error *error);
} Ops;

struct Backend {
    const Ops *ops; // a backend's own state follows
};

// The reference and fast loops of kernels/cpu. Always there.
const Ops *ops_cpu(void);

// What the plug-in libpalaver-cuda.so exports under the name "palaver_cuda_ops". NULL if `abi`, the caller's
// OPS_ABI, is not its own: the two were built from different sources.
typedef const Ops *(*OpsPlugin)(int abi);

#ifdef __cplusplus
}
#endif
#endif
