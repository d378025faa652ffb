#include "app/markdown/code.h"

#include "kernels/base/text/utf8.h"

#include <ctype.h>
#include <string.h>

typedef struct Coder {
    const char *line;
    size_t n, at;
    Cells *out;
} Coder;

static void put(Coder *c, size_t n, CellInk ink) {
    size_t end = c->at + n > c->n ? c->n : c->at + n;
    while (c->at < end) {
        uint32_t code;
        int used = utf8_next(c->line + c->at, c->n - c->at, &code);
        cell_add(c->out, (Cell){.code = used > 0 ? code : UTF8_REPLACEMENT, .ink = (uint8_t)ink});
        c->at += used > 0 ? (size_t)used : used < 0 ? (size_t)-used : c->n - c->at;
    }
}

static bool stands(const Coder *c, const char *text) {
    size_t n = text ? strlen(text) : 0;
    return n && c->n - c->at >= n && !memcmp(c->line + c->at, text, n);
}

// What is open up to its end, or the line's.
static void go_on(Coder *c, CodeState *state) {
    const size_t size = strlen(state->end);
    size_t n = 0;
    while (c->at + n + size <= c->n && memcmp(c->line + c->at + n, state->end, size) != 0)
        n += state->ink == INK_STRING && c->line[c->at + n] == '\\' ? 2 : 1;
    bool ends = c->at + n + size <= c->n;
    put(c, ends ? n + size : c->n - c->at, state->ink);
    if (ends) state->end = NULL;
}

static void read_string(Coder *c) {
    size_t n = 1;
    char quote = c->line[c->at];
    while (c->at + n < c->n && c->line[c->at + n] != quote) n += c->line[c->at + n] == '\\' ? 2 : 1;
    // An apostrophe that nothing closes is one.
    put(c,
        c->at + n < c->n ? n + 1
        : quote == '\''  ? 1
                         : n,
        c->at + n < c->n || quote != '\'' ? INK_STRING : INK_CODE);
}

static bool is_word(char c) {
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

static void read_word(Coder *c, const Language *language) {
    size_t n = 0;
    while (c->at + n < c->n && is_word(c->line[c->at + n])) n++;
    const char *before = c->at ? c->line + c->at - 1 : "";
    bool tag =
        language->tags && c->at && (*before == '<' || (*before == '/' && c->at > 1 && before[-1] == '<'));
    bool number = isdigit((unsigned char)c->line[c->at]);
    if (number && c->at + n + 1 < c->n && c->line[c->at + n] == '.' &&
        isdigit((unsigned char)c->line[c->at + n + 1]))
        for (n++; c->at + n < c->n && is_word(c->line[c->at + n]);) n++;
    bool word = tag || language_has_word(language, c->line + c->at, n);
    put(c, n, number ? INK_NUMBER : word ? INK_KEYWORD : INK_CODE);
}

// What begins here and may hold lines. True: it did.
static bool begin_long(Coder *c, const Language *language, CodeState *state) {
    if (stands(c, language->comment)) {
        *state = (CodeState){language->end, INK_COMMENT};
        put(c, strlen(language->comment), INK_COMMENT);
        return true;
    }
    for (int i = 0; i < 2; i++) {
        if (!stands(c, language->long_quotes[i])) continue;
        *state = (CodeState){language->long_quotes[i], INK_STRING};
        put(c, strlen(language->long_quotes[i]), INK_STRING);
        return true;
    }
    return false;
}

// A sign that begins a comment only where it is no part of a word: `a#b`, `$#`.
static bool begins_comment(const Coder *c, const char *sign) {
    if (!stands(c, sign)) return false;
    return sign[0] != '#' || !c->at || strchr(" \t;({[", c->line[c->at - 1]);
}

void code_render(const Language *language, CodeState *state, const char *line, size_t n, Cells *out) {
    Coder c = {line, n, 0, out};
    if (!language) {
        put(&c, n, INK_CODE);
        return;
    }
    while (c.at < n) {
        if (state->end)
            go_on(&c, state);
        else if (begin_long(&c, language, state))
            continue;
        else if (begins_comment(&c, language->line_comment[0]) ||
                 begins_comment(&c, language->line_comment[1]))
            put(&c, n, INK_COMMENT);
        else if (language->quotes && line[c.at] && strchr(language->quotes, line[c.at]))
            read_string(&c);
        else if (is_word(line[c.at]))
            read_word(&c, language);
        else
            put(&c, 1, INK_CODE);
    }
}
