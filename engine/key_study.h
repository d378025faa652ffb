// The sizes of a model's keys and queries, by which an int4 cache rounds keys: from a pass over KEY_STUDY_TOKENS
// made-up tokens when the model is loaded.
#ifndef PALAVER_ENGINE_KEY_STUDY_H
#define PALAVER_ENGINE_KEY_STUDY_H

#include "engine/forward.h"

enum { KEY_STUDY_TOKENS = 128 };

// Bytes of the cache that the study takes for a while.
int64_t key_study_bytes(const DecoderShape *shape);

// Studies the model, through a cache of its own, and enters the result, which the cache will free, in all layers of an
// int4 cache. With `made_up` weights nothing is studied: all sizes are the same.
Status key_study_open(Forward *forward, bool made_up, KvCache *cache, Error *error);

#endif
