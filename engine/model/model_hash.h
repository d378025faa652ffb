// What tells a model's files from others', sampled: for what is kept of a model apart from it.
#ifndef PALAVER_ENGINE_MODEL_HASH_H
#define PALAVER_ENGINE_MODEL_HASH_H

#include "engine/model/model.h"

// Goes on from `hash` (HASH_START at first) with sizes, what the files say besides tensors, and of every tensor its name,
// type, shape and some bytes: two models that differ in nothing else differ in nearly every weight, and all of them would
// take seconds. Of a model whose weights are made up its sizes are all there is.
uint64_t model_hash(const Model *model, uint64_t hash);

// What has to be the same of processes that hold a model together, in parts that can be named: what the files say besides
// tensors, in full, with arrays (a GGUF file's tokenizer, too); names, types and shapes of all tensors; and some bytes of each.
typedef struct ModelFacts {
    uint64_t says, tensors, samples;
} ModelFacts;
ModelFacts model_facts(const Model *model);

// Goes on with sizes, times and inodes of the files. Who writes to one without changing what is sampled of it changes its
// time, and who sets that back its change time; a copy may have been another file with the same times, and is another inode.
// NULL, or the path of one that cannot be looked at.
const char *model_hash_files(const Checkpoint *checkpoint, uint64_t *hash);
// Of two processes of one running system alike only where they have the same files; 0: not known.
uint64_t model_files(const Model *model);

#endif
