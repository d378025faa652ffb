#include "tests/support/engine/shift_stream.h"

#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 17, KEEP = 3, DISCARD = 5 };

// Per-layer embeddings are of all layers; none depends on positions.
static void leave_token_rows(Model *model) {
    const Matrix none = {0};
    model->shape.token_size = 0;
    model->head.token_embedding = model->head.token_projection = model->head.token_norm = none;
    model->layers[0].token_gate = model->layers[0].token_up = model->layers[0].token_norm = none;
}

ShiftStream shift_stream_open(const char *root, const char *name, const char *device) {
    char path[256];
    Error error = {0};
    Model *model;
    ShiftStream s = {0};
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    s.n_layers = model->shape.n_layers;
    s.vocab = model->shape.vocab_size;
    if (decoder_recurring(&model->shape) == 0)
        model->shape.n_layers = 1; // else engine_cannot_shift() says why
    leave_token_rows(model);
    CacheOptions cache = cache_options(DTYPE_F32);
    EngineOptions options = {
        .device = device, .n_threads = 1, .context_size = 64, .cache = cache, .chunk = WINDOW};
    if (engine_open_model(model, &options, &s.engine, &error)) fail_msg("%s", error.message);
    if (kv_cache_open(s.engine->backend, &cache, &model->shape, WINDOW, &s.cache, &error))
        fail_msg("%s", error.message);
    return s;
}

void shift_stream_close(ShiftStream *s) {
    kv_cache_close(&s->cache);
    s->engine->model->shape.n_layers = s->n_layers;
    engine_close(s->engine);
}

// Reads n more tokens, at `places` or (NULL) where the sequence has them; the last one's logits [vocab].
static void feed(ShiftStream *s, KvSequence *sequence, const int32_t *ids, const int32_t *places, int n,
                 float *logits) {
    int32_t slots[WINDOW], positions[WINDOW], last = n - 1;
    Error error = {0};
    if (kv_sequence_extend(&s->cache, sequence, n, slots, positions, &error)) fail_msg("%s", error.message);
    StepSequence view = kv_sequence_step(&s->cache, sequence, n);
    if (places != NULL) view.in_order = false;
    Step step = {.n_tokens = n,
                 .n_sequences = 1,
                 .ids = ids,
                 .positions = places != NULL ? places : positions,
                 .slots = slots,
                 .sequences = &view,
                 .page_size = s->cache.page_size,
                 .slot_positions = s->cache.slot_positions};
    if (forward_step(&s->engine->forward, &step, NULL, &s->cache, NULL, &error))
        fail_msg("%s", error.message);
    if (forward_logits(&s->engine->forward, &last, 1, &error)) fail_msg("%s", error.message);
    memcpy(logits, s->engine->forward.logits, (size_t)s->vocab * sizeof *logits); // the CPU's memory is ours
}

// What a log gives that is read at once, its tokens after the kept ones `hole` positions further on.
static void read_again(ShiftStream *s, const int32_t *ids, int n, int hole, float *logits) {
    int32_t places[WINDOW];
    KvSequence sequence = {0};
    for (int i = 0; i < n; i++) places[i] = i < KEEP ? i : i + hole;
    feed(s, &sequence, ids, places, n, logits);
    kv_sequence_free(&s->cache, &sequence);
}

double shift_stream_text(ShiftStream *s, const int32_t *ids, int n, bool in_place, double *control) {
    KvSequence sequence = {0};
    ShiftStream again = *s; // a pool of its own, for a second sequence beside the first
    int32_t log[WINDOW];
    int length = 0, gone = 0;
    double worst = 0;
    float *logits = malloc((size_t)s->vocab * sizeof *logits),
          *expected = malloc((size_t)s->vocab * sizeof *expected);
    Error error = {0};
    const CacheOptions options = cache_options(DTYPE_F32);
    if (kv_cache_open(s->engine->backend, &options, &s->engine->model->shape, WINDOW, &again.cache, &error))
        fail_msg("%s", error.message);
    *control = 0;
    for (int at = 0, take = 2; at + take <= n; at += take, take = 5 - take) {
        if (length + take > WINDOW) {
            if (kv_sequence_evict(&s->cache, &sequence, KEEP, DISCARD, in_place, &error))
                fail_msg("%s", error.message);
            memmove(log + KEEP, log + KEEP + DISCARD, (size_t)(length - KEEP - DISCARD) * sizeof *log);
            length -= DISCARD, gone += DISCARD;
        }
        memcpy(log + length, ids + at, (size_t)take * sizeof *log);
        length += take;
        feed(s, &sequence, ids + at, NULL, take, logits);
        if (gone == 0) continue;
        read_again(&again, log, length, 0, expected);
        worst = fmax(worst, golden_distance(logits, expected, (size_t)s->vocab));
        read_again(&again, log, length, gone, expected);
        *control = fmax(*control, golden_distance(logits, expected, (size_t)s->vocab));
    }
    assert_true(gone >= 4 * DISCARD);
    kv_cache_close(&again.cache);
    kv_sequence_free(&s->cache, &sequence);
    free(logits), free(expected);
    return worst;
}
