// A vocabulary's tree of bytes with those that are alike made one: where a pattern tells letters from spaces only, tokens
// of as many letters lie at one node, and a walk that would meet a hundred thousand nodes meets some hundred.
#ifndef PALAVER_ENGINE_GRAMMAR_MASKS_CLASSES_H
#define PALAVER_ENGINE_GRAMMAR_MASKS_CLASSES_H

#include "engine/grammar/regions.h"
#include "engine/grammar/vocabulary.h"

enum {
    CLASSES_MOST = 16,         // trees of a vocabulary: then the oldest makes room
    CLASSES_NONE = UINT32_MAX, // no node
};

typedef struct ClassNode {
    uint32_t child, sibling, parent; // CLASSES_NONE: there is none
    uint32_t members;                // its first node of the vocabulary, in `members`
    uint32_t tokens;                 // its first token, in `tokens`
    uint32_t *mask;                  // [words] those tokens, where they are many; else NULL
    uint16_t depth;                  // bytes from the root, this one included: 1 …
    uint8_t byte;                    // one of its class
} ClassNode;

typedef struct ClassTree {
    struct ClassTree *older;
    Region region;    // what it tells apart
    ClassNode *nodes; // [n_nodes + 2], the one behind bounds members and tokens; NULL: it would be too large
    uint32_t n_nodes;
    uint32_t *members; // nodes of the vocabulary
    int32_t *tokens;
} ClassTree;

// The vocabulary's tree for a region, which is made; good until the next one is made. NULL: it would be too large, or
// there is no memory.
const ClassTree *class_tree_make(Vocabulary *vocabulary, const Region *region);
// The same, where it was made already. False: it was not.
bool class_tree_find(const Vocabulary *vocabulary, const Region *region, const ClassTree **tree);
// Adds a node's tokens to a mask [words].
void class_tree_add(const ClassTree *tree, uint32_t node, size_t words, uint32_t *mask);

#endif
