#include "app/markdown/spans/maths.h"

#include <ctype.h>
#include <string.h>

static const MathsEnd NONE = {0, false}, UNSURE = {0, true};

static bool is_word(const char *text, size_t n, size_t at) {
    return at < n && isalnum((unsigned char)text[at]);
}

static bool is_blank(const char *text, size_t n, size_t at) {
    return at >= n || strchr(" \t\n", text[at]);
}

static bool begins_line(const char *text, size_t at) {
    while (at && strchr(" \t", text[at - 1])) at--;
    return !at || text[at - 1] == '\n';
}

static size_t dollars(const char *text, size_t n, size_t at) {
    size_t count = 0;
    while (at + count < n && text[at + count] == '$') count++;
    return count;
}

// Where what begins before `at` goes on to: the next `$`, or the next backslash before `end`, if that is not 0. Pairs of a
// backslash and a sign stay together. n: the text ends before; *none: it is no mathematics.
static size_t find_end(const char *text, size_t n, size_t at, char end, bool *none) {
    for (; at < n; at++) {
        if (text[at] == '`' || (text[at] == '*' && at + 1 < n && text[at + 1] == '*')) *none = true;
        if (*none || (!end && text[at] == '$')) return at;
        if (text[at] != '\\' || at + 1 == n) continue;
        if (end && text[at + 1] == end) return at;
        at++;
    }
    return n;
}

// `\(…\)`, `\[…\]`. Behind a word it is an escape (`array\[0\]`), and so it is of a number (`\[1\]`), of nothing (`\[ \]`)
// and of a link (`\[text\](address)`).
static MathsEnd read_brackets(const char *text, size_t n, size_t at) {
    bool none = at && is_word(text, n, at - 1);
    const char end = text[at + 1] == '(' ? ')' : ']';
    size_t to = none ? 0 : find_end(text, n, at + 2, end, &none);
    if (none) return NONE;
    if (to == n) return UNSURE;
    if (at + 2 + strspn(text + at + 2, "0123456789 ,") == to) return NONE;
    return to + 2 < n && end == ']' && text[to + 2] == '(' ? NONE : (MathsEnd){to + 2 - at, false};
}

// `5`, `1,000.50`, as long as a person may have meant money by it: what follows is no formula's.
static bool is_price(const char *text, size_t n, size_t at) {
    if (at == n || !isdigit((unsigned char)text[at])) return false;
    while (at < n && (isdigit((unsigned char)text[at]) || strchr(".,", text[at]))) at++;
    if (is_blank(text, n, at) || strchr(")!?;:\"'", text[at])) return true;
    return strchr("*_", text[at]) && !is_word(text, n, at + 1);
}

static MathsEnd read_dollar(const char *text, size_t n, size_t at) {
    bool none = (at && is_word(text, n, at - 1)) || is_blank(text, n, at + 1) || is_price(text, n, at + 1);
    size_t to = none ? n : find_end(text, n, at + 1, 0, &none);
    if (none || to == n || memchr(text + at, '\n', to - at)) return NONE;
    if (is_blank(text, n, to - 1) || dollars(text, n, to) != 1 || is_word(text, n, to + 1)) return NONE;
    return (MathsEnd){to + 1 - at, false};
}

static MathsEnd read_dollars(const char *text, size_t n, size_t at) {
    bool none = false;
    size_t to = at + 2, count;
    for (; (to = find_end(text, n, to, 0, &none)) < n && !none; to += count)
        if ((count = dollars(text, n, to)) == 2) return (MathsEnd){to + 2 - at, false};
    return none || !begins_line(text, at) ? NONE : UNSURE;
}

MathsEnd maths_read(const char *text, size_t n, size_t at) {
    if (text[at] == '\\') return at + 1 < n && strchr("([", text[at + 1]) ? read_brackets(text, n, at) : NONE;
    const size_t count = at && text[at - 1] == '$' ? 0 : dollars(text, n, at);
    return count == 1 ? read_dollar(text, n, at) : count == 2 ? read_dollars(text, n, at) : NONE;
}

bool maths_is_open(const char *text, size_t n) {
    for (size_t at = 0; at < n;) {
        MathsEnd end = NONE;
        while (at < n && strchr(" \t", text[at])) at++;
        if (at + 1 < n && (!memcmp(text + at, "$$", 2) || !memcmp(text + at, "\\[", 2)))
            end = maths_read(text, n, at);
        if (end.unsure) return true;
        at += end.used;
        const char *next = at < n ? memchr(text + at, '\n', n - at) : NULL;
        at = next ? (size_t)(next + 1 - text) : n;
    }
    return false;
}
