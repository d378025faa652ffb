#include "engine/model/param.h"

#include "engine/model/unread.h"
#include "kernels/base/text.h"

#include <stdio.h>
#include <string.h>

// The name under which config.json has `key`. Both names of it are read if both say the same: else the one that the class
// does not look at stays unread.
static const char *take_config_key(const ParamSource *source, const char *key) {
    const char *name = source_config_key(source, key);
    unread_take_key(source, NULL, name);
    if (strcmp(name, key) != 0 &&
        json_same(json_object_get(source->config, name), json_object_get(source->config, key)))
        unread_take_key(source, NULL, key);
    return name;
}

static const char *take_gguf_key(const ParamSource *source, const char *key, char text[KEY_SIZE]) {
    const char *name = source_gguf_key(source, key, text);
    unread_take_meta(source, name);
    return name;
}

Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error) {
    char text[KEY_SIZE];
    if ((!source->config ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return !source->config ? checkpoint_get_integer(source->checkpoint, take_gguf_key(source, key.gguf, text),
                                                    value, error)
                           : json_read_integer(source->config, source->path, take_config_key(source, key.hf),
                                               value, error);
}

Status param_number(const ParamSource *source, Key key, double *value, Error *error) {
    char text[KEY_SIZE];
    if ((!source->config ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return !source->config ? checkpoint_get_number(source->checkpoint, take_gguf_key(source, key.gguf, text),
                                                   value, error)
                           : json_read_number(source->config, source->path, take_config_key(source, key.hf),
                                              value, error);
}

Status param_bool(const ParamSource *source, Key key, bool *value, Error *error) {
    char text[KEY_SIZE];
    if ((!source->config ? key.gguf : key.hf) == NULL) return STATUS_OK;
    return !source->config
               ? checkpoint_get_bool(source->checkpoint, take_gguf_key(source, key.gguf, text), value, error)
               : json_read_bool(source->config, source->path, take_config_key(source, key.hf), value, error);
}

Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error) {
    char text[KEY_SIZE];
    MetaString found = {NULL, 0};
    if ((!source->config ? key.gguf : key.hf) == NULL) return STATUS_OK;
    if (source->config)
        return json_read_string(source->config, source->path, take_config_key(source, key.hf), value, size,
                                error);
    Status status =
        checkpoint_get_string(source->checkpoint, take_gguf_key(source, key.gguf, text), &found, error);
    if (!status && found.data) text_copy_printable(value, size, found.data, found.length);
    return status;
}
