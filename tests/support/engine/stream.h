// A text as ids, read by a model through a context that may be shorter: what caches and overflow policies make of it.
// What fails fails the test.
#ifndef PALAVER_TESTS_STREAM_H
#define PALAVER_TESTS_STREAM_H

#include "engine/engine.h"

typedef struct Stream {
    const char *model; // borrowed
    int vocab, n;
    int32_t *ids; // [n]
} Stream;

// The first n ids of FILE, little-endian uint16.
Stream stream_open(const char *model, const char *file, int n);
void stream_close(Stream *stream);

Engine *stream_engine(const Stream *stream, int context, DType cache);

// The logits after each token, [n, vocab], malloc'ed. The first token never leaves, half of the others do at once.
float *stream_logits(const Stream *stream, int context, DType cache, OverflowPolicy policy);

// Mean loss of the tokens behind [from, to), each predicted by what the stream had before it.
double stream_loss(const Stream *stream, const float *logits, int from, int to);

#endif
