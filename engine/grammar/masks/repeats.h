// The tokens of a span of the vocabulary's tree that fit: by a walk, which goes without one through repetitions whose
// bodies are units (loops.h), but where these are left.
#ifndef PALAVER_ENGINE_GRAMMAR_MASKS_REPEATS_H
#define PALAVER_ENGINE_GRAMMAR_MASKS_REPEATS_H

#include "engine/grammar/grammar_internal.h"
#include "engine/grammar/masks/loops.h"

enum { REPEATS_LONG = 4096 }; // nodes: a walk that meets as many is worth another way

// The unit that a repetition's body is; NULL: it is none.
const Unit *repeats_unit(Grammar *grammar, uint32_t body);
// Whether a unit reaches many nodes of the span.
bool repeats_broad(const Vocabulary *vocabulary, TrieSpan span, const Unit *unit);
// The repetition of units, broad ones, that is a stack's top; NULL: it is none.
const NetChain *repeats_chain(Grammar *grammar, TrieSpan span, uint32_t stack);
// Whether places [n] with one stack are where a unit begins.
bool repeats_begin(Grammar *grammar, const NetChain *chain, const Place *places, size_t n);

// Walks over a span: marks the tokens that fit from `state`, which stands for the span's parent. With `list`, the nodes
// at which the text may end are put into g->ended; without, long ways within repetitions are not walked. Returns how
// many.
uint32_t repeats_walk(Grammar *grammar, uint32_t state, TrieSpan span, uint32_t *mask, bool list);
// Adds what can be found so of a state's places, in `places`, [n]. Returns how many are left, now the first ones.
size_t repeats_add(Grammar *grammar, TrieSpan span, Place *places, size_t n, uint32_t *mask);

#endif
