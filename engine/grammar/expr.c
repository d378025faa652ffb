#include "engine/grammar/expr.h"

#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

void expr_fail(Builder *b, Status status, const char *format, ...) {
    if (b->error.status) return;
    char text[sizeof b->error.message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    b->error.status = error_set(&b->error, status, "%s", text);
}

static Expr add(Builder *b, ExprNode node) {
    if (b->error.status) return EXPR_NOTHING;
    if (b->n >= EXPR_MOST) {
        expr_fail(b, STATUS_UNSUPPORTED, "the grammar has more than %d parts", EXPR_MOST);
        return EXPR_NOTHING;
    }
    if (!array_reserve(&b->nodes, sizeof *b->nodes, b->n, 1, &b->capacity)) {
        expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NOTHING;
    }
    b->nodes[b->n] = node;
    return (Expr)b->n++;
}

void expr_open(Builder *b) {
    *b = (Builder){0};
    add(b, (ExprNode){.type = EXPR_EMPTY});
    add(b, (ExprNode){.type = EXPR_NONE});
}

void expr_close(Builder *b) {
    for (size_t i = 0; i < b->n_rules; i++) free(b->rules[i].name);
    free(b->rules);
    free(b->nodes);
    *b = (Builder){0};
}

Expr expr_byte(Builder *b, int first, int last) {
    return add(b, (ExprNode){.type = EXPR_BYTES, .a = first, .b = last});
}

Expr expr_seq(Builder *b, Expr first, Expr second) {
    if (first == EXPR_NEVER || second == EXPR_NEVER) return EXPR_NEVER;
    if (first == EXPR_NOTHING) return second;
    if (second == EXPR_NOTHING) return first;
    return add(b, (ExprNode){.type = EXPR_SEQ, .a = first, .b = second});
}

Expr expr_alt(Builder *b, Expr one, Expr other) {
    if (one == EXPR_NEVER) return other;
    if (other == EXPR_NEVER) return one;
    return add(b, (ExprNode){.type = EXPR_ALT, .a = one, .b = other});
}

Expr expr_repeat(Builder *b, Expr what, int min, int max) {
    if (min == 1 && max == 1) return what;
    if (max == 0 || what == EXPR_NOTHING) return EXPR_NOTHING;
    if (what == EXPR_NEVER) return min ? EXPR_NEVER : EXPR_NOTHING;
    if (min > EXPR_MOST_REPEATS || max > EXPR_MOST_REPEATS)
        expr_fail(b, STATUS_UNSUPPORTED, "a repetition of more than %d", EXPR_MOST_REPEATS);
    return add(b, (ExprNode){.type = EXPR_REPEAT, .a = what, .min = min, .max = max});
}

Expr expr_text(Builder *b, const char *text, size_t size) {
    Expr whole = EXPR_NOTHING;
    for (size_t i = 0; i < size; i++)
        whole = expr_seq(b, whole, expr_byte(b, (unsigned char)text[i], (unsigned char)text[i]));
    return whole;
}

int expr_hex(const char **at, const char *end, int most, uint32_t *code) {
    static const char digits[] = "0123456789abcdef";
    int n = 0;
    for (*code = 0; n < most && *at < end && isxdigit((unsigned char)**at); n++, ++*at)
        *code = *code * 16 + (uint32_t)(strchr(digits, tolower((unsigned char)**at)) - digits);
    return n;
}

int expr_rule(Builder *b, const char *name, size_t size) {
    if (b->error.status) return 0;
    if (b->n_rules >= EXPR_MOST_RULES) {
        expr_fail(b, STATUS_UNSUPPORTED, "the grammar has more than %d rules", EXPR_MOST_RULES);
        return 0;
    }
    char *copy = strndup(name, size);
    if (!copy || !array_reserve(&b->rules, sizeof *b->rules, b->n_rules, 1, &b->rules_capacity)) {
        free(copy);
        expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        return 0;
    }
    b->rules[b->n_rules] = (ExprRule){.name = copy};
    return (int)b->n_rules++;
}

void expr_define(Builder *b, int rule, Expr body) {
    if (b->error.status) return;
    b->rules[rule].body = body;
    b->rules[rule].defined = true;
}

Expr expr_call(Builder *b, int rule) {
    return add(b, (ExprNode){.type = EXPR_RULE, .a = rule});
}

// ---- code points ------------------------------------------------------------------------------------------------

static int by_first(const void *a, const void *b) {
    const ExprCodes *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

size_t expr_merge_codes(ExprCodes *codes, size_t n) {
    size_t kept = 0;
    if (n > 1) qsort(codes, n, sizeof *codes, by_first);
    for (size_t i = 0; i < n; i++) {
        ExprCodes *last = kept ? &codes[kept - 1] : NULL;
        if (last && codes[i].first <= last->last + 1) {
            if (codes[i].last > last->last) last->last = codes[i].last;
        } else {
            codes[kept++] = codes[i];
        }
    }
    return kept;
}

size_t expr_complement(const ExprCodes *codes, size_t n, ExprCodes *others) {
    uint32_t from = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (codes[i].first > from) others[count++] = (ExprCodes){from, codes[i].first - 1};
        from = codes[i].last + 1;
    }
    if (from <= EXPR_LAST_CODE) others[count++] = (ExprCodes){from, EXPR_LAST_CODE};
    return count;
}

// Codes of one length in UTF-8 whose bytes are ranges, one after the other: first and last differ in one byte, or
// behind it run from all 0x80 to all 0xBF.
static Expr byte_ranges(Builder *b, uint32_t first, uint32_t last) {
    char low[4], high[4];
    int n = utf8_write(first, low);
    utf8_write(last, high);
    Expr whole = EXPR_NOTHING;
    for (int i = 0; i < n; i++)
        whole = expr_seq(b, whole, expr_byte(b, (unsigned char)low[i], (unsigned char)high[i]));
    return whole;
}

// Splits codes first to last, all of `n` bytes, where their bytes are no ranges.
static Expr split_codes(Builder *b, uint32_t first, uint32_t last, int n) {
    for (int i = 1; i < n; i++) {
        uint32_t below = (1u << (6 * i)) - 1; // what the last i bytes say
        if ((first & ~below) == (last & ~below)) continue;
        if (first & below)
            return expr_alt(b, split_codes(b, first, first | below, n),
                            split_codes(b, (first | below) + 1, last, n));
        if ((last & below) != below)
            return expr_alt(b, split_codes(b, first, (last & ~below) - 1, n),
                            split_codes(b, last & ~below, last, n));
    }
    return byte_ranges(b, first, last);
}

Expr expr_codes(Builder *b, ExprCodes *codes, size_t n, bool negated) {
    // What is written in 1, 2, 3 and 4 bytes; between them lie the surrogates.
    static const struct {
        uint32_t first, last;
        int n;
    } lengths[] = {{0, 0x7F, 1},
                   {0x80, 0x7FF, 2},
                   {0x800, 0xD7FF, 3},
                   {0xE000, 0xFFFF, 3},
                   {0x10000, EXPR_LAST_CODE, 4}};
    n = expr_merge_codes(codes, n);
    ExprCodes *others = negated ? malloc((n + 1) * sizeof *others) : codes;
    if (!others) {
        expr_fail(b, STATUS_MEMORY, "no memory for a grammar");
        return EXPR_NOTHING;
    }
    if (negated) n = expr_complement(codes, n, others);
    Expr whole = EXPR_NEVER;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            uint32_t first = others[i].first > lengths[j].first ? others[i].first : lengths[j].first;
            uint32_t last = others[i].last < lengths[j].last ? others[i].last : lengths[j].last;
            if (first <= last) whole = expr_alt(b, whole, split_codes(b, first, last, lengths[j].n));
        }
    if (negated) free(others);
    return whole;
}
