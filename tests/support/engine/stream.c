#include "tests/support/engine/stream.h"

#include "tests/support/test.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

Stream stream_open(const char *model, const char *file, int n) {
    Stream stream = {.model = model, .n = n, .ids = malloc((size_t)n * sizeof *stream.ids)};
    uint8_t *bytes = calloc((size_t)n, 2);
    FILE *in = fopen(file, "rb");
    if (!in || fread(bytes, 2, (size_t)n, in) != (size_t)n) fail_msg("%s: not there, or too short", file);
    fclose(in);
    for (int i = 0; i < n; i++) stream.ids[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
    free(bytes);
    Model *opened = NULL;
    Error error = {0};
    if (model_open(model, &opened, &error)) fail_msg("%s", error.message);
    stream.vocab = opened->shape.vocab_size;
    model_close(opened);
    return stream;
}

void stream_close(Stream *stream) {
    free(stream->ids);
    *stream = (Stream){0};
}

Engine *stream_engine(const Stream *stream, int context, DType cache) {
    Error error = {0};
    Model *model = NULL;
    Engine *engine = NULL;
    EngineOptions options = {
        .device = "cpu", .n_threads = 2, .context_size = context, .cache = cache_options(cache)};
    if (model_open(stream->model, &model, &error)) fail_msg("%s", error.message);
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

float *stream_logits(const Stream *stream, int context, DType cache, OverflowPolicy policy) {
    OverflowSettings settings = {.policy = policy, .keep = 1, .discard = 0.5};
    float *logits = malloc((size_t)stream->n * (size_t)stream->vocab * sizeof *logits);
    Error error = {0};
    Session *session = NULL;
    Engine *engine = stream_engine(stream, context, cache);
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    if (session_stream(session, stream->ids, stream->n, &settings, logits, &error))
        fail_msg("%s", error.message);
    session_close(session);
    engine_close(engine);
    return logits;
}

static double log_loss(const float *logits, int vocab, int32_t id) {
    double most = (double)logits[0];
    for (int i = 1; i < vocab; i++) most = fmax(most, (double)logits[i]);
    double sum = exp((double)logits[0] - most);
    for (int i = 1; i < vocab; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[id];
}

double stream_loss(const Stream *stream, const float *logits, int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++)
        sum += log_loss(logits + (size_t)i * (size_t)stream->vocab, stream->vocab, stream->ids[i + 1]);
    return sum / (to - from);
}
