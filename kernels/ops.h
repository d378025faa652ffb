// The contract between the engine and a backend: the decoder's operations, at the grain a GPU wants.
//
// engine/forward.c calls them in one loop for n >= 1 tokens of b >= 1 sequences; decoding is prefill
// with n = 1. kernels/cpu has one table of them, kernels/cuda another; tests compare the two.
//
// A new op: a member of Ops at the end of this file, and OPS_ABI + 1; the CPU's in kernels/cpu/OP.c, declared in cpu.h,
// entered in the table of kernels/cpu/backend.c; CUDA's in kernels/cuda/OP.cu, declared in backend.cuh, entered in CUDA_OPS
// at the end of backend.cu; its call in engine/forward.c; tests/kernels/test_layer.c, and tests/gpu/main.c, which compares
// the two.
//
//   begin → embed → (qkv → attend → out → gate_up → down) × n_layers → logits → sample
//   with parallel_residual: … (qkv → attend → gate_up → out → down) …
//   a layer without one of its parts (LayerHeads) has none of that part's ops; of two layers beside each other
//   … qkv → attend of the first → qkv → attend of the second, in g → out of the first → out (→ gate_up → down) of the second …
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

#include "kernels/decoder_shape.h"
#include "kernels/step.h"
#include "kernels/weights.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- one token at once --------------------------------------------------------------------------------------

// Where a pass leaves what its ops hand to each other: backend memory, for the step's tokens.
typedef struct PassBuffers {
    void *x;       // [n_tokens, hidden_size] the residual stream
    void *q;       // [n_tokens, decoder_pass_width()] queries, then what attention made of them
    void *g;       // [n_tokens, decoder_ffn_width()]
    float *logits; // [n_sequences, vocab_size]
} PassBuffers;

// A step of one token for each of its sequences, with everything that the ops would be given one after the other.
typedef struct DecodeStep {
    const struct Step *step; // n_tokens = n_sequences, one each; of any kind but STEP_READING
    const struct Head *head;
    struct Layer *const *layers; // host [n_layers]
    const KvLayer *kv;           // host [n_layers]
    const int *windows;          // host [n_layers] attention windows
    float *logits;               // backend memory [n_sequences, vocab_size]
    // Calls embed, the ops of every layer and logits (of all rows, in order) for the step that was begun last: the
    // engine's own loop, for a backend that captures what it asks for.
    Status (*pass)(const void *context, const PassBuffers *buffers, Error *error);
    const void *context;
    // host [n_tokens], or NULL: the ids are step->ids. drawn[i] >= 0: token i's id is what the last sample_begin() draws
    // from that row, which the host need not know yet, and step->ids[i] is any of the vocabulary. Where nothing can be
    // drawn, the step takes some id and what it gives means nothing.
    const int32_t *drawn;
    // Of a decoder whose first layers run elsewhere: what they made of the tokens, backend memory [n_tokens, hidden_size],
    // which `pass` works on whatever x it is given. NULL: embed looks the ids up.
    const float *x;
    const PassBuffers *buffers; // the engine's own, for a backend that has none
    // Of one card of several (kernels/shards): where its part of the logits goes, before `logits` is put together of all;
    // what pass() asks for does so itself. NULL: it is the only one.
    const struct ShardGather *gather;
} DecodeStep;

// ---- the operator of its own ------------------------------------------------------------------------------

// MultiHeadCacheAttention of PPL's dynamic batching operators, as published by OpenPPL: stores current_key and
// current_value in the cache and attends. The same kernels as qkv's store and attend(), without projections,
// norms and RoPE. B sequences, sequence b with seqlen = seqstarts[b+1] - seqstarts[b] queries over kvlen =
// kvstarts[b+1] - kvstarts[b] keys; its token i is stored at index start_pos[b] + i, and key j is index j.
// Query i sees key j <= kvlen - seqlen + i where is_causal, and every key where not, or where b <
// decoding_batches (one query each). Index j lies in slot cachestarts[b] + j (cache_mode 0), or
// cachestarts[b*max_pages + j/page_size] + j%page_size (1). Scores are scaled by 1/√head_dim.
typedef struct CacheAttention {
    // attributes
    int num_heads, head_dim, num_kv_heads; // num_kv_heads 0: num_heads
    bool is_causal, is_alibi;
    int num_layer, layer_idx;
    int quant_bit, quant_group; // 0, 8 or 4
    int cache_mode, cache_layout, page_size;
    // inputs. Tables are host memory, tensors backend memory.
    int64_t batches, decoding_batches, max_seqlen, max_kvlen;
    const int64_t *seqstarts, *kvstarts; // [batches + 1]
    const int64_t *cachestarts;          // [batches], or [batches, max_pages]
    const int64_t *start_pos;            // [batches]
    int64_t max_pages;
    int64_t max_tokens;                      // MaxT of cache and scale
    DType type;                              // T1: F32, F16 or BF16
    DType cache_type;                        // T2 where quant_bit is 0: F32, F16 or BF16
    DType scale_type;                        // T3: F32 or F16
    const void *query;                       // T1 [seqstarts[B], num_heads, head_dim]
    const void *current_key, *current_value; // T1 [seqstarts[B], num_kv_heads, head_dim]
    void *cache, *scale;   // as kernels/kv_layout.h lays them out; scale NULL without quant_bit
    const void *attn_mask; // T1, added to scores; NULL: none
    int mask_dims;         // 2: [seqstarts[B], mask_columns], 3: [num_heads, ., .]
    int64_t mask_columns;  // >= kvstarts[B]; column kvstarts[b] + j is key j
    void *attn_output;     // T1 [seqstarts[B], num_heads, head_dim]
} CacheAttention;

// ---- the table ------------------------------------------------------------------------------------------

typedef struct Backend Backend; // begins with `const Ops *ops`
typedef struct Layer Layer;     // one layer's weights in the backend's own form
typedef struct Head Head;       // embedding, final norm and output matrix, likewise

// Rows of host memory and of a backend's, of equal width and pitch.
typedef struct HostRows {
    void *host, *memory;
    size_t width, pitch; // bytes of a row, and from one to the next
    size_t n;
    bool to_host; // else from there
} HostRows;

// How a backend runs layers that lie on the host, one at a time, in prompts that are worth bringing them. Ops in the
// order in which they were asked for hold here, too, but that host memory is read or written some time before the next
// read(), sample() or stamp_seconds() returns.
typedef struct VisitOps {
    // Bytes of room for any of the layers [n], as the backend would hold it.
    int64_t (*room)(const Backend *backend, const LayerWeights *layers, int n);
    // Takes that room. STATUS_UNSUPPORTED: there is no code for one of them.
    Status (*open)(Backend *backend, const LayerWeights *layers, int n, Error *error);
    // A layer for the ops that follow, until the next one. `host` is of open()'s, with data: it is read before this
    // returns.
    Status (*load)(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
    Status (*copy)(Backend *backend, const HostRows *rows, Error *error);
    // Host memory that copies reach without help, zeroed; STATUS_MEMORY: there is none.
    Status (*alloc_host)(Backend *backend, size_t bytes, void **memory, Error *error);
    void (*free_host)(Backend *backend, void *memory);
} VisitOps;

typedef struct BackendOptions {
    // "cpu", "cpu:exact" (exact products of 16-bit floats), "cpu:reference" (plain loops, to compare with), "cuda",
    // "cuda:1"
    const char *device;
    int n_threads;             // CPU: 0 = one for each core this process may use
    const DecoderShape *shape; // kept by reference: outlives the backend
    int max_tokens;            // most tokens of a step
    int max_logits;            // most rows of logits()
    bool random_weights; // for measuring: data of matrices is not read, values of sane scale are made up
    // Which implementation of a linear layer serves how many rows (kernels/dispatch_table.h), copied; NULL: a built-in
    // table.
    const struct DispatchTable *dispatch;
    // [n_layers] that will be loaded, for who goes by their types; NULL: not known
    const LayerWeights *layers;
} BackendOptions;

enum { OPS_MAX_STAMPS = 8192 };

enum { OPS_ABI = 35 }; // counts changes of this header that a plug-in built before would not know

typedef struct Ops {
    const char *name; // "cpu", "cuda"
    size_t activation_bytes;
    int chunk; // tokens of a prefill step that suit it
    bool w8; // multiplies linear layers and the output matrix in DTYPE_W8, with activations in the same form

    Status (*open)(const BackendOptions *options, Backend **backend, Error *error);
    void (*close)(Backend *backend); // also frees layers and heads; memory from alloc() is the caller's
    // One line about the device and how it is used: "2 threads, AVX2".
    void (*describe)(const Backend *backend, char *text, size_t size);
    // One line about every device there is, before any is opened: "cuda:0 NVIDIA H200, 141 GB". NULL on the CPU;
    // STATUS_DEVICE: there is none, why, and what was looked at.
    Status (*devices)(char *text, size_t size, Error *error);
    // Bytes of the device that are there, and those free now; what open() took for itself counts as free.
    void (*memory)(const Backend *backend, int64_t *total, int64_t *available);
    // Bytes of scratch that the backend took in open() or will take later, libraries' workspaces included, for steps of
    // at most n_rows sequences that see up to n_slots slots each; so that need can be compared with what is free
    // first. What a driver takes by the way, for code and captured graphs, nobody knows before.
    int64_t (*scratch_bytes)(const Backend *backend, int n_rows, int n_slots);
    // Bytes that load_layer() of layers [shape.n_layers] and load_head() will take. Optional; NULL: the files' own.
    int64_t (*weight_bytes)(const Backend *backend, const LayerWeights *layers, const HeadWeights *head);

    Status (*alloc)(Backend *backend, size_t bytes, void **memory, Error *error); // 64-byte aligned, zeroed
    // Optional (NULL: alloc() does): the same in n_layers equal parts, of which the i-th is for ops of layer i alone. It is
    // keys and values, or their scales: pieces of head_bytes, one of each KV head in turn, again and again.
    Status (*alloc_layers)(Backend *backend, size_t bytes, int n_layers, size_t head_bytes, void **memory,
                           Error *error);
    void (*free)(Backend *backend, void *memory);
    Status (*write)(Backend *backend, void *memory, const void *host, size_t bytes, Error *error);
    Status (*read)(Backend *backend, void *host, const void *memory, size_t bytes, Error *error);

    // The first n of the elements that an op left in q or g, in the backend's own type, as floats.
    Status (*read_floats)(Backend *backend, const void *activations, int64_t n, float *host, Error *error);

    // Takes weights over: by reference where the mapped file is used as it is (the mapping outlives the
    // backend), else uploaded and repacked. Refuses, naming the weight, what the backend has no code for.
    Status (*load_layer)(Backend *backend, const LayerWeights *host, Layer **layer, Error *error);
    Status (*load_head)(Backend *backend, const HeadWeights *host, Head **head, Error *error);

    // Checks a step, takes its arrays over, computes cos and sin of its positions, and enters
    // slot_positions[slots[i]] = positions[i]. kv: one layer's cache, of whose type and strides all are that the step
    // will attend to; how a step is cut may go by it. NULL: the step attends to none.
    Status (*begin)(Backend *backend, const Step *step, const KvLayer *kv, Error *error);

    // x [n_tokens, hidden_size] = embedding_scale · embedding[ids] + positions[position], the latter where they are
    // learned; normed where there is an embedding_norm; and with a token_size the step's rows of per-layer embeddings
    Status (*embed)(Backend *backend, const Head *head, void *x, Error *error);

    // h = norm(x; attn_norm);  q, k, v = W·h + b, each head of q and k, or their rows, normed where the layer has
    // q_norm, k_norm, those of v where it has v_norm;  q and k turned by RoPE (kv->rope), before those norms if the shape
    // says so;  k and v stored in their slots of `kv`, of a borrowed one neither made nor stored. With a latent as told
    // there, and in a layer that convolves or recurs as told at Convolution and DeltaRule: q is then y, of a layer that recurs
    // [n_tokens, delta_width()]. x [n_tokens, hidden_size] → q [n_tokens, n_heads*head_dim]
    Status (*qkv)(Backend *backend, const Layer *layer, const void *x, const KvLayer *kv, void *q,
                  Error *error);

    // Optional (NULL: all tokens go through the last layer). Between qkv and attend of the last layer: begin() of `step`,
    // whose tokens are rows->tokens [step->n_tokens] of the step in hand, and their rows of x and q to the front of these.
    // kv: the layer's cache. Not with per-layer embeddings (token_size).
    Status (*narrow)(Backend *backend, const Step *step, const NarrowRows *rows, const KvLayer *kv,
                     Error *error);

    // softmax(cap(attention_scale · q·Kᵀ) + mask)·V for each head, KV head h·n_kv_heads/n_heads, mask as told at
    // StepSequence; window 0: none, below 0: chunks; cap as told at attention_cap. With shape->alibi, a score loses slope(h)·distance
    // (kernels/alibi.h). A query that sees no slot gives zeros. With kv->sink_scores sums have one term
    // more. Then times the gate that qkv() has made of a layer with attn_gate. In a layer that convolves or recurs y is q. q
    // and y may be the same memory. q [n_tokens, n_heads*head_dim] →
    // y [n_tokens, n_heads*head_dim]
    Status (*attend)(Backend *backend, const void *q, const KvLayer *kv, int window, void *y, Error *error);

    // x [n_tokens, hidden_size] += norm(wo·y + bo; attn_post_norm), without that norm wo·y + bo; with a latent y is first
    // as told there, with a normed_residual x first becomes normed_residual·norm(x; attn_norm)
    Status (*out)(Backend *backend, const Layer *layer, const void *y, void *x, Error *error);

    // h = norm(x; ffn_norm);  g [n_tokens, intermediate_size] = activation(w_gate·h + b_gate) · (w_up·h + b_up), or,
    // without a gate, activation(w_up·h + b_up); xIELU by the layer's own numbers. In a layer of experts: which of them
    // each token takes, and, in an order and a form of the backend's own that down() of the same layer and step reads, what
    // their ups make of it.
    Status (*gate_up)(Backend *backend, const Layer *layer, const void *x, void *g, Error *error);

    // x [n_tokens, hidden_size] += norm(w_down·g + b_down; ffn_post_norm), without that norm w_down·g + b_down; in a layer
    // of experts as told at Experts. With a normed_residual x is first as in out(), by ffn_norm. Then what per-layer
    // embeddings add (token_size), and all of x times x_scale
    Status (*down)(Backend *backend, const Layer *layer, const void *g, void *x, Error *error);

    // For each row i: logits[i] = cap(logit_scale · output·norm(x[tokens[i]]) + output_bias), into backend memory
    // float32 [rows.n, decoder_output_rows()].
    Status (*logits)(Backend *backend, const Head *head, const void *x, const LogitRows *rows, float *logits,
                     Error *error);

    // The operator above. STATUS_USAGE, naming the argument, for sizes, tables and slots that cannot be.
    Status (*cache_attention)(Backend *backend, const CacheAttention *attention, Error *error);

    // Copies keys, values, scales and positions of the slots to slots `to`, host [slots.n], in all layers: a page that
    // sequences share is copied before one of them writes to it. No slot stands on both sides.
    Status (*copy_slots)(Backend *backend, const CacheSlots *slots, const int32_t *to, Error *error);

    // Turns the keys in the slots of all layers by `delta` positions (RoPE by delta·inv_freq, without magnitude) and
    // adds delta to their positions: what "shift-inplace" does to what is left. Quantised keys are dequantised, turned
    // and quantised again.
    Status (*shift_keys)(Backend *backend, const CacheSlots *slots, int32_t delta, Error *error);

    // Optional (NULL: none): begin, embed, every layer and logits of a DecodeStep in one go, with the
    // results of the ops. STATUS_UNSUPPORTED without an error message: not this step, and nothing was done;
    // take the ops.
    Status (*decode)(Backend *backend, const DecodeStep *step, Error *error);

    // Draws one token from each row of logits [n_rows, vocab_size], 1 <= n_rows <= max_logits, which are left as they
    // were, with params [n_rows]; ids host [n_rows]. A row with NaN, or with nothing left to choose from, gets
    // SAMPLE_NAN or SAMPLE_NOTHING for an id, the others theirs, and the status is STATUS_OK. Parameters out of range
    // are STATUS_USAGE, and then no id means anything.
    Status (*sample)(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                     int32_t *ids, Error *error);

    // Optional, both or none (NULL): sample() in two halves, so that decode() can be given a step of the tokens drawn
    // (DecodeStep.drawn) before the host knows them. begin() asks for them, and returns; logits may be written to by what
    // is asked for later. end() waits for them, not for what was asked for in between; ids host [n_rows] of begin().
    Status (*sample_begin)(Backend *backend, const float *logits, int n_rows, const SampleParams *params,
                           Error *error);
    Status (*sample_end)(Backend *backend, int32_t *ids, Error *error);

    // For profiles: notes as stamp i < OPS_MAX_STAMPS the time at which everything asked before is done, without
    // waiting for it.
    Status (*stamp)(Backend *backend, int i, Error *error);
    // Waits for stamps [0, n]; seconds host [n]: from each to the next.
    Status (*stamp_seconds)(Backend *backend, int n, double *seconds, Error *error);
    // Since open(). Waits for what was asked before.
    Status (*softmax_counts)(Backend *backend, SoftmaxCounts *counts, Error *error);
    // Optional (NULL: there is no choice): which kernels the ops of the last step took, on one line.
    void (*kernels)(const Backend *backend, char *text, size_t size);
    // Optional (NULL: there is one implementation of each linear layer): to measure which is fastest, kernels/tuning.h.
    const struct TuningOps *tuning;
    // Optional (NULL: they are not there any more): a layer's weights in host memory, as the backend reads them.
    const LayerWeights *(*layer_weights)(const Layer *layer);
    const VisitOps *visits; // optional (NULL: no layers visit)
    // Optional (NULL: there is one device): what several backends of this table need to be one, kernels/shards/shard_ops.h.
    const struct ShardOps *shards;
    // Optional (NULL: nobody knows). Seconds that a step of n <= 16 tokens of one sequence takes, about, where it reads
    // `bytes` of weights: by rule, the same in every run, to compare steps with each other.
    double (*step_seconds)(const Backend *backend, double bytes, int n);
    double narrow_from; // multiplications that narrow() must save to be worth its own cost
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
