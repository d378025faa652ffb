// Oniguruma's regular expressions to PCRE2's. Most of both is the same; what means something else is either
// rewritten or refused, never taken silently.
#include <stdlib.h>
#include <string.h>

#include "tokenizer/split/late_characters.h"
#include "tokenizer/split/split.h"
#include "kernels/base/text/text.h"

// Longer patterns are not split rules.
enum { MAX_PATTERN = 1 << 14 };

typedef struct Translation {
    const char *at, *end;
    Text out;
    bool in_class, nested; // nested: in a class within it
    size_t class_start;    // where the class, or an intersection's second one, begins in `out`
    size_t intersected;    // where the first class of an intersection begins, plus 1; 0: no intersection
    bool after_repeat;     // the last thing was a counted repetition {n,m}
} Translation;

static Status put(Translation *t, const char *text, Error *error) {
    return text_append(&t->out, text, strlen(text), error);
}

static Status refuse(const char *what, Error *error) {
    return error_set(error, STATUS_UNSUPPORTED, "a split pattern uses %s, which palaver does not follow",
                     what);
}

// Appends what came late to a class: a category, all of those that begin with a letter, or a property of that name.
static Status put_late(Translation *t, const char *name, size_t size, Error *error) {
    Status status = STATUS_OK;
    for (size_t i = 0; i < sizeof late_characters / sizeof *late_characters && !status; i++) {
        const char *late = late_characters[i].name;
        bool whole = strlen(late) == size && !memcmp(late, name, size);
        bool group = size == 1 && strlen(late) == 2 && *late == *name;
        if (whole || group) status = put(t, late_characters[i].ranges, error);
    }
    return status;
}

// A property as an item of a class, or as a class of its own where there is none. `escape` is its PCRE2 name, "\\p{"
// and all.
static Status put_item(Translation *t, const Text *escape, const char *name, size_t size, bool negated,
                       Error *error) {
    Status status = STATUS_OK;
    if (t->in_class && negated) {
        status = put(t, "\\P", error);
        return status ? status : text_append(&t->out, escape->bytes, escape->size, error);
    }
    if (!t->in_class) status = put(t, negated ? "[^" : "[", error);
    if (!status) status = put(t, "\\p", error);
    if (!status) status = text_append(&t->out, escape->bytes, escape->size, error);
    if (!status) status = put_late(t, name, size, error);
    return status || t->in_class ? status : put(t, "]", error);
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
    Text escape = {0};
    Status status = text_append(&escape, plain ? "{" : "{sc:", plain ? 1 : 4, error);
    if (!status) status = text_append(&escape, name, size + 1, error);
    if (!status) status = put_item(t, &escape, name, size, (t->at[1] == 'P') != negated, error);
    text_free(&escape);
    t->at = close + 1;
    return status;
}

// \d and \D.
static Status put_digit(Translation *t, bool negated, Error *error) {
    char escape[] = "{Nd}";
    t->at += 2;
    return put_item(t, &(Text){escape, 4, 4}, "Nd", 2, negated, error);
}

// The items of \w. Outside of classes Oniguruma asks its own table for Latin-1, which holds six numbers more.
static Status put_word_items(Translation *t, Error *error) {
    static const char *const late[] = {"Alphabetic", "M", "Nd"};
    Status status = put(t, "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}", error);
    if (!status && !t->in_class) status = put(t, "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}", error);
    for (size_t i = 0; i < sizeof late / sizeof *late && !status; i++)
        status = put_late(t, late[i], strlen(late[i]), error);
    return status;
}

// \w, \W, \b and \B.
static Status put_word(Translation *t, char c, Error *error) {
    static const char *const word[] = {"[", "]", NULL}, *const other[] = {"[^", "]", NULL};
    // A place between a word character and none; between two of a kind.
    static const char *const border[] = {"(?:(?<=[", "])(?![", "])|(?<![", "])(?=[", "]))", NULL};
    static const char *const inside[] = {"(?:(?<=[", "])(?=[", "])|(?<![", "])(?![", "]))", NULL};
    t->at += 2;
    if (t->in_class && c == 'w') return put_word_items(t, error);
    if (t->in_class) return refuse(c == 'W' ? "\\W in a class" : "\\b in a class", error);
    const char *const *parts = c == 'w' ? word : c == 'W' ? other : c == 'b' ? border : inside;
    Status status = put(t, *parts, error);
    while (*++parts && !status) {
        status = put_word_items(t, error);
        if (!status) status = put(t, *parts, error);
    }
    return status;
}

static Status put_escape(Translation *t, Error *error) {
    if (t->end - t->at < 2) return refuse("a lone backslash at its end", error);
    char c = t->at[1];
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
    case 'd':
    case 'D':
        return put_digit(t, c == 'D', error);
    case 'w':
    case 'W':
    case 'b':
    case 'B':
        return put_word(t, c, error);
    case 'v': // no class of line breaks, as it is to PCRE2
        t->at += 2;
        return put(t, "\\x0B", error);
    case 'u': {
        if (t->end - t->at < 6) return refuse("a cut-off \\u", error);
        Status status = put(t, "\\x{", error);
        if (!status) status = text_append(&t->out, t->at + 2, 4, error);
        t->at += 6;
        return status ? status : put(t, "}", error);
    }
    default:
        break;
    }
    if (strchr("nrtfxAzZaeR", c) ||
        !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) {
        t->at += 2;
        return text_append(&t->out, t->at - 2, 2, error);
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

// "[first&&[second]]" as "(?:(?=[second])[first])". At the &&: the first class is closed, the second one opened.
static Status put_intersection(Translation *t, Error *error) {
    bool plain = !t->nested && !t->intersected && t->out.bytes[t->class_start + 1] != '^' &&
                 t->end - t->at > 3 && t->at[2] == '[' && t->at[3] != ']';
    if (!plain) return refuse("an unusual intersection of classes", error);
    t->intersected = t->class_start + 1;
    t->at += 3;
    Status status = put(t, "]", error);
    t->class_start = t->out.size;
    if (!status && *t->at == '^')
        status = put(t, "[^", error), t->at++;
    else if (!status)
        status = put(t, "[", error);
    return status;
}

// At the ] of its second class, which the whole one's must follow.
static Status end_intersection(Translation *t, Error *error) {
    if (t->end - t->at < 2 || t->at[1] != ']') return refuse("an unusual intersection of classes", error);
    size_t first = t->intersected - 1, second = t->class_start, stop = t->out.size;
    Text both = {0};
    Status status = text_append(&both, "(?:(?=", 6, error);
    if (!status) status = text_append(&both, t->out.bytes + second, stop - second, error);
    if (!status) status = text_append(&both, "])", 2, error);
    if (!status) status = text_append(&both, t->out.bytes + first, second - first, error);
    if (!status) status = text_append(&both, ")", 1, error);
    t->out.size = first;
    if (!status) status = text_append(&t->out, both.bytes, both.size, error);
    text_free(&both);
    t->in_class = false;
    t->intersected = 0;
    t->at += 2;
    return status;
}

static Status put_plain(Translation *t, Error *error) {
    char c = *t->at;
    bool more = t->end - t->at > 1;
    if (t->in_class) {
        if (c == '&' && more && t->at[1] == '&') return put_intersection(t, error);
        if (c == '[' || (c == ']' && t->nested)) return put_nested(t, c == '[', error);
        if (c == ']' && t->intersected) return end_intersection(t, error);
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
    return text_append(&t->out, &c, 1, error);
}

// Opens a class: a ] right at its beginning is a character of it, and [:posix:] names within are copied whole.
static Status put_class_start(Translation *t, Error *error) {
    size_t n = 1 + (t->end - t->at > 1 && t->at[1] == '^');
    if (t->end - t->at > (ptrdiff_t)n && t->at[n] == ']') return refuse("a class that begins with ]", error);
    t->in_class = true;
    t->class_start = t->out.size;
    t->after_repeat = false;
    Status status = text_append(&t->out, t->at, n, error);
    t->at += n;
    return status;
}

// [:name:] within a class, by the properties that Oniguruma takes for it.
static Status put_posix(Translation *t, Error *error) {
    static const struct {
        const char *name, *items, *late[2];
    } names[] = {{"alpha", "\\p{Alphabetic}", {"Alphabetic"}},
                 {"alnum", "\\p{Alphabetic}\\p{Nd}", {"Alphabetic", "Nd"}},
                 {"punct", "\\p{P}\\p{S}", {"P", "S"}},
                 {"upper", "\\p{Uppercase}", {"Lu"}},
                 {"lower", "\\p{Lowercase}", {"Ll"}},
                 {"digit", "\\p{Nd}", {"Nd"}},
                 {"space", "\\p{White_Space}", {NULL}},
                 {"blank", "\\p{Zs}\\t", {NULL}},
                 {"cntrl", "\\p{Cc}", {NULL}},
                 {"xdigit", "0-9A-Fa-f", {NULL}},
                 {"ascii", "\\x00-\\x7F", {NULL}}};
    const char *close = memmem(t->at, (size_t)(t->end - t->at), ":]", 2);
    size_t size = close ? (size_t)(close - t->at - 2) : 0;
    bool word = size == 4 && !memcmp(t->at + 2, "word", 4);
    if (word) t->at = close + 2;
    if (word) return put_word_items(t, error);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (size != strlen(names[i].name) || memcmp(t->at + 2, names[i].name, size) != 0) continue;
        t->at = close + 2;
        Status status = put(t, names[i].items, error);
        for (int k = 0; k < 2 && names[i].late[k] && !status; k++)
            status = put_late(t, names[i].late[k], strlen(names[i].late[k]), error);
        return status;
    }
    return refuse("an unusual [:name:]", error);
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
        text_free(&t.out);
        return status;
    }
    *out = t.out.bytes;
    *out_size = t.out.size;
    return STATUS_OK;
}
