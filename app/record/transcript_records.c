// Reading records: every field of a journal is checked before it is used.
#include "app/record/transcript_internal.h"
#include "kernels/base/array.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const int64_t LAST_PLACE = (int64_t)1 << 62;

static Status bad_field(Error *error, const char *field, const char *wanted) {
    return error_set(error, STATUS_FILE, "\"%s\": expected %s", field, wanted);
}

// A copy of a string field with its size; `fallback` (may be NULL: required) where it is missing.
static Status take_text(const json_t *record, const char *field, const char *fallback, char **text,
                        size_t *size, Error *error) {
    const json_t *value = json_object_get(record, field);
    const char *from = fallback;
    size_t length = fallback ? strlen(fallback) : 0;
    if (value) {
        if (!json_is_string(value)) return bad_field(error, field, "a string");
        from = json_string_value(value);
        length = json_string_length(value);
    } else if (!fallback) {
        return bad_field(error, field, "a string, but there is none");
    }
    if (!(*text = malloc(length + 1))) return error_set(error, STATUS_MEMORY, "out of memory");
    memcpy(*text, from, length);
    (*text)[length] = 0;
    if (size) *size = length;
    return STATUS_OK;
}

// A count of at least 0; where it is missing, 0.
static Status take_count(const json_t *record, const char *field, int64_t *value, Error *error) {
    const json_t *found = json_object_get(record, field);
    *value = 0;
    if (!found) return STATUS_OK;
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return bad_field(error, field, "a number from 0 on");
    *value = json_integer_value(found);
    return STATUS_OK;
}

// A count from which random numbers go on: far from where int64_t ends.
static Status take_place(const json_t *record, const char *field, int64_t *value, Error *error) {
    if (take_count(record, field, value, error)) return error->status;
    return *value < LAST_PLACE ? STATUS_OK : bad_field(error, field, "a number below 2^62");
}

// "3.1" → index of that node; "0" → TREE_START.
static Status take_node(const Transcript *transcript, const json_t *record, const char *field, int *index,
                        Error *error) {
    const char *name = json_string_value(json_object_get(record, field));
    *index = name ? tree_find(&transcript->tree, name) : TREE_NONE;
    if (!name) return bad_field(error, field, "a node such as \"3.1\"");
    if (*index != TREE_NONE) return STATUS_OK;
    return error_set(error, STATUS_FILE, "\"%s\": there is no node %.24s", field, name);
}

static Status take_ids(const json_t *record, TranscriptReply *reply, Error *error) {
    const json_t *ids = json_object_get(record, "ids");
    if (!ids) return STATUS_OK;
    if (!json_is_array(ids)) return bad_field(error, "ids", "a list of token ids");
    size_t n = json_array_size(ids);
    int32_t *copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy) return error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) {
            free(copy);
            return bad_field(error, "ids", "token ids only");
        }
        copy[i] = (int32_t)json_integer_value(id);
    }
    reply->ids = copy;
    reply->n_ids = (int64_t)n;
    return STATUS_OK;
}

static void reply_free(TranscriptReply *reply) {
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
    return ok ? STATUS_OK : bad_field(error, "left_out", "two places in the text, in order");
}

static Status take_reply_facts(const json_t *record, TranscriptReply *reply, Error *error) {
    ReplyReport *report = &reply->report;
    const json_t *tokens = json_object_get(record, "tokens");
    const json_t *seconds = json_object_get(record, "seconds");
    int64_t seed, position, next;
    if (take_count(record, "gone", &reply->n_evicted, error) || take_count(record, "seed", &seed, error) ||
        take_place(record, "position", &position, error) || take_place(record, "next", &next, error) ||
        take_count(tokens, "cached", &report->cached, error) ||
        take_count(tokens, "read", &report->read, error) ||
        take_count(tokens, "reply", &report->n_reply, error) ||
        take_count(tokens, "used", &report->used, error) ||
        take_count(tokens, "size", &report->context_size, error))
        return error->status;
    if (reply->n_evicted > reply->n_ids) return bad_field(error, "gone", "no more than there are ids");
    reply->seed = (uint64_t)seed;
    reply->position = (uint64_t)position;
    reply->next = (uint64_t)next;
    reply->interrupted = json_is_true(json_object_get(record, "interrupted"));
    report->finish = finish_of(json_string_value(json_object_get(record, "finish")));
    report->first_token_seconds = json_number_value(json_object_get(seconds, "first"));
    report->decode_seconds = json_number_value(json_object_get(seconds, "decode"));
    return STATUS_OK;
}

// The answer to a text of `size` bytes.
static Status take_reply(const json_t *record, size_t size, TranscriptReply *reply, Error *error) {
    *reply = (TranscriptReply){0};
    char *text;
    if (take_text(record, "reply", NULL, &text, &reply->size, error)) return error->status;
    reply->text = text;
    if (take_ids(record, reply, error) || take_left_out(record, size, reply, error) ||
        take_reply_facts(record, reply, error)) {
        reply_free(reply);
        return error->status;
    }
    return STATUS_OK;
}

// "first" and "last" of a record: turns.
static Status take_range(const json_t *record, TreeRange *range, Error *error) {
    int64_t first, last;
    *range = (TreeRange){0};
    if (take_count(record, "first", &first, error) || take_count(record, "last", &last, error))
        return error->status;
    *range = (TreeRange){first < INT_MAX ? (int)first : INT_MAX, last < INT_MAX ? (int)last : INT_MAX};
    return STATUS_OK;
}

// A turn that left in part: some tokens of its reply, or all of the reply.
static Status take_part(const json_t *part, TreeEviction *eviction, Error *error) {
    int64_t turn, gone;
    if (take_count(part, "turn", &turn, error) || take_count(part, "gone", &gone, error))
        return error->status;
    int number = turn < INT_MAX ? (int)turn : INT_MAX;
    *eviction = (TreeEviction){{number, number}, gone ? gone : TREE_REPLY};
    return STATUS_OK;
}

// What the record's overflow events sent out of the window; *evictions is malloc'ed.
static Status take_overflow(const json_t *record, TreeEviction **evictions, int *n, Error *error) {
    const json_t *events = json_object_get(record, "overflow");
    size_t room = json_array_size(events), i, k;
    json_t *event, *part;
    json_array_foreach(events, i, event) room += json_array_size(json_object_get(event, "partly"));
    *n = 0;
    if (!(*evictions = calloc(room + 1, sizeof **evictions)))
        return error_set(error, STATUS_MEMORY, "out of memory");
    Status status = STATUS_OK;
    json_array_foreach(events, i, event) {
        if (!status) status = take_range(event, &(*evictions)[*n].turns, error);
        *n += !status && (*evictions)[*n].turns.first > 0;
        json_array_foreach(json_object_get(event, "partly"), k, part) if (!status) {
            status = take_part(part, &(*evictions)[*n], error);
            ++*n;
        }
    }
    if (status) free(*evictions);
    return status;
}

static bool grow_nodes(Transcript *transcript) {
    return array_reserve(&transcript->nodes, sizeof *transcript->nodes, (size_t)transcript->tree.n, 1,
                         &transcript->n_capacity);
}

static void node_free(TranscriptNode *node) {
    free((char *)node->text);
    reply_free(&node->reply);
}

// What was said, and what was answered: one of them may be missing, not both.
static Status take_said(const json_t *record, TranscriptNode *node, Error *error) {
    *node = (TranscriptNode){.role = json_object_get(record, "system") ? CHAT_SYSTEM : CHAT_USER};
    bool has_reply = json_object_get(record, "reply");
    const char *role = chat_role_name(node->role);
    char *text = NULL;
    if ((json_object_get(record, role) || !has_reply) &&
        take_text(record, role, NULL, &text, &node->size, error))
        return error->status;
    node->text = text;
    if (!has_reply || !take_reply(record, node->size, &node->reply, error)) return STATUS_OK;
    node_free(node);
    return error->status;
}

static Status take_turn(Transcript *transcript, const json_t *record, Error *error) {
    int parent, n_evictions;
    if (take_node(transcript, record, "parent", &parent, error)) return error->status;
    char expected[TREE_NAME_ROOM];
    snprintf(expected, sizeof expected, "%d.%d", tree_turn(&transcript->tree, parent) + 1,
             tree_next_attempt(&transcript->tree, parent));
    const char *name = json_string_value(json_object_get(record, "node"));
    if (!name || strcmp(name, expected))
        return error_set(error, STATUS_FILE, "\"node\": expected \"%s\", not \"%.24s\"", expected,
                         name ? name : "");
    TranscriptNode node;
    TreeEviction *evictions;
    if (take_said(record, &node, error)) return error->status;
    Status status = take_overflow(record, &evictions, &n_evictions, error);
    if (status) {
        node_free(&node);
        return status;
    }
    if (!grow_nodes(transcript)) status = error_set(error, STATUS_MEMORY, "out of memory");
    if (!status) status = tree_add(&transcript->tree, parent, evictions, n_evictions, error);
    free(evictions);
    if (status) {
        node_free(&node);
        return status;
    }
    transcript->nodes[transcript->tree.head] = node;
    if (node.reply.text) transcript->position = node.reply.next;
    return STATUS_OK;
}

static Status take_other_reply(Transcript *transcript, const json_t *record, Error *error) {
    int index, n_evictions;
    TreeEviction *evictions;
    TranscriptReply reply;
    if (take_node(transcript, record, "node", &index, error)) return error->status;
    if (index == TREE_START) return bad_field(error, "node", "a turn");
    if (take_reply(record, transcript->nodes[index].size, &reply, error)) return error->status;
    Status status = take_overflow(record, &evictions, &n_evictions, error);
    if (!status) {
        status = tree_evict(&transcript->tree, index, evictions, n_evictions, error);
        free(evictions);
    }
    if (status) {
        reply_free(&reply);
        return status;
    }
    reply_free(&transcript->nodes[index].reply);
    transcript->nodes[index].reply = reply;
    transcript->position = reply.next;
    return STATUS_OK;
}

static Status take_forget(Transcript *transcript, const json_t *record, Error *error) {
    int index;
    TreeRange range;
    if (take_node(transcript, record, "node", &index, error) || take_range(record, &range, error))
        return error->status;
    tree_forget(&transcript->tree, index, range);
    return STATUS_OK;
}

// Ids mean nothing to another model or template: from here on only the texts count.
static void drop_ids(Transcript *transcript) {
    for (int i = 0; i < transcript->tree.n; i++) transcript_drop_ids(transcript, i);
}

static Status take_model(Transcript *transcript, const json_t *record, Error *error) {
    const json_t *model = json_object_get(record, "model");
    char *texts[4] = {NULL};
    static const char *const fields[4] = {"name", "path", "fingerprint", "template"};
    Status status = json_is_object(model) ? STATUS_OK : bad_field(error, "model", "an object");
    for (int i = 0; i < 4 && !status; i++) status = take_text(model, fields[i], "", &texts[i], NULL, error);
    if (status) {
        for (int i = 0; i < 4; i++) free(texts[i]);
        return status;
    }
    bool other = transcript->fingerprint &&
                 (strcmp(transcript->fingerprint, texts[2]) || strcmp(transcript->chat_template, texts[3]));
    if (other) drop_ids(transcript);
    char **held[4] = {&transcript->name, &transcript->path, &transcript->fingerprint,
                      &transcript->chat_template};
    for (int i = 0; i < 4; i++) {
        free(*held[i]);
        *held[i] = texts[i];
    }
    return STATUS_OK;
}

static Status take_header(Transcript *transcript, const json_t *record, Error *error) {
    int64_t format, seed, stream;
    if (transcript->has_header) return error_set(error, STATUS_FILE, "a second header");
    if (take_count(record, "format", &format, error) || take_count(record, "seed", &seed, error) ||
        take_place(record, "stream", &stream, error))
        return error->status;
    if (format < 1 || format > TRANSCRIPT_FORMAT)
        return error_set(error, STATUS_UNSUPPORTED, "format %lld; this palaver reads formats 1 to %d",
                         (long long)format, TRANSCRIPT_FORMAT);
    if (take_model(transcript, record, error)) return error->status;
    const char *by = json_string_value(json_object_get(record, "by"));
    transcript->script = by && !strcmp(by, "script");
    transcript->seed = (uint64_t)seed;
    transcript->stream = (uint64_t)stream;
    transcript->has_header = true;
    return STATUS_OK;
}

static void settings_free(TranscriptSetting *settings, int n) {
    for (int i = 0; i < n; i++) {
        free((char *)settings[i].key);
        free((char *)settings[i].text);
    }
    free(settings);
}

static Status take_settings(Transcript *transcript, const json_t *record, Error *error) {
    json_t *values = json_object_get(record, "values");
    const json_t *session = json_object_get(record, "session");
    if (!json_is_object(values)) return bad_field(error, "values", "an object");
    size_t capacity = json_object_size(values);
    TranscriptSetting *settings = calloc(capacity ? capacity : 1, sizeof *settings);
    if (!settings) return error_set(error, STATUS_MEMORY, "out of memory");
    int n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(values, key, value) {
        if (!json_is_string(value)) {
            settings_free(settings, n);
            return bad_field(error, "values", "strings only");
        }
        bool by_hand = false;
        for (size_t i = 0; i < json_array_size(session); i++) {
            const char *name = json_string_value(json_array_get(session, i));
            by_hand = by_hand || (name && !strcmp(name, key));
        }
        settings[n] = (TranscriptSetting){strdup(key), strdup(json_string_value(value)), by_hand};
        n++;
        if (settings[n - 1].key && settings[n - 1].text) continue;
        settings_free(settings, n);
        return error_set(error, STATUS_MEMORY, "out of memory");
    }
    settings_free(transcript->settings, transcript->n_settings);
    transcript->settings = settings;
    transcript->n_settings = n;
    return STATUS_OK;
}

static Status take_system(Transcript *transcript, const json_t *record, Error *error) {
    char *text;
    if (take_text(record, "text", NULL, &text, NULL, error)) return error->status;
    free(transcript->system);
    transcript->system = text;
    return STATUS_OK;
}

static Status take_head(Transcript *transcript, const json_t *record, Error *error) {
    int index;
    if (take_node(transcript, record, "node", &index, error)) return error->status;
    tree_go(&transcript->tree, index);
    return STATUS_OK;
}

static Status take_talked(Transcript *transcript, const json_t *record, Error *error) {
    (void)record, (void)error;
    transcript->script = false;
    return STATUS_OK;
}

static Status take_seed(Transcript *transcript, const json_t *record, Error *error) {
    int64_t seed, position;
    if (take_count(record, "seed", &seed, error) || take_place(record, "position", &position, error))
        return error->status;
    transcript->seed = (uint64_t)seed;
    transcript->position = (uint64_t)position;
    return STATUS_OK;
}

Status transcript_take_record(Transcript *transcript, const json_t *record, Error *error) {
    static const struct {
        const char *kind;
        Status (*take)(Transcript *transcript, const json_t *record, Error *error);
    } kinds[] = {{"palaver", take_header},    {"model", take_model}, {"system", take_system},
                 {"settings", take_settings}, {"turn", take_turn},   {"reply", take_other_reply},
                 {"head", take_head},         {"seed", take_seed},   {"forget", take_forget},
                 {"talked", take_talked}};
    const char *kind = json_string_value(json_object_get(record, "record"));
    if (!kind) return bad_field(error, "record", "what kind of record this is");
    if (!transcript->has_header && strcmp(kind, "palaver"))
        return error_set(error, STATUS_FILE, "not a conversation of palaver: its header is missing");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kind, kinds[i].kind)) return kinds[i].take(transcript, record, error);
    return STATUS_OK; // of a later version, and no part of the tree
}

void transcript_free(Transcript *transcript) {
    if (!transcript) return;
    for (int i = 0; i < transcript->tree.n; i++) node_free(&transcript->nodes[i]);
    free(transcript->nodes);
    tree_free(&transcript->tree);
    settings_free(transcript->settings, transcript->n_settings);
    free(transcript->name);
    free(transcript->path);
    free(transcript->fingerprint);
    free(transcript->chat_template);
    free(transcript->system);
    free(transcript->log);
    free(transcript);
}
