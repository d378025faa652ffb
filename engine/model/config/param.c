#include "engine/model/config/param.h"

#include "engine/model/config/unread.h"
#include "kernels/base/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Keys whose null says something to transformers: none of it, or what follows from the others.
static const char *const NULLABLE[] = {
    "_name_or_path",          "num_key_value_heads",     "head_dim",    "sliding_window",
    "bos_token_id",           "num_local_experts",       "num_experts", "word_embed_proj_dim",
    "attn_logit_softcapping", "final_logit_softcapping", "q_lora_rank"};

// A null where a value counts fails in transformers. What the sizes of the feed-forward part follow from is the
// architecture's.
static Status check_null(const ParamSource *source, const char *key, const char *name, Error *error) {
    if (!json_is_null(json_object_get(source->config, name))) return STATUS_OK;
    const bool told = strcmp(key, "head_dim") == 0 && source->architecture->head_dim_told;
    for (size_t i = 0; i < sizeof NULLABLE / sizeof *NULLABLE && !told; i++)
        if (strcmp(NULLABLE[i], key) == 0) return STATUS_OK;
    if (strcmp(key, "intermediate_size") == 0 && source->architecture->ffn_ratio > 0) return STATUS_OK;
    return param_refuse_null(source, NULL, name, error);
}

Status param_refuse_null(const ParamSource *source, const char *object, const char *name, Error *error) {
    return error_set(error, STATUS_FILE,
                     "%s: %s%s%s is null, which is no value of it; if its default is meant, take it out of "
                     "the file",
                     source->path, object ? object : "", object ? "." : "", name);
}

// The name under which the files have `key`, perhaps in `text`; *name is NULL if they have none. Both names that
// config.json may have for it are read if both say the same: else the one that the class does not look at stays unread.
static Status take_key(const ParamSource *source, Key key, char text[KEY_SIZE], const char **name,
                       Error *error) {
    *name = NULL;
    if ((!source->config ? key.gguf : key.hf) == NULL) return STATUS_OK;
    if (!source->config) {
        *name = source_gguf_key(source, key.gguf, text);
        unread_take_meta(source, *name);
        return STATUS_OK;
    }
    *name = source_config_key(source, key.hf);
    unread_take_key(source, NULL, *name);
    if (strcmp(*name, key.hf) != 0 &&
        json_same(json_object_get(source->config, *name), json_object_get(source->config, key.hf)))
        unread_take_key(source, NULL, key.hf);
    return check_null(source, key.hf, *name, error);
}

Status param_integer(const ParamSource *source, Key key, int64_t *value, Error *error) {
    char text[KEY_SIZE];
    const char *name;
    Status status = take_key(source, key, text, &name, error);
    if (status || !name) return status;
    return !source->config ? checkpoint_get_integer(source->checkpoint, name, value, error)
                           : json_read_integer(source->config, source->path, name, value, error);
}

Status param_number(const ParamSource *source, Key key, double *value, Error *error) {
    char text[KEY_SIZE];
    const char *name;
    Status status = take_key(source, key, text, &name, error);
    if (status || !name) return status;
    return !source->config ? checkpoint_get_number(source->checkpoint, name, value, error)
                           : json_read_number(source->config, source->path, name, value, error);
}

Status param_bool(const ParamSource *source, Key key, bool *value, Error *error) {
    char text[KEY_SIZE];
    const char *name;
    Status status = take_key(source, key, text, &name, error);
    if (status || !name) return status;
    return !source->config ? checkpoint_get_bool(source->checkpoint, name, value, error)
                           : json_read_bool(source->config, source->path, name, value, error);
}

Status param_string(const ParamSource *source, Key key, char *value, size_t size, Error *error) {
    char text[KEY_SIZE];
    const char *name;
    MetaString found = {NULL, 0};
    Status status = take_key(source, key, text, &name, error);
    if (status || !name) return status;
    if (source->config) return json_read_string(source->config, source->path, name, value, size, error);
    status = checkpoint_get_string(source->checkpoint, name, &found, error);
    if (!status && found.data) text_copy_printable(value, size, found.data, found.length);
    return status;
}

// ---- for messages ----------------------------------------------------------------------------------------

const char *param_json_text(const json_t *value, char text[VALUE_SIZE]) {
    char *whole = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    snprintf(text, VALUE_SIZE, "%s", quote(whole ? whole : "?").text);
    free(whole);
    return text;
}

const char *param_meta_text(const MetaValue *value, char text[VALUE_SIZE]) {
    switch (value->type) {
    case META_INTEGER:
        snprintf(text, VALUE_SIZE, "%lld", (long long)value->integer);
        break;
    case META_NUMBER:
        snprintf(text, VALUE_SIZE, "%g", value->number);
        break;
    case META_BOOL:
        snprintf(text, VALUE_SIZE, "%s", value->flag ? "true" : "false");
        break;
    case META_ARRAY:
        snprintf(text, VALUE_SIZE, "an array");
        break;
    case META_STRING:
        snprintf(text, VALUE_SIZE, "\"%s\"", quote_bytes(value->string.data, value->string.length).text);
    }
    return text;
}
