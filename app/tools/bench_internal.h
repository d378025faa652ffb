// What the parts of the benchmark share: made-up tokens, sampling, times.
#ifndef PALAVER_APP_BENCH_INTERNAL_H
#define PALAVER_APP_BENCH_INTERNAL_H

#include "app/tools/bench.h"
#include "kernels/ops.h"

typedef struct Times {
    double *seconds; // [n] sorted by bench_median()
    int n;
} Times;

double bench_median(Times *times);
double bench_sum(const Times *times);

// Reproducible ids [n] all over the vocabulary; another `run` shares no prefix with this one. n 0 is fine.
void bench_make_ids(int32_t *ids, int n, int vocab_size, int run);

// The default sampling, at a position of the random numbers.
SampleParams bench_sampling(int position);

// Settings without zeros.
Status bench_parallel(Engine *engine, const BenchSettings *settings, FILE *out, Error *error);

#endif
