#include "tests/support/kernels/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Matrix make(TestLayer *t, bool there, DType type, int rows, int cols) {
    if (!there) return (Matrix){0};
    assert_true(t->n_memory < N_MATRICES);
    t->memory[t->n_memory] = random_matrix(type, rows, cols, 100 + (uint64_t)t->n_memory);
    return t->memory[t->n_memory++].matrix;
}

TestLayer *layer_open(const LayerCase *c) {
    TestLayer *t = calloc(1, sizeof *t);
    int q_width = c->n_heads * c->head_dim, kv_width = c->n_kv_heads * c->head_dim;
    t->c = c;
    for (int i = 0; i < c->rotary_dim / 2; i++) t->inv_freq[i] = pow(10000, -2.0 * i / c->rotary_dim);
    t->shape = (DecoderShape){.n_layers = 1,
                              .hidden_size = c->hidden_size,
                              .n_heads = c->n_heads,
                              .n_kv_heads = c->n_kv_heads,
                              .head_dim = c->head_dim,
                              .intermediate_size = c->intermediate_size,
                              .vocab_size = VOCABULARY,
                              .norm = c->norm,
                              .norm_eps = 1e-5f,
                              .norm_offset = c->norm_offset,
                              .embedding_scale = c->embedding_scale,
                              .attention_scale = 0.3f,
                              .activation = c->activation,
                              .rope = {c->rope, c->rotary_dim, t->inv_freq, c->magnitude, 1},
                              .n_positions = c->n_positions};
    LayerWeights *w = &t->weights;
    w->xielu = c->xielu;
    w->attn_norm = make(t, true, DTYPE_F32, 1, c->hidden_size);
    w->attn_norm_bias = make(t, c->norm_biases, DTYPE_F16, 1, c->hidden_size);
    w->wq = make(t, true, c->weights, q_width, c->hidden_size);
    w->wk = make(t, true, c->weights, kv_width, c->hidden_size);
    w->wv = make(t, true, c->weights, kv_width, c->hidden_size);
    w->bq = make(t, c->biases, DTYPE_F32, 1, q_width);
    w->bk = make(t, c->biases, DTYPE_F16, 1, kv_width);
    w->bv = make(t, c->biases, DTYPE_BF16, 1, kv_width);
    w->q_norm = make(t, c->qk_norm, DTYPE_F32, 1, c->head_dim);
    w->k_norm = make(t, c->qk_norm, DTYPE_F16, 1, c->head_dim);
    w->wo = make(t, true, c->weights, c->hidden_size, q_width);
    w->bo = make(t, c->biases, DTYPE_F32, 1, c->hidden_size);
    w->ffn_norm = make(t, true, DTYPE_BF16, 1, c->hidden_size);
    w->ffn_norm_bias = make(t, c->norm_biases, DTYPE_F32, 1, c->hidden_size);
    w->w_gate = make(t, !c->no_gate, c->weights, c->intermediate_size, c->hidden_size);
    w->b_gate = make(t, !c->no_gate && c->ffn_biases, DTYPE_F32, 1, c->intermediate_size);
    w->w_up = make(t, true, c->weights, c->intermediate_size, c->hidden_size);
    w->b_up = make(t, c->ffn_biases, DTYPE_BF16, 1, c->intermediate_size);
    w->w_down = make(t, true, c->weights, c->hidden_size, c->intermediate_size);
    w->b_down = make(t, c->ffn_biases, DTYPE_F32, 1, c->hidden_size);
    t->head.embedding = t->head.output = make(t, true, c->weights, VOCABULARY, c->hidden_size);
    t->head.positions = make(t, c->n_positions > 0, c->weights, c->n_positions, c->hidden_size);
    t->head.embedding_norm = make(t, c->embedding_norm, DTYPE_F32, 1, c->hidden_size);
    t->head.embedding_norm_bias = make(t, c->embedding_norm && c->norm_biases, DTYPE_F32, 1, c->hidden_size);
    t->head.norm = make(t, true, DTYPE_F32, 1, c->hidden_size);
    t->head.norm_bias = make(t, c->norm_biases, DTYPE_F32, 1, c->hidden_size);
    t->head.output_bias = make(t, c->output_bias, DTYPE_F32, 1, VOCABULARY);
    return t;
}

void layer_close(TestLayer *t) {
    for (int i = 0; i < t->n_memory; i++) free(t->memory[i].memory);
    free(t);
}

// ---- running the ops ----------------------------------------------------------------------------------

const int32_t LAYER_IDS[TOKENS] = {3, 44, 0, 17, 3, 9, 21},
              LAYER_POSITIONS[TOKENS] = {0, 1, 2, 100000, 7, 8, 9},
              LAYER_SLOTS[TOKENS] = {2, 0, 3, 1, 6, 11, 7};

static Results new_results(const TestLayer *t) {
    const LayerCase *c = t->c;
    int64_t hidden = TOKENS * c->hidden_size, width = TOKENS * c->n_heads * c->head_dim;
    Results r = {.kv = {c->cache, NULL, NULL, c->n_kv_heads * c->head_dim + 1, c->head_dim}};
    r.kv_elements = SLOTS * r.kv.slot_stride;
    r.kv.k = calloc((size_t)r.kv_elements, 4);
    r.kv.v = calloc((size_t)r.kv_elements, 4);
    r.embedded = calloc((size_t)hidden, 4);
    r.after_out = calloc((size_t)hidden, 4);
    r.x = calloc((size_t)hidden, 4);
    r.q = calloc((size_t)width, 4);
    r.attended = calloc((size_t)width, 4);
    r.g = calloc((size_t)c->intermediate_size, TOKENS * sizeof(float));
    r.logits = calloc(TOKENS * VOCABULARY, 4);
    return r;
}

void results_free(Results *r) {
    free(r->embedded), free(r->q), free(r->attended), free(r->after_out), free(r->g), free(r->x),
        free(r->logits);
    free(r->kv.k), free(r->kv.v);
}

// Tokens [first, first + n) of all: the first four are one sequence, the rest another.
static void run_step(const TestLayer *t, Backend *b, Layer *layer, Head *head, int32_t *held, int first,
                     int n, Results *r) {
    const Ops *ops = b->ops;
    const LayerCase *c = t->c;
    Error e = {0};
    StepSequence sequences[2] = {{0, 4, 5, ONE_PAGE(0), 0, 0, 0, 0, false, 0, {0}, -1, -1},
                                 {4, 3, 7, ONE_PAGE(5), 0, 0, 0, 0, false, 0, {0}, -1, -1}};
    StepSequence one = sequences[first >= 4];
    one.first_token = 0, one.n_tokens = n;
    bool all = n == TOKENS;
    Step step = {n,
                 all ? 2 : 1,
                 LAYER_IDS + first,
                 LAYER_POSITIONS + first,
                 LAYER_SLOTS + first,
                 all ? sequences : &one,
                 1 << 30,
                 held,
                 STEP_ANY};
    int64_t hidden = first * c->hidden_size, width = first * c->n_heads * c->head_dim;
    size_t hidden_bytes = (size_t)(n * c->hidden_size) * 4;
    int32_t rows[TOKENS] = {0, 1, 2, 3, 4, 5, 6};
    assert_ok(ops->begin(b, &step, &r->kv, &e), &e);
    assert_ok(ops->embed(b, head, r->embedded + hidden, &e), &e);
    assert_ok(ops->qkv(b, layer, r->embedded + hidden, &r->kv, r->q + width, &e), &e);
    assert_ok(ops->attend(b, r->q + width, &r->kv, 0, r->attended + width, &e), &e);
    memcpy(r->after_out + hidden, r->embedded + hidden, hidden_bytes);
    assert_ok(ops->out(b, layer, r->attended + width, r->after_out + hidden, &e), &e);
    assert_ok(ops->gate_up(b, layer, r->after_out + hidden, r->g + first * c->intermediate_size, &e), &e);
    memcpy(r->x + hidden, r->after_out + hidden, hidden_bytes);
    assert_ok(ops->down(b, layer, r->g + first * c->intermediate_size, r->x + hidden, &e), &e);
    assert_ok(ops->logits(b, head, r->x + hidden, &(LogitRows){rows, n}, r->logits + first * VOCABULARY, &e),
              &e);
}

Results layer_run(const TestLayer *t, const char *device, int n_threads, bool whole) {
    Results r = new_results(t);
    Backend *b = open_cpu(device, n_threads, &t->shape, TOKENS);
    Layer *layer;
    Head *head;
    Error e = {0};
    int32_t held[SLOTS];
    memset(held, -1, sizeof held);
    assert_ok(b->ops->load_layer(b, &t->weights, &layer, &e), &e);
    assert_ok(b->ops->load_head(b, &t->head, &head, &e), &e);
    for (int i = 0; i < TOKENS; i += whole ? TOKENS : 1)
        run_step(t, b, layer, head, held, i, whole ? TOKENS : 1, &r);
    for (int i = 0; i < TOKENS; i++) assert_int_equal(held[LAYER_SLOTS[i]], LAYER_POSITIONS[i]);
    b->ops->close(b);
    return r;
}
