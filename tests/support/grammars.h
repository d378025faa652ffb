// Grammars for tests: compiled, or the test that asked has failed.
#ifndef PALAVER_TESTS_GRAMMARS_H
#define PALAVER_TESTS_GRAMMARS_H

#include "engine/grammar/grammar.h"

// In GBNF: sums that are told line by line; JSON without escapes.
#define GRAMMARS_ARITHMETIC                                                                                  \
    "root ::= (expr \"=\" ws term \"\\n\")+ # sums\n"                                                        \
    "expr ::= term ([-+*/] term)*\nterm ::= ident | num |\n \"(\" ws expr \")\" ws\n"                        \
    "ident ::= [a-z] [a-z0-9_]* ws\nnum ::= [0-9]+ ws\nws ::= [ \\t\\n]*\n"
#define GRAMMARS_JSON                                                                                        \
    "root ::= value\nvalue ::= object | array | string | [0-9]+ | \"true\"\n"                                \
    "object ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\n"                             \
    "array ::= \"[\" ( value ( \",\" value )* )? \"]\"\nstring ::= \"\\\"\" [^\"\\\\]* \"\\\"\"\n"

Grammar *grammars_compile(GrammarKind kind, const char *text);
// Whether the whole of a text is one that the grammar describes.
bool grammars_fit(GrammarKind kind, const char *grammar, const char *text);

#endif
