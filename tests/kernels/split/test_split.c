// Layers on two backends (kernels/split): at every border the logits are those of one backend, whatever is done with
// sessions and their cache. With the same loops on both sides that is so to every bit, with plain loops on one of them
// within rounding.
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "engine/model/shape/model_shape.h"
#include "engine/session/session_step.h"
#include "kernels/split/split.h"
#include "tests/support/acts.h"
#include "tests/support/card.h"
#include "tests/support/files.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/kernels/random.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 384, CONTEXT = 96 };

static Error error;

static Engine *open_at(const char *model, const char *device, int device_layers, CacheOptions cache) {
    Engine *engine = NULL;
    const EngineOptions options = {.model = model,
                                   .device = device,
                                   .device_layers = device_layers,
                                   .n_threads = 1,
                                   .context_size = CONTEXT,
                                   .cache = cache,
                                   .chunk = 16};
    if (engine_open(&options, &engine, &error)) fail_msg("%s: %s", model, error.message);
    return engine;
}

// The same on tests/support/card.h, where the first layers visit in steps of `visits_from` tokens and more.
static Engine *open_on_card(EngineOptions options, Model *model, int visits_from) {
    Engine *engine = NULL;
    const bool own = model != NULL;
    options.device = "cpu";
    options.plans_only = true;
    Status status =
        own ? engine_open_model(model, &options, &engine, &error) : engine_open(&options, &engine, &error);
    assert_ok(status, &error);
    placement_close(engine);
    options.plans_only = false;
    assert_ok(placement_open_on(engine, card_ops(), "cpu", &options, &error), &error);
    assert_true(split_set_visits(engine->backend, visits_from));
    return engine;
}

// ---- logits ---------------------------------------------------------------------------------------------------

// On "card" layers visit, and single tokens go by its decode().
static int check_borders(const char *root, const char *name, const char *device, bool to_the_bit) {
    GoldenSet set;
    Model *model;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_ok(golden_model_read(root, name, &set, &error), &error);
    assert_ok(model_open(path, &model, &error), &error);
    const int n_layers = model->shape.n_layers;
    model_close(model);
    const GoldenCase *c = &set.cases[0];
    const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
    const double most = to_the_bit ? 0 : golden_fixed_bound(c); // the plain loops are exact
    float *whole = calloc(n, sizeof *whole), *split = calloc(n, sizeof *split);
    for (int on_device = 0; on_device < n_layers; on_device++) { // 0: all
        Engine *engine;
        assert_ok(model_open(path, &model, &error), &error);
        const EngineOptions options = {.device = on_device ? device : "cpu",
                                       .device_layers = on_device,
                                       .n_threads = 2,
                                       .context_size = 128,
                                       .cache = cache_options(DTYPE_F32),
                                       .chunk = 64};
        const bool on_card = on_device && !strcmp(device, "card");
        if (on_card)
            engine = open_on_card(options, model, 3);
        else
            assert_ok(engine_open_model(model, &options, &engine, &error), &error);
        assert_int_equal(split_side(engine->backend, SPLIT_FIRST) != NULL, on_device > 0);
        if (on_device) assert_int_equal(split_border(engine->backend), n_layers - on_device);
        const CardCounts before = card_counts();
        assert_ok(golden_model_evaluate(engine, c, 7, on_device ? split : whole, &error), &error);
        assert_int_equal(card_counts().copies > before.copies, on_card);
        if (on_card && !(golden_distance(split, whole, n) <= most)) fail_msg("%s, guests", path);
        if (on_card) assert_ok(golden_model_evaluate(engine, c, 1, split, &error), &error);
        assert_int_equal(card_counts().decoded > before.decoded, on_card);
        engine_close(engine);
        if (on_device && !(golden_distance(split, whole, n) <= most))
            fail_msg("%s, %d of %d layers on %s: %g", path, on_device, n_layers, device,
                     golden_distance(split, whole, n));
    }
    free(whole), free(split);
    golden_model_free(&set);
    return n_layers - 1;
}

// Architectures with everything that layers have between them: positions that are learned, biases, parallel parts,
// windows, experts, latents, sinks, heads that are tied or not.
static void every_border_of_small_models(void **state) {
    (void)state;
    static const char *const MODELS[][2] = {
        {GOLDEN_MODELS, "llama"},       {GOLDEN_MODELS, "qwen2"},       {GOLDEN_MODELS, "mistral"},
        {GOLDEN_MODELS, "qwen3"},       {GOLDEN_ARCHITECTURES, "opt"},  {GOLDEN_ARCHITECTURES, "bloom"},
        {GOLDEN_ARCHITECTURES, "mpt"},  {GOLDEN_ARCHITECTURES, "gptj"}, {GOLDEN_EXPERTS, "mixtral"},
        {GOLDEN_EXPERTS, "gpt_oss"},    {GOLDEN_EXPERTS, "llama4"},     {GOLDEN_LATENT, "deepseek_v2"},
        {GOLDEN_LATENT, "deepseek_v3"}, {GOLDEN_ARCHITECTURES, "phi3"}, {GOLDEN_DENSE, "apertus"},
    };
    int borders = 0;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        borders += check_borders(MODELS[i][0], MODELS[i][1], "cpu", true);
        borders += check_borders(MODELS[i][0], MODELS[i][1], "cpu:reference", false);
        borders += check_borders(MODELS[i][0], MODELS[i][1], "card", true);
    }
    assert_true(borders >= 42);
}

// ---- sessions ---------------------------------------------------------------------------------------------------

// Overflow of every policy, undo, branches, shifts in place: at random, against one backend; with guests on the card, and
// without.
static void whatever_is_done(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 35; i++) {
        const char *model = i < 32 ? "tests/golden/babbler" : "assets/parley-9m"; // which has one KV head
        CacheOptions cache = cache_options(TYPES[i % 4]);
        cache.paged = i & 4;
        cache.page_size = cache.paged ? 8 : cache.page_size;
        cache.layout = 1 + i % 3;
        cache.n_sequences = 2;
        const EngineOptions options = {.model = model,
                                       .device_layers = 1,
                                       .n_threads = 1,
                                       .context_size = CONTEXT,
                                       .cache = cache,
                                       .chunk = 16};
        Engine *engines[2] = {open_at(model, "cpu", 0, cache), i < 16
                                                                   ? open_at(model, "cpu", 1, cache)
                                                                   : open_on_card(options, NULL, 1 + i % 5)};
        char first[200] = "";
        assert_non_null(split_side(engines[1]->backend, SPLIT_SECOND));
        if (acts_compare(engines, (uint64_t)i + 1, 150, first, sizeof first))
            fail_msg("layout %d, %s: %s", cache.layout, dtype_name(cache.type), first);
        engine_close(engines[0]);
        engine_close(engines[1]);
    }
}

// A snapshot comes back bit by bit where the same layers lie on the same backends, and nowhere else.
static void snapshots_know_the_border(void **state) {
    char path[4096];
    int32_t ids[80];
    for (int i = 0; i < 80; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    snprintf(path, sizeof path, "%s/talk.kv", (char *)*state);
    Engine *engines[] = {open_at("tests/golden/babbler", "cpu", 1, cache_options(DTYPE_INT8)),
                         open_at("tests/golden/babbler", "cpu", 1, cache_options(DTYPE_INT8)),
                         open_at("tests/golden/babbler", "cpu", 0, cache_options(DTYPE_INT8)),
                         open_at("tests/golden/babbler", "cpu:reference", 1, cache_options(DTYPE_INT8))};
    sessions_come_back(engines, ids, 70, 80, path);
    for (int i = 2; i < 4; i++) sessions_refuse(engines[i], path, "device");
    for (int i = 0; i < 4; i++) engine_close(engines[i]);
}

// Many sessions at once: prompts in pieces, then all of them a token at a time.
static void draw_many(int device_layers, int32_t tokens[3][12]) {
    Engine *engine = NULL;
    Batch *batch;
    Session *sessions[3];
    SampleParams params[3];
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .device_layers = device_layers,
                             .n_threads = 1,
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F16),
                             .n_rows = 3,
                             .chunk = 16};
    options.cache.paged = true, options.cache.page_size = 8, options.cache.n_sequences = 3;
    assert_ok(engine_open(&options, &engine, &error), &error);
    assert_ok(batch_open(engine, NULL, &batch, &error), &error);
    for (int i = 0; i < 3; i++) {
        int32_t ids[30];
        int64_t n;
        for (int t = 0; t < 30; t++) ids[t] = (i * 31 + t * 7919) % VOCAB;
        params[i] = (SampleParams){
            .temperature = 1, .top_p = 1, .typical_p = 1, .seed = 3, .conversation = (uint64_t)i};
        assert_ok(session_open(engine, &sessions[i], &error), &error);
        session_set_independent(sessions[i]);
        assert_ok(session_set(sessions[i], ids, 20 + i, &error), &error);
        while (session_pending(sessions[i]) > 0)
            assert_ok(batch_read(batch, sessions[i], 7, &n, &error), &error);
        assert_ok(batch_draw(batch, &params[i], &tokens[i][0], &error), &error);
    }
    for (int t = 1; t < 12; t++) {
        int32_t ids[3];
        for (int i = 0; i < 3; i++) {
            session_push(sessions[i], tokens[i][t - 1]);
            params[i].position = (uint64_t)t;
        }
        assert_ok(batch_decode(batch, sessions, 3, params, ids, &error), &error);
        for (int i = 0; i < 3; i++) tokens[i][t] = ids[i];
    }
    batch_close(batch);
    for (int i = 0; i < 3; i++) session_close(sessions[i]);
    engine_close(engine);
}

static void many_sessions_at_once(void **state) {
    (void)state;
    int32_t whole[3][12], split[3][12];
    draw_many(0, whole);
    draw_many(1, split);
    assert_memory_equal(whole, split, sizeof whole);
}

// ---- memory, guesses ---------------------------------------------------------------------------------------------

// Addresses of memory mean the same on both sides, and of layers' memory one of them.
static void memory_is_written_and_read_across(void **state) {
    (void)state;
    Engine *engine = open_at("tests/golden/babbler", "cpu", 1, cache_options(DTYPE_F16));
    Backend *b = engine->backend;
    void *both, *layers, *none;
    char out[64], in[64], wrong;
    for (int i = 0; i < 64; i++) out[i] = (char)(i + 1);
    assert_ok(b->ops->alloc(b, 64, &both, &error), &error);
    assert_ok(b->ops->alloc_layers(b, 64, 2, 4, &layers, &error), &error);
    assert_int_equal(b->ops->alloc_layers(b, 64, 1, 4, &none, &error), STATUS_UNSUPPORTED);
    void *const areas[] = {both, layers};
    for (int i = 0; i < 2; i++)
        for (int from = 0; from < 64; from += 13)
            for (int n = 0; from + n <= 64; n += 5) {
                memset(in, 0, sizeof in);
                assert_ok(b->ops->write(b, areas[i], out, 64, &error), &error);
                assert_ok(b->ops->write(b, (char *)areas[i] + from, out + 3, n > 60 ? 60 : (size_t)n, &error),
                          &error);
                assert_ok(b->ops->read(b, in, areas[i], 64, &error), &error);
                assert_memory_equal(in, out, (size_t)from);
                assert_memory_equal(in + from, out + 3, n > 60 ? 60 : (size_t)n);
                assert_ok(b->ops->read(b, in, (char *)areas[i] + from, (size_t)n, &error), &error);
                assert_memory_equal(in, out + 3, n > 60 ? 60 : (size_t)n);
            }
    assert_int_equal(b->ops->read(b, in, (char *)both + 1, 64, &error), STATUS_DEVICE);
    assert_int_equal(b->ops->write(b, &wrong, in, 1, &error), STATUS_DEVICE);
    b->ops->free(b, both);
    b->ops->free(b, layers);
    b->ops->free(b, NULL);
    engine_close(engine);
}

static void tokens_are_guessed(void **state) {
    (void)state;
    static const char *const MODELS[] = {"tests/golden/babbler", "tests/golden/experts/qwen3_moe"};
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.paged = true, cache.page_size = 16, cache.n_sequences = 2;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        const EngineOptions options = {.device = "cpu",
                                       .device_layers = 1,
                                       .n_threads = 1,
                                       .context_size = CONTEXT,
                                       .cache = cache,
                                       .chunk = 16};
        Engine *engine = sessions_engine(MODELS[i], &options);
        assert_null(engine_cannot_draft(engine));
        assert_true(engine_step_seconds(engine, 2) > engine_step_seconds(engine, 1));
        sessions_guess(engine, MODELS[i]);
        engine_close(engine);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_border_of_small_models),
        cmocka_unit_test(whatever_is_done),
        cmocka_unit_test_setup_teardown(snapshots_know_the_border, folder_set_up, folder_tear_down),
        cmocka_unit_test(many_sessions_at_once),
        cmocka_unit_test(tokens_are_guessed),
        cmocka_unit_test(memory_is_written_and_read_across),
    };
    return test_main("split", argc, argv, tests);
}
