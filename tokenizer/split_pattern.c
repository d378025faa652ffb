// Oniguruma's regular expressions to PCRE2's. Most of both is the same; what means something else is either
// rewritten or refused, never taken silently.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/split.h"
#include "kernels/base/text_buffer.h"

// Longer patterns are not split rules.
enum { MAX_PATTERN = 1 << 14 };

typedef struct Translation {
    const char *at, *end;
    TextBuffer out;
    bool in_class, nested; // nested: in a class within it
    bool after_repeat;     // the last thing was a counted repetition {n,m}
} Translation;

static Status put(Translation *t, const char *text, Error *error) {
    return text_buffer_append(&t->out, text, strlen(text), error);
}

static Status refuse(const char *what, Error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "a split pattern uses %s, which palaver does not follow",
                     what);
}

// General categories have names of one or two characters; longer names are scripts, which PCRE2 would take
// together with their extensions, or binary properties.
static Status put_property(Translation *t, Error *error) {
    static const char *const binary[] = {"Alphabetic", "White_Space", "Lowercase",
                                         "Uppercase",  "Emoji",       "Any"};
    const char *close =
        t->end - t->at >= 3 && t->at[2] == '{' ? memchr(t->at, '}', (size_t)(t->end - t->at)) : NULL;
    if (!close) return refuse("\\p without braces", error);
    const char *name = t->at + 3;
    bool negated = name < close && *name == '^';
    name += negated;
    size_t size = (size_t)(close - name);
    bool plain = size <= 2;
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
        plain |= strlen(binary[i]) == size && !memcmp(binary[i], name, size);
    }
    Status status = put(t, (t->at[1] == 'P') != negated ? "\\P{" : "\\p{", error);
    if (!status && !plain) status = put(t, "sc:", error);
    if (!status) status = text_buffer_append(&t->out, name, size + 1, error);
    t->at = close + 1;
    return status;
}

static Status put_escape(Translation *t, Error *error) {
    if (t->end - t->at < 2) return refuse("a lone backslash at its end", error);
    char c = t->at[1];
    static const char word[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
    switch (c) {
    case 'p':
    case 'P':
        return put_property(t, error);
    case 's':
        t->at += 2;
        return put(t, "\\p{White_Space}", error);
    case 'S':
        t->at += 2;
        return put(t, "\\P{White_Space}", error);
    case 'w':
    case 'W': {
        if (c == 'W' && t->in_class) return refuse("\\W in a class", error);
        t->at += 2;
        Status status = t->in_class ? STATUS_OK : put(t, c == 'w' ? "[" : "[^", error);
        if (!status) status = put(t, word, error);
        return status || t->in_class ? status : put(t, "]", error);
    }
    case 'u': {
        if (t->end - t->at < 6) return refuse("a cut-off \\u", error);
        Status status = put(t, "\\x{", error);
        if (!status) status = text_buffer_append(&t->out, t->at + 2, 4, error);
        t->at += 6;
        return status ? status : put(t, "}", error);
    }
    default:
        break;
    }
    if (strchr("dDnrtfvxAzZaeR", c) ||
        !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) {
        t->at += 2;
        return text_buffer_append(&t->out, t->at - 2, 2, error);
    }
    char name[] = {'\\', c, 0};
    return refuse(name, error);
}

// What may follow "(?": groups, look-around, and the flags that both read the same.
static bool group_known(const char *at, const char *end) {
    static const char *const known[] = {":", "=", "!", ">", "<=", "<!", "i:", "i)", "-i:", "-i)", "x:"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i]);
        if ((size_t)(end - at) >= n && !memcmp(at, known[i], n)) return true;
    }
    return false;
}

// A class within a class only adds its characters to it: PCRE2, which knows none, is given them without the brackets.
static Status put_nested(Translation *t, bool opens, Error *error) {
    const char *rest = t->at + 1;
    bool odd = opens ? t->nested || rest == t->end || *rest == '^' || *rest == ']' || t->at[-1] == '-'
                     : rest == t->end || *rest == '-';
    if (odd) return refuse("an unusual class within a class", error);
    t->nested = opens;
    t->at++;
    return STATUS_OK;
}

static Status put_plain(Translation *t, Error *error) {
    char c = *t->at;
    bool more = t->end - t->at > 1;
    if (t->in_class) {
        if (c == '&' && more && t->at[1] == '&') return refuse("an intersection of classes", error);
        if (c == '[' || (c == ']' && t->nested)) return put_nested(t, c == '[', error);
        if (c == ']') t->in_class = false;
    } else if (c == '(' && more && t->at[1] == '*') {
        return refuse("a verb (*…)", error);
    } else if (c == '(' && more && t->at[1] == '?' && !group_known(t->at + 2, t->end)) {
        return refuse("an unusual group (?…)", error);
    } else if (c == '+' && t->after_repeat) {
        return refuse("{…}+", error);
    }
    t->after_repeat = !t->in_class && c == '}';
    t->at++;
    return text_buffer_append(&t->out, &c, 1, error);
}

// Opens a class: a ] right at its beginning is a character of it, and [:posix:] names within are copied whole.
static Status put_class_start(Translation *t, Error *error) {
    size_t n = 1 + (t->end - t->at > 1 && t->at[1] == '^');
    if (t->end - t->at > (ptrdiff_t)n && t->at[n] == ']') return refuse("a class that begins with ]", error);
    t->in_class = true;
    t->after_repeat = false;
    Status status = text_buffer_append(&t->out, t->at, n, error);
    t->at += n;
    return status;
}

static Status put_posix(Translation *t, Error *error) {
    const char *close = memmem(t->at, (size_t)(t->end - t->at), ":]", 2);
    if (!close) return refuse("a cut-off [:name:]", error);
    Status status = text_buffer_append(&t->out, t->at, (size_t)(close + 2 - t->at), error);
    t->at = close + 2;
    return status;
}

Status split_pattern_translate(const char *pattern, size_t size, char **out, size_t *out_size, Error *error) {
    *out = NULL;
    if (size == 0 || size > MAX_PATTERN) {
        return error_set(error, STATUS_UNSUPPORTED, "a split pattern of %zu bytes; 1 to %d can be used", size,
                         (int)MAX_PATTERN);
    }
    Translation t = {.at = pattern, .end = pattern + size};
    Status status = STATUS_OK;
    while (t.at < t.end && !status) {
        if (*t.at == '\\') {
            t.after_repeat = false;
            status = put_escape(&t, error);
        } else if (*t.at == '[' && !t.in_class) {
            status = put_class_start(&t, error);
        } else if (*t.at == '[' && t.end - t.at > 1 && t.at[1] == ':') {
            status = put_posix(&t, error);
        } else {
            status = put_plain(&t, error);
        }
    }
    if (status) {
        text_buffer_free(&t.out);
        return status;
    }
    *out = t.out.data;
    *out_size = t.out.n;
    return STATUS_OK;
}
