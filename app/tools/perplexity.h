// `palaver perplexity MODEL FILE`: how well a model predicts a text, also one that is longer than its context.
#ifndef PALAVER_APP_PERPLEXITY_H
#define PALAVER_APP_PERPLEXITY_H

#include "app/program.h"

int perplexity_main(Program *program); // the exit status

enum { PERPLEXITY_PARTS = 10 };

typedef struct PerplexitySettings {
    OverflowSettings
        overflow; // what happens when the context is full; with OVERFLOW_STOP the text ends there
    bool compare; // with the same text streamed by another policy: the cache has room for two
    OverflowPolicy against;
    Progress progress;
} PerplexitySettings;

typedef struct PerplexityReport {
    int64_t n_tokens;               // predicted
    int64_t n_left_out;             // at the text's end: the context was full, and the policy OVERFLOW_STOP
    double perplexity;              // exp of the mean negative log-likelihood, natural logarithm
    double bits_per_byte;           // of the text: comparable between tokenizers
    double parts[PERPLEXITY_PARTS]; // perplexity of each tenth of the text, in order
    double divergence;              // mean KL(against || this), in nats
    double agreement;               // share of tokens that both find most probable
} PerplexityReport;

// Streams the text [size], after BOS if the model wants it, through one session: each token but the first is predicted
// once, from what is in the window then.
Status perplexity_measure(Engine *engine, const char *text, size_t size, const PerplexitySettings *settings,
                          PerplexityReport *report, Error *error);

// The report in lines; `settings` as measured.
void perplexity_print(const PerplexityReport *report, const PerplexitySettings *settings, FILE *out);

#endif
