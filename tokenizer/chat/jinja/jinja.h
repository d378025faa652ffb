// A model's own chat template, written in Jinja, executed as transformers executes it: jinja2's sandbox with
// trim_blocks, lstrip_blocks, loop controls, {% generation %}, raise_exception, strftime_now and a tojson without HTML.
//
// A template comes with a model, from anyone: it has no power over files or programs, and its steps, depth and memory
// are bounded. Every byte it writes keeps its origin, through slices, joins and replacements, so that what a person or
// a model wrote is told from what the template says (only that may become control tokens).
//
//     text → lex → parse → a tree that does not change      tree + context → evaluation → text with origins
#ifndef PALAVER_TOKENIZER_CHAT_JINJA_JINJA_H
#define PALAVER_TOKENIZER_CHAT_JINJA_JINJA_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

struct json_t;

typedef struct Jinja Jinja; // a parsed template: opaque, immutable

// Where text comes from. Messages count from 0: what one says has the origin JINJA_MESSAGE + its index.
enum { JINJA_TEMPLATE = 0, JINJA_SETTING = 1, JINJA_MESSAGE = 2 };

typedef struct JinjaRun {
    size_t end; // the run reaches from the end of the one before (0 for the first) to here
    int origin;
} JinjaRun;

typedef struct JinjaText {
    char *data; // [size] then NUL, malloc'd
    size_t size;
    JinjaRun *runs; // [n_runs], malloc'd
    size_t n_runs;
} JinjaText;

// Parses `size` bytes. STATUS_UNSUPPORTED names the line and what is not understood there.
Status jinja_parse(const char *text, size_t size, Jinja **out, Error *error);
void jinja_free(Jinja *jinja); // NULL is fine

// Renders with the members of the object `context` as variables. Strings of messages[i] have its origin, but for
// "role" and the keys; those of members that are called …_token, the template's; all others are settings. `now` is what
// strftime_now says, in seconds since 1970. STATUS_USAGE: the template itself refuses the messages (raise_exception)
// and says why; STATUS_UNSUPPORTED: what it does is wrong or not supported, with the line; STATUS_MEMORY.
Status jinja_render(const Jinja *jinja, const struct json_t *context, int64_t now, JinjaText *out,
                    Error *error);
void jinja_text_free(JinjaText *text);

#endif
