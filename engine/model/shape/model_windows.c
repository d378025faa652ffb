// Which layers look through a sliding window, and how far.
#include "engine/model/model_internal.h"
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MAX_WINDOW_LAYERS = 28 };
static const Key WINDOW = {"sliding_window", "attention.sliding_window"};

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

// Some classes take the windows from layer_types; some give every layer the same one, whatever layer_types says; in the
// files of those that have none it must say the same.
static Status apply_layer_types(Model *model, const ParamSource *source, int window, Error *error) {
    const json_t *types = json_object_get(source->config, "layer_types");
    const WindowRule rule = source->architecture->window_rule;
    const bool decide = rule != WINDOW_NEVER && !source->architecture->windows_alike;
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
        if (rule == WINDOW_NEVER && differs && (window == 0 || is_window(model, window))) {
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

// What to add to a layer's number for that of its place in a period, where 0 is that of a layer without a window.
static int64_t places_ahead(const Model *model, const ParamSource *source, int64_t period) {
    const bool from_last = source->architecture->periods_from_last && source->config && period > 0;
    return from_last                             ? 1 + period - model->shape.n_layers % period
           : source->architecture->window_behind ? 0
                                                 : 1;
}

// All layers but every period-th, or but the first of every period; 0: all.
static void fill_periods(Model *model, const ParamSource *source, int64_t period, int window) {
    const int64_t ahead = places_ahead(model, source, period);
    for (int i = 0; i < model->shape.n_layers; i++)
        model->attention_windows[i] = period == 0 || (i + ahead) % period != 0 ? window : 0;
}

static Status periodic_windows(Model *model, const ParamSource *source, int window, Error *error) {
    static const char PATTERN[] = "sliding_window_pattern";
    int64_t period = source->architecture->window_period;
    const json_t *types = json_object_get(source->config, "layer_types");
    const bool has_key = source->architecture->period_key;
    if (json_is_array(types) && has_key) // it decides, whatever the pattern says
        unread_take_key(source, NULL, source_config_key(source, PATTERN));
    else if (has_key) {
        Status status = param_integer(source, (Key){PATTERN, NULL}, &period, error);
        if (status) return status;
        if (period < 1 && window > 0)
            return error_set(error, STATUS_FILE, "%s: %s is %lld", source->path, PATTERN, (long long)period);
    }
    if (window == 0 && !json_is_array(types))
        return error_set(error, STATUS_FILE, "%s: layers have windows, but sliding_window is null",
                         source->path);
    fill_periods(model, source, period, window);
    return apply_layer_types(model, source, window, error);
}

static Status refuse_kinds(const ParamSource *source, int n_layers, Error *error) {
    return error_set(error, STATUS_FILE,
                     "%s: attention_types should count %d kinds of layer, \"global\" or \"local\" with a "
                     "window_size, and attention_layers say the same",
                     source->path, n_layers);
}

// GPT-Neo's list of kinds that come again and again, and how often: [[["global", "local"], 6]]; perhaps beside what it makes.
static Status local_windows(Model *model, const ParamSource *source, int window, Error *error) {
    const json_t *types = json_object_get(source->config, "attention_types"),
                 *layers = json_object_get(source->config, "attention_layers");
    const int n_layers = model->shape.n_layers;
    int64_t n = 0;
    unread_take_key(source, NULL, "attention_types");
    unread_take_key(source, NULL, "attention_layers");
    for (size_t i = 0; i < json_array_size(types) && n <= n_layers; i++) {
        const json_t *kinds = json_array_get(json_array_get(types, i), 0);
        const int64_t times = json_integer_value(json_array_get(json_array_get(types, i), 1)),
                      all = times * (int64_t)json_array_size(kinds);
        if (times < 0 || times > n_layers) return refuse_kinds(source, n_layers, error);
        for (int64_t k = 0; k < all; k++, n++) {
            const char *kind = json_string_value(json_array_get(kinds, (size_t)k % json_array_size(kinds)));
            const bool local = kind && strcmp(kind, "local") == 0;
            const json_t *again = json_array_get(layers, (size_t)n);
            if (n >= n_layers || !kind || (!local && strcmp(kind, "global") != 0) || (local && window < 1) ||
                (json_is_array(layers) &&
                 (!json_is_string(again) || strcmp(json_string_value(again), kind) != 0)))
                return refuse_kinds(source, n_layers, error);
            model->attention_windows[n] = local ? window : 0;
        }
    }
    const bool same = !layers || json_array_size(layers) == (size_t)n_layers;
    return n == n_layers && same ? STATUS_OK : refuse_kinds(source, n_layers, error);
}

static Status windows_from_config(Model *model, const ParamSource *source, int window, Error *error) {
    const Architecture *a = source->architecture;
    if (a->window_rule == WINDOW_PERIODIC) return periodic_windows(model, source, window, error);
    if (a->window_rule == WINDOW_LOCAL) return local_windows(model, source, window, error);
    if (a->window_rule == WINDOW_LISTED) return apply_layer_types(model, source, window, error);
    bool upper = a->window_rule == WINDOW_UPPER_LAYERS, used = a->window_rule == WINDOW_EVERY_LAYER;
    // The classes that have no window must not be asked for one; those that always have one do not look at the switch
    // (transformers' MistralConfig). Without a window it means nothing.
    const bool unasked = a->unasked_window_layers > 0;
    bool asked = upper ? unasked : is_window(model, window);
    int64_t first = unasked ? a->unasked_window_layers : DEFAULT_MAX_WINDOW_LAYERS;
    Status status =
        unasked ? STATUS_OK : param_bool(source, (Key){"use_sliding_window", NULL}, &asked, error);
    if (!status) status = param_integer(source, (Key){"max_window_layers", NULL}, &first, error);
    if (status) return status;
    if (upper) used = asked;
    if (!upper && !used && is_window(model, window) && asked) {
        return error_set(
            error, STATUS_UNSUPPORTED,
            "%s: a sliding window of %d tokens (%s) is asked for, which a %s model does not go by",
            source->path, window, source_short_key(source, WINDOW), model->architecture);
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
    const MetaValue *found = checkpoint_meta(source->checkpoint, key), *pattern;
    if (window == 0 && (found || source->architecture->rope_rule == ROPE_IN_WINDOWS))
        return error_set(error, STATUS_FILE,
                         "%s: layers have windows, but attention.sliding_window is missing", source->path);
    if (found && found->type == META_INTEGER) { // a period
        if (!(found->number >= 0 && found->number <= MODEL_MAX_LAYERS))
            return error_set(error, STATUS_FILE, "%s: %s is %g", source->path, key, found->number);
        fill_periods(model, source, (int64_t)found->number, window);
        return STATUS_OK;
    }
    bool periodic = source->architecture->window_rule == WINDOW_PERIODIC;
    Status status = checkpoint_get_array(source->checkpoint, key, META_BOOL, &pattern, error);
    if (status) return status;
    if (!pattern && periodic) {
        fill_periods(model, source, source->architecture->window_period, window);
        return STATUS_OK;
    }
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

// Layers that see chunks of the text, after it is known which turn: those that layer_types says, else those that turn.
static Status read_chunks(Model *model, const ParamSource *source, Error *error) {
    static const Key KEY = {"attention_chunk_size", "attention.chunk_size"};
    int64_t chunk = source->architecture->default_chunk;
    char text[KEY_SIZE];
    const json_t *types = source->config ? json_object_get(source->config, "layer_types") : NULL;
    Status status = param_integer(source, KEY, &chunk, error);
    if (status) return status;
    if (chunk < 1 || chunk > INT32_MAX)
        return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes 1 to %d", source->path,
                         source_key(source, KEY, text), (long long)chunk, INT32_MAX);
    model->chunk = (int)chunk;
    if (source->config) unread_take_key(source, NULL, "layer_types");
    const bool listed = types && !json_is_null(types);
    if (listed && json_array_size(types) != (size_t)model->shape.n_layers)
        return error_set(error, STATUS_FILE, "%s: layer_types should be a list of %d kinds of layer",
                         source->path, model->shape.n_layers);
    for (int i = 0; i < model->shape.n_layers; i++) {
        const char *type = listed ? json_string_value(json_array_get(types, (size_t)i)) : NULL;
        bool chunked = listed ? type && strcmp(type, "chunked_attention") == 0 : model->layer_ropes[i] >= 0;
        if (listed && !chunked && (!type || strcmp(type, "full_attention") != 0))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s: layer_types[%d] is neither \"full_attention\" nor \"chunked_attention\"",
                             source->path, i);
        model->attention_windows[i] = chunked ? -model->chunk : 0;
    }
    return STATUS_OK;
}

Status model_read_window_length(const ParamSource *source, int least, int64_t *window, Error *error) {
    char text[KEY_SIZE];
    Status status = param_integer(source, WINDOW, window, error);
    if (status || (*window >= least && *window <= INT32_MAX)) return status;
    return error_set(error, STATUS_FILE, "%s: %s is %lld; palaver takes %d to %d", source->path,
                     source_key(source, WINDOW, text), (long long)*window, least, INT32_MAX);
}

Status model_read_windows(Model *model, const ParamSource *source, Error *error) {
    model->attention_windows = calloc((size_t)model->shape.n_layers, sizeof *model->attention_windows);
    if (!model->attention_windows) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    if (source->architecture->window_rule == WINDOW_CHUNKS) return STATUS_OK; // model_read_layer_ropes()
    if (source->architecture->convolves) return STATUS_OK;                    // model_read_convolution()
    if (source->architecture->recurs) return STATUS_OK;                       // model_read_delta()
    // null in config.json means none; an absent key means the configuration class's default.
    bool said = !source->config || json_object_get(source->config, "sliding_window") != NULL;
    int64_t window = said ? 0 : source->architecture->default_window;
    Status status = model_read_window_length(source, 0, &window, error);
    if (status) return status;
    const json_t *used = json_object_get(source->config, "use_sliding_window");
    const bool off =
        source->architecture->window_rule == WINDOW_UPPER_LAYERS ? !json_is_true(used) : json_is_false(used);
    if (window == 0 && !off && json_is_integer(json_object_get(source->config, WINDOW.hf)))
        return error_set(error, STATUS_FILE, "%s: sliding_window is 0; palaver takes null for none",
                         source->path);
    model->sliding_window = (int)window;
    return !source->config ? windows_from_gguf(model, source, (int)window, error)
                           : windows_from_config(model, source, (int)window, error);
}

// ---- what they decide about ----------------------------------------------------------------------------------

// Every layer that no_rope_layers says 0 of, else every no_rope_layer_interval-th.
static Status list_ropes(Model *model, const ParamSource *source, Error *error) {
    int64_t interval = 4;
    Status status = param_integer(source, (Key){"no_rope_layer_interval", NULL}, &interval, error);
    const json_t *list = source->config ? json_object_get(source->config, "no_rope_layers") : NULL;
    if (source->config) unread_take_key(source, NULL, "no_rope_layers");
    if (status) return status;
    if (interval < 1)
        return error_set(error, STATUS_FILE, "%s: no_rope_layer_interval is %lld", source->path,
                         (long long)interval);
    bool listed = list && !json_is_null(list) && json_array_size(list) > 0;
    if (listed && json_array_size(list) != (size_t)model->shape.n_layers)
        return error_set(error, STATUS_FILE, "%s: no_rope_layers should be a list of %d numbers",
                         source->path, model->shape.n_layers);
    for (int i = 0; i < model->shape.n_layers; i++) {
        const json_t *turns = json_array_get(list, (size_t)i);
        if (listed && !json_is_integer(turns))
            return error_set(error, STATUS_FILE, "%s: no_rope_layers[%d] is no number", source->path, i);
        model->layer_ropes[i] = (listed ? json_integer_value(turns) != 0 : (i + 1) % interval != 0) ? 0 : -1;
    }
    return STATUS_OK;
}

// Those that have a base, in config.json, or are said to turn, in GGUF; without a list all do, or the windows' periods say it.
static Status list_turning(Model *model, const ParamSource *source, Error *error) {
    char text[KEY_SIZE];
    const char *key = source->config ? NULL : source_gguf_key(source, "attention.rope_pattern", text);
    const json_t *bases = source->config ? json_object_get(source->config, "layer_rope_theta") : NULL;
    const MetaValue *pattern = NULL;
    MetaCursor cursor = {0};
    Status status =
        key ? checkpoint_get_array(source->checkpoint, key, META_BOOL, &pattern, error) : STATUS_OK;
    if (key) unread_take_meta(source, key);
    for (int i = 0; i < model->shape.n_layers && !status; i++) {
        const int64_t period = source->architecture->window_period;
        MetaValue turns = {.flag = true};
        if (source->architecture->periods_from_last)
            turns.flag = source->config ? (i + places_ahead(model, source, period)) % period != 0
                                        : model->attention_windows[i] > 0;
        if (pattern && !checkpoint_meta_next(pattern, &cursor, &turns))
            status = error_set(error, STATUS_FILE, "%s: %s has %lld elements for %d layers", source->path,
                               key, (long long)pattern->count, model->shape.n_layers);
        if (json_is_array(bases)) turns.flag = json_number_value(json_array_get(bases, (size_t)i)) != 0;
        model->layer_ropes[i] = turns.flag ? 0 : -1;
    }
    return status;
}

// Whether all turn or none does.
static Status read_switch(const ParamSource *source, bool *turns, Error *error) {
    static const Key KEY = {"position_embedding_type", NULL};
    const bool said = source->config && json_member(source->config, KEY.hf);
    char name[32] = "nope";
    *turns = !source->config;
    if (!source->config) return param_bool(source, (Key){NULL, "rope.scaling.finetuned"}, turns, error);
    unread_take_key(source, NULL, KEY.hf);
    Status status = said ? param_string(source, KEY, name, sizeof name, error) : STATUS_OK;
    *turns = strcmp(name, "rope") == 0;
    if (status || *turns || strcmp(name, "nope") == 0) return status;
    return error_set(error, STATUS_UNSUPPORTED, "%s: %s \"%s\"; palaver knows \"rope\" and \"nope\"",
                     source->path, KEY.hf, name);
}

Status model_read_layer_ropes(Model *model, const ParamSource *source, Error *error) {
    const RopeRule rule = source->architecture->rope_rule;
    bool windowed = false, turns = false;
    for (int i = 0; i < model->shape.n_layers; i++) windowed |= model->attention_windows[i] > 0;
    const Status said = rule == ROPE_SWITCHED ? read_switch(source, &turns, error) : STATUS_OK;
    if (said || turns || rule == ROPE_ON_ALL || (rule == ROPE_BY_WINDOW && !windowed) ||
        (rule == ROPE_IN_WINDOWS_IF_ANY && model->sliding_window == 0))
        return said;
    model->layer_ropes = calloc((size_t)model->shape.n_layers, sizeof *model->layer_ropes);
    if (!model->layer_ropes) return error_set(error, STATUS_MEMORY, "%s: out of memory", source->path);
    model->shape.rope.of_layers = model->layer_ropes;
    if (rule == ROPE_LISTED) {
        Status status = list_ropes(model, source, error);
        return status || source->architecture->window_rule != WINDOW_CHUNKS
                   ? status
                   : read_chunks(model, source, error);
    }
    if (rule == ROPE_BY_BASES) return list_turning(model, source, error);
    for (int i = 0; i < model->shape.n_layers; i++) {
        bool slides = model->attention_windows[i] > 0;
        model->layer_ropes[i] = rule == ROPE_BY_WINDOW ? slides : slides ? 0 : -1;
    }
    return STATUS_OK;
}
