#include "engine/model/shape/model_shape.h"

#include "engine/model/model_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Latent attention, with a shared expert and a first layer without experts.
typedef struct NamedLatent {
    Latent latent;
    int rotary_dim, shared_size, dense_size;
} NamedLatent;

// Layers that convolve; the others attend.
typedef struct NamedConvolution {
    int taps, n_attending;
    int attending[16];
} NamedConvolution;

// Layers that recur, all but every interval-th, the first of which is told. By the delta rule they attend behind a gate; they
// turn a part of their heads or, 0, nothing. Of experts there is a shared one of so many, which has a gate.
typedef struct NamedDelta {
    DeltaRule rule;
    int interval, first, rotary_dim, shared_size;
} NamedDelta;

// Gemma 4: every interval-th layer sees all, by heads of another size whose values are their keys, the others what is behind a
// window. The last `borrowers` layers have keys of others'. Experts are beside a dense part.
typedef struct NamedGemma {
    int window, interval, head_dim, n_kv_heads, borrowers, token_size, dense_size;
} NamedGemma;

typedef struct NamedShape {
    const char *name;
    int n_layers, hidden_size, n_heads, n_kv_heads, head_dim, intermediate_size, vocab_size;
    double rope_base;
    int64_t context_length;
    bool tied_head;
    int n_experts, n_active;             // 0: none; intermediate_size is then an expert's
    bool gpt_oss;                        // biases, and its own activation
    const NamedLatent *latent;           // NULL: none
    const NamedConvolution *convolution; // likewise
    const NamedDelta *delta;             // likewise
    const NamedGemma *gemma;             // likewise
} NamedShape;

// From the models' own config.json.
static const NamedLatent DEEPSEEK_V2_LITE = {{512, 0, 128, 128, 1e-6f}, 64, 2816, 10944},
                         GLM_47_FLASH = {{512, 768, 192, 256, 1e-6f}, 64, 1536, 10240};

static const NamedConvolution LFM2_12B = {3, 6, {2, 5, 8, 10, 12, 14}};
static const NamedDelta QWEN35_4B = {{16, 32, 128, 128, 4, false, false, 1e-5f, 0, 0}, 4, 3, 64, 0},
                        QWEN35_35B = {{16, 32, 128, 128, 4, false, false, 1e-5f, 0, 0}, 4, 3, 64, 512},
                        GRANITE4_H_MICRO = {{1, 64, 128, 64, 4, false, true, 1e-5f, 0, 0}, 10, 5, 0, 0};

static const NamedGemma GEMMA4_E4B = {512, 6, 512, 2, 18, 256, 0}, GEMMA4_26B = {1024, 6, 512, 2, 0, 0, 2112},
                        GEMMA4_31B = {1024, 6, 512, 4, 0, 0, 0};

static const NamedShape SHAPES[] = {
    {"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 1e4, 4096, .tied_head = false},
    {"llama3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256, 5e5, 131072, .tied_head = false},
    {"llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 5e5, 8192, .tied_head = false},
    {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 5e5, 131072, .tied_head = true},
    {"tinyllama-1.1b", 22, 2048, 32, 4, 64, 5632, 32000, 1e4, 2048, .tied_head = false},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 1e5, 8192, .tied_head = true},
    {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 1e6, 32768, .n_experts = 8, .n_active = 2},
    {"qwen3-30b-a3b", 48, 2048, 32, 4, 128, 768, 151936, 1e6, 40960, .n_experts = 128, .n_active = 8},
    {"qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, 1e6, 40960, .tied_head = false},
    {"gpt-oss-20b", 24, 2880, 64, 8, 64, 2880, 201088, 15e4, 131072, .n_experts = 32, .n_active = 4,
     .gpt_oss = true},
    {"deepseek-v2-lite", 27, 2048, 16, 1, 576, 1408, 102400, 1e4, 163840, .n_experts = 64, .n_active = 6,
     .latent = &DEEPSEEK_V2_LITE},
    {"glm-4.7-flash", 47, 2048, 20, 1, 576, 1536, 154880, 1e6, 202752, .n_experts = 64, .n_active = 4,
     .latent = &GLM_47_FLASH},
    {"lfm2-1.2b", 16, 2048, 32, 8, 64, 8192, 65536, 1e6, 128000, .tied_head = true, .convolution = &LFM2_12B},
    {"qwen3.5-4b", 32, 2560, 16, 4, 256, 9216, 248320, 1e7, 262144, .tied_head = true, .delta = &QWEN35_4B},
    {"qwen3.5-35b-a3b", 40, 2048, 16, 2, 256, 512, 248320, 1e7, 262144, .n_experts = 256, .n_active = 8,
     .delta = &QWEN35_35B},
    {"qwen3-next-80b-a3b", 48, 2048, 16, 2, 256, 512, 151936, 1e7, 262144, .n_experts = 512, .n_active = 10,
     .delta = &QWEN35_35B},
    {"granite4-h-micro", 40, 2048, 32, 8, 64, 8192, 100352, 1e4, 131072, .tied_head = true,
     .delta = &GRANITE4_H_MICRO},
    {"gemma4-e4b", 42, 2560, 8, 2, 256, 10240, 262144, 1e6, 131072, .tied_head = true, .gemma = &GEMMA4_E4B},
    {"gemma4-26b-a4b", 30, 2816, 16, 8, 256, 704, 262144, 1e6, 262144, .tied_head = true, .n_experts = 128,
     .n_active = 8, .gemma = &GEMMA4_26B},
    {"gemma4-31b", 60, 5376, 32, 16, 256, 21504, 262144, 1e6, 262144, .tied_head = true,
     .gemma = &GEMMA4_31B},
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
    return (Matrix){.type = type, .rows = rows, .cols = cols, .data = NOTHING};
}

static void make_latent(Model *m, DType type, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    const Latent *l = &s->latent;
    const DType plain = dtype_block_size(type) == 1 && type <= DTYPE_BF16 ? type : DTYPE_F16;
    if (l->q_rank > 0) {
        w->q_down = made_up(m, type, l->q_rank, s->hidden_size);
        w->q_down_norm = made_up(m, DTYPE_F32, 1, l->q_rank);
    }
    w->wq = made_up(m, type, decoder_query_width(s), l->q_rank > 0 ? l->q_rank : s->hidden_size);
    w->wk = made_up(m, type, s->head_dim, s->hidden_size);
    w->latent_norm = made_up(m, DTYPE_F32, 1, l->rank);
    w->k_up = made_up(m, plain, (int64_t)s->n_heads * l->rank, l->plain_dim);
    w->v_up = made_up(m, plain, (int64_t)s->n_heads * l->value_dim, l->rank);
    w->wo = made_up(m, type, s->hidden_size, decoder_attended_width(s));
}

static void make_heads(Model *m, DType type, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    const LayerHeads heads = layer_heads(s, w->index);
    const int64_t q = (int64_t)s->n_heads * heads.head_dim, kv = layer_key_rows(&heads);
    const bool borrows = heads.lender != w->index;
    w->wq = made_up(m, type, q, s->hidden_size);
    if (!borrows) w->wk = made_up(m, type, kv, s->hidden_size);
    if (!borrows)
        w->wv =
            m->same_values && heads.head_dim != s->head_dim ? w->wk : made_up(m, type, kv, s->hidden_size);
    w->wo = made_up(m, type, s->hidden_size, q);
    if (heads.convolves) w->conv = made_up(m, DTYPE_F32, 1, (int64_t)s->hidden_size * s->convolution.taps);
    if (s->delta.n_value_heads > 0 && !s->delta.adds) w->attn_gate = made_up(m, type, q, s->hidden_size);
}

static void make_delta(Model *m, DType type, LayerWeights *w) {
    const DeltaRule *d = &m->shape.delta;
    const int64_t hidden = m->shape.hidden_size, keys = (int64_t)d->n_key_heads * d->key_dim,
                  values = delta_width(d);
    w->wq = made_up(m, type, keys, hidden);
    w->wk = made_up(m, type, keys, hidden);
    w->wv = made_up(m, type, values, hidden);
    w->attn_gate = made_up(m, type, values, hidden);
    w->wo = made_up(m, type, hidden, values);
    if (!d->adds) w->w_beta = made_up(m, DTYPE_BF16, d->n_value_heads, hidden);
    w->w_decay = made_up(m, DTYPE_BF16, d->n_value_heads, hidden);
    w->conv = made_up(m, DTYPE_F32, 1, delta_channels(d) * d->taps);
    w->decay_rate = made_up(m, DTYPE_F32, 1, d->n_value_heads);
    w->decay_bias = made_up(m, DTYPE_F32, 1, d->n_value_heads);
    w->state_norm = made_up(m, DTYPE_F32, 1, d->adds ? values : d->value_dim);
    if (!d->adds) return;
    w->conv_bias = made_up(m, DTYPE_F32, 1, delta_channels(d));
    w->skip = made_up(m, DTYPE_F32, 1, d->n_value_heads);
}

// What Gemma 4's layers have more: norms of heads and behind parts, parts of per-layer embeddings.
static void make_gemma_norms(Model *m, DType type, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    const LayerHeads heads = layer_heads(s, w->index);
    const Experts *e = &s->experts;
    w->q_norm = made_up(m, DTYPE_F32, 1, heads.head_dim);
    if (heads.lender == w->index) w->k_norm = w->v_norm = made_up(m, DTYPE_F32, 1, heads.head_dim);
    w->attn_post_norm = w->ffn_post_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
    if (e->n > 0) {
        w->router_norm = w->expert_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
        w->shared_post_norm = w->expert_post_norm = w->router_norm;
        w->expert_scale = made_up(m, DTYPE_F32, 1, e->n);
    }
    if (s->token_size == 0) return;
    w->token_gate = made_up(m, type, s->token_size, s->hidden_size);
    w->token_up = made_up(m, type, s->hidden_size, s->token_size);
    w->token_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
}

static void make_layer(Model *m, DType type, bool dense, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    const int shared = s->experts.shared_size;
    w->attn_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
    w->ffn_norm = made_up(m, DTYPE_F32, 1, s->hidden_size);
    if (s->latent.rank > 0)
        make_latent(m, type, w);
    else if (layer_heads(s, w->index).recurs)
        make_delta(m, type, w);
    else
        make_heads(m, type, w);
    const int64_t n = dense ? 1 : s->experts.n, wide = dense ? s->intermediate_size : s->experts.size;
    const DType held = !dense && type == DTYPE_W8 ? DTYPE_Q8_0 : type; // as conversion.c has it
    w->w_gate = made_up(m, held, n * wide, s->hidden_size);
    w->w_up = made_up(m, held, n * wide, s->hidden_size);
    w->w_down = made_up(m, held, n * s->hidden_size, wide);
    if (!dense) w->router = made_up(m, DTYPE_BF16, n, s->hidden_size);
    if (dense || shared == 0) return;
    w->shared_gate = made_up(m, held, shared, s->hidden_size);
    w->shared_up = made_up(m, held, shared, s->hidden_size);
    w->shared_down = made_up(m, held, s->hidden_size, shared);
    if (s->delta.n_value_heads > 0) w->shared_router = made_up(m, DTYPE_BF16, 1, s->hidden_size);
}

static void make_biases(Model *m, LayerWeights *w) {
    const DecoderShape *s = &m->shape;
    const int64_t n = s->experts.n, kv = (int64_t)s->n_kv_heads * s->head_dim;
    w->bq = made_up(m, DTYPE_F32, 1, (int64_t)s->n_heads * s->head_dim);
    w->bk = made_up(m, DTYPE_F32, 1, kv);
    w->bv = made_up(m, DTYPE_F32, 1, kv);
    w->bo = made_up(m, DTYPE_F32, 1, s->hidden_size);
    w->router_bias = made_up(m, DTYPE_F32, 1, n);
    w->b_gate = made_up(m, DTYPE_F32, 1, n * s->intermediate_size);
    w->b_up = made_up(m, DTYPE_F32, 1, n * s->intermediate_size);
    w->b_down = made_up(m, DTYPE_F32, 1, n * s->hidden_size);
}

static void make_rope(Model *m, const NamedShape *named) {
    const int n = named->latent                                  ? named->latent->rotary_dim
                  : named->delta && named->delta->rotary_dim > 0 ? named->delta->rotary_dim
                                                                 : named->head_dim;
    for (int i = 0; i < n / 2; i++) m->inv_freq[i] = pow(named->rope_base, -2.0 * i / n);
    m->shape.rope = (Rope){.kind = ROPE_HALF_SPLIT, .rotary_dim = n, .inv_freq = m->inv_freq, .magnitude = 1};
    m->rope_base = named->rope_base;
    m->rope_factor = m->residual_scale = 1;
}

// Layers of different kinds, which attend until they are told otherwise.
static Status make_kinds(Model *m, Error *error) {
    DecoderShape *s = &m->shape;
    m->layer_heads = calloc((size_t)s->n_layers, sizeof *m->layer_heads);
    m->layer_ropes = calloc((size_t)s->n_layers, sizeof *m->layer_ropes);
    if (!m->layer_heads || !m->layer_ropes)
        return error_set(error, STATUS_MEMORY, "no memory for a model of %d layers", s->n_layers);
    for (int l = 0; l < s->n_layers; l++)
        m->layer_heads[l] = (LayerHeads){.n_kv_heads = s->n_kv_heads, .head_dim = s->head_dim, .lender = l};
    s->heads_of_layers = m->layer_heads, s->rope.of_layers = m->layer_ropes;
    m->usual_intermediate = s->intermediate_size;
    return STATUS_OK;
}

static Status make_convolutions(Model *m, const NamedConvolution *named, Error *error) {
    DecoderShape *s = &m->shape;
    if (!named) return STATUS_OK;
    const Status status = make_kinds(m, error);
    if (status) return status;
    for (int l = 0, i = 0; l < s->n_layers; l++) {
        const bool attends = i < named->n_attending && named->attending[i] == l;
        if (attends)
            i++;
        else
            m->layer_heads[l].convolves = true, m->layer_heads[l].n_kv_heads = s->n_heads / 2;
        m->layer_ropes[l] = attends ? 0 : -1;
    }
    s->convolution.taps = named->taps;
    return STATUS_OK;
}

static Status make_recurring(Model *m, const NamedDelta *named, Error *error) {
    DecoderShape *s = &m->shape;
    if (!named) return STATUS_OK;
    const Status status = make_kinds(m, error);
    if (status) return status;
    for (int l = 0; l < s->n_layers; l++) {
        m->layer_heads[l].recurs = l % named->interval != named->first;
        m->layer_ropes[l] = m->layer_heads[l].recurs || named->rotary_dim == 0 ? -1 : 0;
    }
    s->delta = named->rule;
    s->experts.shared_size = named->shared_size;
    return STATUS_OK;
}

// Frequencies of the two sizes of heads, of which the larger turn a quarter.
static Status make_gemma_rope(Model *m, const NamedGemma *named, Error *error) {
    Rope *rope = &m->shape.rope;
    const int n = named->head_dim / 2, own = m->shape.head_dim / 2;
    free(m->inv_freq); // made anew below, of other sizes
    m->inv_freq = NULL;
    rope->rotary_dim = named->head_dim;
    const Status status = model_make_rows(m, 2, 1, error);
    if (status) return status;
    for (int i = 0; i < n; i++) {
        m->inv_freq[i] = i < n / 4 ? pow(m->rope_base, -(double)i / n) : 0;
        m->inv_freq[n + i] = i < own ? pow(1e4, -(double)i / own) : 0;
    }
    rope->other_rotary_dim = 2 * own, rope->other_magnitude = 1;
    return STATUS_OK;
}

static Status make_gemma(Model *m, const NamedGemma *named, Error *error) {
    DecoderShape *s = &m->shape;
    if (!named) return STATUS_OK;
    Status status = make_kinds(m, error);
    if (!status) status = make_gemma_rope(m, named, error);
    if (status) return status;
    for (int l = 0; l < s->n_layers; l++) {
        LayerHeads *heads = &m->layer_heads[l];
        const bool sees_all = l % named->interval == named->interval - 1;
        m->attention_windows[l] = sees_all ? 0 : named->window;
        m->layer_ropes[l] = sees_all ? 0 : 1;
        if (sees_all) heads->head_dim = named->head_dim, heads->n_kv_heads = named->n_kv_heads;
        const int own = s->n_layers - named->borrowers;
        if (l < own) continue;
        heads->lender = sees_all ? own - 1 : own - 2; // the last layer before them sees all
    }
    m->same_values = named->borrowers == 0;
    m->qk_norm = true;
    s->activation = ACTIVATION_GELU_TANH;
    s->attention_scale = 1, s->embedding_scale = sqrtf((float)s->hidden_size), s->logit_cap = 30;
    s->token_size = named->token_size;
    s->experts.shared_size = named->dense_size, s->experts.beside = s->experts.n > 0;
    if (s->experts.beside) s->intermediate_size = named->dense_size;
    return STATUS_OK;
}

static Status no_shape(const char *name, Error *error) {
    char names[512] = "";
    for (size_t i = 0, at = 0; i < sizeof SHAPES / sizeof *SHAPES && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", SHAPES[i].name);
    return error_set(error, STATUS_USAGE, "no shape \"%s\": there are %s", name, names);
}

Status model_of_shape(const char *name, DType type, DType head, Model **out, Error *error) {
    *out = NULL;
    const NamedShape *named = find(name);
    if (!named) return no_shape(name, error);
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
                              .attention_scale = 1 / sqrtf((float)named->head_dim),
                              .activation = named->gpt_oss ? ACTIVATION_CLAMPED_SWIGLU : ACTIVATION_SILU,
                              .experts = {.n = named->n_experts,
                                          .n_active = named->n_active,
                                          .size = named->n_experts ? named->intermediate_size : 0,
                                          .renormalise = true,
                                          .scale = 1}};
    make_rope(m, named);
    if (named->latent) {
        const Latent *latent = &named->latent->latent;
        m->shape.latent = *latent;
        m->shape.intermediate_size = named->latent->dense_size;
        m->shape.experts.shared_size = named->latent->shared_size;
        m->shape.attention_scale = 1 / sqrtf((float)(latent->plain_dim + named->latent->rotary_dim));
    }
    Status status = make_convolutions(m, named->convolution, error);
    if (!status) status = make_recurring(m, named->delta, error);
    if (!status) status = make_gemma(m, named->gemma, error);
    if (status) {
        model_close(m);
        return status;
    }
    m->context_length = named->context_length;
    m->bos_id = -1;
    m->tied_head = named->tied_head;
    for (int l = 0; l < named->n_layers; l++) {
        m->layers[l].index = l;
        make_layer(m, type, named->n_experts == 0 || (named->latent && l == 0), &m->layers[l]);
        if (named->gpt_oss) make_biases(m, &m->layers[l]);
        if (named->gemma) make_gemma_norms(m, type, &m->layers[l]);
    }
    m->head.norm = made_up(m, DTYPE_F32, 1, named->hidden_size);
    m->head.output = made_up(m, head, named->vocab_size, named->hidden_size);
    m->head.embedding = m->head.output;
    if (!named->tied_head) {
        m->head.embedding = made_up(m, head, named->vocab_size, named->hidden_size);
        m->head.embedding.data = NOTHING + 1; // not the head's: that would be a tied one
    }
    if (m->shape.token_size > 0) {
        const int64_t of_layers = (int64_t)named->n_layers * m->shape.token_size;
        m->head.token_embedding = made_up(m, type, named->vocab_size, of_layers);
        m->head.token_projection = made_up(m, type, of_layers, named->hidden_size);
        m->head.token_norm = made_up(m, DTYPE_F32, 1, m->shape.token_size);
    }
    m->n_active_parameters = m->n_parameters - model_idle_parameters(m);
    *out = m;
    return STATUS_OK;
}
