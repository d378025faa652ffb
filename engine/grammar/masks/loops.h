// What is repeated, and which tokens stay within its repetition: known once for a vocabulary, however often it may
// come.
//
// A unit is what is repeated where its end is told by its last byte (a character, a character of a JSON string, a word
// with its space): no text of it begins with another one. Then any text is cut into units in one way only, and a token
// fits into a repetition if the units that it begins are not too many. Where the repetition may be left, tokens go on
// with what follows: those that have its first byte behind a whole unit.
#ifndef PALAVER_ENGINE_GRAMMAR_MASKS_LOOPS_H
#define PALAVER_ENGINE_GRAMMAR_MASKS_LOOPS_H

#include "engine/grammar/states.h"
#include "engine/grammar/vocabulary.h"

enum {
    UNIT_MOST = 64,     // states of a unit
    UNIT_DONE = 254,    // behind its last byte
    UNIT_DEAD = 255,    // no unit goes on by this byte
    LOOP_MASKS = 16,    // for so many units there is a mask each
    LOOP_NONE = 0xFFFF, // the node does not end a unit
    LOOPS_MOST = 32,    // tables of a vocabulary: then the oldest makes room
};

// A unit's states, 0 the first, and where bytes lead.
typedef struct Unit {
    uint32_t n;
    uint8_t next[][256];
} Unit;

// A vocabulary's tokens in a repetition of a unit without end, which begins at the tree's root or below a node.
typedef struct LoopTable {
    struct LoopTable *older;
    Unit *unit;
    TrieSpan span;
    uint16_t *units; // [span] whole units on the way to a node that ends one, or LOOP_NONE
    uint32_t *masks; // [LOOP_MASKS + 1][words] tokens that begin at most 1, 2, … units; the last: any number
    int32_t *long_tokens; // [n_long] those that begin more than LOOP_MASKS, the longest first,
    uint16_t *lengths;    // and how many
    size_t n_long;
} LoopTable;

// The unit that begins at a node of a net. NULL: it is none, or there is no memory for it; the tokens are found
// without.
Unit *unit_make(const Net *net, uint32_t body);

// The vocabulary's table of a unit, which is copied; good until the next call. NULL: no memory.
const LoopTable *loop_table(Vocabulary *vocabulary, TrieSpan span, const Unit *unit);
// Adds to a mask [words] the tokens that begin at most `most` units (−1: any number) and end none but them.
void loop_add(const LoopTable *table, size_t words, int most, uint32_t *room, uint32_t *mask);

#endif
