// SmoothQuant (Xiao et al., arXiv:2211.10438) where linear layers become int8. What enters `down` may have channels that
// are hundreds of times larger than the others; one scale for a token then leaves the others few integers. Channel j of g
// is divided by s[j], which goes into the rows of w_up, and column j of w_down multiplied:
//
//   s[j] = 2^round(log2 max|g[j]|^0.6 / max|w_down[:, j]|^0.4), relative to the median channel's
//
// g of some made-up tokens, by the model's own weights on the CPU. Powers of two make the weights no less exact, and s the
// same where sums are rounded another way.
#ifndef PALAVER_ENGINE_SMOOTHING_H
#define PALAVER_ENGINE_SMOOTHING_H

#include "engine/model/model.h"
#include "engine/options.h"

// A layer is smoothed whose largest channel is so many times its median one.
enum { SMOOTHING_LEAST_RATIO = 32 };

// Whether a model's weights are ones to be smoothed: int8, of gated layers without biases of their ups.
bool smoothing_suits(const Model *model);

typedef struct SmoothingOptions {
    int n_threads;
    const Progress *progress;
    bool keeps; // what was measured is kept (tuning/smoothing_file.h), and read instead of measuring again
} SmoothingOptions;

// Measures a model whose conversion is planned, and has not begun: model->smoothing of layers that have such channels.
// STATUS_MEMORY, STATUS_INTERRUPTED: the progress says stop; or what the CPU's ops say of the model.
Status smoothing_measure(Model *model, const SmoothingOptions *options, Error *error);

#endif
