// What is learnt of a model when it is loaded, from a pass over CALIBRATION_TOKENS made-up tokens: how the keys of an
// int4 cache are best rounded (cache/key_rounding.h), and what the weights of attention are relative to
// (cache/score_bases.h).
#ifndef PALAVER_ENGINE_CALIBRATION_H
#define PALAVER_ENGINE_CALIBRATION_H

#include "engine/forward.h"

enum { CALIBRATION_TOKENS = 128 };

typedef struct CalibrationWish {
    bool made_up; // the weights are: for their keys alone nothing is measured, all sizes are the same
    bool bases;   // of scores
} CalibrationWish;

// Whether anything is to be learnt for caches of this type.
bool calibration_is_wanted(const DecoderShape *shape, DType cache, const CalibrationWish *wish);

// Bytes of backend memory that calibration takes for a while, and those that stay.
int64_t calibration_bytes(const DecoderShape *shape);
int64_t calibration_result_bytes(const DecoderShape *shape, DType cache, const CalibrationWish *wish);

// Calibrates the model, through a cache of its own, and enters the results, which the cache will free, in all of its
// layers; score_bases only in those in which all heads' ranges are safe.
Status calibration_open(Forward *forward, const CalibrationWish *wish, KvCache *cache, Error *error);

#endif
