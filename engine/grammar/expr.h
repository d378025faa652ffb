// The form that GBNF, regular expressions and JSON Schemas are brought to: rules, each of them an expression over
// bytes.
//
// A builder that has failed (no memory, too much of something) stays so: its functions go on without harm, and who
// finishes it, net_make(), says why.
#ifndef PALAVER_ENGINE_GRAMMAR_EXPR_H
#define PALAVER_ENGINE_GRAMMAR_EXPR_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXPR_MOST = 1 << 20,         // expressions of a grammar
    EXPR_MOST_RULES = 1 << 16,   // rules of a grammar
    EXPR_MOST_REPEATS = 1 << 16, // the bounds of a repetition
    EXPR_LAST_CODE = 0x10FFFF,
};

// By number; 0 is the empty text.
typedef int32_t Expr;
enum { EXPR_NOTHING = 0, EXPR_NEVER = 1 }; // the empty text; no text at all

typedef enum ExprType {
    EXPR_EMPTY,
    EXPR_NONE,
    EXPR_BYTES,
    EXPR_SEQ,
    EXPR_ALT,
    EXPR_REPEAT,
    EXPR_RULE
} ExprType;

typedef struct ExprNode {
    ExprType type;
    int32_t a, b;     // bytes a to b; the two of a sequence or choice; what is repeated; the rule
    int32_t min, max; // of a repetition; max −1: without end
} ExprNode;

typedef struct ExprRule {
    char *name; // for errors
    Expr body;
    bool defined;
} ExprRule;

typedef struct Builder {
    ExprNode *nodes; // [n]
    size_t n, capacity;
    ExprRule *rules; // [n_rules]; the first is the whole text
    size_t n_rules, rules_capacity;
    Error error; // its status is STATUS_OK until it has failed
    Error never; // the first place that no text fits, if one was found: why, where no text fits the whole
} Builder;

void expr_open(Builder *builder);
void expr_close(Builder *builder);
// The first failure counts.
void expr_fail(Builder *builder, Status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Code points from `first` to `last`, in UTF-8.
typedef struct ExprCodes {
    uint32_t first, last;
} ExprCodes;

Expr expr_byte(Builder *builder, int first, int last);
Expr expr_text(Builder *builder, const char *text, size_t size);
// One character of `codes` [n], in any order, or, negated, of none of them. They are sorted and merged in place.
// Surrogates are no characters.
Expr expr_codes(Builder *builder, ExprCodes *codes, size_t n, bool negated);
Expr expr_seq(Builder *builder, Expr first, Expr second);
Expr expr_alt(Builder *builder, Expr one, Expr other);
Expr expr_repeat(Builder *builder, Expr what, int min, int max);
static inline Expr expr_optional(Builder *builder, Expr what) {
    return expr_repeat(builder, what, 0, 1);
}

// Reads up to `most` hexadecimal digits at *at, before `end`, and goes behind them. Returns how many; *code is what
// they say.
int expr_hex(const char **at, const char *end, int most, uint32_t *code);

// A new rule without a body, or with one; the name is copied.
int expr_rule(Builder *builder, const char *name, size_t size);
void expr_define(Builder *builder, int rule, Expr body);
Expr expr_call(Builder *builder, int rule);

// Sorts and merges codes [n]; complements them where asked, into room for n + 1. Returns how many there are.
size_t expr_merge_codes(ExprCodes *codes, size_t n);
size_t expr_complement(const ExprCodes *codes, size_t n, ExprCodes *others);

#endif
