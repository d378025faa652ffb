// Hostile lines of --jsonl: each becomes a conversation or a reason, and either has an answer that is one line of JSON.
#include "app/modes/jsonl_line.h"

#include <stdlib.h>
#include <string.h>

static void check_conversation(const JsonlLine *line) {
    const SchedulerItem *item = &line->item;
    if (item->n_turns == 0 &&
        (item->n_messages == 0 || item->messages[item->n_messages - 1].role != CHAT_USER))
        abort();
    for (int i = 0; i < item->n_messages; i++)
        if (strlen(item->messages[i].text) != item->messages[i].size ||
            (i && item->messages[i].role == CHAT_SYSTEM))
            abort();
    for (int i = 0; i < item->n_turns; i++)
        if (!item->turns[i]) abort();
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
    json_t *json = end && !end[1] ? json_loads(answer, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json || !json_object_get(json, line->error.status ? "error" : "messages")) abort();
    json_decref(json);
    free(answer);
    jsonl_line_free(line);
    return 0;
}
