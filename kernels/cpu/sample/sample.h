// Sampling on the host: the chain of ops.h over one row of logits.
//
// One pass over the row copies it and finds the maximum of each block of 64; the k largest logits lie in the
// k blocks with the largest maxima, so nothing is sorted and little is read twice. Top-p and the draw look
// for the place where a running sum of weights passes a target: a quickselect that follows the weights,
// expected O(n). The arithmetic is that of kernels/sample_math.h: the token does not depend on how sums are
// ordered.
#ifndef PALAVER_KERNELS_CPU_SAMPLE_SAMPLE_H
#define PALAVER_KERNELS_CPU_SAMPLE_SAMPLE_H

#include "kernels/ops.h"
#include "kernels/base/status.h"

#include <stdint.h>

typedef struct SampleScratch SampleScratch;

// All memory that sampling needs for rows of up to n_vocab logits; 28 bytes a logit. n_vocab beyond 2^20 is
// STATUS_UNSUPPORTED. close(NULL) is fine.
Status sample_scratch_open(int n_vocab, SampleScratch **scratch, Error *error);
void sample_scratch_close(SampleScratch *scratch);
int64_t sample_scratch_bytes(int n_vocab);

// Draws a token from logits [n_vocab], 1 <= n_vocab <= the scratch's, as ops.h says of sample().
// STATUS_USAGE: a parameter is out of range; STATUS_DEVICE: the row has a NaN, or nothing in it can be
// chosen, and *id is SAMPLE_NAN or SAMPLE_NOTHING.
Status sample_logits(const float *logits, int n_vocab, SampleScratch *scratch, const SampleParams *params,
                     int32_t *id, Error *error);

typedef struct SampleRow {
    const float *logits; // [n_vocab]
    int n_vocab;
    SampleScratch *scratch;
} SampleRow;

typedef struct SampleCandidate {
    int32_t id;
    double raw;   // probability by the model alone: softmax(logits)
    double final; // probability of being drawn; 0 if the chain has removed it
} SampleCandidate;

// The n most likely tokens (by adjusted logit, then lower id) with their probabilities; *count <= n is how
// many there are, banned ones left out. For /top: it may take milliseconds.
Status sample_candidates(const SampleRow *row, const SampleParams *params, int n, SampleCandidate *candidates,
                         int *count, Error *error);

#endif
