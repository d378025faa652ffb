#include "tests/gpu/model/model.h"

#include "kernels/cpu/loops/quant.h"
#include "kernels/w8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t random_bits(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float random_normal(uint64_t *state) {
    float sum = -6;
    for (int i = 0; i < 6; i++) {
        uint64_t bits = random_bits(state);
        sum += (float)(bits >> 40) * 0x1p-24f + (float)(bits >> 8 & 0xffffff) * 0x1p-24f;
    }
    return sum;
}

static void *keep(TestModel *model, size_t bytes) {
    void *memory = calloc(1, bytes);
    if (!memory) abort();
    model->memory[model->n_memory++] = memory;
    return memory;
}

static void put_half(uint8_t *to, float value) {
    uint16_t half = quant_to_half(value);
    memcpy(to, &half, 2);
}

// Any bits are quants; the scales have to be sane.
static void fill_block(DType type, uint8_t *block, float scale, uint64_t *state) {
    const float of_e4m3 = scale / 100, of_nf4 = 2 * scale;
    for (int64_t i = 0; i < dtype_block_bytes(type); i++) block[i] = (uint8_t)random_bits(state);
    switch (type) {
    case DTYPE_NF4:
        memcpy(block, &of_nf4, 4);
        break;
    case DTYPE_E4M3: // without the codes of NaN
        for (int64_t i = 4; i < dtype_block_bytes(type); i++)
            if ((block[i] & 127) == 127) block[i]--;
        memcpy(block, &of_e4m3, 4);
        break;
    case DTYPE_Q8_0:
        put_half(block, scale / 70);
        break;
    case DTYPE_Q4_0:
        put_half(block, scale / 5);
        break;
    case DTYPE_Q5_0:
        put_half(block, scale / 9);
        break;
    case DTYPE_Q4_1:
        put_half(block, scale / 5), put_half(block + 2, scale * -1.5f);
        break;
    case DTYPE_Q5_1:
        put_half(block, scale / 9), put_half(block + 2, scale * -1.6f);
        break;
    case DTYPE_Q4_K:
        put_half(block, scale / 160), put_half(block + 2, scale / 20);
        break;
    case DTYPE_Q5_K:
        put_half(block, scale / 300), put_half(block + 2, scale / 20);
        break;
    case DTYPE_Q2_K:
        put_half(block + 80, scale / 9), put_half(block + 82, scale / 6);
        break;
    case DTYPE_Q3_K:
        put_half(block + 108, scale / 45);
        break;
    case DTYPE_IQ4_NL:
        put_half(block, scale / 70);
        break;
    case DTYPE_IQ4_XS:
        put_half(block, scale / 1300);
        break;
    case DTYPE_MXFP4:
        block[0] = (uint8_t)(128 + (int)floorf(log2f(scale / 6)) + block[0] % 2);
        break;
    default:
        put_half(block + 208, scale / 1400);
        break; // Q6_K
    }
}

// Normal numbers of this deviation and mean.
typedef struct Spread {
    float scale, mean;
} Spread;

// What a matrix is made of (elements, or blocks) comes again after so many, a prime: to make all of a large one up takes
// longer than to multiply with it, and neither rows nor experts are alike.
enum { PERIOD = 4194301 };

static int64_t at_most_a_period(int64_t n) {
    return n < PERIOD ? n : PERIOD;
}

// n of `size` bytes each, of which the first period is there.
static void repeat(uint8_t *data, int64_t n, int64_t size) {
    for (int64_t i = PERIOD, some; i < n; i += some) {
        some = at_most_a_period(n - i);
        memcpy(data + i * size, data, (size_t)(some * size));
    }
}

// Rows of normal numbers, likewise.
static void fill_w8(uint8_t *data, const Matrix *m, Spread spread, uint64_t *state) {
    const int64_t n = at_most_a_period(m->rows * m->cols);
    float *all = malloc((size_t)(n + m->cols) * sizeof *all); // a row that wraps lies there whole
    if (!all) abort();
    for (int64_t i = 0; i < n; i++) all[i] = spread.mean + spread.scale * random_normal(state);
    for (int64_t i = 0; i < m->cols; i++) all[n + i] = all[i % n];
    for (int64_t r = 0; r < m->rows; r++, data += w8_row_bytes(m->cols)) {
        float scale = w8_quantize_row(all + r * m->cols % PERIOD, m->cols, (int8_t *)data);
        memcpy(data + w8_scale_offset(m->cols), &scale, sizeof scale);
    }
    free(all);
}

// Scales of rows, or of blocks of 128 by 128.
static void spread_scales(const TestModel *model, uint8_t *data, const Matrix *m) {
    const int64_t bytes = dtype_block_bytes(DTYPE_E4M3),
                  blocks = dtype_row_bytes(DTYPE_E4M3, m->cols) / bytes;
    for (int64_t i = 0; i < m->rows * blocks; i++, data += bytes) {
        const int64_t row = i / blocks, step = model->shape.fp8_inputs == FP8_INPUTS_ROWS
                                                   ? row
                                                   : row / 128 * 5 + i % blocks * 3;
        float scale;
        memcpy(&scale, data, sizeof scale);
        scale *= 0.5f + (float)(step % 7) / 4;
        memcpy(data, &scale, sizeof scale);
    }
}

static Matrix fill(TestModel *model, DType type, int64_t rows, int64_t cols, Spread spread, uint64_t *state) {
    const float scale = spread.scale, mean = spread.mean;
    Matrix m = {.type = type, .rows = rows, .cols = cols};
    int64_t row = dtype_row_bytes(type, cols);
    uint8_t *data = keep(model, (size_t)(rows * row));
    m.data = data;
    if (type == DTYPE_W8) {
        fill_w8(data, &m, spread, state);
        return m;
    }
    if (quant_is_type(type) || type == DTYPE_E4M3 || type == DTYPE_NF4) {
        const int64_t size = dtype_block_bytes(type), n = rows * row / size;
        for (int64_t i = 0; i < at_most_a_period(n); i++) fill_block(type, data + i * size, scale, state);
        repeat(data, n, size);
        if (model->shape.fp8_inputs && type == DTYPE_E4M3)
            m.input_scale = model->input_scale, spread_scales(model, data, &m);
        return m;
    }
    for (int64_t i = 0; i < at_most_a_period(rows * cols); i++) {
        float value = mean + scale * random_normal(state);
        uint32_t bits;
        memcpy(&bits, &value, 4);
        uint16_t half = type == DTYPE_F16 ? quant_to_half(value) : (uint16_t)(bits >> 16);
        if (type == DTYPE_F32)
            memcpy(data + i * 4, &value, 4);
        else
            memcpy(data + i * 2, &half, 2);
    }
    repeat(data, rows * cols, type == DTYPE_F32 ? 4 : 2);
    return m;
}

static void fill_experts(TestModel *model, const Case *c, LayerWeights *l, uint64_t *state) {
    const float in = 1 / sqrtf((float)c->hidden);
    l->router = fill(model, c->type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32, c->n_experts, c->hidden,
                     (Spread){2 * in, 0}, state);
    if (c->router == 2) {
        l->router_bias = fill(model, DTYPE_F32, 1, c->n_experts, (Spread){0.5f, 0}, state);
        l->choice_bias = fill(model, DTYPE_F32, 1, c->n_experts, (Spread){0.2f, 0}, state);
    }
    if (!c->shared) return;
    if (!c->no_gate) l->shared_gate = fill(model, c->type, c->shared, c->hidden, (Spread){2 * in, 0}, state);
    l->shared_up = fill(model, c->type, c->shared, c->hidden, (Spread){in, 0}, state);
    l->shared_down = fill(model, c->down_type ? c->down_type : c->type, c->hidden, c->shared,
                          (Spread){1 / sqrtf((float)c->shared), 0}, state);
    if (c->routed) l->shared_router = fill(model, DTYPE_F32, 1, c->hidden, (Spread){in, 0}, state);
}

static void fill_latent(TestModel *model, const Case *c, LayerWeights *l, uint64_t *state) {
    const DType plain = quant_is_type(c->type) || c->type == DTYPE_W8 ? DTYPE_F16 : c->type;
    const int64_t heads = c->n_heads, q = heads * (c->plain + c->rotary_dim);
    const float in = 1 / sqrtf((float)c->hidden), low = 1 / sqrtf((float)c->q_rank);
    if (c->q_rank) {
        l->q_down = fill(model, c->type, c->q_rank, c->hidden, (Spread){in, 0}, state);
        l->q_down_norm = fill(model, DTYPE_F32, 1, c->q_rank, (Spread){0.1f, 1}, state);
    }
    l->wq = fill(model, c->type, q, c->q_rank ? c->q_rank : c->hidden,
                 (Spread){2 * (c->q_rank ? low : in), 0}, state);
    l->wk = fill(model, c->type, c->head_dim, c->hidden, (Spread){2 * in, 0}, state);
    l->latent_norm = fill(model, DTYPE_F32, 1, c->rank, (Spread){0.1f, 1}, state);
    l->k_up = fill(model, plain, heads * c->rank, c->plain, (Spread){1 / sqrtf((float)c->plain), 0}, state);
    l->v_up = fill(model, plain, heads * c->value, c->rank, (Spread){1 / sqrtf((float)c->rank), 0}, state);
    l->wo = fill(model, c->type, c->hidden, heads * c->value,
                 (Spread){1 / sqrtf((float)(heads * c->value)), 0}, state);
}

static bool recurs(const Case *c, int layer) {
    return c->delta && c->recurs >> layer & 1;
}

static void fill_delta(TestModel *model, const Case *c, LayerWeights *l, uint64_t *state) {
    const DeltaRule *d = c->delta;
    const int64_t keys = (int64_t)d->n_key_heads * d->key_dim, values = delta_width(d);
    const float in = 1 / sqrtf((float)c->hidden);
    const DType rates = c->float_rates ? DTYPE_F32 : c->rate_type ? c->rate_type : c->type;
    l->wq = fill(model, c->type, keys, c->hidden, (Spread){2 * in, 0}, state);
    l->wk = fill(model, c->type, keys, c->hidden, (Spread){2 * in, 0}, state);
    l->wv = fill(model, c->v_type ? c->v_type : c->type, values, c->hidden, (Spread){in, 0}, state);
    l->attn_gate = fill(model, c->type, values, c->hidden, (Spread){in, 0}, state);
    if (!d->adds) l->w_beta = fill(model, rates, d->n_value_heads, c->hidden, (Spread){in, 0}, state);
    l->w_decay = fill(model, rates, d->n_value_heads, c->hidden, (Spread){in, 0}, state);
    l->conv =
        fill(model, DTYPE_F32, 1, delta_channels(d) * d->taps, (Spread){1 / sqrtf((float)d->taps), 0}, state);
    l->decay_rate = fill(model, DTYPE_F32, 1, d->n_value_heads, (Spread){0.05f, 0.4f}, state); // above 0
    l->decay_bias = fill(model, DTYPE_F32, 1, d->n_value_heads, (Spread){1, -1}, state);
    l->state_norm = fill(model, DTYPE_F32, 1, d->adds ? values : d->value_dim, (Spread){0.1f, 1}, state);
    if (d->adds) {
        l->conv_bias = fill(model, DTYPE_F32, 1, delta_channels(d), (Spread){0.3f, 0}, state);
        l->skip = fill(model, DTYPE_F32, 1, d->n_value_heads, (Spread){0.3f, 1}, state);
    }
    l->wo = fill(model, c->type, c->hidden, values, (Spread){1 / sqrtf((float)values), 0}, state);
}

static LayerHeads heads_of(const Case *c, int layer) {
    const bool wide = c->wide_kv > 0 && layer == 1;
    return (LayerHeads){.n_kv_heads = wide ? c->wide_kv : c->n_kv_heads,
                        .head_dim = wide ? 512 : c->head_dim,
                        .lender = layer,
                        .recurs = recurs(c, layer)};
}

static void fill_heads(TestModel *model, const Case *c, LayerWeights *l, uint64_t *state) {
    const LayerHeads heads = heads_of(c, l->index);
    const int64_t q = (int64_t)c->n_heads * heads.head_dim, kv = (int64_t)heads.n_kv_heads * heads.head_dim;
    const float in = 1 / sqrtf((float)c->hidden);
    if (c->rank) {
        fill_latent(model, c, l, state);
        return;
    }
    if (recurs(c, l->index)) {
        fill_delta(model, c, l, state);
        return;
    }
    l->wq = fill(model, c->type, q, c->hidden, (Spread){2 * in, 0}, state);
    l->wk = fill(model, c->type, kv, c->hidden, (Spread){2 * in, 0}, state);
    l->wv = fill(model, c->v_type ? c->v_type : c->type, kv, c->hidden, (Spread){in, 0}, state);
    l->wo = fill(model, c->type, c->hidden, q, (Spread){1 / sqrtf((float)q), 0}, state);
    if (c->wide_kv) l->v_norm = fill(model, DTYPE_F32, 1, heads.head_dim, (Spread){0.1f, 1}, state);
    if (c->wide_kv) l->x_scale = l->index ? 0.6f : 1.3f;
    if (!c->gate) return;
    l->attn_gate = fill(model, c->type, q, c->hidden, (Spread){2 * in, 0}, state);
    if (c->bias) l->attn_gate_bias = fill(model, DTYPE_F32, 1, q, (Spread){1, 0}, state);
}

static void fill_layer(TestModel *model, const Case *c, LayerWeights *l, uint64_t *state) {
    memset(l, 0, sizeof *l);
    l->index = (int)(l - model->layers);
    const LayerHeads heads = heads_of(c, l->index);
    const int64_t q = (int64_t)c->n_heads * heads.head_dim, kv = (int64_t)heads.n_kv_heads * heads.head_dim;
    const float in = 1 / sqrtf((float)c->hidden);
    const bool attends = !recurs(c, l->index);
    if (c->activation == ACTIVATION_XIELU) {
        const float more = l == &model->layers[0] ? 0 : 0.7f; // layers differ
        l->xielu = (Xielu){0.8f + more, 1.1f + more, 0.5f, -1e-6f};
    }
    if (!c->no_pre_norm) {
        l->attn_norm = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.1f, 1}, state);
        l->ffn_norm = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.1f, 1}, state);
    }
    if (c->post_norm) {
        l->attn_post_norm = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.3f, 1}, state);
        l->ffn_post_norm = fill(model, DTYPE_F16, 1, c->hidden, (Spread){0.3f, 1}, state);
    }
    if (c->layer_norm) {
        l->attn_norm_bias = fill(model, DTYPE_F16, 1, c->hidden, (Spread){0.3f, 0}, state);
        l->ffn_norm_bias = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.3f, 0}, state);
    }
    fill_heads(model, c, l, state);
    const int64_t n = c->n_experts ? c->n_experts : 1, wide = n * c->intermediate;
    const Spread down = {1 / sqrtf((float)c->intermediate), 0};
    const DType type = c->n_experts && c->expert_type ? c->expert_type : c->type;
    if (!c->no_gate) l->w_gate = fill(model, type, wide, c->hidden, (Spread){2 * in, 0}, state);
    l->w_up = fill(model, type, wide, c->hidden, (Spread){in, 0}, state);
    l->w_down = fill(model, c->down_type ? c->down_type : type, n * c->hidden, c->intermediate, down, state);
    if (c->n_experts) fill_experts(model, c, l, state);
    if (c->bias && attends) {
        l->bq = fill(model, DTYPE_F32, 1, q, (Spread){0.5f, 0}, state);
        l->bk = fill(model, DTYPE_F32, 1, kv, (Spread){0.5f, 0}, state);
        l->bv = fill(model, DTYPE_F16, 1, kv, (Spread){0.5f, 0}, state);
    }
    if (c->ffn_bias) {
        if (!c->no_gate) l->b_gate = fill(model, DTYPE_F32, 1, wide, (Spread){0.5f, 0}, state);
        l->b_up = fill(model, DTYPE_BF16, 1, wide, (Spread){0.5f, 0}, state);
        l->b_down = fill(model, DTYPE_F32, 1, n * c->hidden, (Spread){0.5f, 0}, state);
    }
    if (c->out_bias) l->bo = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.5f, 0}, state);
    if (attends && (c->qk_norm || c->row_norm || c->head_norms)) {
        const bool whole = c->row_norm || c->head_norms;
        l->q_norm = fill(model, DTYPE_F32, 1, whole ? q : heads.head_dim, (Spread){0.1f, 1}, state);
        l->k_norm = fill(model, DTYPE_F32, 1, whole ? kv : heads.head_dim, (Spread){0.1f, 1}, state);
    }
}

void model_fill(TestModel *model, const Case *c, uint64_t seed) {
    memset(model, 0, sizeof *model);
    int rotary = c->no_rope ? 0 : c->rotary_dim ? c->rotary_dim : c->head_dim;
    const int pairs = rotary / 2;
    model->inv_freq = keep(model, 2 * (size_t)pairs * sizeof(double) + 8);
    for (int i = 0; i < 2 * pairs; i++)
        model->inv_freq[i] = pow(i < pairs ? 10000 : 300, -2.0 * (i % pairs) / rotary);
    model->ropes[0] = c->window_rope ? 1 : 0; // layer 0 has the window
    model->ropes[1] = c->still ? -1 : 0;
    model->shape = (DecoderShape){
        .n_layers = TEST_LAYERS,
        .hidden_size = c->hidden,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .intermediate_size = c->intermediate,
        .vocab_size = c->vocab,
        .norm_eps = 1e-5f,
        .norm_offset = c->gelu ? 1 : 0,
        .embedding_scale = c->gelu ? sqrtf((float)c->hidden) : 1,
        .attention_scale = 1 / sqrtf((float)c->head_dim),
        .activation = c->gelu ? ACTIVATION_GELU_TANH : c->activation,
        .norm = c->layer_norm ? NORM_LAYER : NORM_RMS,
        .n_positions = c->learned ? c->past + c->n_tokens + 8 : 0,
        .parallel_residual = c->parallel,
        .attention_cap = c->attention_cap,
        .logit_cap = c->logit_cap,
        .logit_scale = c->logit_scale,
        .alibi = c->alibi,
        .head_layer_norms = c->head_norms,
        .normed_residual = c->prefix > 0 ? 2.5f : 0,
        .temperature_beta = c->tempered ? 0.3f : 0,
        .temperature_length = c->tempered ? 50 : 0,
        .temperature_ahead = c->tempered,
        .temperature_unturned = c->tempered,
        .experts = {.n = c->n_experts,
                    .n_active = c->n_active,
                    .size = c->n_experts ? c->intermediate : 0,
                    .shared_size = c->shared,
                    .score = c->router == 3                     ? ROUTER_SPARSEMIXER
                             : c->router == 2 || c->router == 4 ? ROUTER_SIGMOID
                                                                : ROUTER_SOFTMAX,
                    .renormalise = c->router == 1 || c->router == 2,
                    .scales_input = c->router == 4,
                    .jitter = 0.2f,
                    .scale = c->router == 2 ? 2.5f : 1,
                    .n_groups = c->router == 2 ? 4 : 0,
                    .n_active_groups = 2},
        .latent = {c->rank, c->q_rank, c->plain, c->value, 1e-6f},
        .rope = {.kind = c->interleaved ? ROPE_INTERLEAVED : ROPE_HALF_SPLIT,
                 .rotary_dim = rotary,
                 .inv_freq = model->inv_freq,
                 .magnitude = 1,
                 .n_tables = c->window_rope ? 2 : 1,
                 .two_dimensional = c->prefix > 0,
                 .other_rotary_dim = c->wide_kv ? c->head_dim : 0,
                 .other_magnitude = 1.1,
                 .of_layers = c->window_rope || c->still ? model->ropes : NULL},
    };
    for (int l = 0; l < TEST_LAYERS; l++) model->heads[l] = heads_of(c, l);
    if (c->gate || c->delta || c->wide_kv) model->shape.heads_of_layers = model->heads;
    if (c->delta) model->shape.delta = *c->delta;
    model->shape.fp8_inputs = c->fp8, model->input_scale = c->input_scale;
    for (int l = 0; l < TEST_LAYERS; l++) fill_layer(model, c, &model->layers[l], &seed);
    // Of embeddings, which are not multiplied.
    const DType rows = c->type == DTYPE_W8 || c->fp8 ? DTYPE_F16 : c->type;
    model->head.embedding = fill(model, rows, c->vocab, c->hidden, (Spread){1, 0}, &seed);
    model->head.norm = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.1f, 1}, &seed);
    if (c->layer_norm) model->head.norm_bias = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.3f, 0}, &seed);
    if (c->learned)
        model->head.positions = fill(model, rows, model->shape.n_positions, c->hidden, (Spread){1, 0}, &seed);
    if (c->embedding_norm) {
        model->head.embedding_norm = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.1f, 1}, &seed);
        model->head.embedding_norm_bias = fill(model, DTYPE_F32, 1, c->hidden, (Spread){0.3f, 0}, &seed);
    }
    if (c->output_bias)
        model->head.output_bias = fill(model, DTYPE_F32, 1, c->vocab, (Spread){0.5f, 0}, &seed);
    model->head.output = c->tied ? model->head.embedding
                                 : fill(model, c->fp8 ? DTYPE_F16 : c->type, c->vocab, c->hidden,
                                        (Spread){2 / sqrtf((float)c->hidden), 0}, &seed);
}

void model_free(TestModel *model) {
    for (int i = 0; i < model->n_memory; i++) free(model->memory[i]);
}
