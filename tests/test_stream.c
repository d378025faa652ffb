// Text far beyond the context, read by a small model that was trained (tests/golden/make_scribe.py): what it makes of ten
// contexts stays as good as in the first (requirement C10). As a control nothing leaves and nothing is shifted: positions
// run on beyond those that the model was trained for.
#include "engine/engine.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCRIBE "tests/golden/scribe"

enum { CONTEXT = 96, WINDOWS = 11, N = WINDOWS * CONTEXT, VOCAB = 512 };

static void read_stream(int32_t ids[N]) {
    uint8_t bytes[2 * N] = {0};
    FILE *file = fopen(SCRIBE "/stream.bin", "rb");
    if (file == NULL || fread(bytes, 1, sizeof bytes, file) != sizeof bytes) fail_msg("no " SCRIBE);
    fclose(file);
    for (int i = 0; i < N; i++) ids[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
}

static Engine *open_engine(int context, DType cache) {
    Error error = {0};
    Model *model = NULL;
    Engine *engine = NULL;
    EngineOptions options = {
        .device = "cpu", .n_threads = 2, .context_size = context, .cache = cache_options(cache)};
    if (model_open(SCRIBE, &model, &error)) fail_msg("%s", error.message);
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static double log_loss(const float *logits, int32_t id) {
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < VOCAB; i++) most = fmax(most, (double)logits[i]);
    for (int i = 0; i < VOCAB; i++) sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[id];
}

// Mean loss of the tokens behind [from, to), each predicted by what the stream had before it.
static double mean_loss(const float *logits, const int32_t *ids, int from, int to) {
    double sum = 0;
    for (int i = from; i < to; i++) sum += log_loss(logits + (size_t)i * VOCAB, ids[i + 1]);
    return sum / (to - from);
}

static float *stream(const int32_t *ids, int context, DType cache, OverflowPolicy policy) {
    OverflowSettings settings = {.policy = policy, .keep = 1, .discard_fraction = 0.5};
    float *logits = malloc((size_t)N * VOCAB * sizeof *logits);
    Error error = {0};
    Session *session = NULL;
    Engine *engine = open_engine(context, cache);
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    if (session_stream(session, ids, N, &settings, logits, &error)) fail_msg("%s", error.message);
    session_close(session);
    engine_close(engine);
    return logits;
}

// What a text's loss is where each token has between half a context and a whole one before it, and the first token in
// front: what streaming with half of the context leaving at once gives at best. Each piece is read anew.
static float *read_anew(const int32_t *ids) {
    float *logits = malloc((size_t)N * VOCAB * sizeof *logits);
    int32_t window[CONTEXT];
    Error error = {0};
    Session *session = NULL;
    Engine *engine = open_engine(CONTEXT, DTYPE_F32);
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    for (int begin = 0; begin + CONTEXT <= N; begin += CONTEXT / 2) {
        int from = begin == 0 ? 0 : CONTEXT / 2;
        memcpy(window, ids + begin, sizeof window);
        window[0] = ids[0];
        session_forget_gone(session);
        if (session_logits_of(session, window, CONTEXT, from, logits + (size_t)(begin + from) * VOCAB,
                              &error))
            fail_msg("%s", error.message);
    }
    session_close(session);
    engine_close(engine);
    return logits;
}

typedef struct Losses {
    double first, middle, last; // of the first context, of the next five, of the last five
} Losses;

static Losses losses_of(float *logits, const int32_t *ids) {
    Losses losses = {mean_loss(logits, ids, 0, CONTEXT), mean_loss(logits, ids, CONTEXT, 6 * CONTEXT),
                     mean_loss(logits, ids, 6 * CONTEXT, N - 1)};
    free(logits);
    return losses;
}

static void perplexity_stays_flat_over_ten_contexts(void **state) {
    (void)state;
    static const OverflowPolicy policies[] = {OVERFLOW_REEVALUATE, OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    static const DType types[] = {DTYPE_F32, DTYPE_INT8};
    int32_t ids[N];
    read_stream(ids);
    Losses best = losses_of(read_anew(ids), ids);
    print_message("read anew: perplexity %.2f, %.2f, %.2f\n", exp(best.first), exp(best.middle),
                  exp(best.last));
    assert_true(exp(best.last) < 15); // it was trained: a guess among all pieces has 512
    for (int i = 0; i < 6; i++) {
        Losses l = losses_of(stream(ids, CONTEXT, types[i / 3], policies[i % 3]), ids);
        print_message("%s, %s: %.2f, %.2f, %.2f\n", overflow_policy_name(policies[i % 3]),
                      dtype_name(types[i / 3]), exp(l.first), exp(l.middle), exp(l.last));
        assert_true(exp(l.middle - best.middle) < 1.03);
        assert_true(exp(l.last - best.last) < 1.03); // no worse at the end than behind the beginning
    }
    Losses control = losses_of(stream(ids, 16 * CONTEXT, DTYPE_F32, OVERFLOW_SHIFT), ids);
    print_message("nothing leaves, nothing is shifted: %.2f, %.2f, %.2f\n", exp(control.first),
                  exp(control.middle), exp(control.last));
    assert_true(exp(control.first - best.first) < 1.03);
    assert_true(exp(control.middle - best.middle) > 2);
    assert_true(exp(control.last - best.last) > 4);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(perplexity_stays_flat_over_ten_contexts)};
    return test_main("stream", argc, argv, tests);
}
