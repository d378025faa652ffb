// A decoder layer with random weights, and what the CPU's ops make of some tokens with it: for tests of the ops.
#ifndef PALAVER_TESTS_LAYERS_H
#define PALAVER_TESTS_LAYERS_H

#include "tests/support/kernels/random.h"

enum { TOKENS = 7, SLOTS = 12, VOCABULARY = 45 };

typedef struct LayerCase {
    const char *name;
    DType weights, cache;
    int hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, rotary_dim;
    RopeKind rope;
    Activation activation;
    bool biases, qk_norm;
    float norm_offset, embedding_scale;
    double magnitude;
    NormKind norm;
    bool no_gate, ffn_biases, norm_biases, embedding_norm, output_bias;
    int n_positions;
    Xielu xielu; // of ACTIVATION_XIELU
} LayerCase;

enum { N_MATRICES = 28 };

typedef struct TestLayer {
    const LayerCase *c;
    DecoderShape shape;
    double inv_freq[64];
    TestMatrix memory[N_MATRICES];
    int n_memory;
    LayerWeights weights;
    HeadWeights head;
} TestLayer;

TestLayer *layer_open(const LayerCase *c);
void layer_close(TestLayer *t);

// The tokens: the first four are one sequence, the rest another.
extern const int32_t LAYER_IDS[TOKENS], LAYER_POSITIONS[TOKENS], LAYER_SLOTS[TOKENS];

// What every op made of TOKENS tokens.
typedef struct Results {
    float *embedded, *q, *attended, *after_out, *g, *x, *logits;
    KvLayer kv;
    int64_t kv_elements;
} Results;

// In one step, or one token after the other.
Results layer_run(const TestLayer *t, const char *device, int n_threads, bool whole);
void results_free(Results *r);

#endif
