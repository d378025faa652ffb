// Walks over the vocabulary's tree with the grammar's states: which tokens fit from a state on.
#ifndef PALAVER_ENGINE_GRAMMAR_WALKS_H
#define PALAVER_ENGINE_GRAMMAR_WALKS_H

#include "engine/grammar/classes.h"
#include "engine/grammar/grammar_internal.h"

enum { WALK_LONG = 4096 }; // nodes: a walk that meets as many is worth another way

static inline TrieSpan walk_whole(const Vocabulary *vocabulary) {
    return (TrieSpan){0, vocabulary->n_nodes};
}
static inline TrieSpan walk_below(const Vocabulary *vocabulary, uint32_t node) {
    return (TrieSpan){node + 1, vocabulary->nodes[node].skip};
}

// Marks the tokens of a span that fit from `state`, which stands for the span's parent. With `list`, the nodes at
// which the text may end are put into g->ended. Returns how many.
uint32_t walk_span(Grammar *grammar, uint32_t state, TrieSpan span, uint32_t *mask, bool list);
// Likewise all tokens, by a tree of classes that tells apart what does make a difference from `state` on.
uint32_t walk_classes(Grammar *grammar, uint32_t state, const ClassTree *tree, uint32_t *mask, bool list);
// Likewise all tokens from places [n] above `base`, of which `state` is made: by classes, where that is worth it.
uint32_t walk_all(Grammar *grammar, uint32_t state, const Place *places, size_t n, uint32_t base,
                  uint32_t *mask, bool list);

// Adds to a region what is told apart from a place on, down to `base`; or from a stack on.
void walk_join(const Grammar *grammar, Place place, uint32_t base, Region *region);
void walk_join_stack(const Grammar *grammar, uint32_t stack, uint32_t base, Region *region);

#endif
