#include "app/modes/jsonl/jsonl_line.h"

#include "app/modes/jsonl/jsonl_sampling.h"
#include "app/record/message_json.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/text/json.h"
#include "kernels/base/text/quote.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_OBJECT "a line is one object: {\"messages\": [ … ]}"

enum { ID_ALONE = JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL };

// ---- reading ------------------------------------------------------------------------------------------------------

static Status read_messages(JsonlLine *line, const char *system, Error *error) {
    json_t *list = json_object_get(line->json, "messages");
    if (list && !json_is_array(list)) return error_set(error, STATUS_USAGE, "\"messages\" is a list");
    size_t n = json_array_size(list);
    line->messages = calloc(n + 1, sizeof *line->messages);
    if (!line->messages) return error_no_memory(error, "the line");
    int kept = system != NULL;
    for (size_t i = 0; i < n; i++)
        if (message_json_read(json_array_get(list, i), i, &line->messages[kept++], error))
            return error->status;
    bool own = n > 0 && line->messages[system != NULL].role == CHAT_SYSTEM;
    if (system && own)
        memmove(line->messages, line->messages + 1, (size_t)--kept * sizeof *line->messages);
    else if (system)
        line->messages[0] = (Message){.role = CHAT_SYSTEM, .text = system, .size = strlen(system)};
    line->item.messages = line->messages;
    line->item.n_messages = kept;
    return STATUS_OK;
}

static Status read_turns(JsonlLine *line, Error *error) {
    const json_t *list = json_object_get(line->json, "turns");
    if (list && !json_array_size(list))
        return error_set(error, STATUS_USAGE, "\"turns\" is a list of what the user says: [\"…\", …]");
    size_t n = json_array_size(list);
    line->turns = calloc(n + 1, sizeof *line->turns);
    if (!line->turns) return error_no_memory(error, "the line");
    for (size_t i = 0; i < n; i++) {
        line->turns[i] = json_string_value(json_array_get(list, i));
        if (!line->turns[i]) return error_set(error, STATUS_USAGE, "turns[%zu] is no string", i);
        if (strlen(line->turns[i]) != json_string_length(json_array_get(list, i)))
            return error_set(error, STATUS_USAGE, "turns[%zu] has a \\u0000, which is no text", i);
    }
    line->item.turns = line->turns;
    line->item.n_turns = (int)n;
    const Message *last = line->item.n_messages ? &line->messages[line->item.n_messages - 1] : NULL;
    bool asked = n > 0 || (last && last->role == CHAT_USER);
    line->complete = !asked && json_object_get(line->json, "messages");
    if (asked || line->complete) return STATUS_OK;
    return error_set(error, STATUS_USAGE, "there is nothing to answer: \"messages\" or \"turns\" says what");
}

static Status check_format(json_t *format, Error *error) {
    static const char *const KEYS[] = {"type", "json_schema"}, *const OF_SCHEMA[] = {"name", "description",
                                                                                     "schema", "strict"};
    json_t *schema = json_member(format, "json_schema");
    if (message_json_keys(format, "response_format: ", KEYS, 2, error) ||
        message_json_keys(schema, "response_format: json_schema: ", OF_SCHEMA, 4, error))
        return error->status;
    if (schema && !json_text_is(format, "type", "json_schema"))
        return error_set(error, STATUS_USAGE,
                         "response_format: \"json_schema\" belongs to \"type\": \"json_schema\"");
    return STATUS_OK;
}

// What the replies fit, as OpenAI's API says it.
static Status read_format(JsonlLine *line, Error *error) {
    json_t *format = json_member(line->json, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    json_t *schema = json_object_get(json_object_get(format, "json_schema"), "schema");
    if (json_is_object(format) && check_format(format, error)) return error->status;
    if (!format || (type && !strcmp(type, "text"))) return STATUS_OK;
    if (type && !strcmp(type, "json_object")) {
        line->format_text = strdup("{\"type\": \"object\"}");
    } else if (type && !strcmp(type, "json_schema") && schema) {
        line->format_text = json_compact(schema);
    } else {
        return error_set(
            error, STATUS_USAGE,
            "\"response_format\" is {\"type\": \"text\"}, {\"type\": \"json_object\"}, or {\"type\": "
            "\"json_schema\", \"json_schema\": {\"schema\": {…}}}");
    }
    line->format = GRAMMAR_JSON_SCHEMA;
    return line->format_text ? STATUS_OK : error_no_memory(error, "the line");
}

// What the line itself asks for twice; what it asks for once is instead of what the flags do.
static Status check_formats(const JsonlLine *line, Error *error) {
    static const char *const KEYS[] = {"grammar", "regex", "json_schema"};
    const Settings *settings = line->settings;
    if (!settings || !line->format_text) return STATUS_OK;
    const char *const texts[] = {settings->sampling.grammar, settings->sampling.regex,
                                 settings->sampling.json_schema};
    for (int i = 0; i < 3; i++)
        if (*texts[i] && config_origin_layer(&settings->config, settings_key(KEYS[i])) == CONFIG_SESSION)
            return error_set(error, STATUS_USAGE,
                             "of \"response_format\" and sampling.%s only one can be set", KEYS[i]);
    return STATUS_OK;
}

// A key that OpenAI has beside the messages: here it belongs into "sampling".
static Status misplaced(json_t *json, Error *error) {
    const char *name;
    json_t *value;
    json_object_foreach(json, name, value) {
        const ConfigKey *key = settings_key(name);
        if (key && !strcmp(key->section, "sampling"))
            return error_set(error, STATUS_USAGE, "\"%s\" belongs into \"sampling\": {…}", key->name);
    }
    return STATUS_OK;
}

static Status check_line(JsonlLine *line, Error *error) {
    static const char *const KEYS[] = {"id",    "messages", "turns",          "sampling",
                                       "model", "branch",   "response_format"};
    if (!json_is_object(line->json)) return error_set(error, STATUS_USAGE, NO_OBJECT);
    if (misplaced(line->json, error) ||
        message_json_keys(line->json, "", KEYS, sizeof KEYS / sizeof *KEYS, error))
        return error->status;
    const json_t *id = json_object_get(line->json, "id"), *model = json_object_get(line->json, "model");
    if (id && !json_is_string(id) && !json_is_number(id))
        return error_set(error, STATUS_USAGE, "\"id\" is a string or a number");
    if (model && !json_is_string(model)) return error_set(error, STATUS_USAGE, "\"model\" is a string");
    line->model = json_string_value(model);
    return STATUS_OK;
}

static Status read_line(JsonlLine *line, const char *text, size_t size, const Settings *settings,
                        const char *system, Error *error) {
    json_error_t why;
    if (text_check(NULL, text, size, error)) return error->status;
    line->json = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    size_t blanks = 0;
    while (blanks < size && strchr(" \t\r\n", text[blanks])) blanks++;
    if (!line->json && (blanks == size || text[blanks] != '{'))
        return error_set(error, STATUS_FILE, NO_OBJECT ", and this is none: %s",
                         quote_bytes(text, size).text);
    if (!line->json)
        return error_set(error, STATUS_FILE, "column %d: %s, in: %s", why.column, json_problem(&why),
                         quote_bytes(text, size).text);
    Status status = check_line(line, error);
    if (!status) status = read_messages(line, system, error);
    if (!status) status = read_turns(line, error);
    if (!status) status = read_format(line, error);
    if (!status)
        status =
            jsonl_sampling_read(json_object_get(line->json, "sampling"), settings, &line->settings, error);
    return status ? status : check_formats(line, error);
}

// Where the value of "id" begins in the beginning [size] of an object that is not well-formed further on; size: there is
// none.
static size_t find_early_id(const char *text, size_t size) {
    static const char KEY[] = "\"id\"";
    const size_t n_key = sizeof KEY - 1;
    int depth = 0;
    for (size_t at = 0; at < size; at++) {
        depth += (text[at] == '{' || text[at] == '[') - (text[at] == '}' || text[at] == ']');
        if (text[at] != '"') continue;
        size_t end = at + 1; // behind the string
        while (end < size && text[end] != '"') end += 1 + (text[end] == '\\');
        size_t value = ++end;
        while (value < size && strchr(" \t\r\n", text[value])) value++;
        if (depth == 1 && end - at == n_key && !memcmp(text + at, KEY, n_key) && value < size &&
            text[value] == ':') {
            value++;
            while (value < size && strchr(" \t\r\n", text[value])) value++;
            return value;
        }
        at = end - 1;
    }
    return size;
}

// The id in the beginning [size] of an object, as far as it is whole. A number that the text ends with may have been a
// longer one.
static void read_early_id(JsonlLine *line, const char *text, size_t size) {
    json_error_t why;
    const size_t at = find_early_id(text, size), n_digits = strspn(text + at, "+-.0123456789eE");
    if (at == size) return;
    json_t *id = json_loadb(text + at, size - at, ID_ALONE, &why);
    if (!id && json_error_code(&why) == json_error_numeric_overflow && n_digits && text[at + n_digits])
        line->long_id = strndup(text + at, n_digits);
    else if (id && (!json_is_number(id) || at + (size_t)why.position < size))
        line->id = json_incref(id);
    json_decref(id);
}

// The id of a line that is wrong, whatever it is, as far as it can be read.
static void find_id(JsonlLine *line, const char *text, size_t size) {
    json_t *read = NULL;
    const json_t *json = line->json;
    char *clean = json ? NULL : text_clean(text, size, NULL);
    if (clean) { // a bad byte, or a key twice, need not be in the id; nor what is wrong behind it
        json_error_t why;
        json = read = json_loads(clean, JSON_ALLOW_NUL, &why);
        if (!read) read_early_id(line, clean, (size_t)why.position);
    }
    if (json) line->id = json_incref(json_object_get(json, "id"));
    json_decref(read);
    free(clean);
}

JsonlLine *jsonl_line_read(const char *text, size_t size, const Settings *settings, const char *system) {
    JsonlLine *line = calloc(1, sizeof *line);
    if (!line) return NULL;
    Status status = read_line(line, text, size, settings, system, &line->error);
    line->error.status = status;
    find_id(line, text, size);
    return line;
}

JsonlLine *jsonl_line_wrong(const Error *error) {
    JsonlLine *line = calloc(1, sizeof *line);
    if (line) line->error = *error;
    return line;
}

void jsonl_line_free(JsonlLine *line) {
    if (!line) return;
    scheduler_item_clear(&line->item);
    json_decref(line->json);
    json_decref(line->id);
    free(line->long_id);
    free(line->turns);
    free(line->messages);
    if (line->settings) settings_free(line->settings);
    free(line->settings);
    free(line->format_text);
    settings_made_free(&line->made);
    free(line);
}

// ---- the answer -----------------------------------------------------------------------------------------------------

static bool add_message(json_t *messages, ChatRole role, const char *text, size_t size) {
    return !json_array_append_new(
        messages, json_pack("{s:s, s:s%}", "role", chat_role_name(role), "content", text, size));
}

// What was said, with the replies where they belong.
static json_t *messages_of(const SchedulerItem *item) {
    json_t *messages = json_array();
    bool ok = messages != NULL;
    for (int i = 0; i < item->n_messages && ok; i++)
        ok = add_message(messages, item->messages[i].role, item->messages[i].text, item->messages[i].size);
    for (int i = 0; ok && (i < item->n_turns || i < item->replies.n); i++) {
        if (i < item->n_turns) ok = add_message(messages, CHAT_USER, item->turns[i], strlen(item->turns[i]));
        if (i >= item->replies.n) break; // a turn that has no answer is the last that is told
        ok = ok && add_message(messages, CHAT_ASSISTANT, item->replies.messages[i].text,
                               item->replies.messages[i].size);
    }
    if (ok) return messages;
    json_decref(messages);
    return NULL;
}

static const char *finish_of(const JsonlLine *line) {
    const SchedulerItem *item = &line->item;
    if (item->status) return "error";
    if (line->complete) return "complete";
    return item->finish == FINISH_END || item->finish == FINISH_STOP ? "stop" : "length";
}

static json_t *answer_of(const JsonlLine *line) {
    const SchedulerItem *item = &line->item;
    if (line->error.status)
        return json_pack("{s:O*, s:I, s:s}", "id", line->id, "line", (json_int_t)line->line, "error",
                         line->error.message);
    json_t *answer =
        json_pack("{s:o, s:o, s:s}", "id", line->id ? json_incref(line->id) : json_integer(line->line),
                  "messages", messages_of(item), "finish", finish_of(line));
    if (answer && item->status && json_object_set_new(answer, "error", json_string(item->error.message))) {
        json_decref(answer);
        return NULL;
    }
    json_t *rest =
        json_pack("{s:{s:I, s:I, s:I, s:f}, s:I}", "usage", "prompt", (json_int_t)item->n_prompt, "reply",
                  (json_int_t)item->n_reply, "cached", (json_int_t)item->n_cached, "seconds",
                  round(item->seconds * 1e6) / 1e6, "seed", (json_int_t)item->settings.seed);
    json_t *usage = json_object_get(rest, "usage");
    bool ok = answer && rest;
    if (ok && item->n_prompt_cut)
        ok = !json_object_set_new(usage, "left_out", json_integer(item->n_prompt_cut));
    if (ok && item->n_evicted) ok = !json_object_set_new(usage, "evicted", json_integer(item->n_evicted));
    ok = ok && !json_object_update(answer, rest);
    json_decref(rest);
    if (ok) return answer;
    json_decref(answer);
    return NULL;
}

char *jsonl_line_answer(const JsonlLine *line) {
    json_t *answer = answer_of(line);
    char *text = answer ? json_harmless(answer, json_digits(line->id)) : NULL, *whole = NULL;
    const char *id = line->long_id; // before all else, as an id is
    const int written = !text ? -1
                        : id  ? asprintf(&whole, "{\"id\": %s, %s\n", id, text + 1)
                              : asprintf(&whole, "%s\n", text);
    if (written < 0) whole = NULL;
    free(text);
    json_decref(answer);
    return whole;
}
