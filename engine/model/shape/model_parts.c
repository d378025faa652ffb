// Layers that are one part alone (Nemotron-H): which part each of them is.
#include "engine/model/config/param.h"
#include "engine/model/config/unread.h"
#include "engine/model/model_internal.h"

#include <string.h>

// As transformers 5 has them, as its first files had them, and as a letter of hybrid_override_pattern.
static const struct {
    const char *names[2];
    char letter;
} PARTS[] = {[PART_RECURS] = {{"linear_attention", "mamba"}, 'M'},
             [PART_ATTENDS] = {{"full_attention", "attention"}, '*'},
             [PART_DENSE] = {{"mlp", NULL}, '-'},
             [PART_EXPERTS] = {{"moe", NULL}, 'E'}};

static const char PATTERN[] = "hybrid_override_pattern";

// ---- config.json -------------------------------------------------------------------------------------------

// A list; without it the pattern says.
static const json_t *list_of(const ParamSource *source) {
    const json_t *list = json_object_get(source->config, source_config_key(source, "layer_types"));
    return list && !json_is_null(list) ? list : NULL;
}
static const char *pattern_of(const ParamSource *source) {
    const char *pattern = json_string_value(json_object_get(source->config, PATTERN));
    return pattern ? pattern : "";
}

const char *model_parts_key(const ParamSource *source) {
    const bool silent = !list_of(source) && *pattern_of(source);
    return silent ? PATTERN : source_config_key(source, "layer_types");
}

int64_t model_count_parts(const ParamSource *source) {
    const json_t *list = list_of(source);
    return (int64_t)(list ? json_array_size(list) : strlen(pattern_of(source)));
}

void model_take_parts(const ParamSource *source) {
    unread_take_key(source, NULL, source_config_key(source, "layer_types"));
    unread_take_key(source, NULL, PATTERN);
}

static LayerOfOne part_of_config(const ParamSource *source, int layer) {
    const json_t *list = list_of(source);
    const char *name = json_string_value(json_array_get(list, (size_t)layer)), *pattern = pattern_of(source);
    const char letter = !list && layer < (int64_t)strlen(pattern) ? pattern[layer] : '\0';
    for (int part = PART_RECURS; part <= PART_EXPERTS; part++) {
        if (letter && PARTS[part].letter == letter) return (LayerOfOne)part;
        for (int i = 0; i < 2 && name && PARTS[part].names[i]; i++)
            if (strcmp(PARTS[part].names[i], name) == 0) return (LayerOfOne)part;
    }
    return PART_UNKNOWN;
}

// ---- GGUF --------------------------------------------------------------------------------------------------

// A number of the layer's, of a list or of all; -1: there is none.
static int64_t number_of(const ParamSource *source, const char *key, int layer) {
    char text[KEY_SIZE];
    const MetaValue *list = checkpoint_meta(source->checkpoint, source_gguf_key(source, key, text));
    MetaValue value = {.type = META_INTEGER, .integer = -1};
    MetaCursor cursor = {0};
    if (list && list->type == META_INTEGER) return list->integer;
    if (!list || list->type != META_ARRAY || layer >= list->count) return -1;
    for (int l = 0; l <= layer; l++)
        if (!checkpoint_meta_next(list, &cursor, &value) || value.type != META_INTEGER) return -1;
    return value.integer;
}

// What has heads attends, what has a feed-forward part is it, and what has neither recurs.
static LayerOfOne part_of_gguf(const ParamSource *source, int layer) {
    const int64_t heads = number_of(source, "attention.head_count_kv", layer),
                  wide = number_of(source, "feed_forward_length", layer);
    if (heads < 0 || wide < 0 || (heads > 0 && wide > 0)) return PART_UNKNOWN;
    if (heads > 0) return PART_ATTENDS;
    return wide == 0 ? PART_RECURS : source->architecture->experts.there ? PART_EXPERTS : PART_DENSE;
}

// ---- together ----------------------------------------------------------------------------------------------

LayerOfOne model_part_of(const ParamSource *source, int layer) {
    return source->config ? part_of_config(source, layer) : part_of_gguf(source, layer);
}

bool model_has_part(const ParamSource *source, int n_layers, LayerOfOne part) {
    for (int l = 0; l < n_layers; l++)
        if (model_part_of(source, l) == part) return true;
    return false;
}

Status model_read_parts(const Model *model, const ParamSource *source, LayerHeads *heads, Error *error) {
    const int n = model->shape.n_layers;
    char text[KEY_SIZE];
    const char *key =
        source->config ? model_parts_key(source) : source_gguf_key(source, "attention.head_count_kv", text);
    if (source->config) model_take_parts(source);
    if (source->config &&
        json_is_null(json_object_get(source->config, "layer_types"))) // by which its class cannot go
        return param_refuse_null(source, NULL, "layer_types", error);
    if (source->config && model_count_parts(source) != n)
        return error_set(error, STATUS_FILE, "%s: %s should name %d layers, and names %lld", source->path,
                         key, n, (long long)model_count_parts(source));
    for (int l = 0; l < n; l++) {
        const LayerOfOne part = model_part_of(source, l);
        if (part == PART_UNKNOWN)
            return error_set(error, STATUS_UNSUPPORTED,
                             source->config
                                 ? "%s: %s: layer %d is none of \"mamba\" (M), \"attention\" (*), \"mlp\" "
                                   "(-) and \"moe\" (E)"
                                 : "%s: %s and feed_forward_length do not say which part layer %d is",
                             source->path, key, l);
        heads[l].recurs = part == PART_RECURS;
        heads[l].no_mixer = part == PART_DENSE || part == PART_EXPERTS;
        heads[l].no_ffn = !heads[l].no_mixer;
    }
    return STATUS_OK;
}
