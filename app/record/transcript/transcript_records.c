// Reading records: every field of a journal is checked before it is used.
#include "app/record/transcript/fields.h"
#include "app/record/transcript/transcript_internal.h"
#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

static bool grow_nodes(Transcript *transcript) {
    return array_reserve(&transcript->nodes, sizeof *transcript->nodes, (size_t)transcript->tree.n, 1,
                         &transcript->n_capacity);
}

static void node_free(TranscriptNode *node) {
    free((char *)node->text);
    fields_reply_free(&node->reply);
}

// What was said, and what was answered: one of them may be missing, not both.
static Status take_said(const json_t *record, TranscriptNode *node, Error *error) {
    *node = (TranscriptNode){.role = json_object_get(record, "system") ? CHAT_SYSTEM : CHAT_USER};
    bool has_reply = json_object_get(record, "reply");
    const char *role = chat_role_name(node->role);
    char *text = NULL;
    if ((json_object_get(record, role) || !has_reply) && fields_text(record, role, NULL, &text, NULL, error))
        return error->status;
    node->text = text;
    node->size = text ? strlen(text) : 0;
    if (!has_reply || !fields_reply(record, node->size, &node->reply, error)) return STATUS_OK;
    node_free(node);
    return error->status;
}

static Status take_turn(Transcript *transcript, const json_t *record, Error *error) {
    int parent, n_evictions;
    if (fields_node(transcript, record, "parent", &parent, error)) return error->status;
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
    Status status = fields_evictions(record, &evictions, &n_evictions, error);
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
    free(transcript->asked);
    transcript->asked = NULL;
    if (node.reply.text) transcript->position = node.reply.next;
    return STATUS_OK;
}

static Status take_other_reply(Transcript *transcript, const json_t *record, Error *error) {
    int index, n_evictions;
    TreeEviction *evictions;
    TranscriptReply reply;
    if (fields_node(transcript, record, "node", &index, error)) return error->status;
    if (index == TREE_START) return fields_wrong(error, "node", "a turn");
    if (fields_reply(record, transcript->nodes[index].size, &reply, error)) return error->status;
    Status status = fields_evictions(record, &evictions, &n_evictions, error);
    if (!status) {
        status = tree_evict(&transcript->tree, index, evictions, n_evictions, error);
        free(evictions);
    }
    if (status) {
        fields_reply_free(&reply);
        return status;
    }
    fields_reply_free(&transcript->nodes[index].reply);
    transcript->nodes[index].reply = reply;
    transcript->position = reply.next;
    return STATUS_OK;
}

static Status take_forget(Transcript *transcript, const json_t *record, Error *error) {
    int index;
    TreeRange range;
    if (fields_node(transcript, record, "node", &index, error) || fields_range(record, &range, error))
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
    Status status = json_is_object(model) ? STATUS_OK : fields_wrong(error, "model", "an object");
    for (int i = 0; i < 4 && !status; i++) status = fields_text(model, fields[i], "", &texts[i], NULL, error);
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
    if (fields_count(record, "format", &format, error) || fields_count(record, "seed", &seed, error) ||
        fields_place(record, "stream", &stream, error))
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
    if (!json_is_object(values)) return fields_wrong(error, "values", "an object");
    size_t capacity = json_object_size(values);
    TranscriptSetting *settings = calloc(capacity ? capacity : 1, sizeof *settings);
    if (!settings) return error_set(error, STATUS_MEMORY, "out of memory");
    int n = 0;
    const char *key;
    json_t *value;
    json_object_foreach(values, key, value) {
        if (!json_is_string(value)) {
            settings_free(settings, n);
            return fields_wrong(error, "values", "strings only");
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
    if (fields_text(record, "text", NULL, &text, NULL, error)) return error->status;
    free(transcript->system);
    transcript->system = text;
    tree_renew_system(&transcript->tree);
    return STATUS_OK;
}

static Status take_asked(Transcript *transcript, const json_t *record, Error *error) {
    char *text = NULL;
    if (json_object_get(record, "text") && fields_text(record, "text", NULL, &text, NULL, error))
        return error->status;
    free(transcript->asked);
    transcript->asked = text;
    return STATUS_OK;
}

static Status take_head(Transcript *transcript, const json_t *record, Error *error) {
    int index;
    if (fields_node(transcript, record, "node", &index, error)) return error->status;
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
    if (fields_count(record, "seed", &seed, error) || fields_place(record, "position", &position, error))
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
                 {"talked", take_talked},     {"asked", take_asked}};
    const char *kind = json_string_value(json_object_get(record, "record"));
    if (!kind) return fields_wrong(error, "record", "what kind of record this is");
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
    free(transcript->asked);
    free(transcript->log);
    free(transcript);
}
