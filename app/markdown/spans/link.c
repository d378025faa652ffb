#include "app/markdown/spans/link.h"

#include "app/markdown/spans/entity.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST_PARENTHESES = 32 };

static const LinkEnd NONE = {0, false}, UNSURE = {0, true};

static size_t skip_blanks(const char *text, size_t n, size_t at) {
    while (at < n && strchr(" \t\n", text[at])) at++;
    return at;
}

// Adds a character of an address; returns where the next one is.
static size_t add_one(const char *text, size_t n, size_t at, Text *address) {
    uint32_t code;
    size_t used = text[at] == '&' ? entity_read(text + at, n - at, &code) : 0;
    if (used) {
        text_add_code(address, code);
        return at + used;
    }
    if (text[at] == '\\' && at + 1 < n && ispunct((unsigned char)text[at + 1])) at++;
    text_add(address, text + at, 1);
    return at + 1;
}

// The address at `at`; returns where it ends, 0 where there is none, n where the text ends within.
static size_t read_address(const char *text, size_t n, size_t at, Text *address) {
    if (at < n && text[at] == '<') {
        for (at++; at < n && text[at] != '>';) {
            if (text[at] == '<' || text[at] == '\n') return 0;
            at = add_one(text, n, at, address);
        }
        return at < n ? at + 1 : n;
    }
    int depth = 0;
    while (at < n && (unsigned char)text[at] > ' ' && text[at] != 127) {
        if (text[at] == '(' && ++depth > DEEPEST_PARENTHESES) return 0;
        if (text[at] == ')' && depth-- == 0) break;
        at = add_one(text, n, at, address);
    }
    return at;
}

// Likewise the end of the title at `at`.
static size_t read_title(const char *text, size_t n, size_t at) {
    char end = text[at] == '(' ? ')' : text[at];
    for (at++; at < n && text[at] != end; at++) {
        if (text[at] == '\n' && at + 1 < n && text[at + 1] == '\n') return 0;
        if (text[at] == '\\' && at + 1 < n) at++;
        if (end == ')' && text[at] == '(') return 0;
    }
    return at < n ? at + 1 : n;
}

LinkEnd link_read(const char *text, size_t n, Text *address) {
    if (!n || text[0] != '(') return NONE;
    size_t at = skip_blanks(text, n, 1), after;
    if (at == n) return UNSURE;
    at = read_address(text, n, at, address);
    if (!at) return NONE;
    if (at >= n) return UNSURE;
    after = skip_blanks(text, n, at);
    if (after == n) return UNSURE;
    if (after > at && strchr("\"'(", text[after])) {
        after = read_title(text, n, after);
        if (!after) return NONE;
        after = skip_blanks(text, n, after);
        if (after >= n) return UNSURE;
    }
    return text[after] == ')' ? (LinkEnd){after + 1, false} : NONE;
}

static size_t read_scheme(const char *text, size_t n) {
    size_t at = 1;
    while (at < n && at < 34 && (isalnum((unsigned char)text[at]) || strchr("+.-", text[at]))) at++;
    if (at < 3 || at > 33 || at >= n || text[at] != ':' || !isalpha((unsigned char)text[1])) return 0;
    while (at < n && (unsigned char)text[at] > ' ' && text[at] != '<' && text[at] != '>') at++;
    return at < n && text[at] == '>' ? at + 1 : 0;
}

static size_t read_mail(const char *text, size_t n) {
    size_t at = 1;
    while (at < n && text[at] &&
           (isalnum((unsigned char)text[at]) || strchr(".!#$%&'*+/=?^_`{|}~-", text[at])))
        at++;
    if (at == 1 || at >= n || text[at] != '@') return 0;
    do {
        size_t from = ++at;
        while (at < n && (isalnum((unsigned char)text[at]) || text[at] == '-')) at++;
        if (at == from || at - from > 63 || text[from] == '-' || text[at - 1] == '-') return 0;
    } while (at < n && text[at] == '.');
    return at < n && text[at] == '>' ? at + 1 : 0;
}

size_t link_read_auto(const char *text, size_t n) {
    size_t used = read_scheme(text, n);
    return used ? used : read_mail(text, n);
}
