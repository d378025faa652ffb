// Reasoning between think tokens (<think> … </think>) or in a channel of its own (tokenizer/chat/channels.h), told
// apart by token id: what a person typed or a model spelled out in letters is none.
#ifndef PALAVER_APP_THOUGHTS_H
#define PALAVER_APP_THOUGHTS_H

#include "tokenizer/chat/channels.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ThinkMode { THINK_SHOW, THINK_DIM, THINK_HIDE } ThinkMode;

typedef struct Thoughts {
    ThinkMode mode;
    int32_t begin, end; // token ids; -1: this model has none
    Channels channels;  // or these
    bool thinking;      // the text of the token in hand is a thought
    bool ends;          // it was the last one
    int64_t n_tokens;   // of the thoughts of this reply
} Thoughts;

// Finds the model's think tokens. The mode stays.
void thoughts_find(Thoughts *thoughts, const Tokenizer *tokenizer);

// Whether the model's thoughts can be told apart.
bool thoughts_known(const Thoughts *thoughts);

// A reply begins, or goes on, after `tail` [n]: the end of its template's opening, which may have begun the thought
// already, and what there is of the reply.
void thoughts_begin(Thoughts *thoughts, const int32_t *tail, int64_t n);
// A token is drawn; its text, if any, comes next.
void thoughts_token(Thoughts *thoughts, int32_t id);

// The bytes at the end of what a reply's ids [n] say that are of one thought, or of none.
size_t thoughts_tail(const Thoughts *thoughts, const Tokenizer *tokenizer, const int32_t *ids, int64_t n);

int thoughts_mode_find(const char *name); // "show", "dim", "hide": a ThinkMode, or -1
const char *thoughts_mode_name(ThinkMode mode);

#endif
