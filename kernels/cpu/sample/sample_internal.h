// What of a row sample_row.c makes, and sample.c draws from.
#ifndef PALAVER_KERNELS_CPU_SAMPLE_INTERNAL_H
#define PALAVER_KERNELS_CPU_SAMPLE_INTERNAL_H

#include "kernels/cpu/sample/sample.h"
#include "kernels/cpu/sample/select.h"
#include "kernels/sample_math.h"

#include <stdbool.h>

enum { SAMPLE_BLOCK = 64 }; // logits that share a maximum

struct SampleScratch {
    int n_vocab;
    int32_t *keys;         // [n_vocab] sample_key() of the adjusted logits
    int32_t *block_max;    // [n_blocks]
    Candidate *candidates; // [n_vocab], also room for the blocks
};

// One row on its way through the chain. What is left is all of the row that is not −∞ (n < 0), or candidates
// [n].
typedef struct Chain {
    SampleScratch *scratch;
    int n_vocab, n_blocks;
    int32_t max_key;
    int n;
} Chain;

static inline int sample_blocks(int n_vocab) {
    return (n_vocab - 1) / SAMPLE_BLOCK + 1;
}

static inline int sample_block_end(const Chain *chain, int block) {
    return block == chain->n_blocks - 1 ? chain->n_vocab : (block + 1) * SAMPLE_BLOCK;
}

// The chain begins with the row's logits, adjusted as the parameters say. *id becomes what sample_logits() says of a row
// from which nothing can be drawn.
Status sample_row_begin(Chain *chain, const SampleRow *row, const SampleParams *params, int32_t *id,
                        Error *error);

#endif
