// Which layers look through a sliding window, and how far.
#include "engine/model/model_internal.h"
#include "engine/model/param.h"
#include "engine/model/unread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_WINDOW_LAYERS = 28 };

// ---- config.json -----------------------------------------------------------------------------------------

// What layer_types says of each layer: 1 it slides, 0 it does not.
static Status read_layer_types(const Model *model, const ParamSource *source, const json_t *types,
                               int *slides, Error *error) {
    if (json_array_size(types) != (size_t)model->shape.n_layers) {
        return error_set(error, STATUS_FILE, "%s: layer_types should be a list of %d kinds of layer",
                         source->path, model->shape.n_layers);
    }
    for (int i = 0; i < model->shape.n_layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        slides[i] = type && strcmp(type, "sliding_attention") == 0;
        if (!slides[i] && (!type || strcmp(type, "full_attention") != 0)) {
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: layer_types[%d] is neither \"full_attention\" nor "
                             "\"sliding_attention\"",
                             source->path, i);
        }
    }
    return STATUS_OK;
}

// Whether `window` is one, of fewer tokens than the context.
static bool is_window(const Model *model, int window) {
    return window > 0 && window < model->context_length;
}

// Some classes take the windows from layer_types; in the files of others they must say the same.
static Status apply_layer_types(Model *model, const ParamSource *source, int window, Error *error) {
    const json_t *types = json_object_get(source->config, "layer_types");
    bool decide = source->architecture->window_rule != WINDOW_NEVER && !source->architecture->windows_alike;
    unread_take_key(source, NULL, "layer_types");
    if (!types || json_is_null(types)) return STATUS_OK;
    int *slides = malloc((size_t)model->shape.n_layers * sizeof *slides);
    if (!slides) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    Status status = read_layer_types(model, source, types, slides, error);
    for (int i = 0; i < model->shape.n_layers && !status; i++) {
        if (slides[i] && window == 0 && decide) {
            status = error_set(error, STATUS_FILE,
                               "%s: layer_types[%d] slides, but there is no sliding_window", source->path, i);
        }
        if (decide) model->attention_windows[i] = slides[i] ? window : 0;
        bool differs = (slides[i] != 0) != (model->attention_windows[i] > 0);
        if (!decide && differs && (window == 0 || is_window(model, window))) {
            status = error_set(error, STATUS_UNSUPPORTED,
                               "%s: layer_types[%d] is \"%s\", sliding_window says otherwise, and a %s model "
                               "goes by that",
                               source->path, i, slides[i] ? "sliding_attention" : "full_attention",
                               model->architecture);
        }
    }
    free(slides);
    return status;
}

static Status windows_from_config(Model *model, const ParamSource *source, int window, Error *error) {
    const Architecture *a = source->architecture;
    bool upper = a->window_rule == WINDOW_UPPER_LAYERS, used = a->window_rule == WINDOW_EVERY_LAYER;
    // The classes whose windows it does not switch must not be told otherwise; without a window it means nothing.
    bool asked = upper ? false : is_window(model, window);
    int64_t first = DEFAULT_MAX_WINDOW_LAYERS;
    Status status = param_bool(source, (Key){"use_sliding_window", NULL}, &asked, error);
    if (!status) status = param_integer(source, (Key){"max_window_layers", NULL}, &first, error);
    if (status) return status;
    if (upper) used = asked;
    if (!upper && is_window(model, window) && asked != used) {
        return error_set(error, STATUS_UNSUPPORTED,
                         "%s: a sliding window of %d tokens is %s, which a %s model does not go by",
                         source->path, window, asked ? "asked for" : "switched off", model->architecture);
    }
    for (int i = 0; i < model->shape.n_layers; i++)
        model->attention_windows[i] = used && (!upper || i >= first) ? window : 0;
    return apply_layer_types(model, source, upper && !used ? 0 : window, error);
}

// ---- of either kind ----------------------------------------------------------------------------------------

// All layers, or those that a pattern of bools picks.
static Status windows_from_gguf(Model *model, const ParamSource *source, int window, Error *error) {
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", source->architecture->gguf);
    unread_take_meta(source, key);
    const MetaValue *pattern;
    Status status = checkpoint_get_array(source->checkpoint, key, META_BOOL, &pattern, error);
    if (status) return status;
    MetaCursor cursor = {0};
    for (int i = 0; i < model->shape.n_layers; i++) {
        MetaValue sliding = {.flag = true};
        if (pattern && !checkpoint_meta_next(pattern, &cursor, &sliding)) {
            return error_set(error, STATUS_FILE, "%s: %s has %lld elements for %d layers", source->path, key,
                             (long long)pattern->count, model->shape.n_layers);
        }
        model->attention_windows[i] = sliding.flag ? window : 0;
    }
    return STATUS_OK;
}

Status model_read_windows(Model *model, const ParamSource *source, Error *error) {
    model->attention_windows = calloc((size_t)model->shape.n_layers, sizeof *model->attention_windows);
    if (!model->attention_windows) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    // null in config.json means none; an absent key means the configuration class's default.
    bool said = !source->config || json_object_get(source->config, "sliding_window") != NULL;
    int64_t window = said ? 0 : source->architecture->default_window;
    Status status =
        param_integer(source, (Key){"sliding_window", "attention.sliding_window"}, &window, error);
    if (status) return status;
    if (window < 0 || window > INT32_MAX) {
        return error_set(error, STATUS_FILE, "%s: a sliding window of %lld tokens", source->path,
                         (long long)window);
    }
    return !source->config ? windows_from_gguf(model, source, (int)window, error)
                           : windows_from_config(model, source, (int)window, error);
}
