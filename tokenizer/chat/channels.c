#include "tokenizer/chat/channels.h"

#include <string.h>

static const char OPEN[] = "<think>\n", CLOSE[] = "\n</think>\n\n", BREAK[] = "\n\n", THOUGHT[] = "analysis";

static int32_t find_control(const Tokenizer *tokenizer, const char *piece) {
    int32_t id = tokenizer_find(tokenizer, piece);
    return id >= 0 && tokenizer_kind(tokenizer, id) == TOKEN_CONTROL ? id : -1;
}

void channels_find(Channels *channels, const Tokenizer *tokenizer) {
    *channels = (Channels){.start = find_control(tokenizer, "<|start|>"),
                           .channel = find_control(tokenizer, "<|channel|>"),
                           .message = find_control(tokenizer, "<|message|>"),
                           .end = find_control(tokenizer, "<|end|>")};
    bool all = channels->start >= 0 && channels->channel >= 0 && channels->message >= 0 && channels->end >= 0;
    channels->tokenizer = all ? tokenizer : NULL;
}

// The template has written <|start|>assistant; a reply that begins without a header is an answer.
void channels_begin(Channels *channels) {
    channels->header = channels->naming = channels->thinking = channels->spoken = false;
    channels->n_name = 0;
}

static const char *begin_message(Channels *c) {
    c->thinking = c->n_name == strlen(THOUGHT) && memcmp(c->name, THOUGHT, c->n_name) == 0;
    const char *seen = c->thinking ? OPEN : c->spoken ? BREAK : "";
    c->header = c->naming = c->spoken = false;
    return seen;
}

static const char *end_message(Channels *c) {
    const char *seen = c->thinking ? CLOSE : "";
    c->spoken = !c->header && !c->thinking;
    c->header = true;
    c->naming = c->thinking = false;
    c->n_name = 0;
    return seen;
}

// The name ends at a space, behind which a recipient stands.
static void add_name(Channels *c, const char *bytes, size_t size) {
    for (size_t i = 0; i < size && c->naming; i++) {
        c->naming = bytes[i] != ' ' && c->n_name < sizeof c->name;
        if (c->naming) c->name[c->n_name++] = bytes[i];
    }
}

void channels_token(Channels *c, int32_t id, const char **bytes, size_t *size) {
    const char *seen = "";
    if (!c->tokenizer) return;
    if (id == c->message) {
        seen = begin_message(c);
    } else if (id == c->end) {
        seen = end_message(c);
    } else if (id == c->start || id == c->channel) {
        c->header = true;
        c->naming = id == c->channel;
        c->n_name = 0;
    } else if (!c->header) {
        return;
    } else {
        add_name(c, *bytes, *size);
    }
    *bytes = seen;
    *size = strlen(seen);
}

void channels_answer(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, int64_t *from, int64_t *to) {
    Channels c;
    channels_find(&c, tokenizer);
    *from = 0;
    *to = n;
    bool open = true; // the answer's end is not known
    for (int64_t i = 0; i < n && c.tokenizer; i++) {
        size_t size;
        const char *bytes = tokenizer_bytes(tokenizer, -1, ids[i], false, &size);
        bool header = c.header;
        channels_token(&c, ids[i], &bytes, &size);
        if (ids[i] == c.message && !c.thinking) *from = i + 1, *to = n, open = true;
        if (ids[i] == c.message && c.thinking && open) *from = *to = i, open = false;
        if (open && !header && c.header) *to = i, open = false;
    }
}

TokenText channels_answer_text(const Tokenizer *tokenizer, TokenText text) {
    static const char MARK[] = "</think>";
    const char *found = NULL, *end = text.text + text.size;
    Channels c;
    channels_find(&c, tokenizer);
    if (!c.tokenizer || text.size < strlen(OPEN) || memcmp(text.text, OPEN, strlen(OPEN)) != 0) return text;
    for (const char *at = text.text; (at = memmem(at, (size_t)(end - at), MARK, strlen(MARK)));)
        found = at += strlen(MARK);
    if (!found) return (TokenText){end, 0}; // cut short within the thought
    while (found < end && *found == '\n') found++;
    return (TokenText){found, (size_t)(end - found)};
}

Status channels_encode(const Tokenizer *tokenizer, TokenText text, Tokens *tokens, Error *error) {
    static const char ANALYSIS[] = "<|channel|>analysis<|message|>", FINAL[] = "<|channel|>final<|message|>",
                      NEXT[] = "<|end|><|start|>assistant";
    Channels c;
    channels_find(&c, tokenizer);
    if (!c.tokenizer) return tokenizer_encode(tokenizer, text.text, text.size, false, tokens, error);
    TokenText answer = channels_answer_text(tokenizer, text);
    size_t before = (size_t)(answer.text - text.text), open = before ? strlen(OPEN) : 0,
           thought = before - open;
    const char *close = before ? memmem(text.text, before, "</think>", strlen("</think>")) : NULL;
    if (close) thought = (size_t)(close - text.text) - open;
    while (close && thought && text.text[open + thought - 1] == '\n') thought--;
    const TextSpan spans[] = {{ANALYSIS, before ? strlen(ANALYSIS) : 0, true},
                              {text.text + open, thought, false},
                              {NEXT, close ? strlen(NEXT) : 0, true},
                              {FINAL, close || !before ? strlen(FINAL) : 0, true},
                              {answer.text, answer.size, false}};
    return tokenizer_encode_spans(tokenizer, spans, 5, true, tokens, error);
}
