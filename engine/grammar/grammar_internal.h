// What a compiled grammar is, for the matchers.
#ifndef PALAVER_ENGINE_GRAMMAR_INTERNAL_H
#define PALAVER_ENGINE_GRAMMAR_INTERNAL_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/states.h"
#include "engine/grammar/vocabulary.h"

struct Grammar {
    GrammarKind kind;
    char *text; // [size] it was compiled from
    size_t size;
    int references;
    Net net;
    States states;            // open where there is a vocabulary
    Vocabulary *vocabulary;   // that the states' masks are of; NULL: none yet
    struct Matcher *matchers; // a list
    uint32_t *line;           // [vocabulary->deepest + 1] states on the way down the tree
    uint32_t *found, *ended;  // [words] of a mask, [vocabulary->n_nodes] of a walk
};

#endif
