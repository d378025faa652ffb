// Several cards as one (kernels/shards), with cards that are none (fake_cards.h): that what all of them compute together is
// what one computes, within the rounding of sums of other parts.
#include "app/loading/plan_shown.h"
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "kernels/shards/shards_internal.h"
#include "tests/support/acts.h"
#include "tests/support/files.h"
#include "tests/support/kernels/fake_cards.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 384, CONTEXT = 96 };

static Error error;
static FakeCards fakes;

// ---- engines ------------------------------------------------------------------------------------------------

static Status try_open(const char *model, const char *device, CacheOptions cache, Engine **engine) {
    const EngineOptions options = {.model = model,
                                   .device_layers = DEVICE_LAYERS_FIT,
                                   .expert_layers = DEVICE_LAYERS_FIT,
                                   .device = device,
                                   .cuda = fake_cards(&fakes),
                                   .n_threads = 1,
                                   .context_size = CONTEXT,
                                   .cache = cache,
                                   .chunk = 16};
    return engine_open(&options, engine, &error);
}

static Engine *open_on(const char *model, const char *device, CacheOptions cache) {
    Engine *engine = NULL;
    if (try_open(model, device, cache, &engine)) fail_msg("%s on %s: %s", model, device, error.message);
    return engine;
}

// All cards' x are the same to the bit.
static void check_x(const Engine *engine, const char *path) {
    const Shards *s = (const Shards *)engine->backend;
    const size_t bytes = 7 * (size_t)s->whole->hidden_size * sizeof(float);
    for (int i = 1; i < s->n; i++)
        if (memcmp(shards_memory_at(s, 0, engine->forward.x), shards_memory_at(s, i, engine->forward.x),
                   bytes) != 0)
            fail_msg("%s: x of card %d", path, i);
}

// A golden case in steps of seven tokens, and of one (which are steps at once).
static void evaluate(const char *path, const char *device, const GoldenCase *c, float *logits[2]) {
    Engine *engine;
    Model *model;
    assert_ok(model_open(path, &model, &error), &error);
    const EngineOptions options = {.device = device,
                                   .cuda = fake_cards(&fakes),
                                   .n_threads = 1,
                                   .context_size = 128,
                                   .cache = cache_options(DTYPE_F32),
                                   .chunk = 64};
    if (engine_open_model(model, &options, &engine, &error))
        fail_msg("%s on %s: %s", path, device, error.message);
    const bool several = strchr(device, ',') != NULL;
    assert_int_equal(shards_count(engine->backend) > 0, several);
    for (int i = 0; i < 2; i++) {
        assert_ok(golden_model_evaluate(engine, c, i ? 1 : 7, logits[i], &error), &error);
        if (several && i == 0) check_x(engine, path);
    }
    engine_close(engine);
}

static void check_model(const char *root, const char *name, const char *const *devices) {
    GoldenSet set;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_ok(golden_model_read(root, name, &set, &error), &error);
    const GoldenCase *c = &set.cases[0];
    const size_t n = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits[2] = {calloc(n, sizeof(float)), calloc(n, sizeof(float))};
    for (; *devices; devices++) {
        evaluate(path, *devices, c, logits);
        for (int i = 0; i < 2; i++)
            if (!(golden_distance(logits[i], c->expected, n) <= golden_fixed_bound(c)))
                fail_msg("%s on %s: %g", path, *devices, golden_distance(logits[i], c->expected, n));
    }
    free(logits[0]), free(logits[1]);
    golden_model_free(&set);
}

// Against transformers' logits: models with KV heads fewer than cards, biases, tied heads, norms of heads and of whole rows, learned
// positions, windows, parallel parts, norms behind parts, sizes that do not divide; mixtures of experts with shared ones, with dense layers
// before, with biases and learned sinks, in pieces and in one; latents with queries of a low rank and without.
static void golden_models_on_several_cards(void **state) {
    (void)state;
    static const char *const MODELS[][2] = {
        {GOLDEN_MODELS, "llama"},
        {GOLDEN_MODELS, "llama-yarn"},
        {GOLDEN_MODELS, "llama3"},
        {GOLDEN_MODELS, "mistral"},
        {GOLDEN_MODELS, "qwen2"},
        {GOLDEN_MODELS, "qwen3"},
        {GOLDEN_ARCHITECTURES, "opt"},
        {GOLDEN_ARCHITECTURES, "gpt_neox"},
        {GOLDEN_ARCHITECTURES, "phi3"},
        {GOLDEN_ARCHITECTURES, "llama-dynamic"},
        {GOLDEN_DENSE, "cohere"},
        {GOLDEN_DENSE, "gemma"},
        {GOLDEN_DENSE, "starcoder2"},
        {GOLDEN_DENSE, "granite"},
        {GOLDEN_DENSE, "falcon-7b"},
        {GOLDEN_DENSE, "qwen"},
        {GOLDEN_DENSE, "phi"},
        {GOLDEN_DENSE, "smollm3"},
        {GOLDEN_DENSE, "hunyuan"},
        {GOLDEN_DENSE, "ministral3"},
        {GOLDEN_DENSE, "gemma2"},
        {GOLDEN_DENSE, "gemma3"},
        {GOLDEN_DENSE, "exaone4"},
        {GOLDEN_DENSE, "glm4"},
        {GOLDEN_DENSE, "olmo2"},
        {GOLDEN_DENSE, "olmo3"},
        {GOLDEN_DENSE, "apertus"},
        {GOLDEN_DENSE, "apertus-biased"},
        {GOLDEN_EXPERTS, "olmoe"},
        {GOLDEN_EXPERTS, "mixtral"},
        {GOLDEN_EXPERTS, "mixtral-packed"},
        {GOLDEN_EXPERTS, "qwen2_moe"},
        {GOLDEN_EXPERTS, "qwen3_moe"},
        {GOLDEN_EXPERTS, "glm4_moe"},
        {GOLDEN_EXPERTS, "ernie4_5_moe"},
        {GOLDEN_EXPERTS, "gpt_oss"},
        {GOLDEN_EXPERTS, "granitemoe"},
        {GOLDEN_EXPERTS, "llama4"},
        {GOLDEN_EXPERTS, "phimoe"},
        {GOLDEN_LATENT, "deepseek_v2"},
        {GOLDEN_LATENT, "deepseek_v3"},
        {GOLDEN_LATENT, "kimi_k2"},
        {GOLDEN_LATENT, "glm4_moe_lite"},
    };
    static const char *const DEVICES[] = {"cuda:0,1", "cuda:2,0,1", NULL};
    fakes = (FakeCards){0};
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++)
        check_model(MODELS[i][0], MODELS[i][1], DEVICES);
    assert_true(fakes.n_sums > 0);
    assert_int_equal(fakes.n_open, 0);
    check_model(GOLDEN_ARCHITECTURES, "gptj", (const char *const[]){"cuda:3,0", NULL}); // of two heads
    check_model(GOLDEN_MODELS, "llama", (const char *const[]){"cuda:0,1,2,3", NULL});
    check_model(GOLDEN_DENSE, "olmo2", (const char *const[]){"cuda:0,1,2,3", NULL}); // two cards to a KV head
    fakes.no_decode = true;
    check_model(GOLDEN_MODELS, "qwen2", DEVICES);
}

// Each card holds its part of the matrices, and all of the embedding.
static void a_card_reads_its_part(void **state) {
    (void)state;
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        fakes = (FakeCards){0};
        engine_close(open_on("tests/golden/babbler", i ? "cuda:0,1" : "cuda:0", cache_options(DTYPE_F16)));
        bytes[i] = fakes.n_bytes;
    }
    assert_true(bytes[1] > bytes[0]);
    assert_true(bytes[1] - bytes[0] < bytes[0] / 2); // embedding and norms once more
}

// ---- sessions -----------------------------------------------------------------------------------------------

// Two engines over other cards, of which the second waits for each token; i: which type and layout of a cache.
static void open_two(const char *path, int i, Engine *engines[2]) {
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    for (int e = 0; e < 2; e++) {
        Model *model;
        EngineOptions options = {.device = e ? "cuda:0,1" : "cuda:2,3",
                                 .cuda = fake_cards(&fakes),
                                 .n_threads = 1,
                                 .context_size = CONTEXT,
                                 .cache = cache_options(TYPES[i % 4]),
                                 .no_steps_ahead = e,
                                 .chunk = 16};
        options.cache.paged = i & 4, options.cache.layout = i % 4, options.cache.n_sequences = 2;
        if (options.cache.paged) options.cache.page_size = 8;
        assert_ok(model_open(path, &model, &error), &error);
        assert_ok(engine_open_model(model, &options, &engines[e], &error), &error);
    }
}

// Overflow of every policy, undo, branches, shifts in place, at random: steps ahead against none. Latents are in 16 bits and
// more.
static void whatever_is_done(void **state) {
    (void)state;
    fakes = (FakeCards){0};
    for (int i = 0; i < 14; i++) {
        static const int OF_OTHERS[] = {0, 1, 5};
        char first[200] = "";
        Engine *engines[2];
        if (i < 8)
            open_two("tests/golden/babbler", i, engines);
        else
            open_two(i < 11 ? GOLDEN_LATENT "/deepseek_v3" : GOLDEN_DENSE "/olmo2", OF_OTHERS[i % 3],
                     engines);
        if (acts_compare(engines, (uint64_t)i + 1, 150, first, sizeof first)) fail_msg("%d: %s", i, first);
        engine_close(engines[0]), engine_close(engines[1]);
    }
}

// What a cache holds is put together of all cards, and comes back to them.
static void snapshots_come_back(void **state) {
    char path[4096];
    int32_t ids[80];
    for (int i = 0; i < 80; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    fakes = (FakeCards){0};
    for (int layout = 0; layout < 4; layout++) {
        CacheOptions cache = cache_options(layout % 2 ? DTYPE_INT8 : DTYPE_F16);
        cache.layout = layout;
        snprintf(path, sizeof path, "%s/talk%d.kv", (char *)*state, layout);
        Engine *engines[] = {open_on("tests/golden/babbler", "cuda:0,1", cache),
                             open_on("tests/golden/babbler", "cuda:2,3", cache)};
        sessions_come_back(engines, ids, 70, 80, path);
        for (int i = 0; i < 2; i++) engine_close(engines[i]);
        // What another number of cards has added up is rounded otherwise.
        Engine *one = open_on("tests/golden/babbler", "cuda:0", cache);
        sessions_refuse(one, path, "device");
        engine_close(one);
    }
}

// ---- what goes wrong ----------------------------------------------------------------------------------------

// Logits of 40 tokens, the first time that they are asked for with failing cards.
static void logits_after(const char *path, FakeCards failing, float *logits) {
    const bool fails = failing.fails_out > 0 || failing.fails_qkv > 0;
    int32_t ids[40];
    fakes = failing;
    const EngineOptions options = {.device = "cuda:0,1",
                                   .cuda = fake_cards(&fakes),
                                   .n_threads = 1,
                                   .context_size = CONTEXT,
                                   .cache = cache_options(DTYPE_F16),
                                   .chunk = 16};
    Engine *engine;
    Model *model;
    Session *session;
    assert_ok(model_open(path, &model, &error), &error);
    assert_ok(engine_open_model(model, &options, &engine, &error), &error);
    for (int i = 0; i < 40; i++) ids[i] = (i * 7919 + 13) % 50; // both know so many
    assert_ok(session_open(engine, &session, &error), &error);
    Status status = session_sync(session, ids, 40, NULL, &error);
    assert_int_equal(status, fails ? STATUS_DEVICE : STATUS_OK);
    if (fails) assert_non_null(strstr(error.message, "stumbles"));
    assert_ok(session_sync(session, ids, 40, NULL, &error), &error);
    assert_ok(session_logits(session, logits, &error), &error);
    session_close(session);
    engine_close(engine);
}

// A card that fails in the middle leaves nothing that shows in the steps behind it: neither in what out adds, nor in squares
// of rows.
static void a_step_after_a_failure_is_right(void **state) {
    (void)state;
    static const char *const PATHS[] = {"tests/golden/babbler", GOLDEN_DENSE "/olmo2"};
    static const FakeCards FAILING[] = {{.fails_out = 4}, {.fails_qkv = 1}, {.fails_qkv = 4}};
    float logits[2][VOCAB] = {{0}};
    for (size_t p = 0; p < sizeof PATHS / sizeof *PATHS; p++) {
        logits_after(PATHS[p], (FakeCards){0}, logits[0]);
        for (size_t i = 0; i < sizeof FAILING / sizeof *FAILING; i++) {
            logits_after(PATHS[p], FAILING[i], logits[1]);
            assert_memory_equal(logits[0], logits[1], sizeof *logits);
        }
    }
}

static void a_card_that_is_lost_is_told_with_its_way_out(void **state) {
    (void)state;
    const int32_t ids[] = {1, 2, 3};
    fakes = (FakeCards){.fails_out = 1, .fatal = true};
    Engine *engine = open_on("tests/golden/babbler", "cuda:3,1", cache_options(DTYPE_F16));
    Session *session;
    assert_ok(session_open(engine, &session, &error), &error);
    assert_int_equal(session_sync(session, ids, 3, NULL, &error), STATUS_FATAL);
    assert_non_null(strstr(error.message, "stumbles; one of 2 cards has failed, or has waited too long"));
    assert_non_null(strstr(error.message, "or one (--device cuda:3)"));
    session_close(session);
    engine_close(engine);
}

static void what_cannot_be_is_said(void **state) {
    (void)state;
    static const struct {
        const char *model, *device, *said;
        Status status;
    } CASES[] = {
        {"tests/golden/babbler", "cuda:0,4", "there are 4", STATUS_USAGE},
        {"tests/golden/babbler", "cuda:1,1", "names card 1 twice", STATUS_USAGE},
        {"tests/golden/babbler", "cuda:0,", "there are 4", STATUS_USAGE},
        {GOLDEN_ARCHITECTURES "/bloom", "cuda:0,1", "ALiBi", STATUS_UNSUPPORTED},
        {GOLDEN_DENSE "/cohere-plus", "cuda:0,1", "layer norms of each head", STATUS_UNSUPPORTED},
        {GOLDEN_ARCHITECTURES "/gpt_neox", "cuda:all", "4 cards: 3 heads", STATUS_UNSUPPORTED},
    };
    fakes = (FakeCards){0};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        Engine *engine = NULL;
        Model *model;
        assert_ok(model_open(CASES[i].model, &model, &error), &error);
        const EngineOptions options = {.device = CASES[i].device,
                                       .cuda = fake_cards(&fakes),
                                       .n_threads = 1,
                                       .context_size = CONTEXT,
                                       .cache = cache_options(DTYPE_F32),
                                       .chunk = 16};
        const Status status = engine_open_model(model, &options, &engine, &error);
        if (status != CASES[i].status || !strstr(error.message, CASES[i].said))
            fail_msg("%s on %s: %d, %s", CASES[i].model, CASES[i].device, status, error.message);
        assert_int_equal(fakes.n_open, 0);
    }
    fakes.fails_load = 2;
    Engine *engine = NULL;
    assert_int_equal(try_open("tests/golden/babbler", "cuda:0,1", cache_options(DTYPE_F16), &engine),
                     STATUS_MEMORY);
    assert_int_equal(fakes.n_open, 0);
}

static void it_says_which_cards(void **state) {
    (void)state;
    char text[300];
    fakes = (FakeCards){0};
    Engine *engine = open_on("tests/golden/babbler", "cuda:0,1", cache_options(DTYPE_F16));
    engine_describe_backend(engine, text, sizeof text);
    if (strncmp(text, "cuda: 2 cards like 1 thread, ", 29) != 0 || !strstr(text, "sums by word of mouth"))
        fail_msg("%s", text);
    engine_close(engine);
}

// What each card takes is told before and after, and is what it is given.
static void it_says_what_each_takes(void **state) {
    (void)state;
    char plan[PLAN_ROOM];
    fakes = (FakeCards){0};
    Engine *engine = open_on("tests/golden/babbler", "cuda:0,1", cache_options(DTYPE_F16));
    const EngineMemory m = engine_memory(engine);
    assert_int_equal(m.n_cards, 2);
    assert_int_equal(m.cards[0].weights + m.cards[1].weights, fakes.n_bytes);
    assert_int_equal(m.cards[0].cache + m.cards[1].cache, m.cache);
    assert_string_equal(m.cards[1].name, "cuda:1");
    plan_shown(engine, plan);
    assert_non_null(
        strstr(plan, " on 2 cards, a share of each on every card\n              cuda:0: weights "));
    assert_non_null(strstr(plan, "\n              cuda:1: weights "));
    engine_close(engine);
    engine = open_on("tests/golden/babbler", "cuda:0", cache_options(DTYPE_F16));
    assert_int_equal(engine_memory(engine).n_cards, 0);
    engine_close(engine);
}

static int64_t needed(const EngineCard *card) {
    return card->weights + card->cache + card->scratch;
}

// Of four cards that are given ever less room; then the CPU has a part.
static void auto_takes_as_few_as_it_needs(void **state) {
    (void)state;
    static const char *const DEVICES[] = {"cuda:0", "cuda:0,1", "cuda:all"};
    static const int CARDS[] = {0, 2, 4};
    int64_t needs[3];
    for (int i = 0; i < 3; i++) {
        fakes = (FakeCards){0};
        Engine *engine = open_on("tests/golden/babbler", DEVICES[i], cache_options(DTYPE_F16));
        const EngineMemory m = engine_memory(engine);
        needs[i] = i ? needed(&m.cards[0]) : m.weights + m.cache + m.scratch;
        engine_close(engine);
    }
    assert_true(needs[0] > needs[1] && needs[1] > needs[2]);
    for (int i = 0; i < 4; i++) {
        fakes = (FakeCards){.room = i < 3 ? needs[i] + 20000 : needs[2] / 2};
        Engine *engine = open_on("tests/golden/babbler", "auto", cache_options(DTYPE_F16));
        const EngineMemory m = engine_memory(engine);
        assert_int_equal(shards_count(engine->backend), i < 3 ? CARDS[i] : 0);
        for (int card = 0; card < m.n_cards; card++) assert_true(needed(&m.cards[card]) <= fakes.room);
        assert_int_equal(*engine_backend_note(engine) || m.host_layers > 0, i == 3);
        engine_close(engine);
        assert_int_equal(fakes.n_open, 0);
    }
    // Who names one card is given no other.
    fakes = (FakeCards){.room = needs[1] + 20000};
    Engine *engine = NULL;
    assert_int_equal(try_open("tests/golden/babbler", "cuda", cache_options(DTYPE_F16), &engine),
                     STATUS_MEMORY);
    assert_non_null(strstr(error.message, "is needed"));
}

static void tokens_are_guessed(void **state) {
    (void)state;
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.paged = true, cache.page_size = 16, cache.n_sequences = 2;
    Engine *engine = open_on("tests/golden/babbler", "cuda:0,1", cache);
    assert_null(engine_cannot_draft(engine));
    assert_true(engine_step_seconds(engine, 2) > engine_step_seconds(engine, 1));
    sessions_guess(engine, "two cards");
    engine_close(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_models_on_several_cards),
        cmocka_unit_test(a_card_reads_its_part),
        cmocka_unit_test(whatever_is_done),
        cmocka_unit_test_setup_teardown(snapshots_come_back, folder_set_up, folder_tear_down),
        cmocka_unit_test(tokens_are_guessed),
        cmocka_unit_test(a_step_after_a_failure_is_right),
        cmocka_unit_test(a_card_that_is_lost_is_told_with_its_way_out),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(it_says_which_cards),
        cmocka_unit_test(it_says_what_each_takes),
        cmocka_unit_test(auto_takes_as_few_as_it_needs),
    };
    return test_main("shards", argc, argv, tests);
}
