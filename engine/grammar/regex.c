#include "engine/grammar/regex.h"

#include "kernels/base/text/utf8.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 200, MOST_CODES = 4096 }; // groups in each other; ranges of one class

typedef struct Reader {
    Builder *builder;
    const char *begin, *at, *end;
    RegexUse use;
    int depth;
    ExprCodes *codes, *others; // [MOST_CODES + 2] of the class in hand, and room
    size_t n_codes;
} Reader;

static bool failed(const Reader *r) {
    return r->builder->error.status != STATUS_OK;
}

static void fail(Reader *r, const char *what) {
    expr_fail(r->builder, STATUS_USAGE, "the pattern's character %zu: %s", (size_t)(r->at - r->begin) + 1,
              what);
}

static void refuse(Reader *r, const char *what) {
    expr_fail(r->builder, STATUS_UNSUPPORTED,
              "the pattern's character %zu: %s cannot be decided as text is written",
              (size_t)(r->at - r->begin) + 1, what);
}

static bool take(Reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

// ---- characters ---------------------------------------------------------------------------------------------------

static void add_codes(Reader *r, uint32_t first, uint32_t last) {
    if (r->n_codes >= MOST_CODES) return fail(r, "a class of too many characters");
    r->codes[r->n_codes++] = (ExprCodes){first, last};
}

static void add_without(Reader *r, const ExprCodes *codes, size_t n, uint32_t last) {
    uint32_t from = 0;
    for (size_t i = 0; i < n; i++) {
        if (codes[i].first > from) add_codes(r, from, codes[i].first - 1);
        from = codes[i].last + 1;
    }
    if (from <= last) add_codes(r, from, last);
}

// \d, \w, \s, or, in capitals, what they are not. False: it is none of them.
static bool add_shorthand(Reader *r, char letter) {
    static const ExprCodes digits[] = {{'0', '9'}},
                           words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                           spaces[] = {{'\t', '\r'}, {' ', ' '}};
    char small = (char)tolower((unsigned char)letter);
    const ExprCodes *codes = small == 'd' ? digits : small == 'w' ? words : small == 's' ? spaces : NULL;
    size_t n = small == 'w' ? 4 : small == 's' ? 2 : 1;
    if (!codes) return false;
    if (letter != small) {
        add_without(r, codes, n, r->use == REGEX_JSON_STRING ? 0x7F : EXPR_LAST_CODE);
    } else {
        for (size_t i = 0; i < n; i++) add_codes(r, codes[i].first, codes[i].last);
    }
    return true;
}

static uint32_t read_hex(Reader *r, int least, int most) {
    uint32_t code;
    if (expr_hex(&r->at, r->end, most, &code) < least) fail(r, "an escape lacks hexadecimal digits");
    if (code > EXPR_LAST_CODE) fail(r, "an escape is no character");
    return failed(r) ? 0 : code;
}

// \u and four digits, or two of these that are one character beyond 0xFFFF.
static uint32_t read_unit(Reader *r) {
    uint32_t code = read_hex(r, 4, 4);
    if (code < 0xD800 || code >= 0xE000) return code;
    uint32_t low = code < 0xDC00 && take(r, "\\u") ? read_hex(r, 4, 4) : 0;
    if (low < 0xDC00 || low >= 0xE000) fail(r, "half a character");
    return 0x10000 + ((code - 0xD800) << 10) + ((low - 0xDC00) & 0x3FF);
}

// The character that an escape behind \ means.
static uint32_t read_escape(Reader *r) {
    static const char letters[] = "nrtfv", codes[] = "\n\r\t\f\v";
    char c = r->at < r->end ? *r->at : 0;
    const char *found = c ? strchr(letters, c) : NULL;
    uint32_t code;
    if (found) {
        r->at++;
        return (uint32_t)codes[found - letters];
    }
    if (c == '0' && !(r->end - r->at > 1 && isdigit((unsigned char)r->at[1]))) {
        r->at++;
        return 0;
    }
    if (take(r, "x")) return read_hex(r, 2, 2);
    if (take(r, "u{")) {
        code = read_hex(r, 1, 6);
        if (!take(r, "}")) fail(r, "a } is missing");
        return code;
    }
    if (take(r, "u")) return read_unit(r);
    if (isdigit((unsigned char)c) || c == 'k') {
        refuse(r, "a reference back");
        return 0;
    }
    if (isalpha((unsigned char)c) || r->at >= r->end) {
        if (c == 'b' || c == 'B' || c == 'A' || c == 'Z' || c == 'p' || c == 'P')
            refuse(r, "this escape");
        else
            fail(r, "an unknown escape");
        return 0;
    }
    int n = utf8_next(r->at, (size_t)(r->end - r->at), &code);
    r->at += n > 0 ? n : 1;
    return code;
}

// The class in hand as an expression.
static Expr class_of(Reader *r, bool negated) {
    if (failed(r)) return EXPR_NOTHING;
    if (r->use == REGEX_WHOLE) return expr_codes(r->builder, r->codes, r->n_codes, negated);
    if (!negated) return regex_json_codes(r->builder, r->codes, r->n_codes);
    size_t n = expr_merge_codes(r->codes, r->n_codes);
    n = expr_complement(r->codes, n, r->others);
    return regex_json_codes(r->builder, r->others, n);
}

static Expr one_code(Reader *r, uint32_t code) {
    r->n_codes = 0;
    add_codes(r, code, code);
    return class_of(r, false);
}

Expr regex_json_codes(Builder *b, ExprCodes *codes, size_t n) {
    static const struct {
        uint32_t code;
        const char *escape;
    } shorts[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                  {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
    Expr whole = EXPR_NEVER;
    n = expr_merge_codes(codes, n);
    ExprCodes *plain = malloc((n + 3) * 2 * sizeof *plain);
    if (!plain) {
        expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NOTHING;
    }
    size_t n_plain = 0;
    // What may stand for itself: not the quote, the backslash, nor what is below the space.
    static const ExprCodes allowed[] = {{' ', '!'}, {'#', '['}, {']', EXPR_LAST_CODE}};
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 3; k++) {
            uint32_t first = codes[i].first > allowed[k].first ? codes[i].first : allowed[k].first;
            uint32_t last = codes[i].last < allowed[k].last ? codes[i].last : allowed[k].last;
            if (first <= last && n_plain < (n + 3) * 2) plain[n_plain++] = (ExprCodes){first, last};
        }
        for (uint32_t c = codes[i].first; c <= codes[i].last && c <= '\\'; c++) {
            char text[8] = "";
            for (size_t k = 0; k < sizeof shorts / sizeof *shorts; k++)
                if (shorts[k].code == c) snprintf(text, sizeof text, "%s", shorts[k].escape);
            if (!*text && c < ' ') snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
            if (*text) whole = expr_alt(b, whole, expr_text(b, text, strlen(text)));
        }
    }
    if (n_plain > 0) whole = expr_alt(b, whole, expr_codes(b, plain, n_plain, false));
    free(plain);
    return whole;
}

// One character or shorthand of a class; *single: it may begin or end a range.
static uint32_t read_member(Reader *r, bool *single) {
    uint32_t code = 0;
    *single = true;
    if (take(r, "\\")) {
        if (r->at < r->end && add_shorthand(r, *r->at)) {
            r->at++;
            *single = false;
        } else if (take(r, "b")) {
            code = '\b';
        } else {
            code = read_escape(r);
        }
        return code;
    }
    int n = utf8_next(r->at, (size_t)(r->end - r->at), &code);
    r->at += n > 0 ? n : 1;
    return code;
}

static Expr read_class(Reader *r) {
    bool negated = take(r, "^"), first = true, single, also;
    r->n_codes = 0;
    for (; !failed(r) && r->at < r->end && (*r->at != ']' || (first && r->use == REGEX_WHOLE));
         first = false) {
        uint32_t from = read_member(r, &single), to = from;
        if (single && r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            to = read_member(r, &also);
            if (!also || to < from) fail(r, "a range that ends before it begins");
        }
        if (single) add_codes(r, from, to);
    }
    if (!failed(r) && !take(r, "]")) fail(r, "a [ that is not closed");
    // Beyond ASCII, case and classes differ between languages, but the complement of what is listed does not.
    return class_of(r, negated);
}

static Expr any_but_newlines(Reader *r) {
    r->n_codes = 0;
    add_codes(r, '\n', '\n');
    if (r->use == REGEX_JSON_STRING) {
        add_codes(r, '\r', '\r');
        add_codes(r, 0x2028, 0x2029);
    }
    return class_of(r, true);
}

// ---- the structure ------------------------------------------------------------------------------------------------

static Expr read_alternatives(Reader *r);

static Expr read_group(Reader *r) {
    if (take(r, "?")) {
        bool named = take(r, "P<");
        if (!named && (take(r, "=") || take(r, "!") || take(r, "<=") || take(r, "<!")))
            refuse(r, "looking around");
        else if (!named && !take(r, ":") && !(named = take(r, "<")))
            fail(r, "an unknown kind of group");
        if (named) {
            while (r->at < r->end && (isalnum((unsigned char)*r->at) || *r->at == '_')) r->at++;
            if (!take(r, ">")) fail(r, "a group's name does not end");
        }
    }
    if (++r->depth > DEEPEST) fail(r, "too many groups in each other");
    Expr group = failed(r) ? EXPR_NOTHING : read_alternatives(r);
    r->depth--;
    if (!failed(r) && !take(r, ")")) fail(r, "a ) is missing");
    return group;
}

static bool read_bounds(Reader *r, int *min, int *max) {
    char *end;
    const char *p = r->at + 1;
    if (r->at >= r->end || *r->at != '{' || !isdigit((unsigned char)*p)) return false;
    long low = strtol(p, &end, 10), high = low;
    if (*end == ',') {
        p = end + 1;
        if (isdigit((unsigned char)*p))
            high = strtol(p, &end, 10);
        else
            high = -1, end++;
    }
    if (*end != '}') return false;
    r->at = end + 1;
    if (high >= 0 && high < low) fail(r, "a repetition whose end is before its beginning");
    *min = (int)(low > EXPR_MOST_REPEATS ? EXPR_MOST_REPEATS + 1 : low);
    *max = (int)(high > EXPR_MOST_REPEATS ? EXPR_MOST_REPEATS + 1 : high);
    return true;
}

// How often the atom before comes. False: it says nothing, once.
static bool read_counts(Reader *r, int *min, int *max) {
    *min = 0, *max = -1;
    if (failed(r)) return false;
    if (take(r, "+"))
        *min = 1;
    else if (take(r, "?"))
        *max = 1;
    else if (!take(r, "*") && !read_bounds(r, min, max))
        return false;
    (void)take(r, "?");
    if (r->at < r->end && (*r->at == '*' || *r->at == '+' || *r->at == '?'))
        fail(r, "a repetition of a repetition");
    return !failed(r);
}

static Expr read_repeat(Reader *r, Expr what) {
    int min, max;
    return read_counts(r, &min, &max) ? expr_repeat(r->builder, what, min, max) : what;
}

static Expr read_atom(Reader *r) {
    uint32_t code;
    if (take(r, "(")) return read_group(r);
    if (take(r, "[")) return read_class(r);
    if (take(r, ".")) return any_but_newlines(r);
    if (take(r, "\\")) {
        r->n_codes = 0;
        if (r->at < r->end && add_shorthand(r, *r->at)) {
            r->at++;
            return class_of(r, false);
        }
        return one_code(r, read_escape(r));
    }
    if (strchr("*+?", *r->at)) fail(r, "there is nothing to repeat");
    if (*r->at == '^' || *r->at == '$') fail(r, "^ and $ can only stand around the whole pattern");
    int n = utf8_next(r->at, (size_t)(r->end - r->at), &code);
    r->at += n > 0 ? n : 1;
    return failed(r) ? EXPR_NOTHING : one_code(r, code);
}

// Any text, before or behind a match that may lie anywhere.
static Expr anything(Reader *r) {
    r->n_codes = 0;
    return expr_repeat(r->builder, class_of(r, true), 0, -1);
}

static Expr read_sequence(Reader *r) {
    const bool outer = r->depth == 0, search = outer && r->use == REGEX_JSON_STRING;
    bool begins = outer && take(r, "^"), ends = false;
    Expr whole = search && !begins ? anything(r) : EXPR_NOTHING;
    while (!failed(r) && !ends && r->at < r->end && *r->at != '|' && *r->at != ')') {
        ends = outer && *r->at == '$' && (r->at + 1 == r->end || r->at[1] == '|');
        if (ends)
            r->at++;
        else
            whole = expr_seq(r->builder, whole, read_repeat(r, read_atom(r)));
    }
    return search && !ends ? expr_seq(r->builder, whole, anything(r)) : whole;
}

static Expr read_alternatives(Reader *r) {
    Expr whole = EXPR_NEVER;
    do whole = expr_alt(r->builder, whole, read_sequence(r));
    while (!failed(r) && take(r, "|"));
    return whole;
}

static bool open_reader(Reader *r) {
    r->codes = malloc((MOST_CODES + 2) * sizeof *r->codes);
    r->others = malloc((MOST_CODES + 2) * sizeof *r->others);
    if (!r->codes || !r->others)
        expr_fail(r->builder, STATUS_MEMORY, "no memory for a grammar");
    else if (strlen(r->begin) != (size_t)(r->end - r->begin))
        fail(r, "there is a NUL");
    return !failed(r);
}

static void close_reader(Reader *r) {
    free(r->codes);
    free(r->others);
}

bool regex_read_counted(Builder *builder, const char *pattern, size_t size, const int counts[2],
                        Expr *whole) {
    Reader r = {
        .builder = builder, .begin = pattern, .at = pattern, .end = pattern + size, .use = REGEX_JSON_STRING};
    int min, max;
    bool counted = false;
    if (size > 2 && pattern[0] == '^' && !strchr("($|)", pattern[1]) && open_reader(&r)) {
        r.at++;
        const Expr one = read_atom(&r);
        counted = read_counts(&r, &min, &max) && r.at + 1 == r.end && *r.at == '$';
        if (counted && counts[0] > min) min = counts[0];
        if (counted && counts[1] >= 0 && (max < 0 || counts[1] < max)) max = counts[1];
        if (counted) *whole = max >= 0 && max < min ? EXPR_NEVER : expr_repeat(builder, one, min, max);
    }
    close_reader(&r);
    return counted && !failed(&r);
}

Expr regex_read(Builder *builder, const char *pattern, size_t size, RegexUse use) {
    Reader r = {.builder = builder, .begin = pattern, .at = pattern, .end = pattern + size, .use = use};
    const Expr whole = open_reader(&r) ? read_alternatives(&r) : EXPR_NOTHING;
    if (!failed(&r) && r.at < r.end) fail(&r, "a ) without (");
    close_reader(&r);
    return whole;
}
