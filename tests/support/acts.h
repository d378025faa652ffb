// Whatever may be done with sessions, at random, on two engines of the same model that ought to be the same to every
// bit.
#ifndef PALAVER_TESTS_ACTS_H
#define PALAVER_TESTS_ACTS_H

#include "engine/engine.h"

// Two sessions on each engine: draws that are gone on with or not, other texts, shorter ones, discarding, logits. The
// engines are paged both, or neither. Returns how many of the `n` acts ended in another status, token, log, number of
// cached tokens or of pages, or in other logits; `first` [size] tells of the first one. Nothing is compared behind it.
int acts_compare(Engine *const engines[2], uint64_t seed, int n, char *first, size_t size);

#endif
