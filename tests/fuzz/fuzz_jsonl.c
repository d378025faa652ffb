// Hostile lines of --jsonl: each becomes a conversation or a reason, and either has an answer that is one line of JSON.
#include "app/modes/jsonl/jsonl_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_conversation(const JsonlLine *line) {
    const SchedulerItem *item = &line->item;
    const bool asks = item->n_messages && item->messages[item->n_messages - 1].role == CHAT_USER;
    if (item->n_turns == 0 && item->n_messages == 0) abort();
    if (line->complete != (item->n_turns == 0 && !asks)) abort();
    for (int i = 0; i < item->n_messages; i++)
        if (strlen(item->messages[i].text) != item->messages[i].size ||
            (i && item->messages[i].role == CHAT_SYSTEM))
            abort();
    for (int i = 0; i < item->n_turns; i++)
        if (!item->turns[i]) abort();
}

// The answer without an id that no number of ours holds, which must be what it begins with.
static char *short_answer(const JsonlLine *line, char *answer) {
    char begin[64 + 4096];
    const int n = line->long_id ? snprintf(begin, sizeof begin, "{\"id\": %s, ", line->long_id) : 0;
    if (n >= (int)sizeof begin) return NULL; // longer than what is looked at here
    if (!n) return answer;
    if (strncmp(answer, begin, (size_t)n) != 0) abort();
    answer[n - 1] = '{';
    return answer + n - 1;
}

// A reply for every turn, as the scheduler would leave it.
static void reply(SchedulerItem *item) {
    int n = item->n_turns ? item->n_turns : 1;
    const Message message = {.role = CHAT_ASSISTANT, .text = "r\xc3\xa9", .size = 3};
    while (item->replies.n < n)
        if (message_list_add(&item->replies, &message, NULL)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static Settings settings;
    Error error;
    if (!settings.config.layers && settings_init(&settings, &error)) abort();
    const char *system = size && data[0] == 's' ? "Be kind." : NULL;
    JsonlLine *line =
        jsonl_line_read((const char *)data + (system != NULL), size - (system != NULL), &settings, system);
    if (!line) abort();
    if (line->error.status && strchr(line->error.message, '\n')) abort();
    if (!line->error.status) {
        check_conversation(line);
        reply(&line->item);
    }
    char *answer = jsonl_line_answer(line);
    const char *end = answer ? strchr(answer, '\n') : NULL;
    if (!end || end[1]) abort();
    const char *shown = short_answer(line, answer);
    json_t *json = shown ? json_loads(shown, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (shown && (!json || !json_object_get(json, line->error.status ? "error" : "messages"))) abort();
    json_decref(json);
    free(answer);
    jsonl_line_free(line);
    return 0;
}
