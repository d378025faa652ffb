#include "engine/grammar/gbnf.h"

#include "kernels/base/array.h"
#include "kernels/base/hash.h"
#include "kernels/base/text/utf8.h"

#include <ctype.h>

enum { DEEPEST = 200, NAMES = 2 * EXPR_MOST_RULES }; // parentheses in each other

typedef struct Reader {
    Builder *builder;
    const char *begin, *at, *end;
    int depth;
    uint32_t *names; // [NAMES] rules by the hash of their names: 1 + the rule
} Reader;

static bool failed(const Reader *r) {
    return r->builder->error.status != STATUS_OK;
}

static void fail(Reader *r, const char *what) {
    int line = 1;
    for (const char *p = r->begin; p < r->at; p++) line += *p == '\n';
    int shown = (int)strcspn(r->at, "\r\n");
    if (shown > 40) shown = (int)utf8_valid_run(r->at, 40);
    expr_fail(r->builder, STATUS_USAGE, "line %d: %s%s%.*s", line, what,
              shown ? ", before " : " before the line's end", shown, r->at);
}

static bool is_name(char c) {
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

static void skip_space(Reader *r, bool lines) {
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            while (r->at + 1 < r->end && r->at[1] != '\n' && r->at[1] != '\r') r->at++;
        else if (*r->at != ' ' && *r->at != '\t' && !(lines && (*r->at == '\n' || *r->at == '\r')))
            break;
    }
}

static bool take(Reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

// ---- characters ---------------------------------------------------------------------------------------------------

static uint32_t read_hex(Reader *r, int digits) {
    uint32_t code;
    if (expr_hex(&r->at, r->end, digits, &code) < digits) fail(r, "an escape lacks hexadecimal digits");
    if (code > EXPR_LAST_CODE || (code >= 0xD800 && code < 0xE000)) fail(r, "an escape is no character");
    return failed(r) ? 0 : code;
}

// One character of a text or of [ ], or its escape.
static uint32_t read_code(Reader *r) {
    uint32_t code = 0;
    if (*r->at != '\\') {
        int n = utf8_next(r->at, (size_t)(r->end - r->at), &code);
        r->at += n > 0 ? n : 1;
        return code;
    }
    r->at++;
    static const char letters[] = "nrt\\\"[]", codes[] = "\n\r\t\\\"[]";
    const char *found = r->at < r->end && *r->at ? strchr(letters, *r->at) : NULL;
    if (found) {
        r->at++;
        return (uint32_t)(unsigned char)codes[found - letters];
    }
    if (take(r, "x")) return read_hex(r, 2);
    if (take(r, "u")) return read_hex(r, 4);
    if (take(r, "U")) return read_hex(r, 8);
    fail(r, "an unknown escape");
    return 0;
}

static bool in_text(Reader *r, char end) {
    if (failed(r)) return false;
    if (r->at < r->end && *r->at != '\n') return *r->at != end;
    fail(r, end == '"' ? "a text that is not closed" : "a [ that is not closed");
    return false;
}

static Expr read_text(Reader *r) {
    Expr whole = EXPR_NOTHING;
    while (in_text(r, '"')) {
        char bytes[4];
        int n = utf8_write(read_code(r), bytes);
        whole = expr_seq(r->builder, whole, expr_text(r->builder, bytes, (size_t)n));
    }
    if (!failed(r)) r->at++;
    return whole;
}

static Expr read_class(Reader *r) {
    ExprCodes *codes = NULL;
    size_t n = 0, capacity = 0;
    bool negated = take(r, "^");
    while (in_text(r, ']')) {
        uint32_t first = read_code(r), last = first;
        if (r->end - r->at > 1 && r->at[0] == '-' && r->at[1] != ']') {
            r->at++;
            last = read_code(r);
        }
        if (last < first) fail(r, "a range that ends before it begins");
        if (!array_reserve(&codes, sizeof *codes, n, 1, &capacity)) {
            expr_fail(r->builder, STATUS_MEMORY, "no memory for a grammar");
            break;
        }
        codes[n++] = (ExprCodes){first, last};
    }
    if (!failed(r)) r->at++;
    Expr whole = failed(r) ? EXPR_NOTHING : expr_codes(r->builder, codes, n, negated);
    free(codes);
    return whole;
}

// ---- rules --------------------------------------------------------------------------------------------------------

static int read_count(Reader *r) {
    long count = 0;
    if (r->at >= r->end || !isdigit((unsigned char)*r->at)) fail(r, "a number is missing");
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
        if (count <= EXPR_MOST_REPEATS) count = count * 10 + (*r->at - '0');
    return (int)(count > EXPR_MOST_REPEATS ? EXPR_MOST_REPEATS + 1 : count);
}

static Expr read_repeats(Reader *r, Expr what) {
    while (!failed(r)) {
        skip_space(r, r->depth > 0);
        if (take(r, "*")) {
            what = expr_repeat(r->builder, what, 0, -1);
        } else if (take(r, "+")) {
            what = expr_repeat(r->builder, what, 1, -1);
        } else if (take(r, "?")) {
            what = expr_optional(r->builder, what);
        } else if (take(r, "{")) {
            skip_space(r, false);
            int min = read_count(r), max = min;
            skip_space(r, false);
            if (take(r, ",")) {
                skip_space(r, false);
                max = r->at < r->end && *r->at == '}' ? -1 : read_count(r);
                skip_space(r, false);
            }
            if (!take(r, "}")) fail(r, "a } is missing");
            if (max >= 0 && max < min) fail(r, "a repetition whose end is before its beginning");
            if (!failed(r)) what = expr_repeat(r->builder, what, min, max);
        } else {
            break;
        }
    }
    return what;
}

// The rule of a name, which is made where there is none.
static int find_rule(Reader *r, const char *name, size_t size) {
    size_t at = (size_t)hash_bytes(HASH_START, name, size) % NAMES;
    for (; r->names[at]; at = (at + 1) % NAMES) {
        const char *known = r->builder->rules[r->names[at] - 1].name;
        if (strlen(known) == size && !memcmp(known, name, size)) return (int)r->names[at] - 1;
    }
    const int rule = expr_rule(r->builder, name, size);
    if (!failed(r)) r->names[at] = (uint32_t)rule + 1;
    return rule;
}

static size_t name_length(const Reader *r) {
    size_t n = 0;
    while (r->at + n < r->end && is_name(r->at[n])) n++;
    return n;
}

static Expr read_alternatives(Reader *r);

// One symbol without its repetition. False: there is none, the sequence has ended.
static bool read_symbol(Reader *r, Expr *symbol) {
    ExprCodes none;
    size_t n = name_length(r);
    if (n > 0) {
        *symbol = expr_call(r->builder, find_rule(r, r->at, n));
        r->at += n;
    } else if (take(r, "\"")) {
        *symbol = read_text(r);
    } else if (take(r, "[")) {
        *symbol = read_class(r);
    } else if (take(r, ".")) {
        *symbol = expr_codes(r->builder, &none, 0, true);
    } else if (take(r, "(")) {
        if (++r->depth > DEEPEST) fail(r, "too many ( in each other");
        skip_space(r, true);
        *symbol = failed(r) ? EXPR_NOTHING : read_alternatives(r);
        if (!failed(r) && !take(r, ")")) fail(r, "a ) is missing");
        r->depth--;
    } else {
        return false;
    }
    return !failed(r);
}

static Expr read_alternatives(Reader *r) {
    Expr whole = EXPR_NEVER, symbol;
    do {
        skip_space(r, true);
        Expr sequence = EXPR_NOTHING;
        while (read_symbol(r, &symbol)) {
            sequence = expr_seq(r->builder, sequence, read_repeats(r, symbol));
            skip_space(r, r->depth > 0);
        }
        whole = expr_alt(r->builder, whole, sequence);
        skip_space(r, r->depth > 0);
    } while (!failed(r) && take(r, "|"));
    return whole;
}

static void read_rule(Reader *r) {
    size_t n = name_length(r);
    if (n == 0) return fail(r, "a rule's name is missing");
    int rule = find_rule(r, r->at, n);
    if (failed(r)) return;
    if (r->builder->rules[rule].defined) return fail(r, "a rule that is there already");
    r->at += n;
    skip_space(r, false);
    if (!take(r, "::=")) return fail(r, "::= is missing");
    expr_define(r->builder, rule, read_alternatives(r));
    if (!failed(r) && r->at < r->end && *r->at != '\n' && *r->at != '\r')
        fail(r, "this is no part of a rule");
}

void gbnf_read(Builder *builder, const char *text, size_t size) {
    Reader r = {.builder = builder, .begin = text, .at = text, .end = text + size};
    r.names = calloc(NAMES, sizeof *r.names);
    if (!r.names) return expr_fail(builder, STATUS_MEMORY, "no memory for a grammar");
    find_rule(&r, "root", 4);
    for (skip_space(&r, true); r.at < r.end && !failed(&r); skip_space(&r, true)) read_rule(&r);
    free(r.names);
}
