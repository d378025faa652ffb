// A card for tests of kernels/split: the CPU's ops, and beside them what only a GPU has, decode() and layers that visit.
// It is as late as a GPU is: what it copies to the host is there once somebody has waited.
#ifndef PALAVER_TESTS_CARD_H
#define PALAVER_TESTS_CARD_H

#include "kernels/ops.h"

// One is open at a time.
const Ops *card_ops(void);

typedef struct CardCounts {
    int decoded,
        copies; // steps by decode(), of which every third is left to the ops; of rows, of layers that visit
} CardCounts;
CardCounts card_counts(void); // since the program began

#endif
