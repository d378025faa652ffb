// Layers of assignments, and the fields computed from them.
#include "config/config_internal.h"
#include "config/config_unknown.h"
#include "config/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void compute_fields(Config *config) {
    const ConfigKey *keys = config->table->keys;
    for (size_t i = 0; i < config->table->n_keys; i++)
        value_store(&keys[i], &layers_effective(config->layers, &keys[i])->value, config);
}

Status config_merge(Config *config, ConfigLayers *added, Error *error) {
    if (!layers_reserve(config->layers, added->count)) {
        layers_free(added);
        return error_no_memory(error, "the settings");
    }
    for (size_t i = 0; i < added->count; i++) layers_put(config->layers, added->items[i]);
    added->count = 0;
    layers_free(added);
    compute_fields(config);
    return STATUS_OK;
}

// ---- life --------------------------------------------------------------------------------------------

// An empty Config, all other fields as in `like` (NULL: zero).
static Status begin(const ConfigTable *table, Config *config, const Config *like, Error *error) {
    if (like)
        memcpy(config, like, table->size);
    else
        memset(config, 0, table->size);
    config->table = table;
    config->layers = calloc(1, sizeof *config->layers);
    return config->layers ? STATUS_OK : error_no_memory(error, "the settings");
}

Status config_init(const ConfigTable *table, Config *config, Error *error) {
    Status status = begin(table, config, NULL, error);
    if (status) return status;
    ConfigLayers built_in = {0};
    TomlNode *root = NULL;
    status = toml_parse(table->name, table->built_in, embedded_size(table->built_in, table->built_in_end),
                        &root, error);
    for (size_t i = 0; !status && i < table->n_keys; i++) {
        const ConfigKey *key = &table->keys[i];
        const TomlNode *section = toml_child(root, key->section);
        const TomlNode *node = section ? toml_child(section, key->name) : NULL;
        ConfigValue value;
        status = node ? value_from_node(key, node, &value, error)
                      : error_set(error, STATUS_FILE, "%s: %s.%s is missing", table->name, key->section,
                                  key->name);
        if (!status) status = layers_add(&built_in, key, CONFIG_BUILTIN, NULL, "built in", value, error);
    }
    toml_free(root);
    if (!status) status = config_merge(config, &built_in, error);
    if (status) {
        layers_free(&built_in);
        config_free(config);
    }
    return status;
}

void config_free(Config *config) {
    if (!config->table) return;
    if (config->layers) layers_free(config->layers);
    free(config->layers);
    memset(config, 0, config->table->size);
}

Status config_copy(Config *copy, const Config *from, Error *error) {
    Status status = begin(from->table, copy, from, error);
    for (size_t i = 0; !status && i < from->layers->count; i++) {
        const Assignment *item = &from->layers->items[i];
        ConfigValue value;
        status = value_copy(item->key, &item->value, &value, error);
        if (!status)
            status =
                layers_add(copy->layers, item->key, item->layer, item->profile, item->origin, value, error);
    }
    if (status)
        config_free(copy);
    else
        compute_fields(copy);
    return status;
}

// ---- taking away -------------------------------------------------------------------------------------

// Removes a layer's assignments: of one key, or of all when it is NULL.
static void remove_assignments(Config *config, ConfigLayer layer, const ConfigKey *key) {
    ConfigLayers *layers = config->layers;
    size_t kept = 0;
    for (size_t i = 0; i < layers->count; i++) {
        Assignment *item = &layers->items[i];
        if (item->layer == layer && !item->profile && (!key || item->key == key))
            layers_free_assignment(item);
        else
            layers->items[kept++] = *item;
    }
    layers->count = kept;
    compute_fields(config);
}

Status config_reset(Config *config, const char *key_name, Error *error) {
    const ConfigKey *key = config_key_find(config->table, key_name);
    if (!key) return config_unknown_key(config->table, key_name, error);
    remove_assignments(config, CONFIG_SESSION, key);
    return STATUS_OK;
}

void config_clear(Config *config, ConfigLayer layer) {
    if (layer != CONFIG_BUILTIN) remove_assignments(config, layer, NULL);
}

// ---- looking -----------------------------------------------------------------------------------------

const char *config_origin(const Config *config, const ConfigKey *key) {
    return layers_effective(config->layers, key)->origin;
}

ConfigLayer config_origin_layer(const Config *config, const ConfigKey *key) {
    return layers_effective(config->layers, key)->layer;
}

const char *config_profile_name(const Config *config, size_t index) {
    const ConfigLayers *layers = config->layers;
    for (size_t i = 0; i < layers->count; i++) {
        const char *profile = layers->items[i].profile;
        bool first = profile != NULL;
        for (size_t j = 0; first && j < i; j++)
            first = !layers->items[j].profile || strcmp(layers->items[j].profile, profile) != 0;
        if (first && !index--) return profile;
    }
    return NULL;
}

char *config_default_text(const ConfigTable *table) {
    const char *text = table->built_in;
    size_t length = embedded_size(text, table->built_in_end);
    char *copy = malloc(length * 2 + 1), *to = copy;
    if (!copy) return NULL;
    for (size_t i = 0; i < length; i++) {
        bool line_start = !i || text[i - 1] == '\n';
        if (line_start && text[i] >= 'a' && text[i] <= 'z') *to++ = '#';
        *to++ = text[i];
    }
    *to = 0;
    return copy;
}
