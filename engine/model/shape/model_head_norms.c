// Norms of the heads of queries and keys that are not one weight for all heads: layer norms of each head with its own
// weights, and norms of any kind without weights.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "kernels/cpu/loops/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEM_SIZE = 128 };

// ---- without weights ---------------------------------------------------------------------------------------

Status model_read_unit_norm(Model *model, const ParamSource *source, Error *error) {
    const Architecture *a = source->architecture;
    const int head = decoder_most_head_dim(&model->shape),
              n = a->embedding_unit_norm || a->plain_norms ? model->shape.hidden_size : head;
    const bool asked = a->unit_norms == UNIT_NORMS_TURNING;
    bool there = source->config || !asked || model->shape.experts.n != a->gguf_no_unit_norm;
    if (a->unit_norms == UNIT_NORMS_NONE && !a->value_norm && !a->plain_norms) return STATUS_OK;
    Status status = asked ? param_bool(source, (Key){"use_qk_norm", NULL}, &there, error) : STATUS_OK;
    if (status || !there) return status;
    model->unit_norm = malloc((size_t)(n > head ? n : head) * sizeof *model->unit_norm);
    if (!model->unit_norm) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    for (int i = 0; i < (n > head ? n : head); i++) model->unit_norm[i] = 1 - model->shape.norm_offset;
    return STATUS_OK;
}

static Matrix vector_of(const float *data, int64_t n) {
    return (Matrix){.type = DTYPE_F32, .rows = 1, .cols = n, .data = data};
}

void model_set_unit_norms(Model *model, const ParamSource *source) {
    const Matrix ones = vector_of(model->unit_norm, model->shape.hidden_size);
    if (source->architecture->embedding_unit_norm) model->head.embedding_norm = ones;
    if (source->architecture->plain_norms) model->head.norm = ones;
}

// Turning keeps lengths: Llama 4's norm may as well come before it. Its layers that do not turn have none.
static void set_head_norms(Model *model, const ParamSource *source, int layer) {
    const Matrix ones = vector_of(model->unit_norm, model->shape.head_dim);
    const bool of_all = source->architecture->unit_norms == UNIT_NORMS_ALL;
    if (source->architecture->unit_norms == UNIT_NORMS_NONE) return;
    if (of_all ? !source->config : model->layer_ropes && model->layer_ropes[layer] < 0) return;
    model->layers[layer].q_norm = model->layers[layer].k_norm = ones;
}

// ---- of each head --------------------------------------------------------------------------------------------

static Status missing(const Model *model, int layer, const char *stem, Error *error) {
    return error_set(error, STATUS_FILE,
                     "%s: layer %d: tensor %s.weight is missing: the model is incomplete, or no %s model",
                     checkpoint_path(model->checkpoint), layer, stem, model->architecture);
}

// One tensor [n_heads, head_dim], which Hugging Face files and GGUF have in two dimensions.
static Status take_all(Model *model, const ParamSource *source, int layer, const char *stem, int64_t n,
                       Matrix *to, Error *error) {
    const CheckpointTensor *tensor = model_find_of_layer(source, layer, stem, ".weight");
    if (!tensor) return missing(model, layer, stem, error);
    CheckpointTensor flat = *tensor;
    for (int d = 1; d < tensor->n_dims; d++) flat.shape[0] *= tensor->shape[d];
    flat.n_dims = 1;
    return model_take_tensor(model, source, &flat, 0, n, to, error);
}

// One tensor for each head, brought together at `memory`.
static Status take_each(Model *model, const ParamSource *source, int layer, const char *pattern, int n_heads,
                        float *memory, Error *error) {
    const int head = model->shape.head_dim;
    Status status = STATUS_OK;
    for (int i = 0; i < n_heads && !status; i++) {
        char stem[STEM_SIZE];
        Matrix one;
        // NOLINTNEXTLINE(clang-diagnostic-format-nonliteral): the table's own "norms.%d"
        snprintf(stem, sizeof stem, pattern, i);
        status = take_all(model, source, layer, stem, head, &one, error);
        if (!status) quant_load(one.type, one.data, 0, head, memory + (int64_t)i * head);
    }
    return status;
}

static Status gather(Model *model, const ParamSource *source, int layer, Error *error) {
    const DecoderShape *s = &model->shape;
    const Architecture *a = source->architecture;
    const int64_t q = (int64_t)s->n_heads * s->head_dim, k = (int64_t)s->n_kv_heads * s->head_dim;
    float *memory = malloc((size_t)(q + k) * sizeof *memory);
    if (!model->gathered) model->gathered = calloc((size_t)s->n_layers, sizeof *model->gathered);
    if (!memory || !model->gathered) {
        free(memory);
        return error_set(error, STATUS_MEMORY, "%s: no memory for norms of heads", source->path);
    }
    model->gathered[layer] = memory;
    Status status = take_each(model, source, layer, a->modules[MODULE_Q_NORM], s->n_heads, memory, error);
    if (!status)
        status = take_each(model, source, layer, a->modules[MODULE_K_NORM], s->n_kv_heads, memory + q, error);
    model->layers[layer].q_norm = vector_of(memory, q);
    model->layers[layer].k_norm = vector_of(memory + q, k);
    return status;
}

Status model_take_head_norms(Model *model, const ParamSource *source, int layer, Error *error) {
    const DecoderShape *s = &model->shape;
    const char *const *names = source->config ? source->architecture->modules : GGUF_MODULES;
    LayerWeights *to = &model->layers[layer];
    if (model->unit_norm && source->architecture->value_norm)
        to->v_norm = vector_of(model->unit_norm, layer_heads(s, layer).head_dim);
    if (model->unit_norm && source->architecture->plain_norms)
        to->attn_norm = to->ffn_norm = vector_of(model->unit_norm, s->hidden_size);
    if (model->unit_norm) set_head_norms(model, source, layer);
    if (!s->head_layer_norms) return STATUS_OK;
    if (strchr(names[MODULE_Q_NORM], '%')) return gather(model, source, layer, error);
    Status status = take_all(model, source, layer, names[MODULE_Q_NORM], (int64_t)s->n_heads * s->head_dim,
                             &to->q_norm, error);
    return status ? status
                  : take_all(model, source, layer, names[MODULE_K_NORM], (int64_t)s->n_kv_heads * s->head_dim,
                             &to->k_norm, error);
}
