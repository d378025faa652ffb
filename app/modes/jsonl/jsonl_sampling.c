#include "app/modes/jsonl/jsonl_sampling.h"

#include "config/config_unknown.h"
#include "kernels/base/text/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- a value as the settings take it --------------------------------------------------------------------------------

#define WHOLE_TO 9007199254740992.0 // 2^53: so far a double is a whole number exactly

// A number is one number in JSON, with or without .0, as some write each. What the node says is the value's, and goes with it.
static TomlNode node_of(const json_t *value) {
    TomlNode node = {.type = json_is_array(value) ? TOML_ARRAY : TOML_TABLE};
    if (json_is_string(value)) {
        node.type = TOML_STRING;
        node.string = (char *)json_string_value(value);
        node.length = json_string_length(value);
    } else if (json_is_number(value)) {
        node.number = json_number_value(value);
        const bool exact = fabs(node.number) <= WHOLE_TO && node.number == floor(node.number);
        node.type = json_is_integer(value) || exact ? TOML_INTEGER : TOML_FLOAT;
        node.integer = json_is_integer(value) ? json_integer_value(value) : exact ? (int64_t)node.number : 0;
    } else if (json_is_boolean(value)) {
        node.type = TOML_BOOLEAN;
        node.boolean = json_is_true(value);
    }
    return node;
}

static Status no_null(const ConfigKey *key, Error *error) {
    return error_set(error, STATUS_USAGE, "sampling.%s: a null stands in it", key->name);
}

// A list or an object, whose members are none.
static Status set_members(Config *config, const ConfigKey *key, json_t *value, Error *error) {
    const size_t most = json_array_size(value) + json_object_size(value);
    TomlNode whole = node_of(value), *members = calloc(most + 1, sizeof *members);
    const char *name;
    json_t *member;
    size_t i;
    bool null = false;
    if (!members) return error_no_memory(error, "the line");
    json_array_foreach(value, i, member) {
        null = null || json_is_null(member);
        members[whole.n_children++] = node_of(member);
    }
    json_object_foreach(value, name, member) {
        null = null || json_is_null(member);
        members[whole.n_children] = node_of(member);
        members[whole.n_children++].key = (char *)name;
    }
    whole.children = members;
    Status status = null ? no_null(key, error) : config_set_value(config, key->name, &whole, error);
    free(members);
    return status;
}

static Status set(Config *config, const ConfigKey *key, json_t *value, Error *error) {
    const bool own = key->type == CONFIG_TEXT || key->type == CONFIG_STRINGS, text = json_is_string(value);
    if (text && strlen(json_string_value(value)) != json_string_length(value))
        return error_set(error, STATUS_USAGE, "%s has a \\u0000", key->name);
    if (text && !own) return config_set(config, CONFIG_SESSION, key->name, json_string_value(value), error);
    if (json_is_object(value) && key == settings_key("sampling.json_schema")) {
        char *schema = json_compact(value);
        json_t *as_text = schema ? json_string(schema) : NULL;
        const TomlNode node = node_of(as_text);
        Status status =
            as_text ? config_set_value(config, key->name, &node, error) : error_no_memory(error, "the line");
        json_decref(as_text);
        free(schema);
        return status;
    }
    if (json_is_array(value) || json_is_object(value)) return set_members(config, key, value, error);
    const TomlNode node = node_of(value);
    return config_set_value(config, key->name, &node, error);
}

// ---- all of them ----------------------------------------------------------------------------------------------------

// The name under which `sampling` has the key before it does as `name`, or NULL.
static const char *named_before(json_t *sampling, const char *name, const ConfigKey *key) {
    const char *before;
    json_t *value;
    json_object_foreach(sampling, before, value) {
        if (!strcmp(before, name)) break;
        if (settings_key(before) == key) return before;
    }
    return NULL;
}

static Status read_key(Config *config, json_t *sampling, const char *name, json_t *value, Error *error) {
    const ConfigKey *key = settings_key(name);
    if (!key) return config_unknown_key(settings_table(), name, error);
    if (strcmp(key->section, "sampling"))
        return error_set(error, STATUS_USAGE, "%s is a key of [%s]", key->name, key->section);
    if (key == settings_key("sampling.drafts"))
        return error_set(error, STATUS_USAGE, "%s has no meaning with --jsonl", key->name);
    const char *before = named_before(sampling, name, key);
    if (before) return error_set(error, STATUS_USAGE, "\"%s\" and \"%s\" are one key", before, name);
    return json_is_null(value) ? STATUS_OK : set(config, key, value, error);
}

Status jsonl_sampling_read(json_t *sampling, const Settings *settings, Settings **own, Error *error) {
    const char *name;
    json_t *value;
    *own = NULL;
    if (!sampling || json_is_null(sampling)) return STATUS_OK;
    if (!json_is_object(sampling))
        return error_set(error, STATUS_USAGE, "\"sampling\" is {\"KEY\": VALUE, …}");
    Settings *copy = malloc(sizeof *copy);
    if (!copy) return error_no_memory(error, "the line");
    if (settings_copy(copy, settings, error)) {
        free(copy);
        return error->status;
    }
    *own = copy;
    json_object_foreach(sampling, name, value) {
        if (read_key(&copy->config, sampling, name, value, error)) return error_prefix(error, "sampling: ");
    }
    return STATUS_OK;
}
