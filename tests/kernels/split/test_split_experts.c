// Mixtures of experts of which the experts of some layers lie on the CPU (kernels/split, SplitOptions.experts): however
// many, the logits are those of one backend, whatever is done with sessions and their cache. With the same loops on both
// sides that is so to every bit, with plain loops on one of them within rounding.
#include "engine/engine_internal.h"
#include "kernels/split/split.h"
#include "tests/support/acts.h"
#include "tests/support/card.h"
#include "tests/support/files.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 96, CHUNK = 16 };

static Error error;

// Options for experts of so many layers on the device; -1: the whole model on one backend.
static EngineOptions options_for(const char *device, int expert_layers, CacheOptions cache) {
    return (EngineOptions){.device = device,
                           .device_layers = expert_layers < 0 ? 0 : DEVICE_LAYERS_FIT,
                           .expert_layers = expert_layers < 0 ? DEVICE_LAYERS_FIT : expert_layers,
                           .n_threads = 1,
                           .context_size = CONTEXT,
                           .cache = cache,
                           .chunk = CHUNK};
}

// The model on tests/support/card.h, where experts visit in steps of `visits_from` tokens and more; 0: never.
static Engine *open_on_card(const char *path, EngineOptions options, int visits_from) {
    options.device = "cpu";
    options.plans_only = true;
    Engine *engine = sessions_engine(path, &options);
    placement_close(engine);
    options.plans_only = false;
    assert_ok(placement_open_on(engine, card_ops(), "cpu", &options, &error), &error);
    (void)split_set_visits(engine->backend,
                           visits_from); // no layer can, if none of those of the CPU has experts
    return engine;
}

static int layers_of(const char *path) {
    Model *model;
    assert_ok(model_open(path, &model, &error), &error);
    const int n = model->shape.n_layers;
    model_close(model);
    return n;
}

// ---- logits ---------------------------------------------------------------------------------------------------

static void check_case(Engine *engine, const GoldenCase *c, int step, const float *whole, double most,
                       const char *what) {
    const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *split = calloc(n, sizeof *split);
    assert_ok(golden_model_evaluate(engine, c, step, split, &error), &error);
    const double distance = golden_distance(split, whole, n);
    if (!(distance <= most)) fail_msg("%s by %d: %g", what, step, distance);
    free(split);
}

static int check_model(const char *root, const char *name) {
    static const char *const DEVICES[] = {"cpu", "cpu:reference", "card", "card, experts visit"};
    GoldenSet set;
    char path[200], what[300];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_ok(golden_model_read(root, name, &set, &error), &error);
    const GoldenCase *c = &set.cases[0];
    const int n_layers = layers_of(path);
    float *whole = calloc((size_t)(c->n - c->from) * (size_t)c->vocab, sizeof *whole);
    EngineOptions options = options_for("cpu", -1, cache_options(DTYPE_F32));
    options.context_size = 128, options.chunk = GOLDEN_MAX_IDS;
    Engine *engine = sessions_engine(path, &options);
    assert_ok(golden_model_evaluate(engine, c, 7, whole, &error), &error);
    engine_close(engine);
    for (int d = 0; d < 4; d++)
        for (int experts = 0; experts < n_layers; experts++) {
            const int decoded = card_counts().decoded;
            options = options_for(d < 2 ? DEVICES[d] : "cpu", experts, cache_options(DTYPE_F32));
            options.context_size = 128, options.chunk = GOLDEN_MAX_IDS;
            engine = d < 2 ? sessions_engine(path, &options) : open_on_card(path, options, d == 3 ? 3 : 0);
            assert_non_null(split_side(engine->backend, SPLIT_FIRST));
            assert_true(split_has_experts(engine->backend));
            assert_int_equal(split_border(engine->backend), n_layers - experts);
            snprintf(what, sizeof what, "%s, experts of %d of %d layers on %s", path, experts, n_layers,
                     DEVICES[d]);
            check_case(engine, c, 7, whole, d == 1 ? golden_fixed_bound(c) : 0, what);
            check_case(engine, c, 1, whole, d == 1 ? golden_fixed_bound(c) : 0, what);
            // Where layers have heads of their own, no part of them goes by decode().
            const bool alike = !engine_model(engine)->shape.heads_of_layers;
            assert_int_equal(card_counts().decoded > decoded, d >= 2 && experts > 0 && alike);
            engine_close(engine);
        }
    free(whole);
    golden_model_free(&set);
    return n_layers;
}

// Experts with biases and gates of their own, behind sinks and windows; shared ones, with weights of their own or without;
// dense layers before and between; latents; parts beside each other whose sum is normed; layers with heads of their own; layers of experts alone.
static void every_border_of_small_models(void **state) {
    (void)state;
    static const char *const MODELS[][2] = {
        {GOLDEN_EXPERTS, "mixtral"},      {GOLDEN_EXPERTS, "qwen3_moe"},
        {GOLDEN_EXPERTS, "gpt_oss"},      {GOLDEN_EXPERTS, "qwen2_moe"},
        {GOLDEN_EXPERTS, "glm4_moe"},     {GOLDEN_EXPERTS, "phimoe"},
        {GOLDEN_EXPERTS, "llama4"},       {GOLDEN_EXPERTS, "granitemoe"},
        {GOLDEN_EXPERTS, "ernie4_5_moe"}, {GOLDEN_LATENT, "deepseek_v2"},
        {GOLDEN_LATENT, "deepseek_v3"},   {GOLDEN_DENSE, "gemma4-moe"},
        {GOLDEN_CONVOLUTION, "lfm2_moe"}, {GOLDEN_DELTA, "qwen3_next"},
        {GOLDEN_DELTA, "qwen3_5_moe"},    {GOLDEN_STATE_SPACE, "nemotron_h-moe"},
    };
    int borders = 0;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        borders += check_model(MODELS[i][0], MODELS[i][1]);
    assert_true(borders >= 27);
}

// ---- sessions ---------------------------------------------------------------------------------------------------

// Overflow of every policy, undo, branches, shifts in place: at random, against one backend; with experts that visit the
// card, and without.
static void whatever_is_done(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    static const char *const MODELS[] = {GOLDEN_EXPERTS "/mixtral", GOLDEN_EXPERTS "/gpt_oss",
                                         GOLDEN_LATENT "/deepseek_v3"};
    for (int i = 0; i < 24; i++) {
        const char *model = MODELS[i % 3];
        CacheOptions cache = cache_options(TYPES[i % 4]);
        if (i % 3 == 2) cache.type = i % 2 ? DTYPE_F16 : DTYPE_F32;
        cache.paged = i & 4;
        cache.page_size = cache.paged ? 8 : cache.page_size;
        cache.layout = i % 3 == 2 ? cache.layout : i % 4;
        cache.n_sequences = 2;
        const EngineOptions one = options_for("cpu", -1, cache), two = options_for("cpu", i / 3 % 2, cache);
        Engine *engines[2] = {sessions_engine(model, &one),
                              i < 8 ? sessions_engine(model, &two) : open_on_card(model, two, i % 5)};
        char first[200] = "";
        assert_true(split_has_experts(engines[1]->backend));
        if (acts_compare(engines, (uint64_t)i + 1, 100, first, sizeof first))
            fail_msg("%s, layout %d, %s: %s", model, cache.layout, dtype_name(cache.type), first);
        engine_close(engines[0]);
        engine_close(engines[1]);
    }
}

// A snapshot comes back bit by bit where the same experts lie on the same backends, and nowhere else.
static void snapshots_know_where_experts_lie(void **state) {
    char path[4096];
    int32_t ids[80];
    Engine *engines[4];
    for (int i = 0; i < 80; i++) ids[i] = (i * 7919 + 13) % 128;
    snprintf(path, sizeof path, "%s/talk.kv", (char *)*state);
    // Two alike, one with other experts on the CPU, one with a whole layer there.
    for (int i = 0; i < 4; i++) {
        EngineOptions options = options_for("cpu", i == 2 ? 0 : 1, cache_options(DTYPE_F16));
        if (i == 3) options.device_layers = 1, options.expert_layers = DEVICE_LAYERS_FIT;
        engines[i] = sessions_engine(GOLDEN_EXPERTS "/mixtral", &options);
    }
    sessions_come_back(engines, ids, 70, 80, path);
    for (int i = 2; i < 4; i++) sessions_refuse(engines[i], path, "device");
    for (int i = 0; i < 4; i++) engine_close(engines[i]);
}

// ---- what it is, and what it cannot be -----------------------------------------------------------------------

static void it_says_where_experts_lie(void **state) {
    (void)state;
    char text[256];
    const int32_t ids[] = {5};
    float logits[128];
    Session *session;
    EngineOptions options = options_for("cpu:reference", 1, cache_options(DTYPE_F16));
    Engine *engine = sessions_engine(GOLDEN_EXPERTS "/mixtral", &options);
    engine_describe_backend(engine, text, sizeof text);
    if (strncmp(text, "cpu, experts of 1 of 2 layers, cpu 1 (1 thread, ", 47) != 0) fail_msg("%s", text);
    const EngineMemory m = engine_memory(engine);
    assert_true(m.only_experts && m.host_layers == 1 && m.n_layers == 2 && m.host_cache == 0);
    assert_true(m.weights > 0 && m.host_weights > 0);
    assert_ok(session_open(engine, &session, &error), &error); // what a token takes of either side is known
    assert_ok(session_sync(session, ids, 1, NULL, &error), &error);
    assert_ok(session_logits(session, logits, &error), &error);
    assert_true(engine_token_times(engine).host > 0 && engine_token_times(engine).device > 0);
    session_close(session);
    engine_close(engine);
    options.expert_layers = 2; // all there are
    engine = sessions_engine(GOLDEN_EXPERTS "/mixtral", &options);
    assert_null(split_side(engine->backend, SPLIT_FIRST));
    engine_close(engine);
    // Nothing is counted twice, and nothing is left out, but for the head, of which both sides have a part.
    int64_t bytes[3];
    for (int experts = 0; experts < 3; experts++) {
        options.expert_layers = experts, options.plans_only = true;
        engine = sessions_engine(GOLDEN_EXPERTS "/mixtral", &options);
        bytes[experts] = engine_memory(engine).weights + engine_memory(engine).host_weights;
        engine_close(engine);
    }
    const int64_t head = 128 * 48 * (int64_t)sizeof(float);
    assert_true(bytes[0] == bytes[1] && bytes[1] >= bytes[2] && bytes[1] <= bytes[2] + 2 * head);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    Engine *engine = NULL;
    Model *model;
    EngineOptions options = options_for("cpu", 1, cache_options(DTYPE_F16));
    assert_ok(model_open("tests/golden/babbler", &model, &error), &error);
    assert_int_equal(engine_open_model(model, &options, &engine, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no experts"));
    options.device_layers = 1; // whole layers
    assert_ok(model_open(GOLDEN_EXPERTS "/mixtral", &model, &error), &error);
    assert_int_equal(engine_open_model(model, &options, &engine, &error), STATUS_USAGE);
    assert_non_null(strstr(error.message, "--expert-layers"));
}

// ---- how many experts a device takes -----------------------------------------------------------------------

static int64_t device_bytes;
static Ops small_card;

static void little_memory(const Backend *backend, int64_t *total, int64_t *available) {
    (void)backend;
    *total = *available = device_bytes;
}

static Status open_small_card(const BackendOptions *options, Backend **backend, Error *e) {
    const Status status = ops_cpu()->open(options, backend, e);
    if (!status) (*backend)->ops = &small_card;
    return status;
}

// Experts of as many layers as fit beside the cache; where not even the rest fits, whole layers; then nothing. More
// memory never means less of the model on the device.
static void experts_leave_before_layers(void **state) {
    (void)state;
    EngineOptions options = options_for("cpu", -1, cache_options(DTYPE_F32));
    Engine *engine = sessions_engine(GOLDEN_EXPERTS "/llama4", &options);
    const EngineMemory whole = engine_memory(engine);
    const int64_t need = whole.weights + whole.cache + whole.scratch;
    const int n_layers = engine_model(engine)->shape.n_layers;
    int seen[3] = {0}, before = -1;
    small_card = *ops_cpu(), small_card.memory = little_memory, small_card.open = open_small_card;
    options.device_layers = options.expert_layers = DEVICE_LAYERS_FIT, options.plans_only = true;
    for (device_bytes = need / 4; device_bytes < 2 * need; device_bytes += need / 64 + 1) {
        placement_close(engine);
        const Status status = placement_open_on(engine, &small_card, "cpu", &options, &error);
        if (status) {
            assert_int_equal(status, STATUS_MEMORY);
            assert_int_equal(before, -1);
            continue;
        }
        const EngineMemory m = engine_memory(engine);
        assert_true(m.weights + m.scratch + m.cache - m.host_cache <= device_bytes);
        const int rank = m.host_layers == 0 ? 3 * n_layers
                         : m.only_experts   ? 2 * n_layers - m.host_layers
                                            : n_layers - 1 - m.host_layers;
        assert_true(rank >= before);
        before = rank;
        seen[m.host_layers == 0 ? 0 : m.only_experts ? 1 : 2]++;
    }
    assert_true(seen[0] > 0 && seen[1] > 1 && seen[2] > 0);
    engine_close(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_border_of_small_models),
        cmocka_unit_test(whatever_is_done),
        cmocka_unit_test_setup_teardown(snapshots_know_where_experts_lie, folder_set_up, folder_tear_down),
        cmocka_unit_test(it_says_where_experts_lie),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(experts_leave_before_layers),
    };
    return test_main("split_experts", argc, argv, tests);
}
