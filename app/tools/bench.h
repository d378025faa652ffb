// `palaver bench MODEL`: prefill and decode speed through the real engine, and memory.
#ifndef PALAVER_APP_BENCH_H
#define PALAVER_APP_BENCH_H

#include "app/program.h"

int bench_main(Program *program); // the exit status

typedef struct BenchSettings {
    int prefill;  // tokens read into an empty cache; 0: 512
    int decode;   // tokens decoded, at least 2; 0: 128
    int depth;    // tokens in the cache before decoding; 0: none but one, beside `parallel` the prompt
    int repeat;   // runs of each, of which the median counts; 0: 5
    bool profile; // then each op by itself
    int stream;   // instead: tokens decoded one after the other, far past the context; 0: none
    OverflowSettings overflow; // of the stream
    int parallel; // besides: so many conversations at once, `prefill` tokens in and `decode` out; 0: none
    int shared;   // of their prompts' tokens the first so many are the same
} BenchSettings;

// Times whole steps, as a chat has them: token ids in, sampled id out (default sampling). Prints a table;
// with `profile` another of the ops, whose times are the device's own. A stream tells the time of a token in the full
// context, and what discarding costs.
Status bench_run(Engine *engine, const BenchSettings *settings, FILE *out, Error *error);

// Bytes that decoding one token reads behind `depth` others: weights, keys and values.
double bench_token_bytes(const Engine *engine, double depth);

#endif
