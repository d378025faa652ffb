// The step ahead: whatever is done with a session, its log, its cache and every logit are what they are where each step
// waits for its token.
#include "engine/engine_internal.h"
#include "kernels/ops.h"
#include "tests/support/acts.h"
#include "tests/support/ahead.h"
#include "tests/support/talk/talk.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 384, CONTEXT = 96 };
static const SampleParams LIVELY = {.temperature = 1.2f, .top_p = 0.98f, .typical_p = 1, .seed = 5};

typedef struct Sides {
    Engine *engines[2]; // with steps ahead, and without
    Session *sessions[2][2];
} Sides;

static Sides open_sides(bool paged) {
    Sides s;
    for (int i = 0; i < 2; i++) {
        Error error = {0};
        EngineOptions options = {.model = "tests/golden/babbler",
                                 .device = "cpu",
                                 .n_threads = 1,
                                 .context_size = CONTEXT,
                                 .cache = cache_options(DTYPE_F32),
                                 .chunk = 16};
        options.cache.paged = paged;
        options.cache.page_size = paged ? 8 : options.cache.page_size;
        options.cache.n_sequences = 2;
        if (engine_open(&options, &s.engines[i], &error)) fail_msg("%s", error.message);
        ahead_install(s.engines[i], i == 0);
        for (int k = 0; k < 2; k++)
            if (session_open(s.engines[i], &s.sessions[i][k], &error)) fail_msg("%s", error.message);
    }
    return s;
}

static void close_sides(Sides *s) {
    for (int i = 0; i < 2; i++) {
        session_close(s->sessions[i][0]);
        session_close(s->sessions[i][1]);
        engine_close(s->engines[i]);
    }
}

static void assert_same(const Sides *s, int k) {
    const Session *a = s->sessions[0][k], *b = s->sessions[1][k];
    assert_int_equal(session_length(a), session_length(b));
    assert_int_equal(session_cached(a), session_cached(b));
    assert_int_equal(session_sinks(a), session_sinks(b));
    assert_memory_equal(session_tokens(a), session_tokens(b), (size_t)session_length(a) * sizeof(int32_t));
    assert_int_equal(s->engines[0]->cache.n_free, s->engines[1]->cache.n_free);
    assert_int_equal(s->engines[0]->cache.n_branches, s->engines[1]->cache.n_branches);
}

static void assert_same_logits(const Sides *s, int k) {
    float logits[2][VOCAB];
    Error error = {0};
    for (int i = 0; i < 2; i++)
        if (session_logits(s->sessions[i][k], logits[i], &error)) fail_msg("%s", error.message);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
}

static void nothing_shows_it(bool paged, uint64_t seed) {
    Sides s = open_sides(paged);
    char first[200] = "";
    ahead_install(s.engines[0], true);
    if (acts_compare(s.engines, seed, 400, first, sizeof first)) fail_msg("seed %d: %s", (int)seed, first);
    assert_true(ahead_counts().ahead > 100);
    close_sides(&s);
}

static void nothing_shows_it_in_one_page(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) nothing_shows_it(false, seed);
}

static void nothing_shows_it_in_pages(void **state) {
    (void)state;
    for (uint64_t seed = 11; seed <= 18; seed++) nothing_shows_it(true, seed);
}

static void each_step_begins_before_its_token_is_known(void **state) {
    (void)state;
    Sides s = open_sides(false);
    ahead_install(s.engines[0], true);
    Error error = {0};
    int32_t prompt[] = {1, 2, 3, 4}, token;
    assert_int_equal(session_sync(s.sessions[0][0], prompt, 4, NULL, &error), STATUS_OK);
    for (int i = 0; i < 20; i++)
        assert_int_equal(session_sample(s.sessions[0][0], &LIVELY, &token, &error), STATUS_OK);
    AheadCounts c = ahead_counts();
    assert_int_equal(c.steps, 20); // of every token that was drawn, once, none twice
    assert_int_equal(c.ahead, 20);
    assert_int_equal(c.before_end, 20);
    close_sides(&s);
}

static void the_last_slot_is_left_to_who_makes_room(void **state) {
    (void)state;
    Sides s = open_sides(false);
    ahead_install(s.engines[0], true);
    Error error = {0};
    int32_t ids[CONTEXT], token;
    for (int i = 0; i < CONTEXT; i++) ids[i] = i % VOCAB;
    assert_int_equal(session_sync(s.sessions[0][0], ids, CONTEXT - 2, NULL, &error), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(session_sample(s.sessions[0][0], &LIVELY, &token, &error), STATUS_OK);
    AheadCounts c = ahead_counts();
    assert_int_equal(c.ahead, 1);
    assert_int_equal(c.steps, 2);
    assert_int_equal(session_sample(s.sessions[0][0], &LIVELY, &token, &error), STATUS_CONTEXT);
    close_sides(&s);
}

static void what_cannot_be_drawn_is_told_and_the_log_stays(void **state) {
    (void)state;
    Sides s = open_sides(false);
    ahead_install(s.engines[0], true);
    Error error = {0};
    int32_t prompt[] = {1, 2, 3, 4}, token;
    for (int i = 0; i < 2; i++)
        assert_int_equal(session_sync(s.sessions[i][0], prompt, 4, NULL, &error), STATUS_OK);
    ahead_fail_once();
    assert_int_equal(session_sample(s.sessions[0][0], &LIVELY, &token, &error), STATUS_DEVICE);
    assert_non_null(strstr(error.message, "not a number"));
    assert_same(&s, 0);
    assert_same_logits(&s, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(session_sample(s.sessions[i][0], &LIVELY, &token, &error), STATUS_OK);
    assert_same(&s, 0);
    close_sides(&s);
}

// ---- talks ---------------------------------------------------------------------------------------------------------

// A talk of several turns, with everything that ends one; what was shown and what the log is come to `text` and `log`.
static void talk(bool steps_ahead, OverflowPolicy policy, char *text, size_t size, int32_t *log, int64_t *n) {
    CacheOptions cache = cache_options(DTYPE_F32);
    cache.paged = true, cache.page_size = 16, cache.n_sequences = 2;
    Talk *t = talk_open(192, &cache);
    ahead_install(t->engine, steps_ahead);
    ConversationSettings *settings = conversation_settings(t->c);
    settings->overflow.policy = policy;
    settings->max_tokens = 20;
    *text = 0;
    for (int turn = 0; turn < 12; turn++) {
        Error error = {0};
        ReplyReport report;
        const char *stops[] = {"e", "th"};
        settings->stop = stops, settings->n_stop = turn % 3 == 1 ? 2 : 0;
        t->stop = 0;
        t->stop_after = turn % 4 == 3 ? 5 : 0;
        if (turn % 5 == 4) conversation_truncate(t->c, conversation_length(t->c) - 2);
        talk_append(t->c, CHAT_USER, turn % 2 ? "And then what came of it?" : "Tell me more.");
        Status status = talk_reply(t, false, &report, &error);
        snprintf(text + strlen(text), size - strlen(text), "[%d %d %lld %lld %s]", status, report.finish,
                 (long long)report.cached, (long long)report.used, t->text);
    }
    assert_true(!steps_ahead || ahead_counts().ahead > 50);
    *n = session_length(conversation_session(t->c));
    memcpy(log, session_tokens(conversation_session(t->c)), (size_t)*n * sizeof *log);
    talk_close(t);
}

static void a_talk_is_the_same_to_the_byte(void **state) {
    (void)state;
    static char texts[2][32768];
    int32_t logs[2][256];
    int64_t n[2];
    for (int policy = OVERFLOW_REEVALUATE; policy <= OVERFLOW_STOP; policy++) {
        for (int i = 0; i < 2; i++)
            talk(i == 0, (OverflowPolicy)policy, texts[i], sizeof texts[i], logs[i], &n[i]);
        assert_string_equal(texts[0], texts[1]);
        assert_int_equal(n[0], n[1]);
        assert_memory_equal(logs[0], logs[1], (size_t)n[0] * sizeof(int32_t));
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_begins_before_its_token_is_known),
        cmocka_unit_test(the_last_slot_is_left_to_who_makes_room),
        cmocka_unit_test(what_cannot_be_drawn_is_told_and_the_log_stays),
        cmocka_unit_test(nothing_shows_it_in_one_page),
        cmocka_unit_test(nothing_shows_it_in_pages),
        cmocka_unit_test(a_talk_is_the_same_to_the_byte),
    };
    return test_main("session_ahead", argc, argv, tests);
}
