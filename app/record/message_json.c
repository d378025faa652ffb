#include "app/record/message_json.h"

#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHERE_ROOM = 80 }; // bytes of a place in a message

Status message_json_keys(json_t *object, const char *where, const char *const *names, size_t n,
                         Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || !strcmp(key, names[i]);
        if (known) continue;
        int nearest = nearest_name(key, names, n);
        if (nearest < 0)
            return error_set(error, STATUS_USAGE, "%sunknown key \"%s\"", where, quote(key).text);
        return error_set(error, STATUS_USAGE, "%sunknown key \"%s\": did you mean \"%s\"?", where,
                         quote(key).text, names[nearest]);
    }
    return STATUS_OK;
}

static Status read_part(json_t *part, const char *where, FILE *out, bool first, Error *error) {
    static const char *const KEYS[] = {"type", "text"};
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    if (!json_is_object(part) || !type)
        return error_set(error, STATUS_USAGE, "%sa part is {\"type\": \"text\", \"text\": …}", where);
    if (strcmp(type, "text"))
        return error_set(error, STATUS_UNSUPPORTED, "%sa part of type \"%s\": only \"text\" can be read",
                         where, quote(type).text);
    if (message_json_keys(part, where, KEYS, 2, error)) return error->status;
    if (!json_is_string(text)) return error_set(error, STATUS_USAGE, "%sthe text is a string", where);
    if (!first) fputc('\n', out);
    fwrite(json_string_value(text), 1, json_string_length(text), out);
    return STATUS_OK;
}

// The message's content, a list of parts, becomes one string.
static Status join_parts(json_t *message, const json_t *parts, const char *where, Error *error) {
    char *text = NULL, part_where[WHERE_ROOM];
    size_t size = 0, i;
    json_t *part;
    FILE *out = open_memstream(&text, &size);
    if (!out) return error_set(error, STATUS_MEMORY, "out of memory");
    Status status = STATUS_OK;
    json_array_foreach(parts, i, part) {
        snprintf(part_where, sizeof part_where, "%.40scontent[%zu]: ", where, i);
        if (!status) status = read_part(part, part_where, out, i == 0, error);
    }
    bool ok = !fclose(out);
    if (!status && (!ok || json_object_set_new(message, "content", json_stringn(text, size))))
        status = error_set(error, STATUS_MEMORY, "out of memory");
    free(text);
    return status;
}

Status message_json_read(json_t *json, size_t i, Message *message, Error *error) {
    static const char *const KEYS[] = {"role", "content"};
    char where[WHERE_ROOM];
    snprintf(where, sizeof where, "messages[%zu]: ", i);
    if (!json_is_object(json))
        return error_set(error, STATUS_USAGE, "%sa message is {\"role\": …, \"content\": …}", where);
    if (message_json_keys(json, where, KEYS, 2, error)) return error->status;
    const json_t *role = json_object_get(json, "role"), *content = json_object_get(json, "content");
    int known = json_is_string(role) ? chat_role_find(json_string_value(role)) : -1;
    if (known < 0)
        return error_set(error, STATUS_USAGE, "%sthe role is \"system\", \"user\" or \"assistant\"", where);
    if (json_array_size(content) && join_parts(json, content, where, error)) return error->status;
    content = json_object_get(json, "content");
    if (!json_is_string(content))
        return error_set(error, STATUS_USAGE, "%sthe content is a string, or a list of text parts", where);
    *message = (Message){
        .role = (ChatRole)known, .text = json_string_value(content), .size = json_string_length(content)};
    if (known != CHAT_ASSISTANT && strlen(message->text) != message->size)
        return error_set(error, STATUS_USAGE, "%sthe content has a \\u0000, which is no text", where);
    return STATUS_OK;
}
