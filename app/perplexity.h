// `palaver perplexity MODEL FILE`: how well a model predicts a text.
#ifndef PALAVER_APP_PERPLEXITY_H
#define PALAVER_APP_PERPLEXITY_H

#include "engine/engine.h"

#include <stdio.h>

typedef struct PerplexityReport {
    int64_t n_tokens;     // predicted
    double perplexity;    // exp of the mean negative log-likelihood, natural logarithm
    double bits_per_byte; // of the text: comparable between tokenizers
} PerplexityReport;

// The text [size] in windows of the context size that overlap by half: each token but the first is predicted once,
// with at least half a context before it as soon as there is so much. BOS begins each window if the model wants it.
Status perplexity_measure(Engine *engine, const char *text, size_t size, Progress progress,
                          PerplexityReport *report, Error *error);

#endif
