// A context that does not fit: which one would, is said, and it does.
#include "engine/engine_internal.h"
#include "engine/model/model.h"
#include "kernels/split/split.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { TOO_LONG = 1 << 24 };

static Error error;
static int64_t free_bytes;

static void little_memory(const Backend *backend, int64_t *total, int64_t *available) {
    (void)backend;
    *total = *available = free_bytes;
}

// The context that the message names; 0: none.
static int named(void) {
    const char *at = strstr(error.message, "--context ");
    return at ? atoi(at + strlen("--context ")) : 0;
}

typedef struct Place {
    int device_layers;
    DType cache;
} Place;

static Status plan(Engine *engine, EngineOptions *options, int context_size) {
    const BackendOptions backend = {.shape = &engine->model->shape, .max_tokens = 16, .max_logits = 16};
    options->context_size = context_size;
    return memory_plan(engine, options, &backend, &error);
}

static void check_named(const Place *place) {
    Engine *engine;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .device_layers = place->device_layers,
                             .n_threads = 1,
                             .context_size = 64,
                             .cache = cache_options(place->cache),
                             .chunk = 16};
    assert_ok(engine_open(&options, &engine, &error), &error);
    Backend *card = split_side(engine->backend, SPLIT_SECOND);
    if (!card) card = engine->backend;
    const Ops *plain = card->ops;
    Ops wrapped = *plain;
    wrapped.memory = little_memory;
    card->ops = &wrapped;
    int n_named = 0, before = 0;
    for (free_bytes = 1 << 12; free_bytes < 1 << 27; free_bytes += free_bytes / 3) {
        assert_int_equal(plan(engine, &options, TOO_LONG), STATUS_MEMORY);
        const int fits = named();
        assert_true(fits >= before);
        before = fits;
        if (!fits) continue;
        n_named++;
        assert_non_null(strstr(error.message, ", which fits, "));
        assert_ok(plan(engine, &options, fits), &error);
        assert_int_equal(engine->context_size, fits);
        assert_int_equal(plan(engine, &options, fits + fits / 8 + 128), STATUS_MEMORY); // it is no low guess
    }
    assert_true(n_named > 10);
    card->ops = plain;
    engine_close(engine);
}

static void a_context_that_fits_is_named(void **state) {
    (void)state;
    static const Place PLACES[] = {{0, DTYPE_F16}, {0, DTYPE_INT4}, {1, DTYPE_F16}};
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) check_named(&PLACES[i]);
}

// A limit of the process, say, which no plan knows of: found by trying.
static Status refuse_much(Backend *backend, size_t bytes, void **memory, Error *e) {
    if (bytes > (size_t)free_bytes) return error_set(e, STATUS_MEMORY, "no room for %zu bytes", bytes);
    return ops_cpu()->alloc(backend, bytes, memory, e);
}

static void a_context_that_can_be_allocated_is_named(void **state) {
    (void)state;
    Engine *engine;
    KvCache cache;
    const EngineOptions options = {.model = "tests/golden/babbler",
                                   .device = "cpu",
                                   .n_threads = 1,
                                   .context_size = 64,
                                   .cache = cache_options(DTYPE_F16)};
    assert_ok(engine_open(&options, &engine, &error), &error);
    Backend *backend = engine->backend;
    const Ops *plain = backend->ops;
    Ops wrapped = *plain;
    wrapped.alloc = refuse_much;
    backend->ops = &wrapped;
    for (free_bytes = 1 << 18; free_bytes < 1 << 26; free_bytes *= 4) {
        engine->context_size = TOO_LONG;
        const Status status =
            kv_cache_open(backend, &engine->cache_options, &engine->model->shape, TOO_LONG, &cache, &error);
        assert_int_equal(status, STATUS_MEMORY);
        assert_int_equal(memory_plan_refused(engine, &error), STATUS_MEMORY);
        assert_non_null(strstr(error.message, "no room for "));
        const int fits = named(), more = fits + fits / 8 + 128;
        assert_in_range(fits, 64, TOO_LONG);
        assert_ok(kv_cache_open(backend, &engine->cache_options, &engine->model->shape, fits, &cache, &error),
                  &error);
        kv_cache_close(&cache);
        assert_int_equal(
            kv_cache_open(backend, &engine->cache_options, &engine->model->shape, more, &cache, &error),
            STATUS_MEMORY);
    }
    backend->ops = plain;
    engine_close(engine);
}

// What another engine was promised is not free, touched or not.
static void another_engine_keeps_its_memory(void **state) {
    (void)state;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = 64,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 16};
    Engine *engine, *other;
    assert_ok(engine_open(&options, &other, &error), &error);
    assert_ok(engine_open(&options, &engine, &error), &error);
    const Ops *plain = engine->backend->ops;
    Ops wrapped = *plain;
    wrapped.memory = little_memory;
    engine->backend->ops = &wrapped;
    free_bytes = 1 << 26;
    assert_ok(plan(engine, &options, 64), &error);
    assert_int_equal(engine->memory.available, free_bytes);
    options.beside = other;
    const EngineMemory theirs = engine_memory(other);
    assert_ok(plan(engine, &options, 64), &error);
    assert_int_equal(engine->memory.available, free_bytes - theirs.weights - theirs.cache - theirs.scratch);
    assert_true(theirs.cache > 0);
    free_bytes = theirs.weights + theirs.cache + theirs.scratch; // which is what it takes itself
    assert_int_equal(plan(engine, &options, 64), STATUS_MEMORY);
    engine->backend->ops = plain;
    engine_close(engine);
    engine_close(other);
}

// A guesser's: as long as is wanted, and no longer than it is good for.
static void a_context_has_its_most(void **state) {
    (void)state;
    static const struct {
        int size, most, expected; // the model is made for 1024
    } CASES[] = {{0, 0, 1024}, {0, 40, 40}, {0, 4096, 1024}, {100, 40, 40}, {30, 40, 30}, {2048, 4096, 1024}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const EngineOptions options = {.model = "tests/golden/babbler",
                                       .device = "cpu",
                                       .n_threads = 1,
                                       .context_size = CASES[i].size,
                                       .context_most = CASES[i].most,
                                       .cache = cache_options(DTYPE_F32),
                                       .chunk = 16};
        Engine *engine;
        assert_ok(engine_open(&options, &engine, &error), &error);
        assert_int_equal(engine_context_size(engine), CASES[i].expected);
        engine_close(engine);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_engine_keeps_its_memory),
        cmocka_unit_test(a_context_has_its_most),
        cmocka_unit_test(a_context_that_fits_is_named),
        cmocka_unit_test(a_context_that_can_be_allocated_is_named),
    };
    return test_main("memory_plan", argc, argv, tests);
}
