// A model described by values: sliding windows, opening, memory arithmetic.
#include "engine/model/model_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_WINDOW_LAYERS = 28 };

// ---- sliding windows -----------------------------------------------------------------------------------

static Status windows_from_layer_types(Model *model, const ParamSource *source, const json_t *types,
                                       int window, Error *error) {
    for (int i = 0; i < model->shape.n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool sliding = type != NULL && strcmp(type, "sliding_attention") == 0;
        if (!sliding && (type == NULL || strcmp(type, "full_attention") != 0)) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: layer_types[%d] is neither \"full_attention\" nor "
                             "\"sliding_attention\"",
                             source->path, i);
        }
        model->windows[i] = sliding ? window : 0;
    }
    return STATUS_OK;
}

static Status windows_from_config(Model *model, const ParamSource *source, int window, Error *error) {
    bool used = source->architecture->window_rule == WINDOW_EVERY_LAYER;
    bool upper = source->architecture->window_rule == WINDOW_UPPER_LAYERS;
    int64_t first = upper ? DEFAULT_MAX_WINDOW_LAYERS : 0;
    Status status = STATUS_OK;
    if (upper) status = param_bool(source, (Key){"use_sliding_window", NULL}, &used, error);
    if (status == STATUS_OK && upper)
        status = param_integer(source, (Key){"max_window_layers", NULL}, &first, error);
    if (status != STATUS_OK) return status;
    const json_t *types = json_object_get(source->config, "layer_types");
    if (upper && json_is_array(types)) {
        return windows_from_layer_types(model, source, types, used ? window : 0, error);
    }
    for (int i = 0; i < model->shape.n_layers; i++) model->windows[i] = used && i >= first ? window : 0;
    return STATUS_OK;
}

// All layers, or those that a pattern of bools picks.
static Status windows_from_gguf(Model *model, const ParamSource *source, int window, Error *error) {
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", source->architecture->gguf);
    const MetaValue *pattern;
    Status status = checkpoint_get_array(source->checkpoint, key, META_BOOL, &pattern, error);
    if (status != STATUS_OK) return status;
    MetaCursor cursor = {0};
    for (int i = 0; i < model->shape.n_layers; i++) {
        MetaValue sliding = {.flag = true};
        if (pattern != NULL && !meta_next(pattern, &cursor, &sliding)) {
            return error_set(error, STATUS_FILE, "%s: %s has %lld elements for %d layers", source->path, key,
                             (long long)pattern->count, model->shape.n_layers);
        }
        model->windows[i] = sliding.flag ? window : 0;
    }
    return STATUS_OK;
}

Status model_read_windows(Model *model, const ParamSource *source, Error *error) {
    model->windows = calloc((size_t)model->shape.n_layers, sizeof *model->windows);
    if (model->windows == NULL) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    // null in config.json means none; an absent key means the configuration class's default.
    bool said = source->config == NULL || json_object_get(source->config, "sliding_window") != NULL;
    int64_t window = said ? 0 : source->architecture->default_window;
    Status status =
        param_integer(source, (Key){"sliding_window", "attention.sliding_window"}, &window, error);
    if (status != STATUS_OK) return status;
    if (window < 0 || window > INT32_MAX) {
        return error_set(error, STATUS_FILE, "%s: a sliding window of %lld tokens", source->path,
                         (long long)window);
    }
    return source->config == NULL ? windows_from_gguf(model, source, (int)window, error)
                                  : windows_from_config(model, source, (int)window, error);
}

// ---- opening -------------------------------------------------------------------------------------------

static Status check_quantization(const ParamSource *source, Error *error) {
    const json_t *quantization = json_object_get(source->config, "quantization_config");
    char method[32] = "an unnamed method";
    if (!json_is_object(quantization)) return STATUS_OK;
    Status status = json_string_at(quantization, source->path, "quant_method", method, sizeof method, error);
    if (status != STATUS_OK) return status;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s: the weights are quantised by %s, which palaver cannot read; take "
                     "the original model or a GGUF file of it",
                     source->path, method);
}

// Everything but the weights.
static Status read_params(Model *model, ParamSource *source, Error *error) {
    Status status = model_find_architecture(source, error);
    if (status != STATUS_OK) return status;
    snprintf(model->architecture, sizeof model->architecture, "%s", source->architecture->name);
    status = check_quantization(source, error);
    if (status == STATUS_OK) {
        status = param_string(source, (Key){"_name_or_path", ".general.name"}, model->name,
                              sizeof model->name, error);
    }
    if (status == STATUS_OK) status = model_read_shape(model, source, error);
    if (status == STATUS_OK) status = model_read_positions(model, source, error);
    if (status == STATUS_OK) status = model_read_windows(model, source, error);
    return status == STATUS_OK ? model_read_generation(model, source, error) : status;
}

Status model_from_checkpoint(Checkpoint *checkpoint, Model **model, Error *error) {
    *model = NULL;
    Model *created = calloc(1, sizeof *created);
    char path[512];
    if (created == NULL) {
        checkpoint_close(checkpoint);
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    created->checkpoint = checkpoint;
    ParamSource source = {.config = checkpoint_config(checkpoint),
                          .generation = checkpoint_generation_config(checkpoint),
                          .checkpoint = checkpoint,
                          .path = path};
    snprintf(path, sizeof path, source.config != NULL ? "%s/config.json" : "%s", checkpoint_path(checkpoint));
    Status status = read_params(created, &source, error);
    if (status == STATUS_OK) status = model_read_weights(created, &source, error);
    if (status != STATUS_OK) {
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
    return status == STATUS_OK ? model_from_checkpoint(checkpoint, model, error) : status;
}

Status model_from_config(const char *config, size_t config_size, const char *generation,
                         size_t generation_size, Model **model, Error *error) {
    *model = NULL;
    json_t *parsed = NULL, *parsed_generation = NULL;
    Status status = json_parse("config.json", config, config_size, &parsed, error);
    if (status == STATUS_OK && generation != NULL) {
        status = json_parse("generation_config.json", generation, generation_size, &parsed_generation, error);
    }
    Model *created = NULL;
    if (status == STATUS_OK) {
        created = calloc(1, sizeof *created);
        if (created == NULL) {
            status = STATUS_MEMORY;
            error_set(error, status, "out of memory");
        } else {
            ParamSource source = {.config = parsed, .generation = parsed_generation, .path = "config.json"};
            status = read_params(created, &source, error);
        }
    }
    json_decref(parsed);
    json_decref(parsed_generation);
    if (status != STATUS_OK) {
        model_close(created);
        return status;
    }
    *model = created;
    return STATUS_OK;
}

void model_close(Model *model) {
    if (model == NULL) return;
    checkpoint_close(model->checkpoint);
    for (int i = 0; model->gathered != NULL && i < model->shape.n_layers; i++) free(model->gathered[i]);
    free(model->gathered);
    free(model->layers);
    free(model->windows);
    free(model->inv_freq);
    free(model);
}

// ---- what follows from it --------------------------------------------------------------------------------

bool model_is_eos(const Model *model, int32_t id) {
    for (int i = 0; i < model->n_eos; i++) {
        if (model->eos_ids[i] == id) return true;
    }
    return false;
}

int model_rope_set(const Model *model, int64_t n_tokens) {
    int set = 0;
    while (set < model->shape.rope.n_sets - 1 && n_tokens > model->rope_ends[set]) set++;
    return set;
}

int64_t model_weight_bytes(const Model *model) {
    return model->weight_bytes;
}

DType model_main_type(const Model *model) {
    int64_t bytes[DTYPE_COUNT] = {0};
    for (int i = 0; i < model->shape.n_layers && model->layers != NULL; i++) {
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
