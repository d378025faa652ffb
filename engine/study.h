// What is learnt of a model when it is loaded, from a pass over STUDY_TOKENS made-up tokens: how the keys of an int4 cache
// are best rounded (cache/key_rounding.h), and what the weights of attention are relative to (cache/score_bases.h).
#ifndef PALAVER_ENGINE_STUDY_H
#define PALAVER_ENGINE_STUDY_H

#include "engine/forward.h"

enum { STUDY_TOKENS = 128 };

typedef struct StudyWish {
    bool made_up; // the weights are: for their keys alone nothing is studied, all sizes are the same
    bool bases;   // of scores
} StudyWish;

// Whether anything is to be learnt for caches of this type.
bool study_is_wanted(const DecoderShape *shape, DType cache, const StudyWish *wish);

// Bytes of backend memory that the study takes for a while, and those that stay.
int64_t study_bytes(const DecoderShape *shape);
int64_t study_result_bytes(const DecoderShape *shape, DType cache, const StudyWish *wish);

// Studies the model, through a cache of its own, and enters the results, which the cache will free, in all of its layers;
// score_bases only in those in which all heads' ranges are safe.
Status study_open(Forward *forward, const StudyWish *wish, KvCache *cache, Error *error);

#endif
