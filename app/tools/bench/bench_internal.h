// What the parts of the benchmark share: made-up tokens, sampling, times.
#ifndef PALAVER_APP_BENCH_INTERNAL_H
#define PALAVER_APP_BENCH_INTERNAL_H

#include "app/tools/bench/bench.h"
#include "kernels/ops.h"

typedef struct BenchSettings {
    int prefill;  // tokens read into an empty cache
    int decode;   // tokens decoded, at least 2; 0: 128
    int depth;    // tokens in the cache before decoding; 0: none but one, beside `parallel` the prompt
    int repeat;   // runs of each, of which the median counts; 0: 5
    bool profile; // then each op by itself
    int stream;   // instead: tokens decoded one after the other, far past the context; 0: none
    OverflowSettings overflow; // of the stream
    int parallel; // besides: so many conversations at once, `prefill` tokens in and `decode` out; 0: none
    int shared;   // of their prompts' tokens the first so many are the same, no more than they have
} BenchSettings;

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

// Bytes that the matrix takes; none where the model has no such.
double bench_matrix_bytes(const Matrix *matrix);

// All of these take settings without zeros.
// Times each op of a prompt, and of tokens behind `depth` others, in a table; `ids` has room for both.
Status bench_profile(Engine *engine, Session *session, int32_t *ids, const BenchSettings *settings, FILE *out,
                     Error *error);
// Fills the context and decodes past it, with room made as the settings say.
Status bench_stream(Engine *engine, Session *session, const BenchSettings *settings, FILE *out, Error *error);
// Many conversations at once.
Status bench_parallel(Engine *engine, const BenchSettings *settings, FILE *out, Error *error);

// The median time of a token behind settings->depth others; `ids` has room for them.
Status bench_decode_time(Session *session, int32_t *ids, const BenchSettings *settings, int vocab,
                         double *seconds, Error *error);
// Tokens a second of `settings->parallel` rows together.
Status bench_parallel_speed(Engine *engine, const BenchSettings *settings, double *speed, Error *error);
// A picture: speed by cached tokens, and, with settings->parallel, by rows. STATUS_FILE: it cannot be written.
Status bench_plot(Engine *engine, const BenchSettings *settings, const char *path, Error *error);

#endif
