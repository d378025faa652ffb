// What tells a model's files from others', sampled: for what is kept of a model apart from it.
#ifndef PALAVER_ENGINE_MODEL_HASH_H
#define PALAVER_ENGINE_MODEL_HASH_H

#include "engine/model/model.h"

// Goes on from `hash` (HASH_START at first) with sizes, what the files say besides tensors, and of every tensor its name,
// type, shape and some bytes: two models that differ in nothing else differ in nearly every weight, and all of them would
// take seconds. Of a model whose weights are made up its sizes are all there is.
uint64_t model_hash(const Model *model, uint64_t hash);

#endif
