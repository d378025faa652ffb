#include "app/record/transcript/transcript_internal.h"
#include "kernels/base/array.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- the log ----------------------------------------------------------------------------------------------

static Status log_append(Transcript *transcript, const char *line, size_t size, Error *error) {
    if (!array_reserve(&transcript->log, 1, transcript->log_size, size + 1, &transcript->log_capacity))
        return error_set(error, STATUS_MEMORY, "out of memory for the journal");
    memcpy(transcript->log + transcript->log_size, line, size);
    transcript->log_size += size;
    transcript->log[transcript->log_size++] = '\n';
    return STATUS_OK;
}

// Writes a record and reads it back: what is in memory is always what the log says. Takes `record` over; NULL
// means that building it failed.
static Status append_record(Transcript *transcript, json_t *record, Error *error) {
    char *line = record ? json_dumps(record, JSON_COMPACT) : NULL;
    Status status = STATUS_OK;
    if (!line) {
        status = error_set(error, STATUS_MEMORY,
                           "the journal's record cannot be built: out of memory or no UTF-8");
    } else {
        size_t before = transcript->log_size;
        status = log_append(transcript, line, strlen(line), error);
        if (!status && (status = transcript_take_record(transcript, record, error)))
            transcript->log_size = before;
    }
    free(line);
    json_decref(record);
    return status;
}

const char *transcript_log(const Transcript *transcript, size_t *size) {
    *size = transcript->log_size;
    return transcript->log;
}

// ---- reading ----------------------------------------------------------------------------------------------

Status transcript_blank(Transcript **transcript, Error *error) {
    *transcript = calloc(1, sizeof **transcript);
    if (!*transcript) return error_set(error, STATUS_MEMORY, "out of memory");
    tree_init(&(*transcript)->tree);
    return STATUS_OK;
}

// One line of the log. `torn` is set when it is no JSON object at all.
static Status parse_line(Transcript *transcript, const char *line, size_t size, bool *torn, Error *error) {
    json_error_t reason;
    json_t *record = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    *torn = !json_is_object(record);
    Status status;
    if (*torn)
        status = error_set(error, STATUS_FILE, "not a JSON object: %s",
                           record ? "another value" : json_problem(&reason));
    else
        status = transcript_take_record(transcript, record, error);
    json_decref(record);
    return status ? status : log_append(transcript, line, size, error);
}

Status transcript_take_line(Transcript *transcript, const char *line, size_t size, Error *error) {
    bool torn;
    return parse_line(transcript, line, size, &torn, error);
}

static bool is_whole(const char *line, size_t size) {
    json_t *record = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    const bool whole = json_is_object(record);
    json_decref(record);
    return whole;
}

Status transcript_parse(const char *name, const char *text, size_t size, Transcript **transcript,
                        Error *error) {
    Error own;
    if (!error) error = &own;
    *transcript = NULL;
    Transcript *new;
    Status status = transcript_blank(&new, error);
    if (status) return status;
    int64_t number = 0;
    for (size_t at = 0; at < size && !status;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        bool is_last = !end || at + length + 1 == size, torn;
        // A record whose end was never written; one that lacks its line break alone is whole.
        if (!end && new->has_header && !is_whole(text + at, length)) break;
        number++;
        status = parse_line(new, text + at, length, &torn, error);
        at += length + 1;
        if (!status) continue;
        if (torn && is_last && new->has_header)
            status = STATUS_OK;
        else
            error_prefix(error, "%s:%lld: ", name, (long long)number);
    }
    if (!status && !new->has_header)
        status = error_set(error, STATUS_FILE, "%s: empty: not a conversation of palaver", name);
    if (status)
        transcript_free(new);
    else
        *transcript = new;
    return status;
}

// ---- the tree ---------------------------------------------------------------------------------------------

TranscriptHeader transcript_header(const Transcript *transcript) {
    return (TranscriptHeader){
        .model = {transcript->name, transcript->path, transcript->fingerprint, transcript->chat_template},
        .script = transcript->script,
        .seed = transcript->seed,
        .stream = transcript->stream};
}

uint64_t transcript_position(const Transcript *transcript) {
    return transcript->position;
}

const char *transcript_system(const Transcript *transcript) {
    return transcript->system ? transcript->system : "";
}

const char *transcript_asked(const Transcript *transcript) {
    return transcript->asked;
}

const Tree *transcript_tree(const Transcript *transcript) {
    return &transcript->tree;
}

const TranscriptNode *transcript_node(const Transcript *transcript, int index) {
    return &transcript->nodes[index];
}

int transcript_n_settings(const Transcript *transcript) {
    return transcript->n_settings;
}

TranscriptSetting transcript_setting(const Transcript *transcript, int index) {
    return transcript->settings[index];
}

// ---- writing ----------------------------------------------------------------------------------------------

// JSON is UTF-8; a path may be any bytes, and is then kept as it is typed, so that --resume finds it.
static json_t *utf8_to_json(const char *text) {
    const size_t size = strlen(text);
    return utf8_valid_run(text, size) == size ? json_stringn(text, size) : json_string(text_path(text).text);
}

static json_t *model_to_json(const TranscriptModel *model) {
    return json_pack("{s:o, s:o, s:s, s:s}", "name", utf8_to_json(model->name), "path",
                     utf8_to_json(model->path), "fingerprint", model->fingerprint, "template",
                     model->chat_template);
}

Status transcript_new(const TranscriptHeader *header, Transcript **transcript, Error *error) {
    if (transcript_blank(transcript, error)) return error->status;
    Transcript *new = *transcript;
    char created[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *record = json_pack("{s:s, s:i, s:s, s:s, s:s*, s:o*, s:I, s:I}", "record", "palaver", "format",
                               TRANSCRIPT_FORMAT, "version", PALAVER_VERSION, "created", created, "by",
                               header->script ? "script" : NULL, "model", model_to_json(&header->model),
                               "seed", (json_int_t)header->seed, "stream", (json_int_t)header->stream);
    Status status = append_record(new, record, error);
    if (status) {
        transcript_free(new);
        *transcript = NULL;
    }
    return status;
}

// Adds `value` (NULL: it could not be built) to a list, or drops the list: half of one is none.
static json_t *list_add(json_t *list, json_t *value) {
    if (list && !json_array_append_new(list, value)) return list;
    if (!list) json_decref(value);
    json_decref(list);
    return NULL;
}

static json_t *partly_to_json(const TranscriptOverflow *overflow) {
    json_t *list = json_array();
    for (int i = 0; i < overflow->n_partly; i++) {
        const TreeEviction *eviction = &overflow->partly[i];
        list = list_add(list, eviction->n_evicted > 0 ? json_pack("{s:i, s:I}", "turn", eviction->turns.first,
                                                                  "gone", (json_int_t)eviction->n_evicted)
                                                      : json_pack("{s:i}", "turn", eviction->turns.first));
    }
    return list;
}

static json_t *overflow_to_json(const TranscriptOverflow *overflow, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const OverflowEvent *e = &overflow[i].event;
        json_t *event =
            json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f}", "first", e->first_turn, "last",
                      e->last_turn, "discarded", (json_int_t)e->n_evicted, "kept", (json_int_t)e->n_cached,
                      "evaluated", (json_int_t)e->n_evaluated, "inside", (json_int_t)e->n_inside, "cut",
                      (json_int_t)e->n_of_reply, "seconds", e->seconds);
        bool ok = event && (!overflow[i].n_partly ||
                            !json_object_set_new(event, "partly", partly_to_json(&overflow[i])));
        if (ok && overflow[i].system) ok = !json_object_set_new(event, "system", json_true());
        if (ok && e->n_prompt) ok = !json_object_set_new(event, "prompt", json_integer(e->n_prompt));
        if (ok && overflow[i].times > 1)
            ok = !json_object_set_new(event, "times", json_integer(overflow[i].times));
        if (!ok) {
            json_decref(event);
            event = NULL;
        }
        list = list_add(list, event);
    }
    return list;
}

// Builds the JSON of a reply into `record`; false: out of memory, or text that is not UTF-8.
static bool add_reply(const TranscriptReply *reply, json_t *record) {
    const ReplyReport *report = &reply->report;
    bool ok = !json_object_set_new(record, "reply", json_stringn(reply->text, reply->size));
    if (reply->ids) {
        json_t *ids = json_array();
        for (int64_t i = 0; ids && i < reply->n_ids; i++)
            ok = !json_array_append_new(ids, json_integer(reply->ids[i])) && ok;
        ok = !json_object_set_new(record, "ids", ids) && ok;
    }
    if (reply->n_evicted) ok = !json_object_set_new(record, "gone", json_integer(reply->n_evicted)) && ok;
    if (reply->cut_to)
        ok = !json_object_set_new(
                 record, "left_out",
                 json_pack("[I, I]", (json_int_t)reply->cut_from, (json_int_t)reply->cut_to)) &&
             ok;
    if (reply->interrupted) ok = !json_object_set_new(record, "interrupted", json_true()) && ok;
    ok = !json_object_set_new(record, "finish", json_string(conversation_finish_name(report->finish))) && ok;
    ok = !json_object_set_new(record, "seed", json_integer((json_int_t)reply->seed)) && ok;
    ok = !json_object_set_new(record, "position", json_integer((json_int_t)reply->position)) && ok;
    ok = !json_object_set_new(record, "next", json_integer((json_int_t)reply->next)) && ok;
    ok = !json_object_set_new(record, "tokens",
                              json_pack("{s:I, s:I, s:I, s:I, s:I}", "cached", (json_int_t)report->cached,
                                        "read", (json_int_t)report->read, "reply",
                                        (json_int_t)report->n_reply, "used", (json_int_t)report->used, "size",
                                        (json_int_t)report->context_size)) &&
         ok;
    ok = !json_object_set_new(record, "seconds",
                              json_pack("{s:f, s:f}", "first", report->first_token_seconds, "decode",
                                        report->decode_seconds)) &&
         ok;
    if (reply->n_overflow)
        ok = !json_object_set_new(record, "overflow", overflow_to_json(reply->overflow, reply->n_overflow)) &&
             ok;
    return ok;
}

// A record with a reply in it, or NULL. Takes `record` over.
static json_t *with_reply(json_t *record, const TranscriptReply *reply) {
    if (record && add_reply(reply, record)) return record;
    json_decref(record);
    return NULL;
}

Status transcript_add_turn(Transcript *transcript, int parent, const char *why, const TranscriptNode *turn,
                           Error *error) {
    const Tree *tree = &transcript->tree;
    char node[TREE_NAME_ROOM], before[TREE_NAME_ROOM];
    snprintf(node, sizeof node, "%d.%d", tree_turn(tree, parent) + 1, tree_next_attempt(tree, parent));
    tree_name(tree, parent, before);
    json_t *record =
        json_pack("{s:s, s:s, s:s, s:s}", "record", "turn", "node", node, "parent", before, "why", why);
    if (record && turn->text &&
        json_object_set_new(record, chat_role_name(turn->role), json_stringn(turn->text, turn->size))) {
        json_decref(record);
        record = NULL;
    }
    return append_record(transcript, turn->reply.text ? with_reply(record, &turn->reply) : record, error);
}

Status transcript_set_reply(Transcript *transcript, int index, const TranscriptReply *reply, Error *error) {
    char node[TREE_NAME_ROOM];
    tree_name(&transcript->tree, index, node);
    json_t *record = json_pack("{s:s, s:s}", "record", "reply", "node", node);
    return append_record(transcript, with_reply(record, reply), error);
}

Status transcript_set_head(Transcript *transcript, int index, const char *why, Error *error) {
    char node[TREE_NAME_ROOM];
    tree_name(&transcript->tree, index, node);
    return append_record(transcript, json_pack("{s:s, s:s, s:s}", "record", "head", "node", node, "why", why),
                         error);
}

Status transcript_forget(Transcript *transcript, TreeRange turns, int64_t tokens, Error *error) {
    char node[TREE_NAME_ROOM];
    tree_name(&transcript->tree, transcript->tree.head, node);
    json_t *record = json_pack("{s:s, s:s, s:i, s:i, s:I}", "record", "forget", "node", node, "first",
                               turns.first, "last", turns.last, "tokens", (json_int_t)tokens);
    return append_record(transcript, record, error);
}

Status transcript_set_system(Transcript *transcript, const char *text, Error *error) {
    if (!text) text = "";
    const bool there = !tree_is_system_evicted(&transcript->tree, transcript->tree.head);
    if (there && !strcmp(transcript_system(transcript), text)) return STATUS_OK;
    return append_record(transcript, json_pack("{s:s, s:s}", "record", "system", "text", text), error);
}

static bool same_settings(const Transcript *transcript, const TranscriptSetting *settings, int n) {
    if (n != transcript->n_settings) return false;
    for (int i = 0; i < n; i++) {
        const TranscriptSetting *a = &transcript->settings[i], *b = &settings[i];
        if (strcmp(a->key, b->key) || strcmp(a->text, b->text) || a->session != b->session) return false;
    }
    return true;
}

Status transcript_set_settings(Transcript *transcript, const TranscriptSetting *settings, int n,
                               Error *error) {
    if (same_settings(transcript, settings, n)) return STATUS_OK;
    json_t *values = json_object(), *session = json_array();
    bool ok = values && session;
    for (int i = 0; ok && i < n; i++) {
        ok = !json_object_set_new(values, settings[i].key, json_string(settings[i].text));
        if (ok && settings[i].session) ok = !json_array_append_new(session, json_string(settings[i].key));
    }
    json_t *record = NULL;
    if (ok) {
        record = json_pack("{s:s, s:o, s:o}", "record", "settings", "values", values, "session", session);
    } else {
        json_decref(values);
        json_decref(session);
    }
    return append_record(transcript, record, error);
}

Status transcript_set_seed(Transcript *transcript, uint64_t seed, uint64_t position, Error *error) {
    json_t *record = json_pack("{s:s, s:I, s:I}", "record", "seed", "seed", (json_int_t)seed, "position",
                               (json_int_t)position);
    return append_record(transcript, record, error);
}

Status transcript_set_talked(Transcript *transcript, Error *error) {
    if (!transcript->script) return STATUS_OK;
    return append_record(transcript, json_pack("{s:s}", "record", "talked"), error);
}

Status transcript_set_asked(Transcript *transcript, const char *text, size_t size, Error *error) {
    json_t *record = json_pack("{s:s}", "record", "asked");
    if (record && text && json_object_set_new(record, "text", json_stringn(text, size))) {
        json_decref(record);
        record = NULL;
    }
    return append_record(transcript, record, error);
}

void transcript_drop_ids(Transcript *transcript, int index) {
    TranscriptReply *reply = &transcript->nodes[index].reply;
    free((int32_t *)reply->ids);
    reply->ids = NULL;
    reply->n_ids = reply->n_evicted = 0;
}

Status transcript_set_model(Transcript *transcript, const TranscriptModel *model, Error *error) {
    return append_record(transcript,
                         json_pack("{s:s, s:o*}", "record", "model", "model", model_to_json(model)), error);
}
