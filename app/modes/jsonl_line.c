#include "app/modes/jsonl_line.h"

#include "kernels/base/nearest.h"

#include <stdlib.h>
#include <string.h>

enum { SHOWN = 60 }; // bytes of a name or value in a message

// ---- reading ------------------------------------------------------------------------------------------------------

static Status out_of_memory(Error *error) {
    return error_set(error, STATUS_MEMORY, "out of memory");
}

// Every key of the object is one of `names` [n].
static Status check_keys(json_t *object, const char *where, const char *const *names, size_t n,
                         Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || !strcmp(key, names[i]);
        if (known) continue;
        int nearest = nearest_name(key, names, n);
        if (nearest < 0) return error_set(error, STATUS_USAGE, "%sunknown key \"%.*s\"", where, SHOWN, key);
        return error_set(error, STATUS_USAGE, "%sunknown key \"%.*s\": did you mean \"%s\"?", where, SHOWN,
                         key, names[nearest]);
    }
    return STATUS_OK;
}

static Status read_message(json_t *json, size_t i, Message *message, Error *error) {
    static const char *const KEYS[] = {"role", "content"};
    char where[40];
    snprintf(where, sizeof where, "messages[%zu]: ", i);
    if (!json_is_object(json))
        return error_set(error, STATUS_USAGE, "%sa message is {\"role\": …, \"content\": …}", where);
    if (check_keys(json, where, KEYS, 2, error)) return error->status;
    const json_t *role = json_object_get(json, "role"), *content = json_object_get(json, "content");
    int known = json_is_string(role) ? chat_role_find(json_string_value(role)) : -1;
    if (known < 0)
        return error_set(error, STATUS_USAGE, "%sthe role is \"system\", \"user\" or \"assistant\"", where);
    if (!json_is_string(content)) return error_set(error, STATUS_USAGE, "%sthe content is a string", where);
    if (known == CHAT_SYSTEM && i > 0)
        return error_set(error, STATUS_USAGE, "%sa system message can only be the first", where);
    *message = (Message){.role = (ChatRole)known,
                         .text = (char *)json_string_value(content),
                         .size = json_string_length(content)};
    return STATUS_OK;
}

static Status read_messages(JsonlLine *line, const char *system, Error *error) {
    json_t *list = json_object_get(line->json, "messages");
    if (list && !json_is_array(list)) return error_set(error, STATUS_USAGE, "\"messages\" is a list");
    size_t n = json_array_size(list);
    line->messages = calloc(n + 1, sizeof *line->messages);
    if (!line->messages) return out_of_memory(error);
    int kept = system != NULL;
    for (size_t i = 0; i < n; i++)
        if (read_message(json_array_get(list, i), i, &line->messages[kept++], error)) return error->status;
    bool own = n > 0 && line->messages[system != NULL].role == CHAT_SYSTEM;
    if (system && own)
        memmove(line->messages, line->messages + 1, (size_t)--kept * sizeof *line->messages);
    else if (system)
        line->messages[0] = (Message){.role = CHAT_SYSTEM, .text = (char *)system, .size = strlen(system)};
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
    if (!line->turns) return out_of_memory(error);
    for (size_t i = 0; i < n; i++) {
        line->turns[i] = json_string_value(json_array_get(list, i));
        if (!line->turns[i]) return error_set(error, STATUS_USAGE, "turns[%zu] is no string", i);
    }
    line->item.turns = line->turns;
    line->item.n_turns = (int)n;
    const Message *last = line->item.n_messages ? &line->messages[line->item.n_messages - 1] : NULL;
    bool asked = n > 0 || (last && last->role == CHAT_USER);
    if (asked) return STATUS_OK;
    return error_set(error, STATUS_USAGE,
                     !last || last->role == CHAT_SYSTEM
                         ? "there is nothing to answer: \"messages\" or \"turns\" says what"
                         : "there is nothing to answer: the last message is the assistant's");
}

// The value as the settings read it: JSON's numbers, switches, strings and lists of strings are TOML's as well; an object
// (logit_bias) becomes key=value,….
static char *setting_text(const ConfigKey *setting, json_t *value) {
    if (json_is_string(value) && setting->type == CONFIG_STRINGS) { // a single one, whatever commas are in it
        json_t *list = json_pack("[O]", value);
        char *text = list ? json_dumps(list, 0) : NULL;
        json_decref(list);
        return text;
    }
    if (json_is_string(value)) return strdup(json_string_value(value));
    if (!json_is_object(value)) return json_dumps(value, JSON_ENCODE_ANY);
    const char *key;
    json_t *bias;
    char *text = strdup("");
    json_object_foreach(value, key, bias) {
        char *longer;
        int n = text ? asprintf(&longer, "%s%s%s=%.17g", text, *text ? "," : "", key, json_number_value(bias))
                     : -1;
        free(text);
        text = n < 0 ? NULL : longer;
    }
    return text;
}

static Status read_sampling(JsonlLine *line, const Settings *settings, Error *error) {
    json_t *sampling = json_object_get(line->json, "sampling"), *value;
    const char *name;
    if (!sampling) return STATUS_OK;
    if (!json_is_object(sampling))
        return error_set(error, STATUS_USAGE, "\"sampling\" is {\"KEY\": VALUE, …}");
    line->settings = malloc(sizeof *line->settings);
    if (!line->settings) return out_of_memory(error);
    if (settings_copy(line->settings, settings, error)) {
        free(line->settings);
        line->settings = NULL;
        return error->status;
    }
    json_object_foreach(sampling, name, value) {
        const ConfigKey *key = settings_key(name);
        if (!key || strcmp(key->section, "sampling")) {
            if (key)
                error_set(error, STATUS_USAGE, "%s is a key of [%s]", key->name, key->section);
            else
                config_key_unknown(settings_table(), name, error);
            return error_prefix(error, "sampling: ");
        }
        char *text = setting_text(key, value);
        if (!text) return out_of_memory(error);
        Status status = config_set(&line->settings->config, CONFIG_SESSION, name, text, error);
        free(text);
        if (status) return error_prefix(error, "sampling: ");
    }
    return STATUS_OK;
}

static Status read_line(JsonlLine *line, const char *text, size_t size, const Settings *settings,
                        const char *system, Error *error) {
    static const char *const KEYS[] = {"id", "messages", "turns", "sampling"};
    json_error_t why;
    line->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!line->json) return error_set(error, STATUS_FILE, "column %d: %s", why.column, why.text);
    if (!json_is_object(line->json))
        return error_set(error, STATUS_USAGE, "a line is one object: {\"messages\": [ … ]}");
    if (check_keys(line->json, "", KEYS, 4, error)) return error->status;
    const json_t *id = json_object_get(line->json, "id");
    if (id && !json_is_string(id) && !json_is_number(id))
        return error_set(error, STATUS_USAGE, "\"id\" is a string or a number");
    Status status = read_messages(line, system, error);
    if (!status) status = read_turns(line, error);
    return status ? status : read_sampling(line, settings, error);
}

JsonlLine *jsonl_line_read(const char *text, size_t size, const Settings *settings, const char *system) {
    JsonlLine *line = calloc(1, sizeof *line);
    if (!line) return NULL;
    Status status = read_line(line, text, size, settings, system, &line->error);
    line->error.status = status;
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
    free(line->turns);
    free(line->messages);
    if (line->settings) settings_free(line->settings);
    free(line->settings);
    free(line->biases);
    free(line);
}

// ---- the answer ------------------------------------------------------------------------------------------------------

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
    for (int i = 0; ok && (i < item->n_turns || i < item->n_replies); i++) {
        if (i < item->n_turns) ok = add_message(messages, CHAT_USER, item->turns[i], strlen(item->turns[i]));
        if (i >= item->n_replies) break; // a turn that has no answer is the last that is told
        ok = ok && add_message(messages, CHAT_ASSISTANT, item->replies[i].text, item->replies[i].size);
    }
    if (ok) return messages;
    json_decref(messages);
    return NULL;
}

static const char *finish_of(const SchedulerItem *item) {
    if (item->status) return "error";
    return item->finish == FINISH_END || item->finish == FINISH_STOP ? "stop" : "length";
}

static json_t *answer_of(const JsonlLine *line) {
    const SchedulerItem *item = &line->item;
    if (line->error.status)
        return json_pack("{s:I, s:s}", "line", (json_int_t)line->line, "error", line->error.message);
    json_t *id = json_object_get(line->json, "id");
    json_t *answer = json_pack("{s:o, s:o, s:s}", "id", id ? json_incref(id) : json_integer(line->line),
                               "messages", messages_of(item), "finish", finish_of(item));
    if (answer && item->status && json_object_set_new(answer, "error", json_string(item->error.message))) {
        json_decref(answer);
        return NULL;
    }
    json_t *rest = json_pack("{s:{s:I, s:I, s:I, s:f}, s:I}", "usage", "prompt", (json_int_t)item->n_prompt,
                             "reply", (json_int_t)item->n_reply, "cached", (json_int_t)item->n_cached,
                             "seconds", item->seconds, "seed", (json_int_t)item->settings.seed);
    bool ok = answer && rest && !json_object_update(answer, rest);
    json_decref(rest);
    if (ok) return answer;
    json_decref(answer);
    return NULL;
}

char *jsonl_line_answer(const JsonlLine *line) {
    json_t *answer = answer_of(line);
    char *text = answer ? json_dumps(answer, JSON_REAL_PRECISION(6)) : NULL, *whole = NULL;
    if (text && asprintf(&whole, "%s\n", text) < 0) whole = NULL;
    free(text);
    json_decref(answer);
    return whole;
}
