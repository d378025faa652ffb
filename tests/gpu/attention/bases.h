// Attention relative to bases of the heads: KvLayer.score_bases.
#ifndef PALAVER_TESTS_GPU_BASES_H
#define PALAVER_TESTS_GPU_BASES_H

#include "tests/gpu/model/side.h"

typedef struct BasesCase {
    Side *side; // whose queries of the step that was begun last lie in side->q
    const char *name;
    int layer, window, n_tokens;
    const int32_t *positions; // [n_slots] that slots hold
} BasesCase;

// Leaves the queries, and keys that are others than before.
void compare_bases(const BasesCase *c);

// Takes a step again whose logits are there, which stay.
void compare_decode_bases(Side *side, const DecodeStep *step, const char *name, double bound);

// Closes the comparisons: there must have been some of each kind.
void report_bases(void);

#endif
