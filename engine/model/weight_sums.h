// Sums over every byte that the files hold of a model's tensors, by which processes that hold a model together find that
// their files differ (engine/ranks.c). A thread of its own makes them while the weights are loaded, so that the files are
// read once.
//
// Which layer a tensor is of, its name tells: by its first part that is a number. One without is taken for every
// layer's, but for embeddings, which the first process alone has, and the output, which the last has.
#ifndef PALAVER_ENGINE_WEIGHT_SUMS_H
#define PALAVER_ENGINE_WEIGHT_SUMS_H

#include "engine/model/model.h"

typedef struct WeightSums WeightSums;

// What one process uses of a model.
typedef struct WeightPart {
    int first, n; // layers
    bool is_last; // with the output
} WeightPart;

Status weight_sums_open(const Model *model, WeightSums **sums, Error *error);
void weight_sums_close(WeightSums *sums); // in the middle of it, too; NULL is fine

// Before it begins: what is to be summed, also several parts.
void weight_sums_want(WeightSums *sums, const WeightPart *part);
// No layer behind `layer` + 1 is read until weight_sums_reach() says more; INT_MAX: all of them.
Status weight_sums_begin(WeightSums *sums, int layer, Error *error);
void weight_sums_reach(WeightSums *sums, int layer); // NULL is fine
// Whether it is done, within so many milliseconds.
bool weight_sums_wait(WeightSums *sums, int milliseconds);
int64_t weight_sums_left(const WeightSums *sums); // bytes

// Once it is done: of each tensor, in file order; 0: it was not wanted.
const uint64_t *weight_sums_values(const WeightSums *sums, int64_t *n);
// The first tensor of a part by which other sums differ from these; -1: none. n other than the model's: 0.
int64_t weight_sums_differ(const WeightSums *sums, const WeightPart *part, const uint64_t *others, int64_t n);

// The layer of a tensor: -1: of all; n_layers and more: nobody uses it. For tests.
int weight_sums_layer(const WeightSums *sums, int64_t tensor);

#endif
