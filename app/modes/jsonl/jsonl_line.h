// One line of `palaver --jsonl`: a conversation to be answered, and its answer.
//
//   {"id": …, "messages": [{"role": "system|user|assistant", "content": …}, …], "turns": ["…", …], "sampling": {…}}
//
// `messages` (message_json.h) come first; `turns` are the user's, answered one after the other. One of the two is
// there, or both; without turns the last message is the one that is answered, and a conversation that does not end with
// a question is complete: it comes back as it is. `id` is a string or a number; without it, it is the line's number. Lines
// with one id are all answered; that there are such is told once.
// `response_format` is OpenAI's: {"type": "text"}, {"type": "json_object"}, or {"type": "json_schema", "json_schema":
// {"schema": {…}}}: what this line's replies fit.
// `sampling` holds keys of the settings' section [sampling] for this conversation; with a `seed` of its own a line is
// answered alike wherever it stands. `model` and `branch` are what /export says of a conversation; nothing follows from
// them.
#ifndef PALAVER_APP_JSONL_LINE_H
#define PALAVER_APP_JSONL_LINE_H

#include "app/settings/settings_conversation.h"
#include "engine/talk/scheduler/scheduler.h"

#include <jansson.h>

typedef struct JsonlLine {
    SchedulerItem item; // messages and turns; its settings are whoever's who gives it
    long long line;     // of the input, from 1
    long long
        number;    // of the lines that are not blank, from 0: its random numbers come of it, without a seed
    bool complete; // there is nothing to answer
    const char *model;  // that it says it was with; NULL: it says nothing
    json_t *id;         // of any type where the line is wrong; NULL: there is none, or it could not be read
    char *long_id;      // its digits instead, where these are a number beyond 64 bits; else NULL
    json_t *json;       // the whole object, which texts point into; NULL: it could not be read
    const char **turns; // [item.n_turns]
    Message *messages;  // [item.n_messages]
    Settings *settings; // with `sampling`; NULL: there is none
    GrammarKind format; // of `response_format`
    char *format_text;  // NULL: any reply will do
    SettingsMade made;  // what its settings refer to, when it has been given
    Error error;        // where the line is wrong: status and why
} JsonlLine;

// Reads a line [size]. `system`, if it is not NULL, is put in front of messages that do not begin with a system
// message; it is kept by reference. What is wrong with the line is in its own `error`; NULL only where there is no
// memory for that.
JsonlLine *jsonl_line_read(const char *text, size_t size, const Settings *settings, const char *system);
// A line that cannot be read, for a reason.
JsonlLine *jsonl_line_wrong(const Error *error);
void jsonl_line_free(JsonlLine *line); // NULL is fine

// The answer, a line with its newline, malloc'ed: {"id", "messages", "finish": "stop|length|complete|error", "error"
// (only then), "usage": {"prompt", "reply", "cached", "seconds", "left_out" (tokens of prompts that were too long,
// where there are any), "evicted" (tokens that left a full window, where any did)}, "seed"}, or {"id" (if it can be
// read), "line", "error"}. NULL: no memory.
char *jsonl_line_answer(const JsonlLine *line);

#endif
