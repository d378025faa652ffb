// Where each weight lies: one table of modules and shapes for both kinds of files.
#include "engine/model/model_internal.h"
#include "engine/model/unread.h"

#include "kernels/cpu/loops/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sizes that shapes are made of.
typedef enum Dim {
    DIM_NONE,
    DIM_HIDDEN,
    DIM_Q,
    DIM_KV,
    DIM_QKV,
    DIM_Q_NORM,
    DIM_K_NORM,
    DIM_INTERMEDIATE,
    DIM_GATE_UP,
    DIM_VOCAB,
    DIM_POSITIONS,
    DIM_ATTENDED, // what wo takes
    DIM_Q_RANK,   // of latent attention, as the following
    DIM_RANK,
    DIM_ROW,      // that is cached
    DIM_TOKEN,    // of per-layer embeddings
    DIM_OF_LAYERS // likewise, of all layers
} Dim;

typedef struct WeightInfo {
    Module module;
    size_t weight, bias; // of a Matrix in LayerWeights or HeadWeights
    Dim rows, cols;      // of the weight; rows DIM_NONE: a vector
    unsigned biases;     // of BIAS_…: whether it has a bias, a vector as long as y; 0: never
} WeightInfo;

#define LAYER(MEMBER) offsetof(LayerWeights, MEMBER)
#define HEAD(MEMBER) offsetof(HeadWeights, MEMBER)

// MODULE_QKV is taken apart after it was read into wq and bq, MODULE_GATE_UP after w_gate and b_gate.
static const WeightInfo LAYER_WEIGHTS[] = {
    {MODULE_ATTN_NORM, LAYER(attn_norm), LAYER(attn_norm_bias), DIM_NONE, DIM_HIDDEN, BIAS_NORM},
    {MODULE_Q, LAYER(wq), LAYER(bq), DIM_Q, DIM_HIDDEN, BIAS_QKV},
    {MODULE_K, LAYER(wk), LAYER(bk), DIM_KV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_V, LAYER(wv), LAYER(bv), DIM_KV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_QKV, LAYER(wq), LAYER(bq), DIM_QKV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_Q_NORM, LAYER(q_norm), 0, DIM_NONE, DIM_Q_NORM, 0},
    {MODULE_K_NORM, LAYER(k_norm), 0, DIM_NONE, DIM_K_NORM, 0},
    {MODULE_O, LAYER(wo), LAYER(bo), DIM_HIDDEN, DIM_ATTENDED, BIAS_O},
    {MODULE_ATTN_POST_NORM, LAYER(attn_post_norm), 0, DIM_NONE, DIM_HIDDEN, 0},
    {MODULE_FFN_NORM, LAYER(ffn_norm), LAYER(ffn_norm_bias), DIM_NONE, DIM_HIDDEN, BIAS_NORM},
    {MODULE_GATE, LAYER(w_gate), LAYER(b_gate), DIM_INTERMEDIATE, DIM_HIDDEN, BIAS_FFN},
    {MODULE_UP, LAYER(w_up), LAYER(b_up), DIM_INTERMEDIATE, DIM_HIDDEN, BIAS_FFN},
    {MODULE_GATE_UP, LAYER(w_gate), LAYER(b_gate), DIM_GATE_UP, DIM_HIDDEN, BIAS_FFN},
    {MODULE_DOWN, LAYER(w_down), LAYER(b_down), DIM_HIDDEN, DIM_INTERMEDIATE, BIAS_FFN},
    {MODULE_FFN_POST_NORM, LAYER(ffn_post_norm), 0, DIM_NONE, DIM_HIDDEN, 0},
    {MODULE_Q_DOWN, LAYER(q_down), 0, DIM_Q_RANK, DIM_HIDDEN, 0},
    {MODULE_Q_DOWN_NORM, LAYER(q_down_norm), 0, DIM_NONE, DIM_Q_RANK, 0},
    {MODULE_Q_UP, LAYER(wq), 0, DIM_Q, DIM_Q_RANK, 0},
    {MODULE_KV_DOWN, LAYER(wk), 0, DIM_ROW, DIM_HIDDEN, 0},
    {MODULE_LATENT_NORM, LAYER(latent_norm), 0, DIM_NONE, DIM_RANK, 0},
    {MODULE_TOKEN_GATE, LAYER(token_gate), 0, DIM_TOKEN, DIM_HIDDEN, 0},
    {MODULE_TOKEN_UP, LAYER(token_up), 0, DIM_HIDDEN, DIM_TOKEN, 0},
    {MODULE_TOKEN_NORM, LAYER(token_norm), 0, DIM_NONE, DIM_HIDDEN, 0},
};

static const WeightInfo HEAD_WEIGHTS[] = {
    {MODULE_EMBEDDING, HEAD(embedding), 0, DIM_VOCAB, DIM_HIDDEN, 0},
    {MODULE_POSITIONS, HEAD(positions), 0, DIM_POSITIONS, DIM_HIDDEN, 0},
    {MODULE_TOKEN_EMBEDDING, HEAD(token_embedding), 0, DIM_VOCAB, DIM_OF_LAYERS, 0},
    {MODULE_TOKEN_PROJECTION, HEAD(token_projection), 0, DIM_OF_LAYERS, DIM_HIDDEN, 0},
    {MODULE_TOKEN_HEAD_NORM, HEAD(token_norm), 0, DIM_NONE, DIM_TOKEN, 0},
    {MODULE_EMBEDDING_NORM, HEAD(embedding_norm), HEAD(embedding_norm_bias), DIM_NONE, DIM_HIDDEN, BIAS_NORM},
    {MODULE_NORM, HEAD(norm), HEAD(norm_bias), DIM_NONE, DIM_HIDDEN, BIAS_NORM},
    {MODULE_OUTPUT, HEAD(output), HEAD(output_bias), DIM_VOCAB, DIM_HIDDEN, BIAS_OUTPUT},
};

// What the file of a model is called in its source, and what reading it needs to know.
typedef struct Reader {
    Model *model;
    const ParamSource *source;
    const Architecture *architecture;
    bool is_gguf;
    bool fused; // a GGUF file has q, k and v in one
    int layer;  // whose sizes are meant
} Reader;

static int64_t dim_size(const Reader *r, Dim dim) {
    const DecoderShape *shape = &r->model->shape;
    const LayerHeads heads = layer_heads(shape, r->layer);
    const int64_t q = shape->latent.rank > 0 ? decoder_query_width(shape)
                                             : (int64_t)shape->n_heads * heads.head_dim,
                  kv = (int64_t)heads.n_kv_heads * heads.head_dim;
    const bool usual = shape->heads_of_layers && heads.lender == r->layer;
    switch (dim) {
    case DIM_HIDDEN:
        return shape->hidden_size;
    case DIM_Q:
        return q;
    case DIM_KV:
        return kv;
    case DIM_QKV:
        return q + 2 * kv;
    case DIM_Q_NORM:
        return r->architecture->qk_norm_rows ? q : heads.head_dim;
    case DIM_K_NORM:
        return r->architecture->qk_norm_rows ? kv : heads.head_dim;
    case DIM_INTERMEDIATE:
        return usual ? r->model->usual_intermediate : shape->intermediate_size;
    case DIM_GATE_UP:
        return 2 * (int64_t)shape->intermediate_size;
    case DIM_VOCAB:
        return shape->vocab_size;
    case DIM_POSITIONS:
        return shape->n_positions + r->architecture->position_offset;
    case DIM_ATTENDED:
        return shape->latent.rank > 0 ? decoder_attended_width(shape) : q;
    case DIM_Q_RANK:
        return shape->latent.q_rank;
    case DIM_RANK:
        return shape->latent.rank;
    case DIM_ROW:
        return shape->head_dim;
    case DIM_TOKEN:
        return shape->token_size;
    case DIM_OF_LAYERS:
        return (int64_t)shape->n_layers * shape->token_size;
    case DIM_NONE:
        break;
    }
    return 1;
}

static bool is_of_tokens(Module module) {
    return (module >= MODULE_TOKEN_GATE && module <= MODULE_TOKEN_NORM) ||
           (module >= MODULE_TOKEN_EMBEDDING && module <= MODULE_TOKEN_HEAD_NORM);
}

// Keys and values that a layer borrows, or values that are its keys.
static bool has_from_elsewhere(const Reader *r, Module module) {
    const Model *model = r->model;
    if (!model->layer_heads || (module != MODULE_K && module != MODULE_V && module != MODULE_K_NORM))
        return false;
    return model->layer_heads[r->layer].lender != r->layer ||
           (module == MODULE_V && model->same_values && model->attention_windows[r->layer] == 0);
}

static bool is_present(const Reader *r, Module module) {
    if (is_of_tokens(module) && r->model->shape.token_size == 0) return false;
    if (has_from_elsewhere(r, module)) return false;
    const Latent *latent = &r->model->shape.latent;
    if (module >= MODULE_Q_DOWN && module <= MODULE_Q_UP) return latent->q_rank > 0;
    if (latent->rank > 0 && module >= MODULE_Q && module <= MODULE_QKV)
        return module == MODULE_Q && latent->q_rank == 0;
    if (module == MODULE_Q_NORM || module == MODULE_K_NORM)
        return r->model->qk_norm && !r->architecture->head_layer_norms;
    if (r->is_gguf && module >= MODULE_Q && module <= MODULE_QKV) // one or three, as its converter found them
        return (module == MODULE_QKV) == r->fused;
    return r->architecture->modules[module] != NULL;
}

static bool has_bias(const Model *model, unsigned biases) {
    return ((biases & BIAS_QKV) && model->qkv_bias) || ((biases & BIAS_O) && model->o_bias) ||
           ((biases & BIAS_FFN) && model->ffn_bias) || ((biases & BIAS_NORM) && model->norm_bias) ||
           ((biases & BIAS_OUTPUT) && model->output_bias);
}

static void shape_text(const CheckpointTensor *tensor, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < tensor->n_dims && n < size; i++) {
        n += (size_t)snprintf(text + n, size - n, i == 0 ? "%lld" : ", %lld", (long long)tensor->shape[i]);
    }
    if (n < size) snprintf(text + n, size - n, "] %s", tensor->type_name);
}

// What to take where a file has a type that palaver does not read: of about its bits, with its place in a sentence.
static const char *variant_hint(const char *type_name) {
    static const struct {
        const char *begins, *hint;
    } HINTS[] = {{"iq1_", " (q2_k is nearest)"}, {"iq2_", " (q2_k is nearest)"},
                 {"tq", " (q2_k is nearest)"},   {"q1_", " (q2_k is nearest)"},
                 {"iq3_", " (q3_k is nearest)"}, {"nvfp4", " (mxfp4 or q4_k is nearest)"},
                 {"q8_", " (q8_0 is nearest)"}};
    for (size_t i = 0; i < sizeof HINTS / sizeof *HINTS; i++)
        if (!strncmp(type_name, HINTS[i].begins, strlen(HINTS[i].begins))) return HINTS[i].hint;
    return "";
}

// rows 0: a vector
static Status check_tensor(const Model *model, const CheckpointTensor *tensor, int64_t rows, int64_t cols,
                           Error *error) {
    const char *path = checkpoint_file(model->checkpoint, tensor->file, NULL);
    bool is_vector = rows == 0;
    bool fits = is_vector ? tensor->n_dims == 1 && tensor->shape[0] == cols
                          : tensor->n_dims == 2 && tensor->shape[0] == rows && tensor->shape[1] == cols;
    if (!fits) {
        char expected[64], found[128];
        snprintf(expected, sizeof expected, is_vector ? "[%lld]" : "[%lld, %lld]",
                 (long long)(is_vector ? cols : rows), (long long)cols);
        shape_text(tensor, found, sizeof found);
        return error_set(error, STATUS_FILE, "%s: %s: expected %s, file has %s", path, tensor->name, expected,
                         found);
    }
    if (!tensor->supported) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor %s has type %s; palaver reads f32, f16, bf16, q8_0, "
                         "q4_0, q4_1, q5_0, q5_1, q2_k, q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4: take "
                         "another variant of the model%s",
                         path, tensor->name, tensor->type_name, variant_hint(tensor->type_name));
    }
    if (is_vector && dtype_block_size(tensor->type) != 1) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor %s has type %s; a vector must be f32, f16 or bf16", path, tensor->name,
                         tensor->type_name);
    }
    return STATUS_OK;
}

enum { NAME_SIZE = 128 };

// How files name a model's tensors: as its class does; saved without the head, which leaves the base out; and as a part
// of a larger model, by transformers 4 and 5 ("language_model.model.layers", "model.language_model.layers").
typedef enum Naming { NAMED_USUAL, NAMED_BARE, NAMED_AS_PART, NAMED_WITHIN, N_NAMINGS } Naming;

static void prefix_of(const Reader *r, Module module, Naming naming, char prefix[NAME_SIZE]) {
    static const char *const PREFIXES[] = {"", "", "language_model.", ""};
    const char *base = module == MODULE_OUTPUT || naming == NAMED_BARE ? "" : r->architecture->base;
    snprintf(prefix, NAME_SIZE, "%s%s%s", PREFIXES[naming], base,
             naming == NAMED_WITHIN && module != MODULE_OUTPUT ? "language_model." : "");
}

// "blk.3.attn_q.weight", or "model.layers.3.self_attn.q_proj.weight". layer -1: a module of the whole model.
static void tensor_name(const Reader *r, Module module, int layer, const char *kind, Naming naming,
                        char name[NAME_SIZE]) {
    const Architecture *a = r->architecture;
    char place[64] = "", prefix[NAME_SIZE] = "";
    const char *own = a->gguf_modules[module], *usual = own ? own : GGUF_MODULES[module];
    const char *stem = r->is_gguf ? usual : a->modules[module];
    if (module == MODULE_OUTPUT && !r->is_gguf && naming != NAMED_USUAL)
        stem = "lm_head"; // as transformers renames GPT-NeoX's
    if (!r->is_gguf) prefix_of(r, module, naming, prefix);
    if (layer >= 0 && r->is_gguf) snprintf(place, sizeof place, "blk.%d.", layer);
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "layers.%d."
    if (layer >= 0 && !r->is_gguf) snprintf(place, sizeof place, a->layer, layer);
    snprintf(name, NAME_SIZE, "%.40s%s%s.%s", prefix, place, stem, kind);
}

// NULL: there is none.
static const CheckpointTensor *find_tensor(const Reader *r, Module module, int layer, const char *kind) {
    char name[NAME_SIZE];
    const CheckpointTensor *tensor = NULL;
    for (Naming naming = NAMED_USUAL; naming < (r->source->whole ? N_NAMINGS : NAMED_AS_PART) && !tensor;
         naming++) {
        tensor_name(r, module, layer, kind, naming, name);
        tensor = checkpoint_find(r->model->checkpoint, name);
    }
    return tensor;
}

static Status missing_tensor(const Reader *r, Module module, int layer, const char *kind, Error *error) {
    char name[NAME_SIZE];
    tensor_name(r, module, layer, kind, NAMED_USUAL, name);
    return error_set(error, STATUS_FILE, "%s: tensor %s is missing: the model is incomplete, or no %s model",
                     checkpoint_path(r->model->checkpoint), name, r->model->architecture);
}

const CheckpointTensor *model_find_of_layer(const ParamSource *source, int layer, const char *stem,
                                            const char *end) {
    static const char *const AROUND[N_NAMINGS][2] = {[NAMED_USUAL] = {"", ""},
                                                     [NAMED_AS_PART] = {"language_model.", ""},
                                                     [NAMED_WITHIN] = {"", "language_model."}};
    const Architecture *a = source->architecture;
    const CheckpointTensor *found = NULL;
    char name[2 * NAME_SIZE], place[64];
    if (!source->config) {
        snprintf(name, sizeof name, "blk.%d.%.100s%.32s", layer, stem, end);
        return checkpoint_find(source->checkpoint, name);
    }
    // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "layers.%d."
    snprintf(place, sizeof place, a->layer, layer);
    for (int i = 0; i < (source->whole ? N_NAMINGS : NAMED_AS_PART) && !found; i++) {
        snprintf(name, sizeof name, "%s%s%s%s%.100s%.32s", i == NAMED_BARE ? "" : AROUND[i][0],
                 i == NAMED_BARE ? "" : a->base, i == NAMED_BARE ? "" : AROUND[i][1], place, stem, end);
        found = checkpoint_find(source->checkpoint, name);
    }
    return found;
}

Status model_take_tensor(Model *model, const ParamSource *source, const CheckpointTensor *tensor,
                         int64_t rows, int64_t cols, Matrix *matrix, Error *error) {
    Status status = check_tensor(model, tensor, rows, cols, error);
    if (status) return status;
    *matrix = (Matrix){.type = tensor->type, .rows = rows > 0 ? rows : 1, .cols = cols, .data = tensor->data};
    unread_take_tensor(source, checkpoint_find(model->checkpoint, tensor->name));
    model->n_parameters += matrix->rows * matrix->cols;
    model->weight_bytes += (int64_t)tensor->bytes;
    return STATUS_OK;
}

// rows 0: a vector
static Status take_tensor(const Reader *r, const CheckpointTensor *tensor, int64_t rows, int64_t cols,
                          Matrix *matrix, Error *error) {
    return model_take_tensor(r->model, r->source, tensor, rows, cols, matrix, error);
}

// A module's weight and bias into `weights`, a LayerWeights or HeadWeights that is zero. A tied head's weight is the
// embedding.
static Status take_module(const Reader *r, const WeightInfo *info, int layer, void *weights, Error *error) {
    Matrix *weight = (Matrix *)(void *)((char *)weights + info->weight);
    Matrix *bias = (Matrix *)(void *)((char *)weights + info->bias);
    if (!is_present(r, info->module)) return STATUS_OK;
    int64_t rows = info->rows == DIM_NONE ? 0 : dim_size(r, info->rows), cols = dim_size(r, info->cols);
    bool tied = r->model->tied_head;
    Module module = info->module == MODULE_OUTPUT && tied ? MODULE_EMBEDDING : info->module;
    const CheckpointTensor *tensor = find_tensor(r, module, layer, "weight");
    if (!tensor && module == MODULE_EMBEDDING && tied) // saved under the other name
        tensor = find_tensor(r, MODULE_OUTPUT, layer, "weight");
    if (!tensor) return missing_tensor(r, module, layer, "weight", error);
    if (info->module != MODULE_OUTPUT || !tied) {
        Status status = take_tensor(r, tensor, rows, cols, weight, error);
        if (status) return status;
    }
    if (!has_bias(r->model, info->biases)) return STATUS_OK;
    tensor = find_tensor(r, info->module, layer, "bias");
    if (!tensor) return missing_tensor(r, info->module, layer, "bias", error);
    return take_tensor(r, tensor, 0, rows > 0 ? rows : cols, bias, error);
}

// ---- a tied head -----------------------------------------------------------------------------------------

static bool same_tensor(const CheckpointTensor *a, const CheckpointTensor *b) {
    if (!a->supported || !b->supported || a->type != b->type || a->bytes != b->bytes ||
        a->n_dims != b->n_dims)
        return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return memcmp(a->data, b->data, a->bytes) == 0;
}

// As transformers does: a file may hold the head of a model that says it is tied. The same matrix once more is let lie;
// where it is another one, config.json is wrong and the head is what was trained.
static Status settle_tie(const Reader *r, Error *error) {
    Model *model = r->model;
    if (!model->tied_head || r->is_gguf) return STATUS_OK; // in GGUF a head that is there is no tied one
    const CheckpointTensor *head = find_tensor(r, MODULE_OUTPUT, -1, "weight");
    const CheckpointTensor *embedding = find_tensor(r, MODULE_EMBEDDING, -1, "weight");
    if (!head || !embedding) return STATUS_OK;
    Status status = checkpoint_make(model->checkpoint, head->data, NULL, error);
    if (!status) status = checkpoint_make(model->checkpoint, embedding->data, NULL, error);
    if (status) return status;
    model->tied_head = same_tensor(head, embedding);
    checkpoint_drop_made(model->checkpoint);
    if (model->tied_head) unread_take_tensor(r->source, head);
    return STATUS_OK;
}

// ---- q, k and v in one -----------------------------------------------------------------------------------

// Runs of `run` bytes, for each KV head its `group` of q, k and v, into all of q, all of k, all of v.
static void gather_heads(const char *from, int n_kv_heads, int group, int64_t run, char *to) {
    const int first[] = {0, group, group + 1}, n[] = {group, 1, 1};
    for (int part = 0; part < 3; part++)
        for (int head = 0; head < n_kv_heads; head++, to += n[part] * run)
            memcpy(to, from + ((int64_t)head * (group + 2) + first[part]) * run, (size_t)(n[part] * run));
}

// Puts the rows of layer->wq and bq, which hold all three head by head, in the usual order in memory of the model's.
static Status order_heads(Model *model, int index, LayerWeights *layer, Error *error) {
    const DecoderShape *s = &model->shape;
    const int group = s->n_heads / s->n_kv_heads;
    int64_t row = dtype_row_bytes(layer->wq.type, layer->wq.cols);
    int64_t element = layer->bq.data ? dtype_block_bytes(layer->bq.type) : 0;
    Status status = checkpoint_make(model->checkpoint, layer->wq.data, NULL, error);
    if (status) return status;
    if (!model->gathered) model->gathered = calloc((size_t)s->n_layers, sizeof *model->gathered);
    char *memory = malloc((size_t)(layer->wq.rows * (row + element)));
    if (!model->gathered || !memory) {
        free(memory);
        return error_set(error, STATUS_MEMORY, "%s: no memory to put a layer's q, k and v in order",
                         checkpoint_path(model->checkpoint));
    }
    model->gathered[index] = memory;
    gather_heads(layer->wq.data, s->n_kv_heads, group, s->head_dim * row, memory);
    layer->wq.data = memory;
    checkpoint_drop_made(model->checkpoint);
    if (element == 0) return STATUS_OK;
    char *bias = memory + layer->wq.rows * row;
    gather_heads(layer->bq.data, s->n_kv_heads, group, s->head_dim * element, bias);
    layer->bq.data = bias;
    return STATUS_OK;
}

// The first `n` of what `all` holds; `all` keeps the rest.
static Matrix take_first(Matrix *all, int64_t n) {
    Matrix first = *all;
    if (!all->data) return first;
    int64_t *size = all->rows > 1 ? &all->rows : &all->cols;
    int64_t bytes = all->rows > 1 ? n * dtype_row_bytes(all->type, all->cols) : dtype_row_bytes(all->type, n);
    *(all->rows > 1 ? &first.rows : &first.cols) = n;
    *size -= n;
    all->data = (const char *)all->data + bytes;
    return first;
}

static Status split_qkv(const Reader *r, int index, LayerWeights *layer, Error *error) {
    int64_t q = dim_size(r, DIM_Q), kv = dim_size(r, DIM_KV);
    Status status = STATUS_OK;
    if ((r->architecture->qkv_by_head || r->architecture->qkv_by_group) && !r->is_gguf)
        status = order_heads(r->model, index, layer, error);
    Matrix weights = layer->wq, biases = layer->bq;
    layer->wq = take_first(&weights, q), layer->bq = take_first(&biases, q);
    layer->wk = take_first(&weights, kv), layer->bk = take_first(&biases, kv);
    layer->wv = weights, layer->bv = biases;
    return status;
}

static void split_gate_up(const Reader *r, LayerWeights *layer) {
    int64_t n = dim_size(r, DIM_INTERMEDIATE);
    layer->w_up = layer->w_gate, layer->b_up = layer->b_gate;
    layer->w_gate = take_first(&layer->w_up, n), layer->b_gate = take_first(&layer->b_up, n);
}

// ---- a head of rows of length 1 ---------------------------------------------------------------------------

// Divides every row of the output matrix by its length, in memory of the model's and in the file's type, as the model's
// own code does when it first writes.
static Status norm_head(Model *model, Error *error) {
    Matrix *output = &model->head.output;
    if (dtype_block_size(output->type) != 1)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: the head's rows are divided by their length, for which they must be f32, f16 or bf16; they "
            "are %s",
            checkpoint_path(model->checkpoint), dtype_name(output->type));
    const int64_t row = dtype_row_bytes(output->type, output->cols);
    float *values = malloc((size_t)output->cols * sizeof *values);
    model->normed_head = malloc((size_t)(output->rows * row));
    if (!values || !model->normed_head) {
        free(values);
        return error_set(error, STATUS_MEMORY, "%s: no memory for the head",
                         checkpoint_path(model->checkpoint));
    }
    for (int64_t r = 0; r < output->rows; r++) {
        char *to = (char *)model->normed_head + r * row;
        quant_load(output->type, (const char *)output->data + r * row, 0, output->cols, values);
        double squares = 0;
        for (int64_t i = 0; i < output->cols; i++) squares += (double)values[i] * (double)values[i];
        const float length = (float)fmax(sqrt(squares), 1e-12);
        for (int64_t i = 0; i < output->cols; i++) {
            const float value = values[i] / length;
            if (output->type == DTYPE_F32)
                ((float *)(void *)to)[i] = value;
            else
                ((uint16_t *)(void *)to)[i] =
                    output->type == DTYPE_F16 ? quant_to_half(value) : quant_to_bfloat(value);
        }
    }
    output->data = model->normed_head;
    free(values);
    return STATUS_OK;
}

// ---- together ------------------------------------------------------------------------------------------

// Of the dense feed-forward part, which a layer of experts does not have.
static bool is_dense(Module module) {
    return module == MODULE_GATE || module == MODULE_UP || module == MODULE_GATE_UP || module == MODULE_DOWN;
}

static Status take_latent(const Reader *r, int index, Error *error) {
    const LatentTensors from = {find_tensor(r, MODULE_KV_UP, index, "weight"),
                                r->is_gguf ? find_tensor(r, MODULE_K_UP, index, "weight") : NULL,
                                r->is_gguf ? find_tensor(r, MODULE_V_UP, index, "weight") : NULL};
    if (!from.both && (!from.k || !from.v))
        return missing_tensor(r,
                              from.k       ? MODULE_V_UP
                              : r->is_gguf ? MODULE_K_UP
                                           : MODULE_KV_UP,
                              index, "weight", error);
    return model_take_latent(r->model, r->source, index, &from, error);
}

// Files have weights of borrowed keys and values all the same.
static void leave_borrowed(const Reader *r, int index) {
    static const Module BORROWED[] = {MODULE_K, MODULE_V, MODULE_K_NORM};
    for (size_t i = 0; i < sizeof BORROWED / sizeof *BORROWED; i++) {
        const CheckpointTensor *tensor = r->model->layer_heads[index].lender == index
                                             ? NULL
                                             : find_tensor(r, BORROWED[i], index, "weight");
        if (tensor) unread_take_tensor(r->source, tensor);
    }
}

// The number that multiplies x at the layer's end.
static Status take_x_scale(const Reader *r, int index, LayerWeights *layer, Error *error) {
    const char *name = r->architecture->x_scale;
    if (!name) return STATUS_OK;
    const CheckpointTensor *tensor = model_find_of_layer(r->source, index, name, "");
    Matrix one;
    if (!tensor) return missing_tensor(r, MODULE_FFN_POST_NORM, index, name, error);
    Status status = take_tensor(r, tensor, 0, 1, &one, error);
    if (status) return status;
    quant_load(one.type, one.data, 0, 1, &layer->x_scale);
    return layer->x_scale != 0 && isfinite(layer->x_scale)
               ? STATUS_OK
               : error_set(error, STATUS_FILE, "%s: %s of layer %d is %g", r->source->path, name, index,
                           (double)layer->x_scale);
}

static Status read_layer(const Reader *all, int index, Error *error) {
    Reader own = *all;
    const Reader *r = &own;
    own.layer = index;
    LayerWeights *layer = &r->model->layers[index];
    layer->index = index;
    bool experts = false;
    Status status = model_take_experts(r->model, r->source, index, &experts, error);
    for (size_t i = 0; i < sizeof LAYER_WEIGHTS / sizeof *LAYER_WEIGHTS && !status; i++)
        if (!experts || !is_dense(LAYER_WEIGHTS[i].module))
            status = take_module(r, &LAYER_WEIGHTS[i], index, layer, error);
    if (!status && r->model->shape.latent.rank > 0) status = take_latent(r, index, error);
    if (!status && r->model->same_values && r->model->attention_windows[index] == 0 && !layer->wv.data)
        layer->wv = layer->wk;
    if (!status && r->model->layer_heads) leave_borrowed(r, index);
    if (!status) status = take_x_scale(r, index, layer, error);
    if (!status) status = model_take_head_norms(r->model, r->source, index, error);
    if (!status) status = model_take_sinks(r->model, r->source, index, error);
    if (!status && is_present(r, MODULE_QKV)) status = split_qkv(r, index, layer, error);
    if (!status && !experts && is_present(r, MODULE_GATE_UP)) split_gate_up(r, layer);
    if (!is_present(r, MODULE_FFN_NORM)) { // one norm for both
        layer->ffn_norm = layer->attn_norm;
        layer->ffn_norm_bias = layer->attn_norm_bias;
    }
    return status;
}

Status model_read_weights(Model *model, const ParamSource *source, Error *error) {
    const bool fused = checkpoint_find(source->checkpoint, "blk.0.attn_qkv.weight") != NULL;
    const Reader r = {model, source, source->architecture, !source->config, fused, 0};
    HeadWeights *head = &model->head;
    model->layers = calloc((size_t)model->shape.n_layers, sizeof *model->layers);
    if (!model->layers) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    Status status = model_hold_experts(model, error);
    if (!status) status = settle_tie(&r, error);
    for (size_t i = 0; i < sizeof HEAD_WEIGHTS / sizeof *HEAD_WEIGHTS && !status; i++)
        status = take_module(&r, &HEAD_WEIGHTS[i], -1, head, error);
    for (int layer = 0; layer < model->shape.n_layers && !status; layer++)
        status = read_layer(&r, layer, error);
    if (model->tied_head) head->output = head->embedding;
    if (!status && source->config && source->architecture->normed_vocab == model->shape.vocab_size)
        status = norm_head(model, error);
    model->n_active_parameters = model->n_parameters - model_idle_parameters(model);
    if (!status && head->positions.data) take_first(&head->positions, source->architecture->position_offset);
    return status;
}
