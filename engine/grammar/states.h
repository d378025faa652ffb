// Where a text may stand in a net: sets of places, each with the calls that it will come back to, found once each and
// known by a number from then on, so that a byte costs a look into a table where it was read before.
//
//     state = { (node that reads a byte, stack) … } and whether the text may end here
//     stack = (node to come back to, stack below), 0: the bottom
//
// Stacks and states are kept once each (hash-consing); a rule's last call leaves nothing behind, so lists that are
// written as a rule that ends with itself do not grow. A place is left out where another one does what it does and more:
// the same, but with repetitions that may still come more often.
#ifndef PALAVER_ENGINE_GRAMMAR_STATES_H
#define PALAVER_ENGINE_GRAMMAR_STATES_H

#include "engine/grammar/net.h"

enum {
    STATES_UNKNOWN = 0, // also: it could not be found, states->error says why
    STATES_DEAD = 1,    // no text goes on here
    STATES_BOTTOM = 0,
    STATES_DEEPEST = 4096,        // calls in calls: what would be deeper does not fit
    STATES_MOST_PLACES = 4096,    // of a state
    STATES_SOFT_BYTES = 32 << 20, // then they are begun anew between two tokens
    STATES_HARD_BYTES = 96 << 20, // more than that for one token is an error
};

typedef struct Place {
    uint32_t node, stack;
} Place;

typedef struct StackCell {
    uint32_t back, below, depth;
    uint32_t base;  // the stack from here down to the first call that is no repetition's, or the bottom
    uint32_t shape; // a hash: stacks of one shape differ in how often repetitions may still come, if at all
    bool counted;   // there is such a repetition
} StackCell;

typedef struct State {
    uint32_t first, n;   // places, sorted by stack and node
    bool may_end;        // the bottom's rule may end here
    uint32_t *mask;      // of tokens, see matcher.c; NULL: not known yet
    struct Local *local; // likewise
} State;

// A set of pairs of numbers, found by their hash: number i stands at slots[…] as i + 1.
typedef struct PairTable {
    uint32_t *slots;
    size_t capacity; // a power of two
} PairTable;

typedef struct States {
    const Net *net;
    State *states;  // [n]
    uint32_t *next; // [n][net->n_classes]
    size_t n, states_capacity, next_capacity;
    Place *places; // [n_places]
    size_t n_places, places_capacity;
    StackCell *stacks; // [n_stacks]
    size_t n_stacks, stacks_capacity;
    PairTable of_states, of_stacks, of_seen;
    Place *seen; // [n_seen] of the closure in hand
    size_t n_seen, seen_capacity;
    Place *found; // [n_found] those of them that read a byte
    size_t n_found, found_capacity;
    size_t bytes; // of all that is kept, masks included
    Error error;
} States;

// The net is kept by reference.
Status states_open(const Net *net, States *states, Error *error);
void states_close(States *states);

uint32_t states_start(States *states);
// The state of what begins at a node.
uint32_t states_at(States *states, uint32_t node, uint32_t stack);
// The state behind one more byte.
uint32_t states_read(States *states, uint32_t state, uint8_t byte);
static inline uint32_t states_step(States *states, uint32_t state, uint8_t byte) {
    uint32_t next = states->next[state * (size_t)states->net->n_classes + states->net->class_of[byte]];
    return next ? next : states_read(states, state, byte);
}
// The state of coming back to the top of `stack`, which is not the bottom.
uint32_t states_return(States *states, uint32_t stack);
// Places [n] of which all stacks lie on `bottom`, as if that were the bottom. They are no state's own.
uint32_t states_local(States *states, const Place *places, size_t n, uint32_t bottom);

// Forgets everything but `roots` [n], which get new numbers.
Status states_forget(States *states, uint32_t **roots, size_t n, Error *error);

#endif
