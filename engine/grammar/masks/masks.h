// The tokens that may come where a text stands in a grammar.
//
// They are found by walks over the vocabulary's tree (vocabulary.h) with the grammar's states (states.h). A walk is
// made once for the places of a state whose stacks have one base, whatever that is: tokens that stay within their
// rules are known from then on. Only where the rules end on the way does it go on with what the base comes back to,
// and these are few tokens. In a repetition of units (loops.h) no walk is made at all; where few classes of bytes are told
// apart, the walk is one over these (classes.h). What was found for a state is kept as a whole.
#ifndef PALAVER_ENGINE_GRAMMAR_MASKS_MASKS_H
#define PALAVER_ENGINE_GRAMMAR_MASKS_MASKS_H

#include "engine/grammar/grammar_internal.h"

// Room for the walks over the grammar's vocabulary, and what takes milliseconds once for a vocabulary: tables of its
// repetitions, trees of its classes. STATUS_MEMORY: there is none.
Status masks_open(Grammar *grammar, Error *error);

// A bit for each of the model's ids: whether the token may come in `state` behind ordinary text. NULL: it cannot be
// found, the states' error says why. Good until the states are forgotten.
const uint32_t *masks_of(Grammar *grammar, uint32_t state);
// Changes such a mask [words] for a token behind `previous` (−1: at a beginning), where spaces may be left out.
void masks_leave_spaces(Grammar *grammar, uint32_t state, int32_t previous, uint32_t *mask);

#endif
