// The chat template that comes with a model, wherever its makers put it.
#include "engine/files/checkpoint_internal.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct json_t *checkpoint_config(const Checkpoint *checkpoint) {
    return checkpoint->config;
}

const struct json_t *checkpoint_generation_config(const Checkpoint *checkpoint) {
    return checkpoint->generation;
}

static Status copy_text(const Checkpoint *checkpoint, const char *data, size_t length, char **text,
                        Error *error) {
    *text = malloc(length + 1);
    if (!*text) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    if (length > 0) memcpy(*text, data, length);
    (*text)[length] = '\0';
    return STATUS_OK;
}

static Status template_from_file(const Checkpoint *checkpoint, char **text, Error *error) {
    char *path = path_join(checkpoint->path, "chat_template.jinja");
    if (!path) return error_set(error, STATUS_MEMORY, "%s: out of memory", checkpoint->path);
    Status status = STATUS_OK;
    if (access(path, F_OK) == 0) {
        CheckpointFile file;
        status = checkpoint_file_map(path, &file, error);
        if (!status) {
            const char *data = (const char *)file.data;
            const size_t mark = utf8_mark(data, file.size);
            status = copy_text(checkpoint, data + mark, file.size - mark, text, error);
            checkpoint_file_unmap(&file);
        }
    }
    free(path);
    return status;
}

// A string, or named templates of which "default" is for chats: in a list, or an object.
static const json_t *pick_template(const json_t *value) {
    const json_t *first = NULL, *named = json_object_get(value, "default");
    if (json_is_string(value)) return value;
    if (json_is_string(named)) return named;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *entry = json_array_get(value, i), *text = json_object_get(entry, "template");
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!json_is_string(text)) continue;
        if (!first) first = text;
        if (name && strcmp(name, "default") == 0) return text;
    }
    return first;
}

static Status template_from_json(const Checkpoint *checkpoint, const char *name, char **text, Error *error) {
    json_t *config;
    Status status = checkpoint_folder_json(checkpoint, name, &config, error);
    if (status) return status;
    static const JsonTyped TYPED = {"chat_template", JSON_A_STRING | JSON_A_LIST | JSON_AN_OBJECT};
    const json_t *found = pick_template(json_object_get(config, "chat_template"));
    char what[512];
    snprintf(what, sizeof what, "%.400s/%s", checkpoint->path, name);
    status = json_check_type(config, what, &TYPED, error);
    if (!status && found)
        status = copy_text(checkpoint, json_string_value(found), json_string_length(found), text, error);
    json_decref(config);
    return status;
}

Status checkpoint_chat_template(const Checkpoint *checkpoint, char **text, Error *error) {
    *text = NULL;
    if (!checkpoint->is_folder) {
        MetaString found = {NULL, 0};
        Status status = checkpoint_get_string(checkpoint, "tokenizer.chat_template", &found, error);
        if (status || !found.data) return status;
        return copy_text(checkpoint, found.data, found.length, text, error);
    }
    Status status = template_from_file(checkpoint, text, error);
    if (!status && !*text) {
        status = template_from_json(checkpoint, "tokenizer_config.json", text, error);
    }
    // Processors keep it in a file of its own.
    if (!status && !*text) status = template_from_json(checkpoint, "chat_template.json", text, error);
    return status;
}
