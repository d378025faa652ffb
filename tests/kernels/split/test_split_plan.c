// Layers on two backends (kernels/split): how many a device takes, what a token takes there, when layers visit, and what
// cannot be divided.
#include "engine/engine_internal.h"
#include "engine/model/shape/model_shape.h"
#include "engine/session/session_step.h"
#include "kernels/split/split.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 96 };

static Error error;

static void it_says_where_layers_run(void **state) {
    (void)state;
    char text[256];
    EngineOptions options = {.device = "cpu:reference",
                             .device_layers = 1,
                             .n_threads = 1,
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F16)};
    Engine *engine = sessions_engine("tests/golden/babbler", &options);
    engine_describe_backend(engine, text, sizeof text);
    if (strncmp(text, "cpu 1 of 2 layers, cpu 1 (1 thread, ", 36) != 0) fail_msg("%s", text);
    const EngineMemory m = engine_memory(engine);
    assert_int_equal(m.host_layers, 1);
    assert_int_equal(m.n_layers, 2);
    assert_int_equal(m.host_cache, m.cache / 2);
    assert_true(m.weights > 0 && m.host_weights > 0 && m.host_scratch > 0 && m.host_available > 0);
    engine_close(engine);
    options.device = "cpu", options.device_layers = 2; // all there are
    engine = sessions_engine("tests/golden/babbler", &options);
    assert_null(split_side(engine->backend, SPLIT_FIRST));
    assert_int_equal(engine_memory(engine).host_layers, 0);
    engine_close(engine);
}

// Of a model with made-up weights, as benchmarks have it: what a token takes of either side is known once it is
// evaluated.
static void a_token_is_timed(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_MXFP4};
    for (int i = 0; i < 5; i++) {
        Model *model;
        Engine *engine;
        Session *session;
        float *logits;
        const int32_t ids[] = {5, 9};
        const EngineOptions options = {.device = "cpu",
                                       .device_layers = 20,
                                       .context_size = CONTEXT,
                                       .cache = cache_options(DTYPE_F16),
                                       .chunk = 16,
                                       .random_weights = true};
        assert_ok(model_of_shape("smollm2-135m", TYPES[i], TYPES[i], &model, &error), &error);
        logits = malloc((size_t)model->shape.vocab_size * sizeof *logits);
        assert_ok(engine_open_model(model, &options, &engine, &error), &error);
        const EngineTokenTimes tried = engine_token_times(engine);
        assert_true(tried.host > 0 && tried.device > 0); // once it was loaded
        assert_ok(session_open(engine, &session, &error), &error);
        assert_ok(session_sync(session, ids, 2, NULL, &error), &error);
        assert_ok(session_logits(session, logits, &error), &error);
        assert_true(engine_token_times(engine).host == tried.host); // two tokens
        assert_ok(session_sync(session, ids, 1, NULL, &error), &error);
        assert_ok(session_logits(session, logits, &error), &error);
        assert_true(engine_token_times(engine).host != tried.host && engine_token_times(engine).host > 0);
        for (int t = 0; t < model->shape.vocab_size; t++) assert_true(fabsf(logits[t]) < INFINITY);
        session_close(session);
        engine_close(engine);
        free(logits);
    }
}

// A power of two, from which on carrying layers takes less time than computing with them.
static void when_it_is_worth_a_visit(void **state) {
    (void)state;
    assert_int_equal(trial_visits_from(1, 16, 16, 0.5), 2); // never for one token
    assert_int_equal(trial_visits_from(1, 16, 16, 1.9), 2);
    assert_int_equal(trial_visits_from(1, 16, 16, 2.1), 4);
    assert_int_equal(trial_visits_from(1, 16, 16, 16), 16);
    assert_int_equal(trial_visits_from(1, 16, 16, 300), 512);
    assert_int_equal(trial_visits_from(1, 16, 16, 600), 0);
    assert_int_equal(trial_visits_from(1, 1, 16, 2), 0); // more tokens take no more
    assert_int_equal(trial_visits_from(1, 1, 16, 0.5), 2);
}

// To look at the plan nothing is loaded.
static void a_plan_alone(void **state) {
    (void)state;
    Engine *engine;
    const EngineOptions options = {.model = "tests/golden/babbler",
                                   .device = "cpu",
                                   .device_layers = 1,
                                   .context_size = CONTEXT,
                                   .cache = cache_options(DTYPE_F16),
                                   .plans_only = true};
    assert_ok(engine_open(&options, &engine, &error), &error);
    assert_null(engine->forward.layers);
    assert_true(engine_memory(engine).host_layers == 1 && engine_memory(engine).host_weights > 0);
    engine_close(engine);
}

static void what_cannot_be_split_is_refused(void **state) {
    (void)state;
    Engine *engine = NULL;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .device_layers = 1,
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F16)};
    options.cache.layout = 0;
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "layout 0"));
    options.cache.layout = 3;
    options.context_size = 1 << 24;
    options.cache.type = DTYPE_F32;
    options.cache.n_sequences = 1;
    Status status = engine_open(&options, &engine, &error); // where there is no room for that
    if (!status) engine_close(engine);
    assert_true(!status || (status == STATUS_MEMORY && strstr(error.message, "with 1 of 2 layers")));
}

// ---- how many layers a device takes ------------------------------------------------------------------------

static int64_t device_bytes;

static void little_memory(const Backend *backend, int64_t *total, int64_t *available) {
    (void)backend;
    *total = *available = device_bytes;
}

static int64_t bytes_on_device(const Engine *engine) {
    const EngineMemory m = engine_memory(engine);
    return m.weights + m.scratch + m.cache - m.host_cache;
}

// As many as fit beside the cache that was asked for: one more would not. More memory never means fewer.
static void as_many_layers_as_fit(void **state) {
    (void)state;
    Model *model;
    Engine *engine;
    assert_ok(model_open(GOLDEN_EXPERTS "/llama4", &model, &error), &error);
    const int n_layers = model->shape.n_layers;
    const EngineOptions options = {.device = "cpu",
                                   .device_layers = 1,
                                   .n_threads = 1,
                                   .context_size = 128,
                                   .cache = cache_options(DTYPE_F32),
                                   .chunk = 16};
    const BackendOptions backend = {.shape = &model->shape, .max_tokens = 16, .max_logits = 16};
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    Backend *device = split_side(engine->backend, SPLIT_SECOND);
    const Ops *plain = device->ops;
    Ops wrapped = *plain;
    wrapped.memory = little_memory;
    device->ops = &wrapped;
    engine->fits_layers = true;
    const int64_t least = bytes_on_device(engine);
    int before = 0, most = 0;
    for (device_bytes = least / 2; device_bytes < 4 * least; device_bytes += least / 16 + 1) {
        split_set_border(engine->backend, 1);
        Status status = memory_plan(engine, &options, &backend, &error);
        const int on_device = status ? 0 : n_layers - split_border(engine->backend);
        assert_true(!status || (status == STATUS_MEMORY && strstr(error.message, "layers on the device")));
        assert_true(status || bytes_on_device(engine) <= device_bytes);
        assert_true(on_device >= before);
        before = on_device, most = on_device > most ? on_device : most;
    }
    assert_int_equal(most, n_layers - 1);
    device_bytes = least - least / 4; // for one layer's weights, and less than its cache wants
    split_set_border(engine->backend, 1);
    assert_int_equal(memory_plan(engine, &options, &backend, &error), STATUS_MEMORY);
    device->ops = plain;
    engine_close(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_says_where_layers_run),        cmocka_unit_test(a_token_is_timed),
        cmocka_unit_test(when_it_is_worth_a_visit),        cmocka_unit_test(a_plan_alone),
        cmocka_unit_test(what_cannot_be_split_is_refused), cmocka_unit_test(as_many_layers_as_fit),
    };
    return test_main("split_plan", argc, argv, tests);
}
