// What is learnt of a model when it is loaded: bases of scores, with which attention gives transformers' logits as with
// running maxima, and the models and layers that do without.
#include "tests/support/test.h"
#include "tests/support/model/golden_model.h"
#include "engine/cache/score_bases.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Engine *open_engine(const char *folder, const char *device, Softmax softmax, float larger) {
    char path[200];
    Model *model;
    Engine *engine;
    Error error = {0};
    snprintf(path, sizeof path, "%s/%s", GOLDEN, folder);
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    model->shape.attention_scale *= larger;
    EngineOptions options = {.device = device,
                             .n_threads = 2,
                             .context_size = 128,
                             .cache = cache_options(DTYPE_F32),
                             .softmax = softmax,
                             .chunk = 32};
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static void describe(const Engine *engine, char text[200]) {
    Error error = {0};
    if (engine_describe_softmax(engine, text, 200, &error)) fail_msg("%s", error.message);
}

static bool in_order(const GoldenCase *c) {
    for (int i = 0; i < c->n; i++)
        if (c->positions[i] != i) return false;
    return true;
}

// Through the engine's own cache, seven tokens and then the rest; to free.
static float *evaluate(Engine *engine, const GoldenCase *c) {
    float *logits = malloc((size_t)(c->n - c->from) * (size_t)c->vocab * sizeof *logits);
    Session *session;
    Error error = {0};
    Status status = session_open(engine, &session, &error);
    if (!status) status = session_sync(session, c->ids, c->from < 7 ? c->from + 1 : 7, NULL, &error);
    if (!status) session_recall(session, c->ids, c->from);
    if (!status) status = session_logits_of(session, c->ids, c->n, c->from, logits, &error);
    if (status) fail_msg("%s", error.message);
    session_close(session);
    return logits;
}

static const char *const DEVICES[] = {"cpu", "cpu:reference"};

static void bases_give_the_same_logits(void **state) {
    (void)state;
    static const char *const MODELS[] = {"llama", "mistral", "qwen2", "qwen3"};
    for (int m = 0; m < 8; m++) {
        GoldenSet set;
        Error error = {0};
        char text[200], folder[100];
        int n_layers, n_based;
        long long again, parts;
        if (golden_model_read(GOLDEN_MODELS, MODELS[m / 2], &set, &error)) fail_msg("%s", error.message);
        snprintf(folder, sizeof folder, "models/%s", MODELS[m / 2]);
        Engine *engine = open_engine(folder, DEVICES[m % 2], SOFTMAX_UNIFIED, 1);
        describe(engine, text);
        assert_non_null(strstr(text, "; 0 of 0 parts taken again (0.00%)"));
        for (int i = 0; i < set.n; i++) {
            const GoldenCase *c = &set.cases[i];
            if (!in_order(c)) continue;
            float *logits = evaluate(engine, c);
            assert_true(golden_distance(logits, c->expected, (size_t)(c->n - c->from) * (size_t)c->vocab) <=
                        1e-5);
            free(logits);
        }
        describe(engine, text);
        print_message("%s: %s\n", folder, text);
        assert_int_equal(
            sscanf(text, "%d of %d layers by bases; %lld of %lld parts", &n_based, &n_layers, &again, &parts),
            4);
        assert_true(n_based == n_layers && n_layers > 0 && again == 0 && parts > 0);
        engine_close(engine);
        golden_model_free(&set);
    }
}

static void who_does_not_ask_has_none(void **state) {
    (void)state;
    char text[200];
    for (int i = 0; i < 2; i++) {
        Engine *engine = open_engine("models/llama", "cpu", i ? SOFTMAX_RUNNING : SOFTMAX_AUTO, 1);
        describe(engine, text);
        assert_string_equal(text, "running maxima");
        engine_close(engine);
    }
}

// Scores whose sums go further than float32 can: those layers keep their running maxima, and results are theirs.
static void what_is_not_safe_is_left_alone(void **state) {
    (void)state;
    char text[200];
    GoldenSet set;
    Error error = {0};
    Engine *engine = open_engine("architectures/bloom", "cpu", SOFTMAX_UNIFIED, 1);
    describe(engine, text);
    assert_string_equal(text, "running maxima: a bias by distance has no base");
    engine_close(engine);
    if (golden_model_read(GOLDEN_MODELS, "llama", &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    float *logits[2];
    for (int i = 0; i < 2; i++) {
        engine = open_engine("models/llama", "cpu", i ? SOFTMAX_UNIFIED : SOFTMAX_RUNNING, 1e5F);
        logits[i] = evaluate(engine, c);
        describe(engine, text);
        engine_close(engine);
    }
    assert_int_equal(strncmp(text, "0 of ", 5), 0);
    assert_non_null(strstr(text, "layers by bases, the others' scores reach too far; 0 of 0 parts"));
    assert_memory_equal(logits[0], logits[1], (size_t)(c->n - c->from) * (size_t)c->vocab * sizeof(float));
    free(logits[0]);
    free(logits[1]);
    golden_model_free(&set);
}

static bool near_to(double a, double b) {
    return fabs(a - b) < 1e-9;
}

// log2 of the sums of 32 scores; of the last ones if they are eight at least.
static void a_range_is_that_of_sums(void **state) {
    (void)state;
    double scores[72];
    for (int i = 0; i < 72; i++) scores[i] = i < 32 ? 1 : i < 64 ? -9 : 4;
    ScoreRange range = SCORE_RANGE_EMPTY;
    assert_false(score_range_is_safe(&range));
    score_range_note(&range, scores, 71);
    assert_true(near_to(range.low, -4) && near_to(range.high, 6));
    score_range_note(&range, scores, 72);
    assert_true(near_to(range.low, -4) && near_to(range.high, 7));
    assert_true(score_range_is_safe(&range) && near_to((double)score_range_base(&range), 1.5));
    scores[3] = -1e30; // single scores may be as small as they like
    score_range_note(&range, scores, 32);
    assert_true(score_range_is_safe(&range));
    scores[3] = 70;
    score_range_note(&range, scores, 32);
    assert_false(score_range_is_safe(&range));
    static const double BAD[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        range = SCORE_RANGE_EMPTY, scores[3] = BAD[i];
        score_range_note(&range, scores, 32);
        assert_false(score_range_is_safe(&range));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bases_give_the_same_logits),
        cmocka_unit_test(who_does_not_ask_has_none),
        cmocka_unit_test(what_is_not_safe_is_left_alone),
        cmocka_unit_test(a_range_is_that_of_sums),
    };
    return test_main("calibration", argc, argv, tests);
}
