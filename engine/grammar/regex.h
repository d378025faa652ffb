// Regular expressions, as far as Python's re (with re.ASCII) and ECMA-262 mean the same by them.
//
//   . [a-z] [^a-z] \d \w \s \D \W \S \n \r \t \f \v \0 \xHH \uHHHH \u{H…} and \ before punctuation
//   ( … ) (?: … ) (?<name> … ) (?P<name> … ) |   * + ? {n} {n,} {n,m}, also with ? behind (which text fits is the same)
//   ^ at the beginning and $ at the end of the whole or of its outermost alternatives
//
// What looks around (\b, (?=…), (?<!…)) or back (\1), and \p{…}, is refused.
#ifndef PALAVER_ENGINE_GRAMMAR_REGEX_H
#define PALAVER_ENGINE_GRAMMAR_REGEX_H

#include "engine/grammar/expr.h"

typedef enum RegexUse {
    REGEX_WHOLE, // the text is one match from its beginning to its end
    // The text is what stands between the quotes of a JSON string, whose value has a match somewhere. Where Python and
    // ECMA-262 differ (what . and \W take), only what both take fits.
    REGEX_JSON_STRING,
} RegexUse;

// One character of these codes [n] as a JSON string has it: itself, or its shortest escape. They are merged in place.
Expr regex_json_codes(Builder *builder, ExprCodes *codes, size_t n);
// Where a pattern for REGEX_JSON_STRING is ^, one character or class that is repeated, and $: it, at least and at most
// so often (−1: any number) besides what it asks itself. False: it is none, or it failed.
bool regex_read_counted(Builder *builder, const char *pattern, size_t size, const int counts[2], Expr *whole);
// What is wrong is the builder's error, with its place.
Expr regex_read(Builder *builder, const char *pattern, size_t size, RegexUse use);

#endif
