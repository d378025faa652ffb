// Takes layers over: matrices by reference into the mapped file, besides what panels.c makes of them, vectors as float32.
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum Need { REQUIRED, OPTIONAL, NEVER } Need;

typedef struct Expected {
    const char *name;
    const Matrix *matrix;
    int64_t rows, cols; // rows 1: a vector
    Need need;
    float offset;   // added to a vector's elements
    float scale;    // which then multiplies them; 0 means 1
    float **vector; // where a vector's float32 copy goes; NULL for matrices
    bool looked_up; // rows of the matrix are read one by one
} Expected;

static Status check(const Expected *e, Error *error) {
    const Matrix *m = e->matrix;
    if (m->data == NULL) {
        if (e->need != REQUIRED) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s is missing", e->name);
    }
    if (e->need == NEVER)
        return error_set(error, STATUS_UNSUPPORTED, "%s: a decoder of this shape has none", e->name);
    if (m->rows != e->rows || m->cols != e->cols)
        return error_set(error, STATUS_FILE, "%s: expected [%lld, %lld], file has [%lld, %lld]", e->name,
                         (long long)e->rows, (long long)e->cols, (long long)m->rows, (long long)m->cols);
    if ((unsigned)m->type >= DTYPE_COUNT || dtype_row_bytes(m->type, m->cols) < 0)
        return error_set(error, STATUS_UNSUPPORTED, "%s: the cpu backend has no code for rows of %lld %s",
                         e->name, (long long)m->cols, dtype_name(m->type));
    if (m->type == DTYPE_W8 && (e->vector || e->looked_up))
        return error_set(error, STATUS_UNSUPPORTED, "%s: only linear layers are multiplied in %s", e->name,
                         dtype_name(m->type));
    return STATUS_OK;
}

// Checks all and converts the vectors, which become one allocation (*vectors).
static Status take_over(const Expected *expected, int n, float **vectors, Error *error) {
    int64_t total = 0;
    for (int i = 0; i < n; i++) {
        Status status = check(&expected[i], error);
        if (status) return status;
        if (expected[i].vector && expected[i].matrix->data) total += expected[i].cols;
    }
    float *next = malloc((size_t)(total ? total : 1) * sizeof *next);
    if (next == NULL)
        return error_set(error, STATUS_MEMORY, "not enough memory for a layer's norms and biases");
    *vectors = next;
    for (int i = 0; i < n; i++) {
        const Expected *e = &expected[i];
        if (e->vector == NULL || e->matrix->data == NULL) continue;
        quant_load(e->matrix->type, e->matrix->data, 0, e->cols, next);
        for (int64_t j = 0; j < e->cols; j++)
            next[j] = (next[j] + e->offset) * (e->scale != 0 ? e->scale : 1);
        *e->vector = next;
        next += e->cols;
    }
    return STATUS_OK;
}

// Of a struct that begins with nothing but matrices.
static Status make_up(CpuBackend *cpu, void *weights, size_t size, Error *error) {
    if (!cpu->makes_up) return STATUS_OK;
    return made_up_matrices(weights, (int)(size / sizeof(Matrix)), cpu->threads, &cpu->made_up, error);
}

// Made-up matrices are so alike that sums get large; of products of two of them the cache, of three the layer has to hold
// the size.
static void soften_made_up(const CpuBackend *cpu, const Layer *layer) {
    static const float SMALL = 1.0f / 64;
    const bool convolves = layer_heads(cpu->shape, layer->weights.index).convolves;
    for (int i = 0; cpu->makes_up && convolves && layer->attn_norm.weight && i < cpu->shape->hidden_size; i++)
        layer->attn_norm.weight[i] = SMALL;
}

static Need norm_bias_of(const DecoderShape *s) {
    return s->norm == NORM_LAYER ? OPTIONAL : NEVER;
}

// What a layer of a shape is to have, part by part.
typedef struct Checklist {
    Expected rows[64];
    int n;
} Checklist;

static void expect(Checklist *list, const Expected *rows, size_t bytes) {
    memcpy(list->rows + list->n, rows, bytes);
    list->n += (int)(bytes / sizeof *rows);
}

// Whether it has a part that mixes tokens, and a feed-forward part.
static bool mixes(const DecoderShape *s, const LayerWeights *w) {
    return w->part != LAYER_EXPERTS && !layer_heads(s, w->index).no_mixer;
}
static bool feeds(const DecoderShape *s, const LayerWeights *w) {
    return !layer_heads(s, w->index).no_ffn;
}

static void expect_attention(const DecoderShape *s, Layer *layer, Checklist *list) {
    const LayerWeights *w = &layer->weights;
    const Latent *l = &s->latent;
    const LayerHeads heads = layer_heads(s, w->index);
    const bool latent = mixes(s, w) && l->rank > 0, low = latent && l->q_rank > 0,
               apart = layer_norms_rows(s, w) || s->head_layer_norms;
    const Need needed = mixes(s, w) ? REQUIRED : NEVER,
               of_keys = needed == REQUIRED && s->heads_of_layers ? OPTIONAL : needed,
               plain = latent ? NEVER : OPTIONAL, of_taps = mixes(s, w) && heads.convolves ? REQUIRED : NEVER,
               tap_bias = of_taps == REQUIRED ? OPTIONAL : NEVER, of_norms = heads.convolves ? NEVER : plain,
               of_gate =
                   mixes(s, w) && (s->heads_of_layers || s->gates_attention) && !heads.convolves && !latent
                       ? OPTIONAL
                       : NEVER;
    const int64_t hidden = s->hidden_size,
                  q_width = latent ? decoder_query_width(s) : (int64_t)s->n_heads * heads.head_dim,
                  gates = s->head_gates ? s->n_heads : q_width, kv_width = layer_key_rows(&heads),
                  taps = s->convolution.taps, attended = latent ? decoder_attended_width(s) : q_width;
    Norm *norm = &layer->attn_norm;
    const Expected rows[] = {
        {"attn_norm", &w->attn_norm, 1, hidden, OPTIONAL, .offset = s->norm_offset, .vector = &norm->weight},
        {"attn_norm_bias", &w->attn_norm_bias, 1, hidden, norm_bias_of(s), .vector = &norm->bias},
        {"wq", &w->wq, q_width, low ? l->q_rank : hidden, .need = needed},
        {"bq", &w->bq, 1, q_width, plain, .vector = &layer->bq},
        {"wk", &w->wk, kv_width, hidden, .need = of_keys},
        {"bk", &w->bk, 1, kv_width, plain, .vector = &layer->bk},
        {"wv", &w->wv, kv_width, hidden, .need = latent ? NEVER : of_keys},
        {"bv", &w->bv, 1, kv_width, plain, .vector = &layer->bv},
        {"attn_post_norm", &w->attn_post_norm, 1, hidden, OPTIONAL, .offset = s->norm_offset,
         .vector = &layer->attn_post_norm.weight},
        {"conv", &w->conv, 1, hidden * taps, of_taps, .vector = &layer->conv},
        {"conv_bias", &w->conv_bias, 1, hidden, tap_bias, .vector = &layer->conv_bias},
        {"q_norm", &w->q_norm, 1, apart ? q_width : heads.head_dim, of_norms, .offset = s->norm_offset,
         .vector = &layer->q_norm},
        {"k_norm", &w->k_norm, 1, apart ? kv_width : heads.head_dim, of_norms, .offset = s->norm_offset,
         .vector = &layer->k_norm},
        {"v_norm", &w->v_norm, 1, heads.head_dim, of_norms, .vector = &layer->v_norm},
        {"attn_gate", &w->attn_gate, gates, hidden, .need = of_gate},
        {"attn_gate_bias", &w->attn_gate_bias, 1, gates, of_gate, .vector = &layer->attn_gate_bias},
        {"wo", &w->wo, hidden, attended, .need = needed},
        {"bo", &w->bo, 1, hidden, OPTIONAL, .vector = &layer->bo},
        {"w_beta", &w->w_beta, 0, 0, .need = NEVER},
        {"w_decay", &w->w_decay, 0, 0, .need = NEVER},
        {"decay_rate", &w->decay_rate, 0, 0, .need = NEVER},
        {"decay_bias", &w->decay_bias, 0, 0, .need = NEVER},
        {"state_norm", &w->state_norm, 0, 0, .need = NEVER},
        {"skip", &w->skip, 0, 0, .need = NEVER},
    };
    expect(list, rows, sizeof rows);
}

// Of a layer that recurs, in the place of attention.
static void expect_delta(const DecoderShape *s, Layer *layer, Checklist *list) {
    const LayerWeights *w = &layer->weights;
    const DeltaRule *d = &s->delta;
    const int64_t hidden = s->hidden_size, keys = (int64_t)d->n_key_heads * d->key_dim,
                  values = delta_width(d), heads = d->n_value_heads, channels = delta_channels(d);
    const Need of_adding = d->adds ? OPTIONAL : NEVER;
    const Expected rows[] = {
        {"attn_norm", &w->attn_norm, 1, hidden, OPTIONAL, .offset = s->norm_offset,
         .vector = &layer->attn_norm.weight},
        {"attn_norm_bias", &w->attn_norm_bias, 1, hidden, norm_bias_of(s), .vector = &layer->attn_norm.bias},
        {"wq", &w->wq, keys, hidden, .need = REQUIRED},
        {"wk", &w->wk, keys, hidden, .need = REQUIRED},
        {"wv", &w->wv, values, hidden, .need = REQUIRED},
        {"attn_gate", &w->attn_gate, values, hidden, .need = REQUIRED},
        {"w_beta", &w->w_beta, heads, hidden, .need = d->adds ? NEVER : REQUIRED},
        {"w_decay", &w->w_decay, heads, hidden, .need = REQUIRED},
        {"conv", &w->conv, 1, channels * d->taps, REQUIRED, .vector = &layer->conv},
        {"decay_rate", &w->decay_rate, 1, heads, REQUIRED, .vector = &layer->decay_rate},
        {"decay_bias", &w->decay_bias, 1, heads, REQUIRED, .vector = &layer->decay_bias},
        {"state_norm", &w->state_norm, 1, d->adds ? values : d->value_dim, d->adds ? OPTIONAL : REQUIRED,
         .vector = &layer->state_norm},
        {"skip", &w->skip, 1, heads, d->adds ? REQUIRED : NEVER, .vector = &layer->skip},
        {"wo", &w->wo, hidden, values, .need = REQUIRED},
        {"bo", &w->bo, 1, hidden, OPTIONAL, .vector = &layer->bo},
        {"attn_post_norm", &w->attn_post_norm, 1, hidden, OPTIONAL, .offset = s->norm_offset,
         .vector = &layer->attn_post_norm.weight},
        {"bq", &w->bq, 1, keys, of_adding, .vector = &layer->bq},
        {"bk", &w->bk, 1, keys, of_adding, .vector = &layer->bk},
        {"bv", &w->bv, 1, values, of_adding, .vector = &layer->bv},
        {"q_norm", &w->q_norm, 1, d->key_dim, .need = NEVER},
        {"k_norm", &w->k_norm, 1, d->key_dim, .need = NEVER},
        {"v_norm", &w->v_norm, 1, d->value_dim, .need = NEVER},
        {"conv_bias", &w->conv_bias, 1, channels, of_adding, .vector = &layer->conv_bias},
        {"attn_gate_bias", &w->attn_gate_bias, 1, values, of_adding, .vector = &layer->attn_gate_bias},
    };
    expect(list, rows, sizeof rows);
}

static void expect_latents(const DecoderShape *s, Layer *layer, Checklist *list) {
    const LayerWeights *w = &layer->weights;
    const Latent *l = &s->latent;
    const bool latent = mixes(s, w) && l->rank > 0;
    const Need needed = latent ? REQUIRED : NEVER, of_low = latent && l->q_rank > 0 ? REQUIRED : NEVER;
    const Expected rows[] = {
        {"q_down", &w->q_down, l->q_rank, s->hidden_size, .need = of_low},
        {"q_down_norm", &w->q_down_norm, 1, l->q_rank, of_low, .vector = &layer->q_down_norm},
        {"latent_norm", &w->latent_norm, 1, l->rank, needed, .vector = &layer->latent_norm},
        {"k_up", &w->k_up, (int64_t)s->n_heads * l->rank, l->plain_dim, .need = needed},
        {"v_up", &w->v_up, (int64_t)s->n_heads * l->value_dim, l->rank, .need = needed},
    };
    expect(list, rows, sizeof rows);
}

// Where there are experts, all of them are one below the other.
static void expect_feed_forward(const DecoderShape *s, Layer *layer, Checklist *list) {
    const LayerWeights *w = &layer->weights;
    const Experts *e = &s->experts;
    const bool experts = w->router.data != NULL, rests = w->part != LAYER_WITHOUT_EXPERTS && feeds(s, w);
    const int64_t n = experts ? e->n : 1, hidden = s->hidden_size,
                  wide = n * (experts                        ? e->size
                              : s->heads_of_layers || !rests ? w->w_up.rows
                                                             : s->intermediate_size);
    const Need needed = rests         ? REQUIRED
                        : feeds(s, w) ? OPTIONAL
                                      : NEVER,
               gate_bias = w->w_gate.data ? OPTIONAL : NEVER,
               post_norm = !experts           ? OPTIONAL
                           : e->beside        ? REQUIRED
                           : s->norms_experts ? OPTIONAL
                                              : NEVER,
               of_tokens = s->token_size ? REQUIRED : NEVER;
    Norm *norm = &layer->ffn_norm;
    const Expected rows[] = {
        {"ffn_norm", &w->ffn_norm, 1, hidden, experts ? REQUIRED : OPTIONAL, .offset = s->norm_offset,
         .vector = &norm->weight},
        {"ffn_norm_bias", &w->ffn_norm_bias, 1, hidden, norm_bias_of(s), .vector = &norm->bias},
        {"ffn_post_norm", &w->ffn_post_norm, 1, hidden, post_norm, .offset = s->norm_offset,
         .vector = &layer->ffn_post_norm.weight},
        {"w_gate", &w->w_gate, wide, hidden, .need = OPTIONAL},
        {"b_gate", &w->b_gate, 1, wide, gate_bias, .vector = &layer->b_gate},
        {"w_up", &w->w_up, wide, hidden, .need = needed},
        {"b_up", &w->b_up, 1, wide, OPTIONAL, .vector = &layer->b_up},
        {"w_down", &w->w_down, n * hidden, wide / n, .need = needed},
        {"b_down", &w->b_down, 1, n * hidden, OPTIONAL, .vector = &layer->b_down},
        {"token_gate", &w->token_gate, s->token_size, hidden, .need = of_tokens},
        {"token_up", &w->token_up, hidden, s->token_size, .need = of_tokens},
        {"token_norm", &w->token_norm, 1, hidden, of_tokens, .offset = s->norm_offset,
         .vector = &layer->token_norm.weight},
    };
    expect(list, rows, sizeof rows);
}

// What stands around the experts themselves.
static void expect_experts(const DecoderShape *s, Layer *layer, Checklist *list) {
    const LayerWeights *w = &layer->weights;
    const Experts *e = &s->experts;
    const bool experts = w->router.data != NULL;
    const int64_t hidden = s->hidden_size, shared = e->shared_size;
    const Need of_experts = experts && feeds(s, w) ? OPTIONAL : NEVER,
               beside = experts && e->beside ? REQUIRED : NEVER,
               of_shared = !experts || !shared        ? NEVER
                           : w->part == LAYER_EXPERTS ? OPTIONAL
                                                      : REQUIRED,
               of_shared_gate = w->w_gate.data ? of_shared : NEVER;
    const float offset = s->norm_offset;
    const Expected rows[] = {
        {"router", &w->router, e->n, hidden, .need = of_experts},
        {"router_norm", &w->router_norm, 1, hidden, beside, offset, 1 / sqrtf((float)hidden),
         .vector = &layer->router_norm.weight},
        {"expert_norm", &w->expert_norm, 1, hidden, beside, offset, .vector = &layer->expert_norm.weight},
        {"shared_post_norm", &w->shared_post_norm, 1, hidden, beside, offset,
         .vector = &layer->shared_post_norm.weight},
        {"expert_post_norm", &w->expert_post_norm, 1, hidden, beside, offset,
         .vector = &layer->expert_post_norm.weight},
        {"expert_scale", &w->expert_scale, 1, e->n, beside, .vector = &layer->expert_scale},
        {"router_bias", &w->router_bias, 1, e->n, of_experts, .vector = &layer->router_bias},
        {"choice_bias", &w->choice_bias, 1, e->n, of_experts, .vector = &layer->choice_bias},
        {"shared_gate", &w->shared_gate, shared, hidden, .need = of_shared_gate},
        {"shared_up", &w->shared_up, shared, hidden, .need = of_shared},
        {"shared_down", &w->shared_down, hidden, shared, .need = of_shared},
        {"shared_router", &w->shared_router, 1, hidden, .need = of_experts},
    };
    expect(list, rows, sizeof rows);
}

Status cpu_load_layer(Backend *backend, const LayerWeights *host, Layer **out, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    Checklist list = {.n = 0};
    const char *fault = layer_xielu_fault(s, host);
    if (fault) return error_set(error, STATUS_UNSUPPORTED, "cpu: %s", fault);
    Layer *layer = calloc(1, sizeof *layer);
    if (layer == NULL) return error_set(error, STATUS_MEMORY, "not enough memory for a layer");
    layer->weights = *host;
    Status status = make_up(cpu, &layer->weights, sizeof layer->weights, error);
    if (!status) {
        if (mixes(s, host) && layer_heads(s, host->index).recurs)
            expect_delta(s, layer, &list);
        else
            expect_attention(s, layer, &list);
        expect_feed_forward(s, layer, &list);
        expect_latents(s, layer, &list);
        expect_experts(s, layer, &list);
        status = take_over(list.rows, list.n, &layer->vectors, error);
    }
    if (status) {
        free(layer);
        return status;
    }
    soften_made_up(cpu, layer);
    layer->row_norms = layer_norms_rows(s, &layer->weights);
    cpu_make_panels(cpu, layer);
    layer->next = cpu->layers;
    cpu->layers = layer;
    *out = layer;
    return STATUS_OK;
}

Status cpu_load_head(Backend *backend, const HeadWeights *host, Head **out, Error *error) {
    CpuBackend *cpu = cpu_backend(backend);
    const DecoderShape *s = cpu->shape;
    Head *head = calloc(1, sizeof *head);
    if (head == NULL) return error_set(error, STATUS_MEMORY, "not enough memory for the head");
    head->weights = *host;
    const HeadWeights *w = &head->weights;
    const bool tied = w->output.data == w->embedding.data;
    if (tied && cpu->makes_up) head->weights.output.data = NULL; // made once
    Status made = make_up(cpu, &head->weights, sizeof head->weights, error);
    if (tied) head->weights.output.data = w->embedding.data;
    if (made) {
        free(head);
        return made;
    }
    const int64_t output = decoder_output_rows(s);
    int64_t hidden = s->hidden_size, vocab = s->vocab_size, of_layers = (int64_t)s->n_layers * s->token_size;
    const Need of_tokens = s->token_size ? REQUIRED : NEVER;
    Need norm_bias = norm_bias_of(s), positions = s->n_positions > 0 ? REQUIRED : NEVER;
    Need embedding_bias = w->embedding_norm.data ? norm_bias : NEVER;
    Norm *embedding_norm = &head->embedding_norm;
    const Expected expected[] = {
        {"embedding", &w->embedding, vocab, hidden, REQUIRED, .looked_up = true},
        {"positions", &w->positions, s->n_positions, hidden, positions, .looked_up = true},
        {"embedding_norm", &w->embedding_norm, 1, hidden, OPTIONAL, .offset = s->norm_offset,
         .vector = &embedding_norm->weight},
        {"embedding_norm_bias", &w->embedding_norm_bias, 1, hidden, embedding_bias,
         .vector = &embedding_norm->bias},
        {"token_embedding", &w->token_embedding, vocab, of_layers, of_tokens, .looked_up = true},
        {"token_projection", &w->token_projection, of_layers, hidden, .need = of_tokens},
        {"token_norm", &w->token_norm, 1, s->token_size, of_tokens, .offset = s->norm_offset,
         .vector = &head->token_norm},
        {"norm", &w->norm, 1, hidden, REQUIRED, s->last_norm_whole ? 0 : s->norm_offset, s->logit_scale,
         .vector = &head->norm.weight},
        {"norm_bias", &w->norm_bias, 1, hidden, norm_bias, 0, s->logit_scale, .vector = &head->norm.bias},
        {"output", &w->output, output, hidden, .need = REQUIRED},
        {"output_bias", &w->output_bias, 1, output, OPTIONAL, .vector = &head->output_bias},
    };
    Status status = take_over(expected, sizeof expected / sizeof *expected, &head->vectors, error);
    if (status) {
        free(head);
        return status;
    }
    head->next = cpu->heads;
    cpu->heads = head;
    *out = head;
    return STATUS_OK;
}

const LayerWeights *cpu_layer_weights(const Layer *layer) {
    return &layer->weights;
}

void cpu_free_weights(CpuBackend *cpu) {
    made_up_free(cpu->made_up);
    while (cpu->layers != NULL) {
        Layer *layer = cpu->layers;
        cpu->layers = layer->next;
        free(layer->vectors);
        free(layer->panels);
        free(layer);
    }
    while (cpu->heads != NULL) {
        Head *head = cpu->heads;
        cpu->heads = head->next;
        free(head->vectors);
        free(head);
    }
}
