#include "engine/model/model_shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct NamedShape {
    const char *name;
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    double rope_base;
    int64_t context_length;
    bool tied_head;
} NamedShape;

// From the models' own config.json.
static const NamedShape SHAPES[] = {
    {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 1e4, 4096, false},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, 131072, false},
    {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, 131072, true},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 1e4, 2048, false},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 1e5, 8192, true},
};

static const NamedShape *find(const char *name) {
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        if (!strcmp(SHAPES[i].name, name)) return &SHAPES[i];
    return NULL;
}

static const char NOTHING[2]; // an address for matrices that are never read

static Matrix made_up(Model *m, DType type, int64_t rows, int64_t cols) {
    m->n_parameters += rows * cols;
    m->weight_bytes += rows * dtype_row_bytes(type, cols);
    return (Matrix){type, rows, cols, NOTHING};
}

static void make_layer(Model *m, DType type, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    int64_t q = (int64_t)s->n_heads * s->head_dim, kv = (int64_t)s->n_kv_heads * s->head_dim;
    w->attn_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
    w->ffn_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
    w->wq = made_up(m, type, q, s->hidden_size);
    w->wk = made_up(m, type, kv, s->hidden_size);
    w->wv = made_up(m, type, kv, s->hidden_size);
    w->wo = made_up(m, type, s->hidden_size, q);
    w->w_gate = made_up(m, type, s->intermediate_size, s->hidden_size);
    w->w_up = made_up(m, type, s->intermediate_size, s->hidden_size);
    w->w_down = made_up(m, type, s->hidden_size, s->intermediate_size);
}

static void make_rope(Model *m, const NamedShape *named) {
    int n = named->head_dim;
    for (int i = 0; i < n / 2; i++) m->inv_freq[i] = pow(named->rope_base, -2.0 * i / n);
    m->shape.rope = (Rope){.kind = ROPE_HALF_SPLIT, .rotary_dim = n, .inv_freq = m->inv_freq, .magnitude = 1};
    m->rope_base = named->rope_base;
    m->rope_factor = m->residual_scale = 1;
}

Status model_of_shape(const char *name, DType type, DType head, Model **out, Error *error) {
    *out = NULL;
    const NamedShape *named = find(name);
    if (!named)
        return error_set(error, STATUS_USAGE,
                         "no shape \"%s\": there are llama2-7b, llama3.1-8b, llama3.2-1b, tinyllama-1.1b and "
                         "smollm2-135m",
                         name);
    int largest = dtype_block_size(type) > 0 ? (int)dtype_block_size(type) : 1;
    if (named->hidden_size % largest || named->intermediate_size % largest)
        return error_set(error, STATUS_UNSUPPORTED, "%s has rows that are no multiple of %s's blocks of %d",
                         name, dtype_name(type), largest);
    Model *m = calloc(1, sizeof *m);
    if (!m) return error_set(error, STATUS_MEMORY, "no memory for a model");
    m->layers = calloc((size_t)named->n_layers, sizeof *m->layers);
    m->attention_windows = calloc((size_t)named->n_layers, sizeof *m->attention_windows);
    m->inv_freq = calloc((size_t)named->head_dim / 2, sizeof *m->inv_freq);
    if (!m->layers || !m->attention_windows || !m->inv_freq) {
        model_close(m);
        return error_set(error, STATUS_MEMORY, "no memory for a model of %d layers", named->n_layers);
    }
    snprintf(m->architecture, sizeof m->architecture, "llama");
    snprintf(m->name, sizeof m->name, "%s (made up)", name);
    m->shape = (DecoderShape){.n_layers = named->n_layers,
                              .hidden_size = named->hidden_size,
                              .n_heads = named->n_heads,
                              .n_kv_heads = named->n_kv_heads,
                              .head_dim = named->head_dim,
                              .intermediate_size = named->intermediate_size,
                              .vocab_size = named->vocab_size,
                              .norm_eps = 1e-5f,
                              .embedding_scale = 1,
                              .attention_scale = 1 / sqrtf((float)named->head_dim)};
    make_rope(m, named);
    m->context_length = named->context_length;
    m->bos_id = -1;
    m->tied_head = named->tied_head;
    for (int l = 0; l < named->n_layers; l++) make_layer(m, type, &m->layers[l]);
    m->head.norm = made_up(m, DTYPE_F32, 1, named->hidden_size);
    m->head.output = made_up(m, head, named->vocab_size, named->hidden_size);
    m->head.embedding = m->head.output;
    if (!named->tied_head) {
        m->head.embedding = made_up(m, head, named->vocab_size, named->hidden_size);
        m->head.embedding.data = NOTHING + 1; // not the head's: that would be a tied one
    }
    *out = m;
    return STATUS_OK;
}
