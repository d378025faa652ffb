// Where each weight lies: one table of names and shapes for both kinds of files.
#include "engine/model_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The sizes that shapes are made of.
typedef enum Dim { DIM_NONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_HEAD, DIM_INTERMEDIATE, DIM_VOCAB } Dim;

typedef enum Presence { ALWAYS, WITH_QKV_BIAS, WITH_O_BIAS, WITH_QK_NORM, WITH_OWN_HEAD } Presence;

typedef struct WeightInfo {
    const char *hf, *gguf; // of a layer: behind "model.layers.N." and "blk.N."
    size_t offset;         // of a Matrix in LayerWeights or HeadWeights
    Dim rows, cols;        // rows DIM_NONE: a vector
    Presence presence;
} WeightInfo;

#define LAYER(MEMBER) offsetof(LayerWeights, MEMBER)
#define HEAD(MEMBER) offsetof(HeadWeights, MEMBER)

static const WeightInfo LAYER_WEIGHTS[] = {
    {"input_layernorm.weight", "attn_norm.weight", LAYER(attn_norm), DIM_NONE, DIM_HIDDEN, ALWAYS},
    {"self_attn.q_proj.weight", "attn_q.weight", LAYER(wq), DIM_Q, DIM_HIDDEN, ALWAYS},
    {"self_attn.k_proj.weight", "attn_k.weight", LAYER(wk), DIM_KV, DIM_HIDDEN, ALWAYS},
    {"self_attn.v_proj.weight", "attn_v.weight", LAYER(wv), DIM_KV, DIM_HIDDEN, ALWAYS},
    {"self_attn.q_proj.bias", "attn_q.bias", LAYER(bq), DIM_NONE, DIM_Q, WITH_QKV_BIAS},
    {"self_attn.k_proj.bias", "attn_k.bias", LAYER(bk), DIM_NONE, DIM_KV, WITH_QKV_BIAS},
    {"self_attn.v_proj.bias", "attn_v.bias", LAYER(bv), DIM_NONE, DIM_KV, WITH_QKV_BIAS},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", LAYER(q_norm), DIM_NONE, DIM_HEAD, WITH_QK_NORM},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", LAYER(k_norm), DIM_NONE, DIM_HEAD, WITH_QK_NORM},
    {"self_attn.o_proj.weight", "attn_output.weight", LAYER(wo), DIM_HIDDEN, DIM_Q, ALWAYS},
    {"self_attn.o_proj.bias", "attn_output.bias", LAYER(bo), DIM_NONE, DIM_HIDDEN, WITH_O_BIAS},
    {"post_attention_layernorm.weight", "ffn_norm.weight", LAYER(ffn_norm), DIM_NONE, DIM_HIDDEN, ALWAYS},
    {"mlp.gate_proj.weight", "ffn_gate.weight", LAYER(w_gate), DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS},
    {"mlp.up_proj.weight", "ffn_up.weight", LAYER(w_up), DIM_INTERMEDIATE, DIM_HIDDEN, ALWAYS},
    {"mlp.down_proj.weight", "ffn_down.weight", LAYER(w_down), DIM_HIDDEN, DIM_INTERMEDIATE, ALWAYS},
};

static const WeightInfo HEAD_WEIGHTS[] = {
    {"model.embed_tokens.weight", "token_embd.weight", HEAD(embedding), DIM_VOCAB, DIM_HIDDEN, ALWAYS},
    {"model.norm.weight", "output_norm.weight", HEAD(norm), DIM_NONE, DIM_HIDDEN, ALWAYS},
    {"lm_head.weight", "output.weight", HEAD(output), DIM_VOCAB, DIM_HIDDEN, WITH_OWN_HEAD},
};

static int64_t dim_size(const DecoderShape *shape, Dim dim) {
    switch (dim) {
    case DIM_HIDDEN:
        return shape->hidden_size;
    case DIM_Q:
        return (int64_t)shape->n_heads * shape->head_dim;
    case DIM_KV:
        return (int64_t)shape->n_kv_heads * shape->head_dim;
    case DIM_HEAD:
        return shape->head_dim;
    case DIM_INTERMEDIATE:
        return shape->intermediate_size;
    case DIM_VOCAB:
        return shape->vocab_size;
    case DIM_NONE:
        break;
    }
    return 1;
}

static bool is_present(const Model *model, Presence presence) {
    switch (presence) {
    case ALWAYS:
        break;
    case WITH_QKV_BIAS:
        return model->qkv_bias;
    case WITH_O_BIAS:
        return model->o_bias;
    case WITH_QK_NORM:
        return model->qk_norm;
    case WITH_OWN_HEAD:
        return !model->tied_head;
    }
    return true;
}

static void shape_text(const CheckpointTensor *tensor, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < tensor->n_dims && n < size; i++) {
        n += (size_t)snprintf(text + n, size - n, i == 0 ? "%lld" : ", %lld", (long long)tensor->shape[i]);
    }
    if (n < size) snprintf(text + n, size - n, "] %s", tensor->type_name);
}

static Status check_tensor(const Model *model, const WeightInfo *info, const CheckpointTensor *tensor,
                           Error *error) {
    int64_t rows = dim_size(&model->shape, info->rows), cols = dim_size(&model->shape, info->cols);
    const char *path = checkpoint_file(model->checkpoint, tensor->file, NULL);
    bool is_vector = info->rows == DIM_NONE;
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
                         "q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k: take another variant of the model",
                         path, tensor->name, tensor->type_name);
    }
    if (is_vector && dtype_block_size(tensor->type) != 1) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: tensor %s has type %s; a vector must be f32, f16 or bf16", path, tensor->name,
                         tensor->type_name);
    }
    return STATUS_OK;
}

static Status take_weight(Model *model, const WeightInfo *info, const char *name, void *weights,
                          Error *error) {
    Matrix *matrix = (Matrix *)(void *)((char *)weights + info->offset);
    *matrix = (Matrix){0};
    if (!is_present(model, info->presence)) return STATUS_OK;
    const CheckpointTensor *tensor = checkpoint_find(model->checkpoint, name);
    if (tensor == NULL) {
        return error_set(error, STATUS_FILE,
                         "%s: tensor %s is missing: the model is incomplete, or no %s model",
                         checkpoint_path(model->checkpoint), name, model->architecture);
    }
    Status status = check_tensor(model, info, tensor, error);
    if (status != STATUS_OK) return status;
    matrix->type = tensor->type;
    matrix->rows = dim_size(&model->shape, info->rows);
    matrix->cols = dim_size(&model->shape, info->cols);
    matrix->data = tensor->data;
    model->n_parameters += matrix->rows * matrix->cols;
    model->weight_bytes += (int64_t)tensor->bytes;
    return STATUS_OK;
}

Status model_read_weights(Model *model, const ParamSource *source, Error *error) {
    bool is_gguf = source->config == NULL;
    model->layers = calloc((size_t)model->shape.n_layers, sizeof *model->layers);
    if (model->layers == NULL) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    for (size_t i = 0; i < sizeof HEAD_WEIGHTS / sizeof *HEAD_WEIGHTS; i++) {
        const WeightInfo *info = &HEAD_WEIGHTS[i];
        Status status = take_weight(model, info, is_gguf ? info->gguf : info->hf, &model->head, error);
        if (status != STATUS_OK) return status;
    }
    if (model->tied_head) model->head.output = model->head.embedding;
    for (int layer = 0; layer < model->shape.n_layers; layer++) {
        for (size_t i = 0; i < sizeof LAYER_WEIGHTS / sizeof *LAYER_WEIGHTS; i++) {
            const WeightInfo *info = &LAYER_WEIGHTS[i];
            char name[96];
            snprintf(name, sizeof name, is_gguf ? "blk.%d.%s" : "model.layers.%d.%s", layer,
                     is_gguf ? info->gguf : info->hf);
            Status status = take_weight(model, info, name, &model->layers[layer], error);
            if (status != STATUS_OK) return status;
        }
    }
    return STATUS_OK;
}
