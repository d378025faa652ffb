// Small random models for the GPU tests: shapes from a table, weights of any type, seeded.
#ifndef PALAVER_TESTS_GPU_MODEL_H
#define PALAVER_TESTS_GPU_MODEL_H

#include "kernels/ops.h"

#include <stdbool.h>
#include <stdint.h>

enum { TEST_LAYERS = 2 };

// Everything about a case that is not 0 by default.
typedef struct Case {
    const char *name;
    DType type;
    int hidden, n_heads, n_kv_heads, head_dim, intermediate, vocab;
    int rotary_dim; // 0: head_dim
    bool interleaved, qk_norm, bias, out_bias, gelu, tied;
    // Beyond LLaMA's family: layer norms with biases, learned positions, a norm of embeddings, a biased head.
    bool layer_norm, no_gate, ffn_bias, no_rope, learned, embedding_norm, output_bias, parallel;
    // Norms of what a part adds, none before it, norms of whole rows of q and k; frequencies of its own for the layer that
    // has the window, no frequencies for the other; caps of scores and logits, and what multiplies the latter.
    bool post_norm, no_pre_norm, row_norm, window_rope, still;
    bool head_norms; // layer norms of each head of q and k
    bool tempered;   // queries of layers that turn nothing are sharper far into a text
    float attention_cap, logit_cap, logit_scale;
    Activation activation;   // where gelu does not say it
    DType v_type, down_type; // of w_v and w_down where they differ, else DTYPE_F32 (0)
    DType expert_type;       // likewise of experts' matrices
    int past, n_tokens, window;
    DType kv;
    // The cache, where it is no single page in layout 3: pages lie in disorder.
    int group, layout_plus_1, page_size;
    DType scale;                   // int8, int4
    bool rotate, feed_back, alibi; // feed_back: keys are balanced and rounded with feedback
    int n_sinks, n_evicted;
    int prefix; // so many tokens see each other, positions have two dimensions, residuals are normed
    int n_rows; // > 0: so many sequences of one token each, of different lengths
    bool whole; // one sequence, however many tokens
    const struct DispatchTable *dispatch; // NULL: the built-in one
    // Experts of `intermediate`, of which a token takes n_active, and perhaps one for all of `shared` elements; routed:
    // that one has a weight. routers: 0 softmax, 1 renormalised, 2 sigmoids with biases and groups.
    int n_experts, n_active, shared, router;
    bool routed;
    bool sinks; // learned ones
    // A latent of `rank` elements; head_dim is rank + rotary_dim then, and there is one KV head.
    int rank, q_rank, plain, value;
    Fp8Inputs fp8;     // of E4M3, whose scales then suit; the head is in f16
    float input_scale; // likewise: fixed
    bool gate;         // behind attention
    // > 0: the second layer has heads of 512, so many for keys, whose rows are as wide as the first one's; values have norms, and
    // x is scaled at the ends of layers.
    int wide_kv;
    // Layers that recur, those of the bits set; w_beta and w_decay are of rate_type, where that is not 0, or of F32.
    const DeltaRule *delta;
    int recurs;
    DType rate_type;
    bool float_rates;
} Case;

typedef struct TestModel {
    DecoderShape shape;
    LayerWeights layers[TEST_LAYERS];
    HeadWeights head;
    double *inv_freq;
    int ropes[TEST_LAYERS];
    LayerHeads heads[TEST_LAYERS]; // of cases with a gate, with layers that recur or of two kinds
    float input_scale;
    void *memory[128]; // what was allocated
    int n_memory;
} TestModel;

// splitmix64 (Steele et al., OOPSLA 2014)
uint64_t random_bits(uint64_t *state);
float random_normal(uint64_t *state); // sum of twelve uniform numbers, less six

void model_fill(TestModel *model, const Case *c, uint64_t seed);
void model_free(TestModel *model);

#endif
