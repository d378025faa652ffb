// Layers over several hosts (kernels/hosts), each a thread here: everything that a session can do is, to the bit, what one
// process makes of it, for between ranks x goes as it is.
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "kernels/hosts/hosts.h"
#include "tests/support/acts.h"
#include "tests/support/files.h"
#include "tests/support/kernels/fake_cards.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/ranks/ranks.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BABBLER "tests/golden/babbler"

enum { VOCAB = 384, CONTEXT = 96 };

static Error error;
static FakeCards fakes;

static EngineOptions options_of(const char *model, CacheOptions cache) {
    return (EngineOptions){.model = model,
                           .device = "cpu",
                           .n_threads = 1,
                           .context_size = CONTEXT,
                           .cache = cache,
                           .chunk = 16};
}

static Engine *open_with(const EngineOptions *options) {
    Engine *engine = NULL;
    if (engine_open(options, &engine, &error)) fail_msg("%s: %s", options->model, error.message);
    return engine;
}

// A golden case in steps of seven tokens and of one, on one process and on n: the same to the bit.
static void check_model(const char *root, const char *name, int n) {
    GoldenSet set;
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_ok(golden_model_read(root, name, &set, &error), &error);
    const GoldenCase *c = &set.cases[0];
    const size_t size = (size_t)(c->n - c->from) * (size_t)c->vocab;
    float *logits[2][2];
    for (int several = 0; several < 2; several++) {
        EngineOptions options = options_of(path, cache_options(DTYPE_F32));
        Ranks ranks;
        Engine *engine;
        Model *model;
        options.context_size = 128, options.chunk = 64;
        if (several) ranks_begin(&ranks, path, n, NULL, &options);
        assert_ok(model_open(path, &model, &error), &error);
        if (engine_open_model(model, &options, &engine, &error)) fail_msg("%s: %s", path, error.message);
        assert_int_equal(hosts_own(engine->backend) != NULL, several);
        for (int i = 0; i < 2; i++) {
            logits[several][i] = calloc(size, sizeof(float));
            assert_ok(golden_model_evaluate(engine, c, i ? 1 : 7, logits[several][i], &error), &error);
        }
        engine_close(engine);
        if (several) ranks_end(&ranks);
    }
    for (int i = 0; i < 2; i++) {
        if (memcmp(logits[0][i], logits[1][i], size * sizeof(float)) != 0)
            fail_msg("%s on %d ranks: %g", path, n, golden_distance(logits[1][i], logits[0][i], size));
        if (!(golden_distance(logits[1][i], c->expected, size) <= golden_fixed_bound(c)))
            fail_msg("%s", path);
        free(logits[0][i]), free(logits[1][i]);
    }
    golden_model_free(&set);
}

static void logits_are_those_of_one_process(void **state) {
    (void)state;
    static const char *const MODELS[][2] = {
        {GOLDEN_MODELS, "llama"},      {GOLDEN_MODELS, "mistral"},    {GOLDEN_MODELS, "qwen2"},
        {GOLDEN_MODELS, "llama-yarn"}, {GOLDEN_ARCHITECTURES, "opt"}, {GOLDEN_DENSE, "cohere"},
        {GOLDEN_DENSE, "gemma"},
    };
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) check_model(MODELS[i][0], MODELS[i][1], 2);
    check_model(GOLDEN_DENSE, "exaone4", 3);
    check_model(GOLDEN_DENSE, "apertus", 3);
    check_model(GOLDEN_EXPERTS, "mixtral", 2);
    check_model(GOLDEN_LATENT, "deepseek_v2", 2);
}

// Overflow of every policy, undo, branches, shifts in place, logits, pages that are copied, at random.
static void whatever_is_done(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_F32, DTYPE_F16, DTYPE_INT8, DTYPE_INT4};
    for (int i = 0; i < 8; i++) {
        Engine *engines[2];
        Ranks ranks;
        char first[200] = "";
        EngineOptions options = options_of(BABBLER, cache_options(TYPES[i % 4]));
        options.cache.paged = i & 4, options.cache.layout = 1 + i % 3, options.cache.n_sequences = 2;
        if (options.cache.paged) options.cache.page_size = 8;
        engines[0] = open_with(&options);
        ranks_begin(&ranks, BABBLER, 2, NULL, &options);
        engines[1] = open_with(&options);
        if (acts_compare(engines, (uint64_t)i + 1, 150, first, sizeof first)) fail_msg("%d: %s", i, first);
        engine_close(engines[0]), engine_close(engines[1]);
        ranks_end(&ranks);
    }
}

// A rank's own part may be a card, whose last layers come in one step a token.
static void each_part_may_be_cards(void **state) {
    (void)state;
    static const char *const DEVICES[][2] = {{"cuda:0", "cuda:1"}, {"cpu", "cuda:1"}, {"cuda:0", "cpu"}};
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++) {
        Engine *engines[2];
        Ranks ranks;
        char first[200] = "";
        EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
        fakes = (FakeCards){0};
        options.cuda = fake_cards(&fakes);
        options.cache.paged = true, options.cache.page_size = 8, options.cache.n_sequences = 2;
        options.device = DEVICES[i][0];
        ranks_begin(&ranks, BABBLER, 2, DEVICES[i][1], &options);
        engines[1] = open_with(&options);
        options.world = (EngineWorld){0}, options.device = "cpu";
        engines[0] = open_with(&options);
        if (acts_compare(engines, (uint64_t)i + 1, 150, first, sizeof first))
            fail_msg("%s and %s: %s", DEVICES[i][0], DEVICES[i][1], first);
        engine_close(engines[0]), engine_close(engines[1]);
        ranks_end(&ranks);
        assert_int_equal(fakes.n_open, 0);
    }
}

static void read_logits(Engine *engine, const int32_t *ids, int n, float logits[VOCAB]) {
    Session *session;
    assert_ok(session_open(engine, &session, &error), &error);
    assert_ok(session_sync(session, ids, n, NULL, &error), &error);
    assert_ok(session_logits(session, logits, &error), &error);
    session_close(session);
}

// Two cards in each of two ranks: what four make is what one makes, but for rounding.
static void hosts_of_several_cards(void **state) {
    (void)state;
    int32_t ids[40];
    float logits[2][VOCAB];
    for (int i = 0; i < 40; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    fakes = (FakeCards){0};
    EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F32));
    Engine *engine = open_with(&options);
    read_logits(engine, ids, 40, logits[0]);
    engine_close(engine);
    Ranks ranks;
    options.cuda = fake_cards(&fakes), options.device = "cuda:0,1";
    ranks_begin(&ranks, BABBLER, 2, "cuda:2,3", &options);
    engine = open_with(&options);
    read_logits(engine, ids, 40, logits[1]);
    engine_close(engine);
    ranks_end(&ranks);
    // Half a group of columns in each card (kernels/cpu/loops/fixed.h), so that its integers are others.
    assert_true(golden_distance(logits[1], logits[0], VOCAB) <= 5e-4);
}

// A long prompt is cut into pieces, of which each rank has another one in hand: what comes of them is the same to the bit.
static void prompts_go_in_pieces(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int n_ranks, chunk;
    } CASES[] = {
        {BABBLER, 2, 16}, {BABBLER, 2, 3}, {GOLDEN_DENSE "/exaone4", 3, 8}, {GOLDEN_DENSE "/exaone4", 3, 4}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        float logits[2][2][VOCAB];
        for (int several = 0; several < 2; several++) {
            EngineOptions options = options_of(CASES[i].path, cache_options(DTYPE_F16));
            Ranks ranks;
            int32_t ids[CONTEXT];
            options.chunk = CASES[i].chunk;
            if (several) ranks_begin(&ranks, CASES[i].path, CASES[i].n_ranks, NULL, &options);
            Engine *engine;
            Model *model;
            assert_ok(model_open(CASES[i].path, &model, &error), &error);
            assert_ok(engine_open_model(model, &options, &engine, &error), &error);
            const int vocab = engine_model(engine)->shape.vocab_size;
            assert_in_range(vocab, 1, VOCAB);
            for (int k = 0; k < CONTEXT; k++) ids[k] = (k * 7919 + 13) % vocab;
            for (int k = 0; k < 2; k++) read_logits(engine, ids + k, CONTEXT - k, logits[several][k]);
            engine_close(engine);
            if (several) ranks_end(&ranks);
            if (several) assert_memory_equal(logits[0], logits[1], (size_t)vocab * sizeof(float));
        }
    }
}

// While one rank has a piece in hand, the other has the next.
static void each_rank_has_another_piece(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    float logits[VOCAB];
    for (int i = 0; i < CONTEXT; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
    Ranks ranks;
    fakes = (FakeCards){.slow_ms = 5};
    options.cuda = fake_cards(&fakes), options.device = "cuda:0";
    ranks_begin(&ranks, BABBLER, 2, "cuda:1", &options);
    Engine *engine = open_with(&options);
    read_logits(engine, ids, CONTEXT, logits);
    engine_close(engine);
    ranks_end(&ranks);
    assert_int_equal(fakes.most_busy, 2);
}

// What a cache holds is put together of all ranks, and comes back to them.
static void snapshots_come_back(void **state) {
    char path[4096];
    int32_t ids[80];
    for (int i = 0; i < 80; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    for (int layout = 1; layout < 4; layout++) {
        Engine *engines[2];
        Ranks ranks[2];
        EngineOptions options = options_of(BABBLER, cache_options(layout % 2 ? DTYPE_INT8 : DTYPE_F16));
        options.cache.layout = layout;
        snprintf(path, sizeof path, "%s/talk%d.kv", (char *)*state, layout);
        for (int i = 0; i < 2; i++) {
            ranks_begin(&ranks[i], BABBLER, 2, NULL, &options);
            engines[i] = open_with(&options);
        }
        sessions_come_back(engines, ids, 70, 80, path);
        for (int i = 0; i < 2; i++) {
            engine_close(engines[i]);
            ranks_end(&ranks[i]);
        }
    }
}

// A rank whose op fails says so with what is asked for next, which may be a later piece of the prompt. What comes then is
// right: of the pieces nothing is taken for cached.
static void a_step_after_a_failure_is_right(void **state) {
    (void)state;
    static const FakeCards FAILS[] = {
        {0}, {.fails_out = 2}, {.fails_qkv = 1}, {.fails_qkv = 2}, {.fails_qkv = 4}};
    int32_t ids[40];
    float logits[2][VOCAB], again[2][VOCAB];
    for (int i = 0; i < 40; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    for (size_t i = 0; i < sizeof FAILS / sizeof *FAILS; i++) {
        Ranks ranks;
        Session *session;
        EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
        fakes = FAILS[i];
        options.cuda = fake_cards(&fakes);
        ranks_begin(&ranks, BABBLER, 2, "cuda:0,1", &options);
        Engine *engine = open_with(&options);
        assert_ok(session_open(engine, &session, &error), &error);
        Status status = session_sync(session, ids, 40, NULL, &error);
        if (!status) status = session_logits(session, logits[i > 0], &error);
        assert_int_equal(status, i ? STATUS_DEVICE : STATUS_OK);
        if (i) assert_non_null(strstr(error.message, "rank 1 (127.0.0.1): "));
        if (i) assert_non_null(strstr(error.message, "stumbles"));
        assert_ok(session_sync(session, ids, 40, NULL, &error), &error);
        assert_ok(session_logits(session, again[i > 0], &error), &error);
        session_close(session);
        read_logits(engine, ids, 40, logits[i > 0]);
        engine_close(engine);
        ranks_end(&ranks);
        assert_memory_equal(logits[0], logits[i > 0], sizeof *logits);
        assert_memory_equal(again[0], again[i > 0], sizeof *again);
    }
}

static bool stops_at_third(void *user, const char *what, int64_t done, int64_t total) {
    (void)what, (void)done, (void)total;
    return ++*(int *)user < 3;
}

// Ctrl-C while pieces are under way: what was read of the prompt stays, but for what turns out to have failed.
static void an_interrupted_prompt_goes_on(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    float logits[3][VOCAB];
    for (int i = 0; i < CONTEXT; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    for (int i = 0; i < 3; i++) { // to the end; interrupted; and with a failure that nobody had been told
        Ranks ranks;
        Session *session;
        int n_told = 0;
        EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
        fakes = (FakeCards){.slow_ms = i ? 3 : 0, .fails_qkv = i == 2 ? 2 : 0};
        options.cuda = fake_cards(&fakes);
        ranks_begin(&ranks, BABBLER, 2, "cuda:0,1", &options);
        Engine *engine = open_with(&options);
        assert_ok(session_open(engine, &session, &error), &error);
        if (i) session_set_progress(session, (Progress){stops_at_third, &n_told});
        assert_int_equal(session_sync(session, ids, CONTEXT, NULL, &error),
                         i ? STATUS_INTERRUPTED : STATUS_OK);
        if (i) assert_int_equal(session_cached(session) > 0, i == 1);
        session_set_progress(session, (Progress){0});
        assert_ok(session_sync(session, ids, CONTEXT, NULL, &error), &error);
        assert_ok(session_logits(session, logits[i], &error), &error);
        assert_memory_equal(logits[0], logits[i], sizeof *logits);
        session_close(session);
        engine_close(engine);
        ranks_end(&ranks);
    }
}

// A token whose step has failed on another rank is not drawn from what is left there.
static void a_draw_after_a_failure_is_right(void **state) {
    (void)state;
    static const SampleParams GREEDY = {.top_p = 1, .typical_p = 1};
    int32_t ids[10], drawn[2][6];
    for (int i = 0; i < 10; i++) ids[i] = (i * 7919 + 13) % VOCAB;
    for (int i = 0; i < 2; i++) {
        Ranks ranks;
        Session *session;
        int n_failed = 0;
        EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
        fakes = (FakeCards){.fails_qkv = i ? 4 : 0}; // a prompt, three tokens
        options.cuda = fake_cards(&fakes);
        ranks_begin(&ranks, BABBLER, 2, "cuda:0,1", &options);
        Engine *engine = open_with(&options);
        assert_ok(session_open(engine, &session, &error), &error);
        assert_ok(session_sync(session, ids, 10, NULL, &error), &error);
        for (int k = 0; k < 6;) {
            if (session_sample(session, &GREEDY, &drawn[i][k], &error))
                n_failed++;
            else
                k++;
            assert_true(n_failed <= i);
        }
        assert_int_equal(n_failed, i);
        session_close(session);
        engine_close(engine);
        ranks_end(&ranks);
    }
    assert_memory_equal(drawn[0], drawn[1], sizeof *drawn);
}

static void what_cannot_be_is_said(void **state) {
    (void)state;
    Engine *engine = NULL;
    Ranks ranks;
    EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
    fakes = (FakeCards){.fails_load = 1};
    options.cuda = fake_cards(&fakes);
    ranks_begin(&ranks, BABBLER, 2, "cuda:0,1", &options);
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_MEMORY);
    if (!strstr(error.message, "rank 1 (127.0.0.1): ") || !strstr(error.message, "no room for a layer"))
        fail_msg("%s", error.message);
    ranks_end(&ranks);
    assert_int_equal(fakes.n_open, 0);
    options.cache.layout = 0;
    ranks_begin(&ranks, BABBLER, 2, NULL, &options);
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "take [cache] layout 1, 2 or 3"));
    ranks_end(&ranks);
    options.world.size = 3;
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "3 ranks: the model has 2 layers"));
}

static void it_says_who_has_what(void **state) {
    (void)state;
    char text[300];
    Ranks ranks;
    EngineOptions options = options_of(BABBLER, cache_options(DTYPE_F16));
    ranks_begin(&ranks, BABBLER, 2, NULL, &options);
    Engine *engine = open_with(&options);
    engine_describe_backend(engine, text, sizeof text);
    assert_non_null(strstr(text, "hosts: 2 ranks: 1 layers on cpu (1 thread"));
    assert_non_null(strstr(text, ", 1 at 127.0.0.1 on cpu (1 thread"));
    engine_close(engine);
    ranks_end(&ranks);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_one_process),
        cmocka_unit_test(whatever_is_done),
        cmocka_unit_test(each_part_may_be_cards),
        cmocka_unit_test(hosts_of_several_cards),
        cmocka_unit_test(prompts_go_in_pieces),
        cmocka_unit_test(each_rank_has_another_piece),
        cmocka_unit_test_setup_teardown(snapshots_come_back, folder_set_up, folder_tear_down),
        cmocka_unit_test(a_step_after_a_failure_is_right),
        cmocka_unit_test(an_interrupted_prompt_goes_on),
        cmocka_unit_test(a_draw_after_a_failure_is_right),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(it_says_who_has_what),
    };
    return test_main("hosts", argc, argv, tests);
}
