// What a compiled grammar is, for the matchers.
#ifndef PALAVER_ENGINE_GRAMMAR_INTERNAL_H
#define PALAVER_ENGINE_GRAMMAR_INTERNAL_H

#include "engine/grammar/grammar.h"
#include "engine/grammar/regions.h"
#include "engine/grammar/states.h"
#include "engine/grammar/vocabulary.h"

struct Unit;

// What a repetition's body is as a unit (loops.h); NULL: none.
typedef struct BodyUnit {
    uint32_t body;
    struct Unit *unit;
} BodyUnit;

typedef struct BasedPlace {
    uint32_t base; // of its stack
    Place place;
} BasedPlace;

struct Grammar {
    GrammarKind kind;
    char *text; // [size] it was compiled from
    size_t size;
    int references;
    Net net;
    Regions regions;
    States states;            // open where there is a vocabulary
    Vocabulary *vocabulary;   // that the states' masks are of; NULL: none yet
    struct Matcher *matchers; // a list
    BodyUnit *units;          // [n_units] that were asked for
    size_t n_units, units_capacity;
    // Room for masks.c, open where there is a vocabulary:
    uint32_t *line;         // [vocabulary->deepest + 1] states on the way down the tree
    uint32_t *found, *left; // [words] each: of a mask in the making
    uint32_t *ended;        // [vocabulary->n_nodes] of a walk
    Place *places;          // [STATES_MOST_PLACES]
    BasedPlace *based;      // likewise
    uint64_t n_walked;      // nodes of the vocabulary's tree that a mask's walks have met
};

// Sets the states' error; false.
bool grammar_no_memory(Grammar *grammar);
void grammar_free_room(Grammar *grammar); // what masks_open() has made

#endif
