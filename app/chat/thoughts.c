#include "app/chat/thoughts.h"

#include <string.h>

static const char *const modes[] = {"show", "dim", "hide"};

int thoughts_mode_find(const char *name) {
    for (int i = THINK_SHOW; i <= THINK_HIDE; i++)
        if (!strcmp(modes[i], name)) return i;
    return -1;
}

const char *thoughts_mode_name(ThinkMode mode) {
    return modes[mode];
}

void thoughts_find(Thoughts *thoughts, const Tokenizer *tokenizer) {
    static const char *const pairs[][2] = {{"<think>", "</think>"},
                                           {"<thinking>", "</thinking>"},
                                           {"<|begin_of_thought|>", "<|end_of_thought|>"}};
    thoughts->begin = thoughts->end = -1;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int32_t begin = tokenizer_find(tokenizer, pairs[i][0]), end = tokenizer_find(tokenizer, pairs[i][1]);
        if (begin < 0 || end < 0) continue;
        thoughts->begin = begin;
        thoughts->end = end;
        return;
    }
}

void thoughts_begin(Thoughts *thoughts, const int32_t *tail, int64_t n) {
    thoughts->thinking = thoughts->ends = false;
    thoughts->n_tokens = 0;
    if (thoughts->begin < 0) return;
    while (n > 0 && tail[n - 1] != thoughts->begin && tail[n - 1] != thoughts->end) n--;
    thoughts->thinking = n > 0 && tail[n - 1] == thoughts->begin;
}

void thoughts_token(Thoughts *thoughts, int32_t id) {
    if (thoughts->ends) thoughts->thinking = thoughts->ends = false;
    if (thoughts->begin < 0) return;
    if (id == thoughts->begin) thoughts->thinking = true;
    thoughts->ends = thoughts->thinking && id == thoughts->end;
    thoughts->n_tokens += thoughts->thinking;
}
