// Walks over all of the vocabulary: node by node (repeats.h), or by classes where that is worth it.
#ifndef PALAVER_ENGINE_GRAMMAR_MASKS_WALKS_H
#define PALAVER_ENGINE_GRAMMAR_MASKS_WALKS_H

#include "engine/grammar/masks/classes.h"
#include "engine/grammar/grammar_internal.h"

// Marks all tokens that fit from `state`, by a tree of classes that tells apart what does make a difference from there
// on. With `list`, the nodes at which the text may end are put into g->ended. Returns how many.
uint32_t walk_classes(Grammar *grammar, uint32_t state, const ClassTree *tree, uint32_t *mask, bool list);
// Likewise all tokens from places [n] above `base`, of which `state` is made: by classes, where that is worth it.
uint32_t walk_all(Grammar *grammar, uint32_t state, const Place *places, size_t n, uint32_t base,
                  uint32_t *mask, bool list);

// Adds to a region what is told apart from a place on, down to `base`; or from a stack on.
void walk_join(const Grammar *grammar, Place place, uint32_t base, Region *region);
void walk_join_stack(const Grammar *grammar, uint32_t stack, uint32_t base, Region *region);

#endif
