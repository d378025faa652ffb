// A step over tokens that are guessed draws what steps of one would, and leaves no trace of what was wrong.
#include "engine/session/session_step.h"

#include "engine/engine_internal.h"
#include "tests/support/ahead.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 384 };

static Engine *open_babbler(int context_size, int page_size) {
    Error error;
    Engine *engine;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = context_size,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 32};
    options.cache.paged = page_size > 0;
    if (page_size > 0) options.cache.page_size = page_size;
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

// What is drawn one by one behind a prompt, and the logits behind the last of it.
static void draw_alone(Engine *engine, const int32_t *prompt, int n_prompt, const SampleParams *params, int n,
                       int32_t *ids, float *logits) {
    Error error;
    Session *s;
    assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
    assert_int_equal(session_sync(s, prompt, n_prompt, NULL, &error), STATUS_OK);
    for (int i = 0; i < n; i++) assert_int_equal(session_sample(s, &params[i], &ids[i], &error), STATUS_OK);
    assert_int_equal(session_logits(s, logits, &error), STATUS_OK);
    session_close(s);
}

static void what_is_guessed_wrong_leaves_no_trace(void **state) {
    (void)state;
    enum { N = 12 };
    const int32_t prompt[] = {5, 9, 77, 31, 8};
    int32_t alone[N + 1], ids[N + 1];
    float logits[2][VOCAB];
    SampleParams params[N + 1];
    Error error;
    Engine *engine = open_babbler(64, 4);
    for (int i = 0; i <= N; i++)
        params[i] =
            (SampleParams){.temperature = 1, .top_p = 1, .typical_p = 1, .seed = 9, .position = (uint64_t)i};
    for (int right = 0; right < N; right++) { // guesses that are
        Session *s;
        int n_drawn;
        draw_alone(engine, prompt, 5, params, right + 2, alone, logits[0]);
        assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
        assert_int_equal(session_sync(s, prompt, 5, NULL, &error), STATUS_OK);
        assert_int_equal(session_most_drafts(s), 0); // nothing is pending
        assert_int_equal(session_sample(s, &params[0], &ids[0], &error), STATUS_OK);
        assert_int_equal(session_most_drafts(s), SESSION_MOST_DRAFTS);
        int32_t guesses[N];
        for (int i = 0; i < N - 1; i++)
            guesses[i] = i < right ? alone[i + 1] : (alone[right + 1] + 1 + i) % VOCAB;
        for (int i = 0; i < N - 1; i++) session_guess(s, i, guesses[i]);
        assert_int_equal(session_draw_guessed(s, N - 1, params + 1, ids + 1, &n_drawn, &error), STATUS_OK);
        assert_int_equal(n_drawn, right + 1);
        assert_memory_equal(ids, alone, (size_t)(right + 2) * sizeof *ids);
        assert_int_equal(session_length(s), 6 + right);
        assert_int_equal(session_cached(s), 6 + right);
        session_push(s, ids[right + 1]);
        assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        session_cut(s, 6);
        assert_int_equal(session_length(s), 6);
        assert_int_equal(session_cached(s), 5);
        session_close(s);
        assert_int_equal(engine->cache.n_free, engine->cache.n_pages);
    }
    engine_close(engine);
}

// False: it guesses none.
static bool guess_with(const char *path, DType cache, int page_size) {
    EngineOptions options = {.device = "cpu",
                             .n_threads = 1,
                             .context_size = SESSIONS_GUESSED,
                             .cache = cache_options(cache),
                             .chunk = 32};
    options.cache.paged = page_size > 0;
    if (page_size > 0) options.cache.page_size = page_size;
    options.cache.n_sequences = 2;
    Engine *engine = sessions_engine(path, &options);
    const bool guesses = !engine_cannot_draft(engine);
    if (guesses) sessions_guess(engine, path);
    engine_close(engine);
    return guesses;
}

static void what_is_drawn_is_the_same_in_every_model(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob("tests/golden/{babbler,{models,dense,experts,latent,delta,state_space,convolution}/"
                          "*}/config.json",
                          GLOB_BRACE, NULL, &found),
                     0);
    int n_checked = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char path[256];
        snprintf(path, sizeof path, "%.*s", (int)(strrchr(found.gl_pathv[i], '/') - found.gl_pathv[i]),
                 found.gl_pathv[i]);
        n_checked += guess_with(path, i % 2 ? DTYPE_F16 : DTYPE_F32, i % 3 ? 8 : 0);
    }
    globfree(&found);
    assert_true(n_checked > 70);
}

static void no_more_are_guessed_than_there_is_room_for(void **state) {
    (void)state;
    int32_t prompt[64], id;
    Error error;
    const SampleParams greedy = {.top_p = 1, .typical_p = 1};
    for (int i = 0; i < 64; i++) prompt[i] = i;
    for (int paged = 0; paged < 2; paged++) {
        Engine *engine = open_babbler(64, paged ? 8 : 0);
        for (int n = 40; n < 64; n++) {
            Session *s;
            assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
            assert_int_equal(session_sync(s, prompt, n, NULL, &error), STATUS_OK);
            assert_int_equal(session_sample(s, &greedy, &id, &error), STATUS_OK);
            const int room = n < 63 ? 64 - n - 2 : 0;
            assert_int_equal(session_most_drafts(s), room < SESSION_MOST_DRAFTS ? room : SESSION_MOST_DRAFTS);
            session_close(s);
        }
        engine_close(engine);
    }
}

static void what_fails_leaves_the_log_as_it_was(void **state) {
    (void)state;
    const int32_t prompt[] = {1, 2, 3, 4}, guesses[] = {7, 8, 9};
    int32_t id, ids[4];
    int n_drawn;
    float logits[2][VOCAB];
    Error error;
    const SampleParams greedy[4] = {{.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1},
                                    {.top_p = 1, .typical_p = 1}};
    Engine *engine = open_babbler(64, 8);
    Session *s;
    atomic_int stop = 0;
    ahead_install(engine, false);
    assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
    session_set_interrupt(s, &stop);
    assert_int_equal(session_sync(s, prompt, 4, NULL, &error), STATUS_OK);
    assert_int_equal(session_sample(s, greedy, &id, &error), STATUS_OK);
    draw_alone(engine, prompt, 4, greedy, 1, ids, logits[0]);
    for (int i = 0; i < 3; i++) session_guess(s, i, guesses[i]);
    stop = 1;
    assert_int_equal(session_draw_guessed(s, 3, greedy, ids, &n_drawn, &error), STATUS_INTERRUPTED);
    assert_int_equal(n_drawn, 0);
    assert_int_equal(session_length(s), 5);
    assert_int_equal(session_cached(s), 4);
    stop = 0;
    ahead_fail_once();
    assert_int_equal(session_draw_guessed(s, 3, greedy, ids, &n_drawn, &error), STATUS_DEVICE);
    assert_non_null(strstr(error.message, "not a number"));
    assert_int_equal(session_length(s), 5);
    assert_true(session_cached(s) <= 5);
    assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    session_close(s);
    engine_close(engine);
}

// What was drawn before it is as good as drawn one by one.
static void what_fails_behind_right_guesses_comes_again(void **state) {
    (void)state;
    enum { N = 6 };
    const int32_t prompt[] = {1, 2, 3, 4};
    int32_t id, alone[N + 2], ids[N + 1];
    float logits[2][VOCAB];
    Error error;
    SampleParams params[N + 2];
    Engine *engine = open_babbler(64, 8);
    for (int i = 0; i < N + 2; i++) params[i] = (SampleParams){.top_p = 1, .typical_p = 1};
    ahead_install(engine, false);
    draw_alone(engine, prompt, 4, params, N + 2, alone, logits[0]);
    for (int row = 1; row <= N; row++) {
        Session *s;
        int n_drawn;
        assert_int_equal(session_open(engine, &s, &error), STATUS_OK);
        assert_int_equal(session_sync(s, prompt, 4, NULL, &error), STATUS_OK);
        assert_int_equal(session_sample(s, params, &id, &error), STATUS_OK);
        for (int i = 0; i < N; i++) session_guess(s, i, alone[i + 1]);
        ahead_fail_in_row(row);
        assert_int_equal(session_draw_guessed(s, N, params, ids, &n_drawn, &error), STATUS_OK);
        assert_int_equal(n_drawn, row);
        assert_memory_equal(ids, alone + 1, (size_t)row * sizeof *ids);
        assert_int_equal(session_length(s), 4 + row);
        assert_int_equal(session_cached(s), 4 + row);
        session_push(s, ids[row - 1]);
        for (int i = row + 1; i < N + 2; i++) {
            assert_int_equal(session_sample(s, params, &id, &error), STATUS_OK);
            assert_int_equal(id, alone[i]);
        }
        assert_int_equal(session_logits(s, logits[1], &error), STATUS_OK);
        assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
        session_close(s);
    }
    engine_close(engine);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_guessed_wrong_leaves_no_trace),
        cmocka_unit_test(what_is_drawn_is_the_same_in_every_model),
        cmocka_unit_test(no_more_are_guessed_than_there_is_room_for),
        cmocka_unit_test(what_fails_leaves_the_log_as_it_was),
        cmocka_unit_test(what_fails_behind_right_guesses_comes_again),
    };
    return test_main("guessed", argc, argv, tests);
}
