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
                                           {"<thought>", "</thought>"},
                                           {"<|begin_of_thought|>", "<|end_of_thought|>"},
                                           {"[THINK]", "[/THINK]"},
                                           {"<|channel>", "<channel|>"},
                                           {"<seed:think>", "</seed:think>"},
                                           {"<|START_THINKING|>", "<|END_THINKING|>"},
                                           {"<|inner_prefix|>", "<|inner_suffix|>"},
                                           {"◁think▷", "◁/think▷"}};
    thoughts->begin = thoughts->end = -1;
    channels_find(&thoughts->channels, tokenizer);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs && !thoughts->channels.tokenizer; i++) {
        int32_t begin = tokenizer_find(tokenizer, pairs[i][0]), end = tokenizer_find(tokenizer, pairs[i][1]);
        if (begin < 0 || end < 0) continue;
        thoughts->begin = begin;
        thoughts->end = end;
        return;
    }
}

bool thoughts_known(const Thoughts *thoughts) {
    return thoughts->begin >= 0 || thoughts->channels.tokenizer;
}

// Of the channels' tokens, the one that begins a thought and the one that ends it belong to it. *size: what is seen of it.
static bool is_thought(Thoughts *thoughts, int32_t id, size_t *size) {
    Channels *channels = &thoughts->channels;
    bool before = channels->thinking;
    const char *bytes = tokenizer_bytes(channels->tokenizer, -1, id, false, size);
    channels_token(channels, id, &bytes, size);
    return before || channels->thinking;
}

void thoughts_begin(Thoughts *thoughts, const int32_t *tail, int64_t n) {
    thoughts->thinking = thoughts->ends = false;
    thoughts->n_tokens = 0;
    if (thoughts->channels.tokenizer) {
        size_t size;
        channels_begin(&thoughts->channels);
        for (int64_t i = 0; i < n; i++) is_thought(thoughts, tail[i], &size);
        thoughts->thinking = thoughts->channels.thinking;
        return;
    }
    if (thoughts->begin < 0) return;
    while (n > 0 && tail[n - 1] != thoughts->begin && tail[n - 1] != thoughts->end) n--;
    thoughts->thinking = n > 0 && tail[n - 1] == thoughts->begin;
}

void thoughts_token(Thoughts *thoughts, int32_t id) {
    size_t size;
    if (thoughts->channels.tokenizer) {
        thoughts->thinking = is_thought(thoughts, id, &size);
    } else if (thoughts->begin >= 0) {
        if (thoughts->ends) thoughts->thinking = thoughts->ends = false;
        if (id == thoughts->begin) thoughts->thinking = true;
        thoughts->ends = thoughts->thinking && id == thoughts->end;
    }
    thoughts->n_tokens += thoughts->thinking;
}

// Without a channel a thought's end counts also where its beginning is the template's.
size_t thoughts_tail(const Thoughts *thoughts, const Tokenizer *tokenizer, const int32_t *ids, int64_t n) {
    Thoughts walk = *thoughts;
    size_t tail = 0;
    thoughts_begin(&walk, NULL, 0);
    for (int64_t i = 0; i < n; i++) {
        const bool before = walk.thinking;
        size_t size;
        if (walk.channels.tokenizer) {
            walk.thinking = is_thought(&walk, ids[i], &size);
        } else {
            thoughts_token(&walk, ids[i]);
            (void)tokenizer_bytes(tokenizer, i ? ids[i - 1] : -1, ids[i], false, &size);
        }
        tail = walk.thinking == before ? tail + size : size;
        if (ids[i] == walk.end) tail = 0;
    }
    return tail;
}
