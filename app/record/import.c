#include "app/record/import.h"

#include "app/record/message_json.h"
#include "app/terminal/text_shown.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *load(const char *text, size_t size, json_error_t *why) {
    return json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DISABLE_EOF_CHECK, why);
}

bool import_is_export(const char *text, size_t size) {
    json_t *json = load(text, size, NULL);
    bool is = json_object_get(json, "messages") && !json_object_get(json, "record");
    json_decref(json);
    return is;
}

// A turn is a question with its answer, or one of them alone. *used: its messages.
static Status add_turn(Transcript *transcript, const Message *messages, int n, int *used, Error *error) {
    const Message *said = messages[0].role == CHAT_ASSISTANT ? NULL : &messages[0];
    const Message *reply = !said ? &messages[0]
                           : said->role == CHAT_USER && n > 1 && messages[1].role == CHAT_ASSISTANT
                               ? &messages[1]
                               : NULL;
    TranscriptNode node = {.role = said ? said->role : CHAT_USER};
    if (said) node.text = said->text, node.size = said->size;
    if (reply)
        node.reply = (TranscriptReply){
            .text = reply->text, .size = reply->size, .seed = transcript_header(transcript).seed};
    *used = (said != NULL) + (reply != NULL);
    return transcript_add_turn(transcript, transcript_tree(transcript)->head, "load", &node, error);
}

static Status add_messages(Transcript *transcript, json_t *list, Error *error) {
    size_t n = json_array_size(list);
    Message *messages = calloc(n + 1, sizeof *messages);
    Status status = messages ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
    for (size_t i = 0; i < n && !status; i++)
        status = message_json_read(json_array_get(list, i), i, &messages[i], error);
    int used = 0;
    if (!status && n && messages[0].role == CHAT_SYSTEM) {
        status = transcript_set_system(transcript, messages[0].text, error);
        used = 1;
    }
    for (size_t i = (size_t)used; i < n && !status; i += (size_t)used)
        status = add_turn(transcript, messages + i, (int)(n - i), &used, error);
    free(messages);
    return status;
}

static Status take(json_t *json, const TranscriptHeader *header, Transcript **transcript, Error *error) {
    static const char *const KEYS[] = {"id", "model", "branch", "messages", "finish", "usage", "seed"};
    TranscriptHeader own = *header;
    const json_t *model = json_object_get(json, "model");
    json_t *messages = json_object_get(json, "messages");
    if (message_json_keys(json, "", KEYS, sizeof KEYS / sizeof *KEYS, error)) return error->status;
    if (!json_is_array(messages)) return error_set(error, STATUS_USAGE, "\"messages\" is a list");
    if (model && !json_is_string(model)) return error_set(error, STATUS_USAGE, "\"model\" is a string");
    own.model = (TranscriptModel){model ? json_string_value(model) : "", "", "", ""};
    Status status = transcript_new(&own, transcript, error);
    if (!status && (status = add_messages(*transcript, messages, error))) {
        transcript_free(*transcript);
        *transcript = NULL;
    }
    return status;
}

Status import_parse(const char *name, const char *text, size_t size, const TranscriptHeader *header,
                    Transcript **transcript, Error *error) {
    json_error_t why;
    *transcript = NULL;
    json_t *json = load(text, size, &why);
    if (!json)
        return error_set(error, STATUS_FILE, "%s:%d: column %d: %s", name, why.line, why.column, why.text);
    size_t rest = (size_t)why.position;
    while (rest < size && strchr(" \t\r\n", text[rest]) && text[rest]) rest++;
    Status status = rest == size ? take(json, header, transcript, error)
                                 : error_set(error, STATUS_FILE,
                                             "there is more behind the first conversation: one a file can be "
                                             "loaded, and --jsonl answers many");
    if (status) error_prefix(error, "%s: ", name);
    json_decref(json);
    return status;
}
