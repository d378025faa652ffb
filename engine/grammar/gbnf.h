// GBNF, the grammars of llama.cpp: rules `name ::= alternatives`, one after the other, of which `root` is the text.
//
//   "text" with \n \r \t \\ \" \[ \] \xHH \uHHHH \UHHHHHHHH    [a-z^] [^a-z]    . (any character)    name    ( … )
//   | between alternatives, * + ? {n} {n,} {n,m} behind what they repeat, # to the line's end
//
// A rule ends with its line, except within ( ) and behind ::= and |. From llama.cpp's grammars/README.md.
#ifndef PALAVER_ENGINE_GRAMMAR_GBNF_H
#define PALAVER_ENGINE_GRAMMAR_GBNF_H

#include "engine/grammar/expr.h"

// The text is NUL-terminated behind its `size`; what is wrong with it is the builder's error, with its line.
void gbnf_read(Builder *builder, const char *text, size_t size);

#endif
