// Replies that fit: a grammar in one of three languages, compiled into a net over bytes (net.h), and shared by all
// replies that are made by it.
//
//   GBNF         as llama.cpp has it: rule ::= "text" [a-z] ( … | … ) * + ? {m,n} # comment; the text is `root`
//   regex        the whole reply is one match: what Python's re and ECMA-262 have in common (regex.h)
//   JSON Schema  draft 2020-12: the reply is one JSON value that it accepts (schema.h)
//
// What a language has that cannot be decided while text is written is refused, with its place.
#ifndef PALAVER_ENGINE_GRAMMAR_GRAMMAR_H
#define PALAVER_ENGINE_GRAMMAR_GRAMMAR_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum GrammarKind { GRAMMAR_GBNF, GRAMMAR_REGEX, GRAMMAR_JSON_SCHEMA } GrammarKind;

enum { GRAMMAR_MOST_BYTES = 1 << 20 }; // of its text

typedef struct Grammar Grammar;

// STATUS_USAGE: what is wrong with the text, and where; STATUS_UNSUPPORTED: what palaver cannot do. Time and memory are
// bounded for any text.
Status grammar_compile(GrammarKind kind, const char *text, size_t size, Grammar **out, Error *error);
// One more owner; NULL is fine. Owners and matchers are of one thread.
Grammar *grammar_share(Grammar *grammar);
void grammar_close(Grammar *grammar); // NULL is fine
// Whether it was compiled from that; false for NULL.
bool grammar_is(const Grammar *grammar, GrammarKind kind, const char *text, size_t size);

#endif
