// How fast the two sides of a split are with this model: steps of one made-up token, once it is loaded.
#ifndef PALAVER_ENGINE_TRIAL_H
#define PALAVER_ENGINE_TRIAL_H

#include "engine/forward.h"
#include "kernels/split/split.h"

// Over a cache of its own for some tokens, of which nothing stays. The first step is not counted.
Status trial_run(Forward *forward, SplitTimes *times, Error *error);

// Bytes of that cache.
int64_t trial_bytes(const DecoderShape *shape);

#endif
