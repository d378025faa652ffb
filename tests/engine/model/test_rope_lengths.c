// Rotary frequencies that go by the length of the whole text (LongRoPE, dynamic NTK): however a text came to its
// length, every token of it is seen as by one pass of transformers over all of it.
#include "engine/batch.h"
#include "engine/session/session_step.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 60, VOCAB = 128 };

typedef struct Case {
    const char *name, *golden_of;
    int trained;  // tokens up to which a text is read with the first set of frequencies
    bool dynamic; // beyond them each length has a set of its own, else all have one
} Case;

static const Case CASES[] = {{"phi3", "phi3", 24, false},
                             {"phi3.gguf", "phi3", 24, false},
                             {"llama-dynamic", "llama-dynamic", 20, true}};
enum { N_CASES = sizeof CASES / sizeof *CASES };

static Engine *open_engine(const char *name, int context, int sequences) {
    char path[128];
    snprintf(path, sizeof path, GOLDEN_ARCHITECTURES "/%s", name);
    return sessions_engine_of_pages(path, context, sequences);
}

static void some_ids(int32_t *ids, int n) {
    for (int i = 0; i < n; i++) ids[i] = (i * 37 + 11) % VOCAB;
}

// Whether texts of n and of n + 1 tokens are read with other frequencies.
static bool is_bound(const Case *c, int n) {
    return n == c->trained || (c->dynamic && n > c->trained);
}

// The distance of the session's logits from those of a new one over the same tokens.
static double distance_from_fresh(Engine *engine, Session *session) {
    float logits[VOCAB], expected[VOCAB];
    int32_t ids[CONTEXT];
    int64_t n = session_length(session);
    memcpy(ids, session_tokens(session), (size_t)n * sizeof *ids);
    sessions_logits(session, logits);
    Session *fresh = sessions_open(engine);
    assert_int_equal(sessions_sync(fresh, ids, n), 0);
    sessions_logits(fresh, expected);
    session_close(fresh);
    return golden_distance(logits, expected, VOCAB);
}

// "short" within the trained context, the others beyond it, in one session.
static void sessions_equal_transformers_across_a_bound(void **state) {
    (void)state;
    for (int m = 0; m < N_CASES; m++) {
        GoldenSet set;
        Error error = {0};
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 1);
        Session *session = sessions_open(engine);
        if (golden_model_read(GOLDEN_ARCHITECTURES, CASES[m].golden_of, &set, &error))
            fail_msg("%s", error.message);
        int n_cases = CASES[m].dynamic ? set.n : 2; // "far" has other positions
        assert_int_equal(n_cases, CASES[m].dynamic ? 4 : 2);
        for (int turn = 0; turn < 2 * n_cases; turn++) { // there and back
            const GoldenCase *c = &set.cases[(turn + 1) % n_cases];
            float logits[VOCAB];
            assert_int_equal(strcmp(c->name, "short") == 0, turn % n_cases == 0);
            assert_true(sessions_sync(session, c->ids, c->n) == 0 || turn >= n_cases);
            sessions_logits(session, logits);
            double distance =
                golden_distance(logits, c->expected + (size_t)(c->n - 1) * (size_t)c->vocab, VOCAB);
            if (!(distance <= 1e-5)) fail_msg("%s, %s: %g", CASES[m].name, c->name, distance);
        }
        golden_model_free(&set);
        session_close(session);
        engine_close(engine);
    }
}

// A text that is streamed in pieces gives the logits of one pass over it at every position, once its length is said.
static void an_expected_text_is_read_with_one_set(void **state) {
    (void)state;
    enum { PIECE = 5 };
    for (int m = 0; m < N_CASES; m++) {
        GoldenSet set;
        Error error = {0};
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 1);
        if (golden_model_read(GOLDEN_ARCHITECTURES, CASES[m].golden_of, &set, &error))
            fail_msg("%s", error.message);
        for (int i = 0; i < (CASES[m].dynamic ? set.n : 2); i++) {
            const GoldenCase *c = &set.cases[i];
            const OverflowSettings stop = {.policy = OVERFLOW_STOP};
            float logits[CONTEXT * VOCAB];
            Session *session = sessions_open(engine);
            assert_true(c->n <= CONTEXT && c->vocab == VOCAB);
            session_expect(session, c->n);
            for (int at = 0; at < c->n; at += PIECE) {
                int n = c->n - at < PIECE ? c->n - at : PIECE;
                if (session_stream(session, c->ids + at, n, &stop, logits + (size_t)at * VOCAB, &error))
                    fail_msg("%s", error.message);
            }
            double distance = golden_distance(logits, c->expected, (size_t)c->n * VOCAB);
            if (!(distance <= 1e-5)) fail_msg("%s, %s: %g", CASES[m].name, c->name, distance);
            session_close(session);
        }
        golden_model_free(&set);
        engine_close(engine);
    }
}

// One token after the other: all is read again where a bound is crossed, and nowhere else.
static void a_growing_text_is_read_again_at_its_bounds(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    some_ids(ids, CONTEXT);
    for (int m = 0; m < N_CASES; m++) {
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 2);
        Session *session = sessions_open(engine);
        for (int n = 1; n <= CONTEXT; n++) {
            assert_int_equal(sessions_sync(session, ids, n), is_bound(&CASES[m], n - 1) ? 0 : n - 1);
            double distance = distance_from_fresh(engine, session);
            if (!(distance <= 1e-5)) fail_msg("%s, %d tokens: %g", CASES[m].name, n, distance);
        }
        session_close(session);
        engine_close(engine);
    }
}

// So does a reply that crosses it. Behind it dynamic NTK's frequencies stay while they hold: 21 tokens were read as 21,
// 22 and 23 follow, 24 are read again (model_rope_holds); the logits between are near, and not those of other keys.
static void a_reply_crosses_a_bound(void **state) {
    (void)state;
    const SampleParams greedy = {.top_p = 1, .typical_p = 1};
    for (int m = 0; m < N_CASES; m++) {
        int32_t ids[CONTEXT], token;
        Error error = {0};
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 2);
        Session *session = sessions_open(engine);
        some_ids(ids, CONTEXT);
        sessions_sync(session, ids, CASES[m].trained - 2);
        for (int i = 0; i < 6; i++) {
            if (session_sample(session, &greedy, &token, &error)) fail_msg("%s", error.message);
            int n = CASES[m].trained - 1 + i;
            bool held = CASES[m].dynamic && (n == 22 || n == 23);
            assert_int_equal(session_pending(session),
                             n == CASES[m].trained + 1 || (CASES[m].dynamic && n == 24) ? n : 1);
            double distance = distance_from_fresh(engine, session);
            if (held ? !(distance > 1e-5 && distance < 0.2) : !(distance <= 1e-5))
                fail_msg("%s, %d tokens: %g", CASES[m].name, n, distance);
        }
        session_close(session);
        engine_close(engine);
    }
}

// In a batch one row crosses it, and is read again, while the other goes on.
static void a_row_of_a_batch_crosses_a_bound(void **state) {
    (void)state;
    const SampleParams greedy[2] = {{.top_p = 1, .typical_p = 1}, {.top_p = 1, .typical_p = 1}};
    for (int m = 0; m < N_CASES; m++) {
        int32_t ids[CONTEXT], drawn[2], token;
        int64_t n;
        Error error = {0};
        Batch *batch = NULL;
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 3);
        Session *rows[2] = {sessions_open(engine), sessions_open(engine)}, *alone[2];
        if (batch_open(engine, NULL, &batch, &error)) fail_msg("%s", error.message);
        some_ids(ids, CONTEXT);
        for (int r = 0; r < 2; r++) {
            session_set_independent(rows[r]);
            if (session_set(rows[r], ids + r, CASES[m].trained - 2 - 4 * r, &error))
                fail_msg("%s", error.message);
        }
        for (int step = 0, decoded = 0; step < 4; step++) {
            bool together = session_pending(rows[0]) == 1 && session_pending(rows[1]) == 1;
            decoded += together;
            if (together && batch_decode(batch, rows, 2, greedy, drawn, &error))
                fail_msg("%s", error.message);
            for (int r = 0; r < 2; r++) {
                if (!together) {
                    do {
                        if (batch_read(batch, rows[r], 7, &n, &error)) fail_msg("%s", error.message);
                    } while (session_pending(rows[r]) > 0);
                    if (batch_draw(batch, greedy, &drawn[r], &error)) fail_msg("%s", error.message);
                }
                session_push(rows[r], drawn[r]);
            }
            assert_int_equal(session_pending(rows[0]) > 1, step == 2);
            assert_int_equal(decoded, step < 3 ? step : 2); // not at first, and not behind the bound
        }
        for (int r = 0; r < 2; r++) {
            alone[r] = sessions_open(engine);
            sessions_sync(alone[r], ids + r, CASES[m].trained - 2 - 4 * r);
            for (int step = 0; step < 4; step++)
                if (session_sample(alone[r], &greedy[r], &token, &error)) fail_msg("%s", error.message);
            assert_int_equal(session_length(alone[r]), session_length(rows[r]));
            assert_memory_equal(session_tokens(alone[r]), session_tokens(rows[r]),
                                (size_t)session_length(rows[r]) * sizeof(int32_t));
            session_close(alone[r]);
        }
        session_close(rows[0]);
        session_close(rows[1]);
        batch_close(batch);
        engine_close(engine);
    }
}

// What is left behind on one side of a bound serves again on that side, and only there.
static void branches_stay_on_their_side(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    some_ids(ids, CONTEXT);
    for (int m = 0; m < N_CASES; m++) {
        const int bound = CASES[m].trained;
        Engine *engine = open_engine(CASES[m].name, CONTEXT, 3);
        Session *session = sessions_open(engine);
        assert_int_equal(sessions_sync(session, ids, bound + 16), 0);
        assert_int_equal(sessions_sync(session, ids, bound), 0);
        assert_int_equal(sessions_sync(session, ids, bound - 1), bound - 2); // for its logits
        assert_int_equal(sessions_sync(session, ids, bound + 16), bound + 15);
        assert_true(distance_from_fresh(engine, session) <= 1e-5);
        session_close(session);
        engine_close(engine);
    }
}

// Where the context reaches beyond a bound nothing can be shifted, and it is said; within it shifts are exact.
static void a_full_context_is_read_again(void **state) {
    (void)state;
    static const OverflowPolicy POLICIES[] = {OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    int32_t ids[3 * CONTEXT];
    some_ids(ids, 3 * CONTEXT);
    for (int m = 0; m < 2 * N_CASES; m++) {
        const Case *c = &CASES[m / 2];
        Error error = {0};
        OverflowSettings settings = {.policy = POLICIES[m % 2], .keep = 4, .discard = 41};
        Engine *engine = open_engine(c->name, CONTEXT, 2);
        Session *session = sessions_open(engine);
        assert_string_equal(engine_cannot_shift(engine),
                            "its rotary frequencies go by the length of the text");
        for (int i = 0; i < 3 * CONTEXT; i += 5) {
            if (session_stream(session, ids + i, 5, &settings, NULL, &error)) fail_msg("%s", error.message);
            assert_int_equal(session_sinks(session), -1);
            double distance = distance_from_fresh(engine, session);
            if (!(distance <= 1e-5)) fail_msg("%s, %d tokens: %g", c->name, i + 5, distance);
        }
        session_close(session);
        engine_close(engine);
        engine = open_engine(c->name, c->trained, 1);
        assert_null(engine_cannot_shift(engine));
        engine_close(engine);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expected_text_is_read_with_one_set),
        cmocka_unit_test(sessions_equal_transformers_across_a_bound),
        cmocka_unit_test(a_growing_text_is_read_again_at_its_bounds),
        cmocka_unit_test(a_reply_crosses_a_bound),
        cmocka_unit_test(a_row_of_a_batch_crosses_a_bound),
        cmocka_unit_test(branches_stay_on_their_side),
        cmocka_unit_test(a_full_context_is_read_again),
    };
    return test_main("rope lengths", argc, argv, tests);
}
