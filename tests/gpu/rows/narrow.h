// Steps of which some tokens alone go through the last layer: Ops.narrow.
#ifndef PALAVER_TESTS_GPU_NARROW_H
#define PALAVER_TESTS_GPU_NARROW_H

#include "tests/gpu/model/side.h"

typedef struct NarrowCase {
    Side *side;
    const char *name;
    const Step *step;
    const int *windows; // [TEST_LAYERS]
    int vocab;
    double bound; // 0: to the bit
} NarrowCase;

// The logits of the last tokens of the step's first and last sequence, with the step narrowed to them and as they are
// without. Takes the step twice.
void test_narrow(const NarrowCase *c);

#endif
