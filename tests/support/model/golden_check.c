#include "tests/support/model/golden_check.h"

#include "engine/engine_internal.h"
#include "tests/support/test.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 128, CHUNK = 64 };

Model *golden_check_file(const char *root, const char *name) {
    char path[400];
    Model *model = NULL;
    Error error = {0};
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (model_open(path, &model, &error)) fail_msg("%s", error.message);
    return model;
}

static Engine *engine_of(Model *model, const char *device, int n_threads, DType cache, WeightType weights) {
    Engine *engine = NULL;
    Error error = {0};
    const EngineOptions options = {.device = device,
                                   .n_threads = n_threads,
                                   .context_size = CONTEXT,
                                   .cache = cache_options(cache),
                                   .chunk = CHUNK,
                                   .weights = weights};
    if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

Engine *golden_check_open(const char *root, const char *name, const char *device, int n_threads,
                          DType cache) {
    return engine_of(golden_check_file(root, name), device, n_threads, cache, WEIGHTS_OWN);
}

Engine *golden_check_converted(const char *root, const char *name, const char *device, WeightType weights) {
    return engine_of(golden_check_file(root, name), device, 2, DTYPE_F32, weights);
}

void golden_check_logits(Engine *engine, const char *name, const GoldenCase *c) {
    const size_t count = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = malloc(count * sizeof *logits);
    Error error = {0};
    for (int step = 1; step <= GOLDEN_MAX_IDS; step = step * 8 - 1) { // 1, 7, 55
        memset(logits, 0xff, count * sizeof *logits);
        if (golden_model_evaluate(engine, c, step, logits, &error)) fail_msg("%s: %s", name, error.message);
        const double distance = golden_distance(logits, c->expected, count);
        if (!(distance <= 1e-5))
            fail_msg("%s, %s, steps of %d: relative error %g", name, c->name, step, distance);
    }
    free(logits);
}

void golden_check_greedy(Engine *engine, const char *root, const char *golden_of) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s/golden.json", root, golden_of);
    json_t *golden = json_load_file(path, 0, NULL);
    const json_t *text = json_object_get(golden, "greedy"),
                 *prompt = json_object_get(json_array_get(json_object_get(golden, "cases"), 0), "ids");
    assert_int_equal(json_array_size(text), GOLDEN_GREEDY);
    int32_t ids[GOLDEN_BEGIN];
    for (size_t i = 0; i < GOLDEN_BEGIN; i++) ids[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    Session *session = NULL;
    Error error = {0};
    if (session_open(engine, &session, &error)) fail_msg("%s", error.message);
    if (session_sync(session, ids, GOLDEN_BEGIN, NULL, &error)) fail_msg("%s", error.message);
    for (size_t i = 0; i < GOLDEN_GREEDY; i++) {
        const SampleParams greedy = {.top_p = 1, .typical_p = 1};
        int32_t id;
        if (session_sample(session, &greedy, &id, &error)) fail_msg("%s: %s", golden_of, error.message);
        if (id != json_integer_value(json_array_get(text, i)))
            fail_msg("%s: token %zu is %d", golden_of, i, id);
    }
    session_close(session);
    json_decref(golden);
}

void golden_check_model(const char *root, const char *name, const char *golden_of,
                        const char *const *devices) {
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    assert_in_range(set.n, 1, GOLDEN_MAX_CASES);
    for (; *devices; devices++) {
        Engine *engine = golden_check_open(root, name, *devices, 2, DTYPE_F32);
        for (int i = 0; i < set.n; i++) golden_check_logits(engine, name, &set.cases[i]);
        golden_check_greedy(engine, root, golden_of);
        engine_close(engine);
    }
    golden_model_free(&set);
}

const char *const GOLDEN_LOOPS[] = {"cpu:reference", "cpu:exact", NULL};

void golden_check_both(const char *root, const char *name) {
    char gguf[64];
    golden_check_model(root, name, name, GOLDEN_LOOPS);
    snprintf(gguf, sizeof gguf, "%s.gguf", name);
    golden_check_model(root, gguf, name, GOLDEN_LOOPS + 1);
}

void golden_check_distance(Engine *engine, const char *root, const char *golden_of, const char *what,
                           double bound) {
    GoldenSet set;
    Error error = {0};
    if (golden_model_read(root, golden_of, &set, &error)) fail_msg("%s", error.message);
    const GoldenCase *c = &set.cases[0];
    const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits = calloc(n, sizeof *logits);
    if (golden_model_evaluate(engine, c, 7, logits, &error)) fail_msg("%s", error.message);
    const double distance = golden_distance(logits, c->expected, n);
    print_message("%s, %s: %.2g\n", golden_of, what, distance);
    assert_true(distance <= bound);
    free(logits);
    golden_model_free(&set);
}

void golden_check_cache(const char *root, const char *name, DType cache, double bound) {
    Engine *engine;
    Error error = {0};
    if (golden_model_open(root, name, "cpu:exact", cache, &engine, &error)) fail_msg("%s", error.message);
    golden_check_distance(engine, root, name, dtype_name(cache), bound);
    engine_close(engine);
}
