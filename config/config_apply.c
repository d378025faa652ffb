// Settings from parsed TOML, profiles, the environment and typed text.
#include "config/config_internal.h"
#include "config/config_unknown.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- TOML --------------------------------------------------------------------------------------------

// What is being read, and where to.
typedef struct Reading {
    const char *name; // of the file
    ConfigLayer layer;
    const char *profile; // NULL outside [profile.NAME]
    const ConfigTable *table;
    // [table->n_keys] where each key stands in the root of the file, or in the profile; NULL: nowhere yet
    const TomlNode **said;
    ConfigLayers *added;
} Reading;

static Status at_node(const Reading *reading, const TomlNode *node, Error *error) {
    return error_prefix(error, "%s:%zu:%zu: ", reading->name, node->line, node->column);
}

// TOML sees a key that is there twice only where it is spelled the same, in the same table.
static Status say_once(const Reading *reading, const ConfigKey *key, const TomlNode *node, Error *error) {
    const TomlNode **said = &reading->said[key - reading->table->keys], *before = *said;
    *said = node;
    if (!before) return STATUS_OK;
    error_set(error, STATUS_USAGE, "%s and %s of line %zu are one key, %s.%s: keep one of them", node->key,
              before->key, before->line, key->section, key->name);
    return at_node(reading, node, error);
}

static Status read_value(const Reading *reading, const ConfigKey *key, const TomlNode *node, Error *error) {
    ConfigValue value;
    if (say_once(reading, key, node, error)) return error->status;
    Status status = value_from_node(key, node, &value, error);
    if (status) return at_node(reading, node, error);
    char origin[512];
    snprintf(origin, sizeof origin, "%s:%zu", reading->name, node->line);
    return layers_add(reading->added, key, reading->layer, reading->profile, origin, value, error);
}

static Status read_section(const Reading *reading, const TomlNode *section, Error *error) {
    for (size_t i = 0; i < section->n_children; i++) {
        const TomlNode *node = &section->children[i];
        char name[64 + QUOTE_ROOM]; // no key of ours is as long as what is cut
        snprintf(name, sizeof name, "%.60s.%s", section->key, quote(node->key).text);
        const ConfigKey *key = strchr(node->key, '.') ? NULL : config_key_find(reading->table, name);
        Status status =
            key ? read_value(reading, key, node, error) : config_unknown_key(reading->table, name, error);
        if (status) return key ? status : at_node(reading, node, error);
    }
    return STATUS_OK;
}

static bool is_section(const ConfigTable *table, const char *name) {
    for (size_t i = 0; i < table->n_keys; i++)
        if (!strcmp(table->keys[i].section, name)) return true;
    return false;
}

static Status read_table(const Reading *reading, const TomlNode *table, Error *error);

static Status read_profiles(const Reading *reading, const TomlNode *profiles, Error *error) {
    if (profiles->type != TOML_TABLE || reading->profile) {
        error_set(error, STATUS_USAGE, "a profile is a section [profile.NAME]");
        return at_node(reading, profiles, error);
    }
    for (size_t i = 0; i < profiles->n_children; i++) {
        const TomlNode *node = &profiles->children[i];
        Reading inner = *reading;
        inner.profile = node->key;
        if (node->type != TOML_TABLE) {
            error_set(error, STATUS_USAGE, "a profile is a section [profile.NAME]; put %s into one",
                      quote(node->key).text);
            return at_node(reading, node, error);
        }
        Status status = read_table(&inner, node, error);
        if (status) return status;
    }
    return STATUS_OK;
}

// What a table holds: sections, and keys by their own names.
static Status read_members(const Reading *reading, const TomlNode *table, Error *error) {
    for (size_t i = 0; i < table->n_children; i++) {
        const TomlNode *node = &table->children[i];
        const ConfigKey *key = strchr(node->key, '.') ? NULL : config_key_find(reading->table, node->key);
        Status status;
        if (!strcmp(node->key, "profile")) {
            status = read_profiles(reading, node, error);
        } else if (key) {
            status = read_value(reading, key, node, error);
        } else if (node->type == TOML_TABLE && is_section(reading->table, node->key)) {
            status = read_section(reading, node, error);
        } else {
            if (is_section(reading->table, node->key))
                error_set(error, STATUS_USAGE, "%s is a section: write [%s], or a key such as %s.NAME",
                          node->key, node->key, node->key);
            else if (node->type == TOML_TABLE)
                config_unknown_section(reading->table, node->key, error);
            else
                config_unknown_key(reading->table, node->key, error);
            status = at_node(reading, node, error);
        }
        if (status) return status;
    }
    return STATUS_OK;
}

// The root, or one profile.
static Status read_table(const Reading *reading, const TomlNode *table, Error *error) {
    Reading whole = *reading;
    whole.said = calloc(reading->table->n_keys, sizeof *whole.said);
    if (!whole.said) return error_no_memory(error, reading->name);
    Status status = read_members(&whole, table, error);
    free(whole.said);
    return status;
}

Status config_apply_tree(Config *config, ConfigLayer layer, const char *name, TomlNode *root, Error *error) {
    ConfigLayers added = {0};
    Reading reading = {name, layer, NULL, config->table, NULL, &added};
    Status status = read_table(&reading, root, error);
    toml_free(root);
    if (!status) return config_merge(config, &added, error);
    layers_free(&added);
    return status;
}

// ---- profiles ----------------------------------------------------------------------------------------

static Status unknown_profile(const Config *config, const char *profile, Error *error) {
    enum { MOST = 64 };
    const char *names[MOST];
    size_t n = 0;
    while (n < MOST && (names[n] = config_profile_name(config, n))) n++;
    return config_unknown_profile(names, n, profile, error);
}

Status config_apply_profile(Config *config, ConfigLayer layer, const char *profile, Error *error) {
    ConfigLayers added = {0};
    Status status = STATUS_OK;
    for (size_t i = 0; !status && i < config->layers->count; i++) {
        const Assignment *item = &config->layers->items[i];
        // A file given with /config may hold the profile once more: its word is the later one.
        if (item->profile && !strcmp(item->profile, profile))
            status = layers_add_copy(&added, item, layer, error);
    }
    if (!status && !added.count) status = unknown_profile(config, profile, error);
    if (status) {
        layers_free(&added);
        return status;
    }
    if (layer == CONFIG_PROFILE) config_clear(config, CONFIG_PROFILE);
    return config_merge(config, &added, error);
}

// ---- typed text --------------------------------------------------------------------------------------

static Status add_text(ConfigLayers *added, ConfigLayer layer, const ConfigKey *key, const char *text,
                       Error *error) {
    char origin[160];
    if (layer == CONFIG_ENVIRONMENT) {
        config_key_environment(key, origin, sizeof origin);
    } else if (layer == CONFIG_FLAGS) {
        config_key_flag(key, origin, sizeof origin);
    } else {
        snprintf(origin, sizeof origin, "%s", layer == CONFIG_MODEL ? "generation_config.json" : "/set");
    }
    ConfigValue value;
    Status status = value_from_text(key, text, &value, error);
    if (!status) return layers_add(added, key, layer, NULL, origin, value, error);
    return layer == CONFIG_SESSION ? status : error_prefix(error, "%s: ", origin);
}

Status config_set(Config *config, ConfigLayer layer, const char *name, const char *text, Error *error) {
    const ConfigKey *key = config_key_find(config->table, name);
    if (!key) return config_unknown_key(config->table, name, error);
    ConfigLayers added = {0};
    Status status = add_text(&added, layer, key, text, error);
    return status ? status : config_merge(config, &added, error);
}

Status config_set_value(Config *config, const char *name, const TomlNode *node, Error *error) {
    const ConfigKey *key = config_key_find(config->table, name);
    if (!key) return config_unknown_key(config->table, name, error);
    ConfigLayers added = {0};
    ConfigValue value;
    Status status = value_from_node(key, node, &value, error);
    if (!status) status = layers_add(&added, key, CONFIG_SESSION, NULL, "/set", value, error);
    return status ? status : config_merge(config, &added, error);
}

static Status read_variable(const ConfigTable *table, ConfigLayers *added, const char *entry,
                            const char *equals, Error *error) {
    char variable[NEAREST_NAME_MAX];
    size_t length = (size_t)(equals - entry);
    if (length >= sizeof variable || !equals[1]) return STATUS_OK; // no key is as long; empty counts as unset
    memcpy(variable, entry, length);
    variable[length] = 0;
    for (size_t i = 0; i < table->n_keys; i++) {
        char ours[160];
        config_key_environment(&table->keys[i], ours, sizeof ours);
        if (!strcmp(variable, ours))
            return add_text(added, CONFIG_ENVIRONMENT, &table->keys[i], equals + 1, error);
    }
    return config_unknown_variable(table, variable, error);
}

Status config_apply_environment(Config *config, char *const *environment, Error *error) {
    ConfigLayers added = {0};
    for (; environment && *environment; environment++) {
        const char *equals = strchr(*environment, '=');
        if (!equals || strncmp(*environment, "PALAVER_", 8) != 0) continue;
        Status status = read_variable(config->table, &added, *environment, equals, error);
        if (status) {
            layers_free(&added);
            return status;
        }
    }
    return config_merge(config, &added, error);
}
