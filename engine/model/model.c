// A model described by values: opening, memory arithmetic.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/types.h"
#include "engine/model/config/unread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- opening -------------------------------------------------------------------------------------------

Status model_read_params(Model *model, ParamSource *source, Error *error) {
    Status status = types_check(source, error);
    if (!status) status = model_find_architecture(source, error);
    if (status) return status;
    snprintf(model->architecture, sizeof model->architecture, "%s", source->architecture->name);
    status =
        param_string(source, (Key){"_name_or_path", ".general.name"}, model->name, sizeof model->name, error);
    if (!status) status = model_read_shape(model, source, error);
    if (!status) status = model_read_experts(model, source, error);
    if (!status) status = model_read_global_head(model, source, error);
    if (!status) status = model_read_positions(model, source, error);
    if (!status) status = model_read_windows(model, source, error);
    if (!status) status = model_read_layer_ropes(model, source, error);
    if (!status) status = model_read_layer_heads(model, source, error);
    if (!status) status = model_read_convolution(model, source, error);
    if (!status) status = model_read_delta(model, source, error);
    if (!status) status = model_read_unit_norm(model, source, error);
    if (!status) status = model_read_generation(model, source, error);
    return status ? status : unread_check_keys(source, error);
}

Status model_from_checkpoint(Checkpoint *checkpoint, Model **model, Error *error) {
    *model = NULL;
    Model *created = calloc(1, sizeof *created);
    char path[512];
    if (!created) {
        checkpoint_close(checkpoint);
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    created->checkpoint = checkpoint;
    ParamSource source = {.config = checkpoint_config(checkpoint),
                          .generation = checkpoint_generation_config(checkpoint),
                          .checkpoint = checkpoint,
                          .path = path};
    snprintf(path, sizeof path, source.config ? "%s/config.json" : "%s", checkpoint_path(checkpoint));
    Unread unread;
    Status status = unread_open(&source, &unread, error);
    if (!status) status = model_read_params(created, &source, error);
    if (!status) status = model_read_weights(created, &source, error);
    if (!status) status = model_check_buffers(created, &source, error);
    if (!status)
        status = unread_check_tensors(&source, created->shape.n_layers, created->other_parts,
                                      sizeof created->other_parts, error);
    unread_close(&unread);
    if (status) {
        model_close(created);
        return status;
    }
    *model = created;
    return STATUS_OK;
}

Status model_open(const char *path, Model **model, Error *error) {
    *model = NULL;
    Checkpoint *checkpoint;
    Status status = checkpoint_open(path, &checkpoint, error);
    return status ? status : model_from_checkpoint(checkpoint, model, error);
}

void model_close(Model *model) {
    if (!model) return;
    checkpoint_close(model->checkpoint);
    for (int i = 0; model->gathered && i < model->shape.n_layers; i++) free(model->gathered[i]);
    free(model->gathered);
    for (int i = 0; model->multiplied && i < model->shape.n_layers; i++) free(model->multiplied[i]);
    free(model->multiplied);
    free(model->expert_rows);
    free(model->sink_scores);
    for (int i = 0; model->converted && i <= model->shape.n_layers; i++) free(model->converted[i]);
    free(model->converted);
    for (int i = 0; model->smoothing && i < model->shape.n_layers; i++) free(model->smoothing[i]);
    free(model->smoothing);
    free(model->file_layers);
    free(model->layers);
    free(model->attention_windows);
    free(model->normed_head);
    free(model->inv_freq);
    free(model->layer_ropes);
    free(model->unit_norm);
    free(model->layer_heads);
    free(model);
}

// ---- what follows from it --------------------------------------------------------------------------------

bool model_is_eos(const Model *model, int32_t id) {
    for (int i = 0; i < model->n_eos; i++) {
        if (model->eos_ids[i] == id) return true;
    }
    return false;
}

int64_t model_prefix(const Model *model, const int32_t *tokens, int64_t n) {
    for (int64_t i = 0; model->seen_both_ways && i < n; i++)
        if (tokens[i] == model->bos_id) return i;
    return 0;
}

int64_t model_idle_parameters(const Model *model) {
    const Experts *e = &model->shape.experts;
    int64_t matrices = 0;
    for (int l = 0; l < model->shape.n_layers; l++)
        if (model->layers[l].router.data) matrices += model->layers[l].w_gate.data ? 3 : 2;
    return matrices * (e->n - e->n_active) * e->size * model->shape.hidden_size;
}

int64_t model_idle_bytes(const Model *model) {
    const Experts *e = &model->shape.experts;
    int64_t bytes = 0;
    for (int l = 0; l < model->shape.n_layers; l++) {
        const LayerWeights *layer = &model->layers[l];
        const Matrix *matrices[] = {&layer->w_gate, &layer->w_up, &layer->w_down};
        for (int i = 0; i < 3 && layer->router.data; i++)
            bytes += matrices[i]->rows / e->n * (e->n - e->n_active) *
                     dtype_row_bytes(matrices[i]->type, matrices[i]->cols);
    }
    return bytes;
}

int64_t model_weight_bytes(const Model *model) {
    return model->weight_bytes + model->converted_bytes;
}

DType model_main_type(const Model *model) {
    int64_t bytes[DTYPE_COUNT] = {0};
    for (int i = 0; i < model->shape.n_layers && model->layers; i++) {
        const LayerWeights *layer = &model->layers[i];
        const Matrix *matrices[] = {&layer->wq,     &layer->wk,   &layer->wv,     &layer->wo,
                                    &layer->w_gate, &layer->w_up, &layer->w_down, NULL};
        for (int j = 0; matrices[j] != NULL; j++) {
            DType type = matrices[j]->type;
            bytes[type] += matrices[j]->rows * dtype_row_bytes(type, matrices[j]->cols);
        }
    }
    DType most = DTYPE_F32;
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (bytes[type] > bytes[most]) most = (DType)type;
    }
    return most;
}
