// Where each weight lies: one table of modules and shapes for both kinds of files.
#include "engine/model/model_internal.h"
#include "engine/model/config/unread.h"

#include "kernels/cpu/loops/quant.h"

#include <math.h>
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
    DIM_GATE,     // of what attention gives
    DIM_ATTENDED, // what wo takes
    DIM_Q_RANK,   // of latent attention, as the following
    DIM_RANK,
    DIM_ROW,       // that is cached
    DIM_TOKEN,     // of per-layer embeddings
    DIM_OF_LAYERS, // likewise, of all layers
    DIM_CONV_IN    // of layers that convolve
} Dim;

typedef struct WeightInfo {
    Module module;
    size_t weight, bias; // of a Matrix in LayerWeights or HeadWeights
    Dim rows, cols;      // of the weight; rows DIM_NONE: a vector
    unsigned biases;     // of BIAS_…: whether it has a bias, a vector as long as y; 0: never
} WeightInfo;

#define LAYER(MEMBER) offsetof(LayerWeights, MEMBER)
#define HEAD(MEMBER) offsetof(HeadWeights, MEMBER)

// MODULE_QKV is taken apart after it was read into wq and bq, MODULE_GATE_UP after w_gate and b_gate, MODULE_CONV_IN after wk
// and bk.
static const WeightInfo LAYER_WEIGHTS[] = {
    {MODULE_ATTN_NORM, LAYER(attn_norm), LAYER(attn_norm_bias), DIM_NONE, DIM_HIDDEN, BIAS_NORM},
    {MODULE_Q, LAYER(wq), LAYER(bq), DIM_Q, DIM_HIDDEN, BIAS_QKV},
    {MODULE_K, LAYER(wk), LAYER(bk), DIM_KV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_V, LAYER(wv), LAYER(bv), DIM_KV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_QKV, LAYER(wq), LAYER(bq), DIM_QKV, DIM_HIDDEN, BIAS_QKV},
    {MODULE_Q_NORM, LAYER(q_norm), 0, DIM_NONE, DIM_Q_NORM, 0},
    {MODULE_K_NORM, LAYER(k_norm), 0, DIM_NONE, DIM_K_NORM, 0},
    {MODULE_ATTN_GATE, LAYER(attn_gate), 0, DIM_GATE, DIM_HIDDEN, 0},
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
    {MODULE_CONV_IN, LAYER(wk), LAYER(bk), DIM_CONV_IN, DIM_HIDDEN, BIAS_CONV},
    {MODULE_CONV_OUT, LAYER(wo), LAYER(bo), DIM_HIDDEN, DIM_HIDDEN, BIAS_CONV},
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
                  kv = (int64_t)heads.n_kv_heads * heads.head_dim,
                  gates = r->architecture->query_gates ? q : 0;
    const bool usual = shape->heads_of_layers && heads.lender == r->layer;
    switch (dim) {
    case DIM_HIDDEN:
        return shape->hidden_size;
    case DIM_Q:
        return q + gates;
    case DIM_KV:
        return kv;
    case DIM_QKV:
        return q + gates + 2 * kv;
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
    case DIM_GATE:
        return r->architecture->head_gates ? shape->n_heads : q;
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
    case DIM_CONV_IN:
        return 3 * (int64_t)shape->hidden_size;
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

// A layer that convolves or recurs has neither heads nor their norms.
static bool convolves(const Reader *r) {
    return r->model->layer_heads && r->model->layer_heads[r->layer].convolves;
}
static bool recurs(const Reader *r) {
    return r->model->layer_heads && r->model->layer_heads[r->layer].recurs;
}

// Of what a layer lacks there is nothing; its one norm is attn_norm, whichever part it stands before.
static bool is_lacked(const Reader *r, Module module) {
    const LayerHeads heads = layer_heads(&r->model->shape, r->layer);
    if (heads.beside && module == MODULE_ATTN_NORM) return true; // it is the other's
    return (heads.no_mixer && module >= MODULE_Q && module <= MODULE_ATTN_POST_NORM) ||
           (heads.no_ffn && module >= MODULE_FFN_NORM && module <= MODULE_FFN_POST_NORM);
}

static bool is_present(const Reader *r, Module module) {
    if (is_lacked(r, module)) return false;
    if ((convolves(r) || recurs(r)) && module >= MODULE_Q && module <= MODULE_O) return false;
    if (!convolves(r) && module >= MODULE_CONV_IN && module <= MODULE_CONV_OUT) return false;
    if (is_of_tokens(module) && r->model->shape.token_size == 0) return false;
    if (has_from_elsewhere(r, module)) return false;
    const Latent *latent = &r->model->shape.latent;
    if (module >= MODULE_Q_DOWN && module <= MODULE_Q_UP) return latent->q_rank > 0;
    if (latent->rank > 0 && module >= MODULE_Q && module <= MODULE_QKV)
        return module == MODULE_Q && latent->q_rank == 0;
    if (module == MODULE_Q_NORM || module == MODULE_K_NORM)
        return r->model->qk_norm && !r->architecture->head_layer_norms;
    if (r->is_gguf && r->architecture->gguf_gate_apart && module >= MODULE_GATE && module <= MODULE_GATE_UP)
        return module != MODULE_GATE_UP;
    if (r->is_gguf && module >= MODULE_Q && module <= MODULE_QKV) // one or three, as its converter found them
        return (module == MODULE_QKV) == r->fused;
    return r->architecture->modules[module] != NULL;
}

static bool has_bias(const Model *model, unsigned biases) {
    return ((biases & BIAS_QKV) && model->qkv_bias) || ((biases & BIAS_O) && model->o_bias) ||
           ((biases & BIAS_FFN) && model->ffn_bias) || ((biases & BIAS_NORM) && model->norm_bias) ||
           ((biases & BIAS_OUTPUT) && model->output_bias) || ((biases & BIAS_CONV) && model->conv_bias);
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
    const CheckpointTensor *tensor = model_find_tensor(r->source, module, layer, "weight");
    if (!tensor && module == MODULE_EMBEDDING && tied) // saved under the other name
        tensor = model_find_tensor(r->source, MODULE_OUTPUT, layer, "weight");
    if (!tensor) return model_missing_tensor(r->model, r->source, module, layer, "weight", error);
    if (info->module != MODULE_OUTPUT || !tied) {
        const bool turned = r->source->config && r->architecture->transposed && layer >= 0 && rows > 0;
        Status status = take_tensor(r, tensor, turned ? cols : rows, turned ? rows : cols, weight, error);
        if (status) return status;
    }
    if (!has_bias(r->model, info->biases)) return STATUS_OK;
    tensor = model_find_tensor(r->source, info->module, layer, "bias");
    if (!tensor) return model_missing_tensor(r->model, r->source, info->module, layer, "bias", error);
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
    const CheckpointTensor *head = model_find_tensor(r->source, MODULE_OUTPUT, -1, "weight");
    const CheckpointTensor *embedding = model_find_tensor(r->source, MODULE_EMBEDDING, -1, "weight");
    if (!head || !embedding) return STATUS_OK;
    Status status = checkpoint_make(model->checkpoint, head->data, NULL, error);
    if (!status) status = checkpoint_make(model->checkpoint, embedding->data, NULL, error);
    if (status) return status;
    model->tied_head = same_tensor(head, embedding);
    checkpoint_drop_made(model->checkpoint);
    if (model->tied_head) unread_take_tensor(r->source, head);
    return STATUS_OK;
}

// ---- together ------------------------------------------------------------------------------------------

// Of the dense feed-forward part, which a layer of experts does not have.
static bool is_dense(Module module) {
    return module == MODULE_GATE || module == MODULE_UP || module == MODULE_GATE_UP || module == MODULE_DOWN;
}

static Status take_latent(const Reader *r, int index, Error *error) {
    const LatentTensors from = {
        model_find_tensor(r->source, MODULE_KV_UP, index, "weight"),
        r->is_gguf ? model_find_tensor(r->source, MODULE_K_UP, index, "weight") : NULL,
        r->is_gguf ? model_find_tensor(r->source, MODULE_V_UP, index, "weight") : NULL};
    if (!from.both && (!from.k || !from.v))
        return model_missing_tensor(r->model, r->source,
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
                                             : model_find_tensor(r->source, BORROWED[i], index, "weight");
        if (tensor) unread_take_tensor(r->source, tensor);
    }
}

// The number that multiplies x at the layer's end.
static Status take_x_scale(const Reader *r, int index, LayerWeights *layer, Error *error) {
    const char *name = r->is_gguf ? "layer_output_scale.weight" : r->architecture->x_scale;
    if (!r->architecture->x_scale) return STATUS_OK;
    const CheckpointTensor *tensor = model_find_of_layer(r->source, index, name, "");
    Matrix one;
    if (!tensor && r->is_gguf) return STATUS_OK; // old files: 1
    if (!tensor) return model_missing_tensor(r->model, r->source, MODULE_FFN_POST_NORM, index, name, error);
    Status status = take_tensor(r, tensor, 0, 1, &one, error);
    if (status) return status;
    quant_load(one.type, one.data, 0, 1, &layer->x_scale);
    return layer->x_scale != 0 && isfinite(layer->x_scale)
               ? STATUS_OK
               : error_set(error, STATUS_FILE, "%s: %s of layer %d is %g", r->source->path, name, index,
                           (double)layer->x_scale);
}

// Of a layer beside another one its norm, as the file has it: the other one's may have been multiplied.
static void share_norm(const Reader *r, int index, LayerWeights *layer) {
    const CheckpointTensor *tensor = model_find_tensor(r->source, MODULE_ATTN_NORM, index, "weight");
    layer->attn_norm =
        (Matrix){.type = tensor->type, .rows = 1, .cols = r->model->shape.hidden_size, .data = tensor->data};
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
    if (!status && convolves(r)) status = model_take_convolution(r->model, r->source, index, error);
    if (!status && recurs(r)) status = model_take_delta(r->model, r->source, index, error);
    if (!status && r->model->same_values && r->model->attention_windows[index] == 0 && !layer->wv.data)
        layer->wv = layer->wk;
    if (!status && r->model->layer_heads) leave_borrowed(r, index);
    if (!status) status = take_x_scale(r, index, layer, error);
    if (!status && r->model->shape.activation == ACTIVATION_XIELU)
        status = model_take_xielu(r->model, r->source, index, error);
    if (!status) status = model_take_head_norms(r->model, r->source, index, error);
    if (!status) status = model_take_sinks(r->model, r->source, index, error);
    if (!status && r->source->config && r->architecture->transposed)
        status = model_turn_layer(r->model, index, error);
    if (!status && is_present(r, MODULE_QKV))
        status = model_split_qkv(r->model, r->source, index, dim_size(r, DIM_Q), dim_size(r, DIM_KV), error);
    if (!status && r->architecture->query_gates && !recurs(r))
        status = model_split_gates(r->model, index, error);
    if (!status && !experts && is_present(r, MODULE_GATE_UP))
        model_split_gate_up(layer, dim_size(r, DIM_INTERMEDIATE));
    if (!is_present(r, MODULE_FFN_NORM)) { // one norm for both
        layer->ffn_norm = layer->attn_norm;
        layer->ffn_norm_bias = layer->attn_norm_bias;
    }
    const LayerHeads heads = layer_heads(&r->model->shape, index);
    if (heads.no_mixer) layer->attn_norm = layer->attn_norm_bias = (Matrix){0};
    if (heads.no_ffn) layer->ffn_norm = layer->ffn_norm_bias = (Matrix){0};
    if (!status && heads.beside) share_norm(r, index, layer);
    return status ? status : model_multiply_layer(r->model, index, error);
}

// Whether a GGUF file has q, k and v in one, in the layers that have them: those that recur have others by that name.
static bool is_fused(const Model *model, const ParamSource *source) {
    bool fused = false;
    for (int layer = 0; layer < model->shape.n_layers && !source->config && !fused; layer++)
        fused = !layer_heads(&model->shape, layer).recurs &&
                model_find_tensor(source, MODULE_QKV, layer, "weight") != NULL;
    return fused;
}

Status model_read_weights(Model *model, const ParamSource *source, Error *error) {
    const bool fused = is_fused(model, source);
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
    model_set_unit_norms(model, source);
    if (!status && source->config && source->architecture->normed_vocab == model->shape.vocab_size)
        status = model_norm_head(model, error);
    if (!status && source->config && source->architecture->normed_columns)
        status = model_norm_columns(model, source, error);
    model->n_active_parameters = model->n_parameters - model_idle_parameters(model);
    if (!status && head->positions.data)
        model_take_first(&head->positions, source->architecture->position_offset);
    return status;
}
