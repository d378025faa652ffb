// The weights of layers that recur, and queries that have the rows of a gate between them: taken apart, and where their rows or
// channels lie in another order put in ours in memory of the model's.
#include "engine/model/model_internal.h"
#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, MOST_PARTS = 4 };

// ---- rows in groups ------------------------------------------------------------------------------------------

// Rows that lie group by group, of each so many of one part, then so many of the next.
typedef struct Groups {
    int n, n_parts;
    int64_t rows[MOST_PARTS];
} Groups;

// Bytes of a row, or of an element of a vector.
static int64_t row_bytes(const Matrix *m) {
    return m->rows > 1 ? dtype_row_bytes(m->type, m->cols) : dtype_row_bytes(m->type, 1);
}

static size_t room_of(const Matrix *m) {
    const int64_t n = m->rows > 1 ? m->rows : m->cols;
    return m->data ? (size_t)((n * row_bytes(m) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT) : 0;
}

// All rows of the first part, all of the second, and so on, at *memory, which then is what is left of it.
static Status sort_rows(const Model *model, Matrix *m, const Groups *groups, char **memory, Error *error) {
    const int64_t bytes = row_bytes(m);
    int64_t whole = 0, first = 0;
    if (!m->data) return STATUS_OK;
    Status status = checkpoint_make(model->checkpoint, m->data, NULL, error);
    if (status) return status;
    char *to = *memory;
    for (int part = 0; part < groups->n_parts; part++) whole += groups->rows[part];
    for (int part = 0; part < groups->n_parts; first += groups->rows[part++])
        for (int i = 0; i < groups->n; i++, to += groups->rows[part] * bytes)
            memcpy(to, (const char *)m->data + (i * whole + first) * bytes,
                   (size_t)(groups->rows[part] * bytes));
    m->data = *memory;
    *memory += room_of(m);
    checkpoint_drop_made(model->checkpoint);
    return STATUS_OK;
}

static Status hold(Model *model, int layer, size_t bytes, char **memory, Error *error) {
    *memory = aligned_alloc(ALIGNMENT, bytes);
    if (!model->gathered) model->gathered = calloc((size_t)model->shape.n_layers, sizeof *model->gathered);
    if (!*memory || !model->gathered) {
        free(*memory);
        return error_set(error, STATUS_MEMORY, "%s: no memory to put rows of layer %d in order",
                         checkpoint_path(model->checkpoint), layer_of_files(&model->shape, layer));
    }
    model->gathered[layer] = *memory;
    return STATUS_OK;
}

// Backends order the inputs of queries, keys and values, but not those of a gate beside them.
static Status refuse_order(const Model *model, const Matrix *m, const char *what, int layer, Error *error) {
    if (!m->order) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: layer %d: the %s weights are quantised in an order of their own (act-order), which "
                     "palaver cannot run beside a gate",
                     checkpoint_path(model->checkpoint), layer_of_files(&model->shape, layer), what);
}

Status model_split_gates(Model *model, int layer, Error *error) {
    const DecoderShape *s = &model->shape;
    LayerWeights *to = &model->layers[layer];
    const int64_t q = (int64_t)s->n_heads * s->head_dim;
    const Groups heads = {s->n_heads, 2, {s->head_dim, s->head_dim}};
    char *memory;
    Status status = refuse_order(model, &to->wq, "queries'", layer, error);
    if (!status) status = hold(model, layer, room_of(&to->wq) + room_of(&to->bq), &memory, error);
    if (!status) status = sort_rows(model, &to->wq, &heads, &memory, error);
    if (!status) status = sort_rows(model, &to->bq, &heads, &memory, error);
    if (status) return status;
    to->attn_gate = to->wq, to->attn_gate_bias = to->bq;
    to->wq = model_take_first(&to->attn_gate, q), to->bq = model_take_first(&to->attn_gate_bias, q);
    return STATUS_OK;
}

// ---- of layers that recur ------------------------------------------------------------------------------------

typedef struct DeltaReader {
    Model *model;
    const ParamSource *source;
    int layer;
    const DeltaRule *rule;
    LayerWeights *to;
} DeltaReader;

static const CheckpointTensor *find(const DeltaReader *r, Module module) {
    const bool named = !r->source->config || r->source->architecture->modules[module];
    return named ? model_find_tensor(r->source, module, r->layer, "weight") : NULL;
}

// rows 0: a vector.
static Status take(const DeltaReader *r, Module module, int64_t rows, int64_t cols, Matrix *to,
                   Error *error) {
    const CheckpointTensor *tensor = find(r, module);
    return tensor ? model_take_tensor(r->model, r->source, tensor, rows, cols, to, error)
                  : model_missing_tensor(r->model, r->source, module, r->layer, "weight", error);
}

// The module in which two have their rows together, where the file has it, or an architecture has no other.
static bool is_mixed(const DeltaReader *r, Module mixed, Module apart) {
    return find(r, mixed) || (r->source->config && !r->source->architecture->modules[apart]);
}

// Queries, keys, values and the gate into wq, a row below the other, and w_beta and w_decay into w_beta, as the file has them.
static Status take_products(const DeltaReader *r, Error *error) {
    const int64_t hidden = r->model->shape.hidden_size, n = r->rule->n_value_heads,
                  wide = delta_width(r->rule), all = delta_channels(r->rule);
    LayerWeights *to = r->to;
    const bool gate_within = is_mixed(r, MODULE_DELTA_QKV_GATE, MODULE_DELTA_QKV),
               decay_within = is_mixed(r, MODULE_DELTA_BETA_DECAY, MODULE_DELTA_BETA);
    Status status = gate_within ? take(r, MODULE_DELTA_QKV_GATE, all + wide, hidden, &to->wq, error)
                                : take(r, MODULE_DELTA_QKV, all, hidden, &to->wq, error);
    if (!status && !gate_within) status = take(r, MODULE_DELTA_GATE, wide, hidden, &to->attn_gate, error);
    if (!status)
        status = decay_within ? take(r, MODULE_DELTA_BETA_DECAY, 2 * n, hidden, &to->w_beta, error)
                              : take(r, MODULE_DELTA_BETA, n, hidden, &to->w_beta, error);
    if (!status && !decay_within) status = take(r, MODULE_DELTA_DECAY, n, hidden, &to->w_decay, error);
    if (!status) status = refuse_order(r->model, &to->wq, "queries'", r->layer, error);
    if (!status) status = refuse_order(r->model, &to->attn_gate, "gate's", r->layer, error);
    if (!status) status = refuse_order(r->model, &to->w_beta, "state's", r->layer, error);
    return status ? status : refuse_order(r->model, &to->w_decay, "state's", r->layer, error);
}

// Each key's head has its own and those of its values together (fix_query_key_value_ordering of transformers).
static Status sort_products(const DeltaReader *r, char **memory, Error *error) {
    const DeltaRule *d = r->rule;
    const int share = d->n_value_heads / d->n_key_heads;
    const int64_t values = (int64_t)share * d->value_dim;
    const Groups all = {d->n_key_heads, 4, {d->key_dim, d->key_dim, values, values}},
                 both = {d->n_key_heads, 2, {share, share}};
    LayerWeights *to = r->to;
    Status status = to->attn_gate.data ? STATUS_OK : sort_rows(r->model, &to->wq, &all, memory, error);
    if (!status && !to->w_decay.data) status = sort_rows(r->model, &to->w_beta, &both, memory, error);
    return status;
}

static void split_products(const DeltaReader *r) {
    const DeltaRule *d = r->rule;
    const int64_t keys = (int64_t)d->n_key_heads * d->key_dim;
    LayerWeights *to = r->to;
    Matrix rest = to->wq, both = to->w_beta;
    to->wq = model_take_first(&rest, keys), to->wk = model_take_first(&rest, keys);
    if (to->attn_gate.data)
        to->wv = rest;
    else
        to->wv = model_take_first(&rest, delta_width(d)), to->attn_gate = rest;
    if (!to->w_decay.data) to->w_beta = model_take_first(&both, d->n_value_heads), to->w_decay = both;
}

// [channels, taps], in a Hugging Face folder [channels, 1, taps], as a vector.
static Status take_taps(const DeltaReader *r, Error *error) {
    const int64_t channels = delta_channels(r->rule), taps = r->rule->taps;
    const CheckpointTensor *tensor = find(r, MODULE_DELTA_CONV);
    if (!tensor)
        return model_missing_tensor(r->model, r->source, MODULE_DELTA_CONV, r->layer, "weight", error);
    CheckpointTensor flat = *tensor;
    const int last = tensor->n_dims - 1;
    const bool fits = (last == 1 || (last == 2 && tensor->shape[1] == 1)) && tensor->shape[0] == channels &&
                      tensor->shape[last] == taps;
    if (!fits)
        return error_set(
            error, STATUS_FILE,
            "%s: %s: expected [%lld, 1, %lld] or [%lld, %lld], file has %d dimensions, [%lld, … %lld]",
            checkpoint_path(r->model->checkpoint), tensor->name, (long long)channels, (long long)taps,
            (long long)channels, (long long)taps, tensor->n_dims, (long long)tensor->shape[0],
            (long long)tensor->shape[last]);
    flat.n_dims = 1, flat.shape[0] = channels * taps;
    return model_take_tensor(r->model, r->source, &flat, 0, channels * taps, &r->to->conv, error);
}

static const char *whole_name(const DeltaReader *r, Module module) {
    return r->source->config ? r->source->architecture->modules[module] : GGUF_MODULES[module];
}

// A number for each head of values.
static Status take_numbers(const DeltaReader *r, Module module, Matrix *to, Error *error) {
    const char *name = whole_name(r, module);
    const CheckpointTensor *tensor = model_find_of_layer(r->source, r->layer, name, "");
    if (!tensor)
        return error_set(error, STATUS_FILE,
                         "%s: layer %d: tensor %s is missing: the model is incomplete, or no %s model",
                         checkpoint_path(r->model->checkpoint), layer_of_files(&r->model->shape, r->layer),
                         name, r->model->architecture);
    return model_take_vector(r->model, r->source, tensor, r->rule->n_value_heads, to, error);
}

// Hugging Face folders have the rates' logarithms, GGUF files have them negated. rates [n_value_heads].
static Status take_rates(const DeltaReader *r, float *rates, Error *error) {
    const int n = r->rule->n_value_heads;
    Matrix as_told;
    Status status = take_numbers(r, MODULE_DELTA_RATES, &as_told, error);
    if (status) return status;
    quant_load(as_told.type, as_told.data, 0, n, rates);
    for (int i = 0; i < n; i++) {
        const float told = rates[i];
        rates[i] = r->source->config ? expf(told) : -told;
        if (!(rates[i] >= 0) || !isfinite(rates[i]))
            return error_set(error, STATUS_FILE, "%s: layer %d: %s[%d] is %g, by which no state decays",
                             checkpoint_path(r->model->checkpoint),
                             layer_of_files(&r->model->shape, r->layer), whole_name(r, MODULE_DELTA_RATES), i,
                             (double)told);
    }
    r->to->decay_rate = (Matrix){.type = DTYPE_F32, .rows = 1, .cols = n, .data = rates};
    return STATUS_OK;
}

static Status take_delta_rule(const DeltaReader *r, Error *error) {
    const Matrix rates = {.type = DTYPE_F32, .rows = 1, .cols = r->rule->n_value_heads, .data = r->rule};
    LayerWeights *to = r->to;
    char *memory;
    Status status = take_products(r, error);
    if (status) return status;
    const size_t products =
        (to->attn_gate.data ? 0 : room_of(&to->wq)) + (to->w_decay.data ? 0 : room_of(&to->w_beta));
    status = hold(r->model, r->layer, room_of(&rates) + products, &memory, error);
    if (!status) status = take_rates(r, (float *)(void *)memory, error);
    if (status) return status;
    memory += room_of(&rates);
    status = sort_products(r, &memory, error);
    if (status) return status;
    split_products(r);
    status = take_taps(r, error);
    return status ? status : take_numbers(r, MODULE_DELTA_BIAS, &to->decay_bias, error);
}

// ---- of state spaces -----------------------------------------------------------------------------------------

// Gate, values, keys, queries and what decides, each a slice.
static Status take_slices(const DeltaReader *r, Error *error) {
    const DeltaRule *d = r->rule;
    const int64_t wide = delta_width(d), keys = (int64_t)d->n_key_heads * d->key_dim;
    LayerWeights *to = r->to;
    Matrix all = {0};
    Status status = take(r, MODULE_DELTA_QKV_GATE, wide + delta_channels(d) + d->n_value_heads,
                         r->model->shape.hidden_size, &all, error);
    if (!status) status = refuse_order(r->model, &all, "state's", r->layer, error);
    if (status) return status;
    to->attn_gate = model_take_first(&all, wide), to->wv = model_take_first(&all, wide);
    to->wk = model_take_first(&all, keys), to->wq = model_take_first(&all, keys);
    to->w_decay = all;
    return STATUS_OK;
}

// Of a product, where the model has them: a vector.
static Status take_biases(const DeltaReader *r, Module module, int64_t n, Matrix *to, Error *error) {
    const CheckpointTensor *tensor = model_find_tensor(r->source, module, r->layer, "bias");
    if (!r->model->state_bias) return STATUS_OK;
    return tensor ? model_take_vector(r->model, r->source, tensor, n, to, error)
                  : model_missing_tensor(r->model, r->source, module, r->layer, "bias", error);
}

// Of the slices; that of what decides is added to the bias that it has besides, at sums [n_value_heads].
static Status slice_biases(const DeltaReader *r, float *sums, Error *error) {
    const DeltaRule *d = r->rule;
    const int64_t wide = delta_width(d), keys = (int64_t)d->n_key_heads * d->key_dim;
    const int n = d->n_value_heads;
    LayerWeights *to = r->to;
    Matrix all = {0};
    Status status = take_biases(r, MODULE_DELTA_QKV_GATE, wide + delta_channels(d) + n, &all, error);
    if (!status) status = take_biases(r, MODULE_DELTA_OUT, r->model->shape.hidden_size, &to->bo, error);
    if (status || !all.data) return status;
    to->attn_gate_bias = model_take_first(&all, wide), to->bv = model_take_first(&all, wide);
    to->bk = model_take_first(&all, keys), to->bq = model_take_first(&all, keys);
    for (int i = 0; i < n; i++) {
        float other;
        quant_load(all.type, all.data, i, 1, &sums[i]);
        quant_load(to->decay_bias.type, to->decay_bias.data, i, 1, &other);
        sums[i] += other;
    }
    to->decay_bias = (Matrix){.type = DTYPE_F32, .rows = 1, .cols = n, .data = sums};
    return STATUS_OK;
}

static Status take_conv_bias(const DeltaReader *r, Error *error) {
    const CheckpointTensor *tensor = model_find_tensor(r->source, MODULE_DELTA_CONV, r->layer, "bias");
    if (!r->model->conv_bias) return STATUS_OK;
    if (!tensor) return model_missing_tensor(r->model, r->source, MODULE_DELTA_CONV, r->layer, "bias", error);
    return model_take_vector(r->model, r->source, tensor, delta_channels(r->rule), &r->to->conv_bias, error);
}

// Channels of values, keys and queries, of `each` elements, from the last part to the first, at *memory.
static Status turn_channels(const DeltaReader *r, Matrix *m, int64_t each, char **memory, Error *error) {
    const DeltaRule *d = r->rule;
    const int64_t keys = (int64_t)d->n_key_heads * d->key_dim, parts[] = {delta_width(d), keys, keys};
    if (!m->data) return STATUS_OK;
    Status status = checkpoint_make(r->model->checkpoint, m->data, NULL, error);
    if (status) return status;
    const char *from = m->data;
    char *to = *memory + m->cols * row_bytes(m);
    for (int i = 0; i < 3; i++) {
        const int64_t bytes = parts[i] * each * row_bytes(m);
        to -= bytes;
        memcpy(to, from, (size_t)bytes);
        from += bytes;
    }
    m->data = *memory;
    *memory += room_of(m);
    checkpoint_drop_made(r->model->checkpoint);
    return STATUS_OK;
}

static Status take_state_space(const DeltaReader *r, Error *error) {
    const DeltaRule *d = r->rule;
    const Matrix rates = {.type = DTYPE_F32, .rows = 1, .cols = d->n_value_heads, .data = d};
    LayerWeights *to = r->to;
    char *memory;
    Status status = take_slices(r, error);
    if (!status) status = take_taps(r, error);
    if (!status) status = take_conv_bias(r, error);
    if (!status)
        status = hold(r->model, r->layer, 2 * room_of(&rates) + room_of(&to->conv) + room_of(&to->conv_bias),
                      &memory, error);
    if (!status) status = take_rates(r, (float *)(void *)memory, error);
    if (status) return status;
    memory += room_of(&rates);
    status = turn_channels(r, &to->conv, d->taps, &memory, error);
    if (!status) status = turn_channels(r, &to->conv_bias, 1, &memory, error);
    if (!status) status = take_numbers(r, MODULE_DELTA_BIAS, &to->decay_bias, error);
    if (!status) status = slice_biases(r, (float *)(void *)memory, error);
    return status ? status : take_numbers(r, MODULE_DELTA_SKIP, &to->skip, error);
}

// ---- together ------------------------------------------------------------------------------------------------

Status model_take_delta(Model *model, const ParamSource *source, int layer, Error *error) {
    const DeltaRule *d = &model->shape.delta;
    LayerWeights *to = &model->layers[layer];
    const DeltaReader r = {model, source, layer, d, to};
    const int64_t wide = delta_width(d);
    const CheckpointTensor *norm = find(&r, MODULE_DELTA_NORM);
    const bool optional = source->architecture->paired && (!source->config || !model->state_norm);
    Status status = d->adds ? take_state_space(&r, error) : take_delta_rule(&r, error);
    if (optional && source->config) norm = NULL; // what is there all the same has no place
    if (!status && !norm && !optional)
        status = model_missing_tensor(model, source, MODULE_DELTA_NORM, layer, "weight", error);
    if (!status)
        status =
            model_take_vector(model, source, norm, d->adds ? wide : d->value_dim, &to->state_norm, error);
    return status ? status : take(&r, MODULE_DELTA_OUT, model->shape.hidden_size, wide, &to->wo, error);
}
