// Hyperparameters, one name at a time, from config.json or from GGUF metadata.
#include "engine/model/model_internal.h"

#include <stdio.h>
#include <string.h>

// ---- either kind of file -----------------------------------------------------------------------------

const char *gguf_param_key(const ParamSource *source, const char *key, char text[KEY_SIZE]) {
    if (key[0] == '.') return key + 1;
    snprintf(text, KEY_SIZE, "%s.%s", source->architecture->gguf, key);
    return text;
}

const char *config_param_key(const ParamSource *source, const char *key) {
    const Architecture *a = source->architecture;
    for (size_t i = 0; a != NULL && i < sizeof a->aliases / sizeof *a->aliases; i++) {
        if (a->aliases[i].usual == NULL) break;
        if (strcmp(a->aliases[i].usual, key) != 0) continue;
        bool other = a->aliases[i].both && !json_is_set(source->config, a->aliases[i].own) &&
                     json_is_set(source->config, key);
        return other ? key : a->aliases[i].own;
    }
    return key;
}

bool json_is_set(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value);
}

bool json_same(const json_t *a, const json_t *b) {
    return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b)
                                                  : json_equal(a, b);
}

// The name under which config.json has `key`. Both names of it are read if both say the same: else the one that the class
// does not look at stays unread.
static const char *take_config_key(const ParamSource *source, const char *key) {
    const char *name = config_param_key(source, key);
    unread_take_key(source, NULL, name);
    if (strcmp(name, key) != 0 &&
        json_same(json_object_get(source->config, name), json_object_get(source->config, key)))
        unread_take_key(source, NULL, key);
    return name;
}

static const char *take_gguf_key(const ParamSource *source, const char *key, char text[KEY_SIZE]) {
    const char *name = gguf_param_key(source, key, text);
    unread_take_meta(source, name);
    return name;
}

Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error) {
    char text[KEY_SIZE];
    if ((source->config == NULL ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return source->config == NULL
               ? checkpoint_get_integer(source->checkpoint, take_gguf_key(source, key.gguf, text), value,
                                        error)
               : json_integer_at(source->config, source->path, take_config_key(source, key.hf), value, error);
}

Status param_number(const ParamSource *source, Key key, double *value, Error *error) {
    char text[KEY_SIZE];
    if ((source->config == NULL ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return source->config == NULL
               ? checkpoint_get_number(source->checkpoint, take_gguf_key(source, key.gguf, text), value,
                                       error)
               : json_number_at(source->config, source->path, take_config_key(source, key.hf), value, error);
}

Status param_bool(const ParamSource *source, Key key, bool *value, Error *error) {
    char text[KEY_SIZE];
    if ((source->config == NULL ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return source->config == NULL
               ? checkpoint_get_bool(source->checkpoint, take_gguf_key(source, key.gguf, text), value, error)
               : json_bool_at(source->config, source->path, take_config_key(source, key.hf), value, error);
}

Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error) {
    char text[KEY_SIZE];
    MetaString found = {NULL, 0};
    if ((source->config == NULL ? key.gguf : key.hf) == NULL) return STATUS_OK;
    if (source->config != NULL)
        return json_string_at(source->config, source->path, take_config_key(source, key.hf), value, size,
                              error);
    Status status =
        checkpoint_get_string(source->checkpoint, take_gguf_key(source, key.gguf, text), &found, error);
    if (status == STATUS_OK && found.data != NULL) text_copy_printable(value, size, found.data, found.length);
    return status;
}

// ---- JSON ------------------------------------------------------------------------------------------------

static Status wrong_type(const char *what, const char *key, const char *wanted, Error *error) {
    return error_set(error, STATUS_FILE, "%s: %s should be %s", what, key, wanted);
}

Status json_integer_at(const json_t *object, const char *what, const char *key, int64_t *value,
                       Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_integer(found)) return wrong_type(what, key, "an integer", error);
    *value = json_integer_value(found);
    return STATUS_OK;
}

Status json_number_at(const json_t *object, const char *what, const char *key, double *value, Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_number(found)) return wrong_type(what, key, "a number", error);
    *value = json_number_value(found);
    return STATUS_OK;
}

Status json_bool_at(const json_t *object, const char *what, const char *key, bool *value, Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_boolean(found)) return wrong_type(what, key, "true or false", error);
    *value = json_is_true(found);
    return STATUS_OK;
}

Status json_string_at(const json_t *object, const char *what, const char *key, char *value, size_t size,
                      Error *error) {
    const json_t *found = json_object_get(object, key);
    if (found == NULL || json_is_null(found)) return STATUS_OK;
    if (!json_is_string(found)) return wrong_type(what, key, "a string", error);
    text_copy_printable(value, size, json_string_value(found), json_string_length(found));
    return STATUS_OK;
}
