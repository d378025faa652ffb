// The tokens of repetitions whose bodies are units (loops.h): found without a walk, but where the repetition is left.
#ifndef PALAVER_ENGINE_GRAMMAR_REPEATS_H
#define PALAVER_ENGINE_GRAMMAR_REPEATS_H

#include "engine/grammar/grammar_internal.h"
#include "engine/grammar/loops.h"

// The unit that a repetition's body is; NULL: it is none.
const Unit *repeats_unit(Grammar *grammar, uint32_t body);
// Whether a unit reaches many nodes of the span.
bool repeats_broad(const Vocabulary *vocabulary, TrieSpan span, const Unit *unit);
// The repetition of units, broad ones, that is a stack's top; NULL: it is none.
const NetChain *repeats_chain(Grammar *grammar, TrieSpan span, uint32_t stack);
// Whether places [n] with one stack are where a unit begins.
bool repeats_begin(Grammar *grammar, const NetChain *chain, const Place *places, size_t n);

// Adds what can be found so of a state's places, in `places`, [n]. Returns how many are left, now the first ones.
size_t repeats_add(Grammar *grammar, TrieSpan span, Place *places, size_t n, uint32_t *mask);
// Adds a span's tokens, as walk_span() does, where they are many.
void repeats_add_below(Grammar *grammar, uint32_t state, TrieSpan span, uint32_t *mask);

#endif
