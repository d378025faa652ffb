// The last layer for the tokens that logits are asked of alone. A prompt's other tokens leave their keys and values in
// that layer's cache; what it makes of their residual stream nobody reads.
#ifndef PALAVER_ENGINE_NARROW_H
#define PALAVER_ENGINE_NARROW_H

#include "kernels/ops.h"

#include <stdbool.h>

// A step of some of another one's tokens: the last ones of its sequences, each with what its sequence sees.
typedef struct Narrowed {
    Step step;             // its arrays are those below; n_tokens 0: nobody asks for logits
    const int32_t *tokens; // [step.n_tokens] of the other step
    int32_t ids[NARROW_MOST], positions[NARROW_MOST], slots[NARROW_MOST];
    StepSequence sequences[NARROW_MOST];
} Narrowed;

// The tokens rows->tokens [rows->n >= 0], in order, of a step; both must outlive `narrowed`. False where that would not be
// fewer, where they are too many, not the last ones of their sequences, or of a prefix that is seen both ways.
bool narrow_step(const Step *step, const LogitRows *rows, Narrowed *narrowed);

// Multiplications that so many tokens fewer save in the last layer, about.
double narrow_saves(const DecoderShape *shape, int n_tokens);

#endif
