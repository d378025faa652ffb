#include "app/record/transcript/fields.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const int64_t LAST_PLACE = (int64_t)1 << 62;

Status fields_wrong(Error *error, const char *field, const char *wanted) {
    return error_set(error, STATUS_FILE, "\"%s\": expected %s", field, wanted);
}

Status fields_text(const json_t *record, const char *field, const char *fallback, char **text, size_t *size,
                   Error *error) {
    const json_t *value = json_object_get(record, field);
    const char *from = fallback;
    size_t length = fallback ? strlen(fallback) : 0;
    if (value) {
        if (!json_is_string(value)) return fields_wrong(error, field, "a string");
        from = json_string_value(value);
        length = json_string_length(value);
        if (!size && strlen(from) != length) return fields_wrong(error, field, "a text without \\u0000");
    } else if (!fallback) {
        return fields_wrong(error, field, "a string, but there is none");
    }
    if (!(*text = malloc(length + 1))) return error_set(error, STATUS_MEMORY, "out of memory");
    memcpy(*text, from, length);
    (*text)[length] = 0;
    if (size) *size = length;
    return STATUS_OK;
}

Status fields_count(const json_t *record, const char *field, int64_t *value, Error *error) {
    const json_t *found = json_object_get(record, field);
    *value = 0;
    if (!found) return STATUS_OK;
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return fields_wrong(error, field, "a number from 0 on");
    *value = json_integer_value(found);
    return STATUS_OK;
}

Status fields_place(const json_t *record, const char *field, int64_t *value, Error *error) {
    if (fields_count(record, field, value, error)) return error->status;
    return *value < LAST_PLACE ? STATUS_OK : fields_wrong(error, field, "a number below 2^62");
}

Status fields_node(const Transcript *transcript, const json_t *record, const char *field, int *index,
                   Error *error) {
    const char *name = json_string_value(json_object_get(record, field));
    *index = name ? tree_find(&transcript->tree, name) : TREE_NONE;
    if (!name) return fields_wrong(error, field, "a node such as \"3.1\"");
    if (*index != TREE_NONE) return STATUS_OK;
    return error_set(error, STATUS_FILE, "\"%s\": there is no node %.24s", field, name);
}

static Status take_ids(const json_t *record, TranscriptReply *reply, Error *error) {
    const json_t *ids = json_object_get(record, "ids");
    if (!ids) return STATUS_OK;
    if (!json_is_array(ids)) return fields_wrong(error, "ids", "a list of token ids");
    size_t n = json_array_size(ids);
    int32_t *copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy) return error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            free(copy);
            return fields_wrong(error, "ids", "token ids only");
        }
        copy[i] = (int32_t)json_integer_value(id);
    }
    reply->ids = copy;
    reply->n_ids = (int64_t)n;
    return STATUS_OK;
}

void fields_reply_free(TranscriptReply *reply) {
    free((char *)reply->text);
    free((int32_t *)reply->ids);
    *reply = (TranscriptReply){0};
}

static FinishReason finish_of(const char *name) {
    for (FinishReason reason = FINISH_END; name && reason <= FINISH_INTERRUPTED; reason++)
        if (!strcmp(conversation_finish_name(reason), name)) return reason;
    return FINISH_END;
}

// Bytes of what was said, `size` of them, that were left out.
static Status take_left_out(const json_t *record, size_t size, TranscriptReply *reply, Error *error) {
    const json_t *range = json_object_get(record, "left_out");
    if (!range) return STATUS_OK;
    reply->cut_from = json_integer_value(json_array_get(range, 0));
    reply->cut_to = json_integer_value(json_array_get(range, 1));
    bool ok = reply->cut_from >= 0 && reply->cut_from < reply->cut_to && reply->cut_to <= (int64_t)size;
    return ok ? STATUS_OK : fields_wrong(error, "left_out", "two places in the text, in order");
}

static Status take_reply_facts(const json_t *record, TranscriptReply *reply, Error *error) {
    ReplyReport *report = &reply->report;
    const json_t *tokens = json_object_get(record, "tokens");
    const json_t *seconds = json_object_get(record, "seconds");
    int64_t seed, position, next;
    if (fields_count(record, "gone", &reply->n_evicted, error) ||
        fields_count(record, "seed", &seed, error) || fields_place(record, "position", &position, error) ||
        fields_place(record, "next", &next, error) ||
        fields_count(tokens, "cached", &report->cached, error) ||
        fields_count(tokens, "read", &report->read, error) ||
        fields_count(tokens, "reply", &report->n_reply, error) ||
        fields_count(tokens, "used", &report->used, error) ||
        fields_count(tokens, "size", &report->context_size, error))
        return error->status;
    if (reply->n_evicted > reply->n_ids) return fields_wrong(error, "gone", "no more than there are ids");
    reply->seed = (uint64_t)seed;
    reply->position = (uint64_t)position;
    reply->next = (uint64_t)next;
    reply->interrupted = json_is_true(json_object_get(record, "interrupted"));
    report->finish = finish_of(json_string_value(json_object_get(record, "finish")));
    report->first_token_seconds = json_number_value(json_object_get(seconds, "first"));
    report->decode_seconds = json_number_value(json_object_get(seconds, "decode"));
    return STATUS_OK;
}

Status fields_reply(const json_t *record, size_t size, TranscriptReply *reply, Error *error) {
    *reply = (TranscriptReply){0};
    char *text;
    if (fields_text(record, "reply", NULL, &text, &reply->size, error)) return error->status;
    reply->text = text;
    if (take_ids(record, reply, error) || take_left_out(record, size, reply, error) ||
        take_reply_facts(record, reply, error)) {
        fields_reply_free(reply);
        return error->status;
    }
    return STATUS_OK;
}

Status fields_range(const json_t *record, TreeRange *range, Error *error) {
    int64_t first, last;
    *range = (TreeRange){0};
    if (fields_count(record, "first", &first, error) || fields_count(record, "last", &last, error))
        return error->status;
    *range = (TreeRange){first < INT_MAX ? (int)first : INT_MAX, last < INT_MAX ? (int)last : INT_MAX};
    return STATUS_OK;
}

// A turn that was evicted in part: some tokens of its reply, or all of the reply.
static Status take_part(const json_t *part, TreeEviction *eviction, Error *error) {
    int64_t turn, gone;
    if (fields_count(part, "turn", &turn, error) || fields_count(part, "gone", &gone, error))
        return error->status;
    int number = turn < INT_MAX ? (int)turn : INT_MAX;
    *eviction = (TreeEviction){{number, number}, gone ? gone : TREE_REPLY};
    return STATUS_OK;
}

Status fields_evictions(const json_t *record, TreeEviction **evictions, int *n, Error *error) {
    const json_t *events = json_object_get(record, "overflow");
    size_t room = 2 * json_array_size(events), i, k;
    json_t *event, *part;
    json_array_foreach(events, i, event) room += json_array_size(json_object_get(event, "partly"));
    *n = 0;
    if (!(*evictions = calloc(room + 1, sizeof **evictions)))
        return error_set(error, STATUS_MEMORY, "out of memory");
    Status status = STATUS_OK;
    json_array_foreach(events, i, event) {
        if (!status) status = fields_range(event, &(*evictions)[*n].turns, error);
        *n += !status && (*evictions)[*n].turns.first > 0;
        if (!status && json_is_true(json_object_get(event, "system")))
            (*evictions)[(*n)++] = (TreeEviction){.turns = {0, 0}};
        json_array_foreach(json_object_get(event, "partly"), k, part) if (!status) {
            status = take_part(part, &(*evictions)[*n], error);
            ++*n;
        }
    }
    if (status) free(*evictions);
    return status;
}
