// A prompt that is seen both ways (ChatGLM 1): however a text came to be cached, its logits are those of one pass over all
// of it. Its prefix is read in one step, and again whenever another one stands there.
#include "engine/batch.h"
#include "engine/session/session_step.h"
#include "engine/session/snapshot.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 60, VOCAB = 56, SOP = 1, MASK = 3 };

static Engine *open_engine(int rows) {
    return sessions_engine_of_pages(GOLDEN_DENSE "/chatglm-1", CONTEXT, rows);
}

// n ids, of which number `sop` ends what is seen both ways; 0: none does.
static void make_text(int32_t *ids, int n, int sop) {
    for (int i = 0; i < n; i++) ids[i] = 5 + (i * 37 + 11) % (VOCAB - 5);
    if (sop) ids[sop - 1] = MASK, ids[sop] = SOP;
}

// The session's logits are those of a new one, in another engine, over the same tokens.
static void check_fresh(Session *session) {
    float logits[VOCAB], expected[VOCAB];
    Engine *other = open_engine(1);
    Session *fresh = sessions_open(other);
    assert_int_equal(sessions_sync(fresh, session_tokens(session), session_length(session)), 0);
    sessions_logits(fresh, expected), sessions_logits(session, logits);
    double distance = golden_distance(logits, expected, VOCAB);
    if (!(distance <= 1e-5)) fail_msg("%g from one pass", distance);
    session_close(fresh);
    engine_close(other);
}

// Longer prompts than a chunk are read at once, and give the reference's logits at every position.
static void prompts_are_those_of_the_reference(void **state) {
    (void)state;
    GoldenSet set;
    Error error = {0};
    Engine *engine = open_engine(1);
    assert_true(engine_chunk(engine) >= CONTEXT);
    assert_string_equal(engine_cannot_shift(engine), "its prompt is seen both ways");
    Session *session = sessions_open(engine);
    if (golden_model_read(GOLDEN_DENSE, "chatglm-1", &set, &error)) fail_msg("%s", error.message);
    for (int i = 0; i < 2 * set.n; i++) {
        const GoldenCase *c = &set.cases[i % set.n];
        float *logits = malloc((size_t)c->n * VOCAB * sizeof *logits);
        for (int from = 0; from < c->n; from += 9) {
            const size_t n = (size_t)(c->n - from) * VOCAB;
            if (session_logits_of(session, c->ids, c->n, from, logits, &error)) fail_msg("%s", error.message);
            double distance = golden_distance(logits, c->expected + (size_t)from * VOCAB, n);
            if (!(distance <= golden_fixed_bound(c))) fail_msg("%s from %d on: %g", c->name, from, distance);
        }
        free(logits);
    }
    golden_model_free(&set);
    session_close(session);
    engine_close(engine);
}

// The same prompt is kept, whatever comes behind it; another one is read whole, though it begins alike.
static void what_is_kept_is_the_whole_prompt_or_nothing(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    Engine *engine = open_engine(1);
    Session *session = sessions_open(engine);
    make_text(ids, 40, 21);
    assert_int_equal(sessions_sync(session, ids, 30), 0);
    assert_int_equal(sessions_sync(session, ids, 40), 30);
    check_fresh(session);
    ids[33] = 9; // another reply
    assert_int_equal(sessions_sync(session, ids, 40), 33);
    check_fresh(session);
    assert_int_equal(sessions_sync(session, ids, 22), 21);
    check_fresh(session);
    ids[4] = 50; // another prompt of the same length
    assert_int_equal(sessions_sync(session, ids, 40), 0);
    check_fresh(session);
    make_text(ids, 40, 30); // the next turn: what was said becomes prompt
    assert_int_equal(sessions_sync(session, ids, 40), 0);
    check_fresh(session);
    make_text(ids, 40, 0); // none at all
    assert_int_equal(sessions_sync(session, ids, 40), 0);
    assert_int_equal(sessions_sync(session, ids, 39), 38);
    check_fresh(session);
    session_close(session);
    engine_close(engine);
}

// Tokens that are drawn go on from the cache; a <sop> among them, where there was none, makes a prompt of all before it.
static void what_is_drawn_goes_on(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    Engine *engine = open_engine(1);
    Session *session = sessions_open(engine);
    for (int sop = 0; sop < 20; sop += 10) {
        const int32_t next[] = {7, SOP, 9, SOP, 11};
        make_text(ids, 20, sop);
        (void)sessions_sync(session, ids, 20);
        for (int i = 0; i < 5; i++) {
            float logits[VOCAB];
            session_push(session, next[i]);
            sessions_logits(session, logits);
            check_fresh(session);
        }
    }
    session_close(session);
    engine_close(engine);
}

static void room_is_made_by_reading_again(void **state) {
    (void)state;
    int32_t ids[CONTEXT];
    Error error = {0};
    const OverflowSettings shift = {.policy = OVERFLOW_SHIFT, .keep = 3};
    Engine *engine = open_engine(1);
    Session *session = sessions_open(engine);
    make_text(ids, CONTEXT, 30);
    (void)sessions_sync(session, ids, CONTEXT);
    if (session_make_room(session, &shift, 1, &error)) fail_msg("%s", error.message);
    assert_true(session_length(session) < CONTEXT);
    session_push(session, 9);
    check_fresh(session);
    session_close(session);
    engine_close(engine);
}

// Rows of a batch: a budget that would cut a prompt does not, and one that is read waits for no other.
static void rows_read_their_prompts_at_once(void **state) {
    (void)state;
    enum { ROWS = 3 };
    Error error = {0};
    Engine *engine = open_engine(ROWS);
    Session *rows[ROWS];
    Batch *batch;
    if (batch_open(engine, NULL, &batch, &error)) fail_msg("%s", error.message);
    for (int r = 0; r < ROWS; r++) {
        int32_t ids[CONTEXT];
        int64_t n;
        rows[r] = sessions_open(engine);
        session_set_independent(rows[r]);
        make_text(ids, 24 + 3 * r, 10 + 6 * r);
        if (session_set(rows[r], ids, 24 + 3 * r, &error)) fail_msg("%s", error.message);
        for (int piece = 0; session_pending(rows[r]) > 0; piece++) {
            if (batch_read(batch, rows[r], 4, &n, &error)) fail_msg("%s", error.message);
            assert_true(piece == 0 ? n == 10 + 6 * r : n <= 4);
        }
    }
    for (int i = 0; i < 4; i++) {
        const SampleParams greedy = {.top_p = 1, .typical_p = 1}, params[] = {greedy, greedy, greedy};
        int32_t drawn[ROWS];
        for (int r = 0; r < ROWS; r++) session_push(rows[r], 6 + r + i);
        if (batch_decode(batch, rows, ROWS, params, drawn, &error)) fail_msg("%s", error.message);
        for (int r = 0; r < ROWS; r++) assert_in_range(drawn[r], 0, VOCAB - 1);
    }
    batch_close(batch);
    for (int r = 0; r < ROWS; r++) {
        check_fresh(rows[r]);
        session_close(rows[r]);
    }
    engine_close(engine);
}

static void snapshots_know_their_prompt(void **state) {
    (void)state;
    char path[64];
    int32_t ids[CONTEXT];
    Error error = {0};
    Snapshot *snapshot;
    SnapshotRestored restored;
    Engine *engine = open_engine(1);
    Session *session = sessions_open(engine), *other;
    snprintf(path, sizeof path, "/tmp/palaver-both-ways-%d", (int)getpid());
    make_text(ids, 45, 21);
    (void)sessions_sync(session, ids, 40);
    if (snapshot_take(session, 1, &snapshot, &error) || snapshot_write(snapshot, path, NULL, &error))
        fail_msg("%s", error.message);
    snapshot_free(snapshot);
    session_close(session);
    other = sessions_open(engine);
    if (snapshot_restore(other, 1, path, &restored, &error)) fail_msg("%s", error.message);
    assert_int_equal(restored.n_tokens, 40);
    assert_int_equal(sessions_sync(other, ids, 45), 40);
    check_fresh(other);
    session_close(other);
    engine_close(engine);
    assert_int_equal(remove(path), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_those_of_the_reference),
        cmocka_unit_test(what_is_kept_is_the_whole_prompt_or_nothing),
        cmocka_unit_test(what_is_drawn_goes_on),
        cmocka_unit_test(room_is_made_by_reading_again),
        cmocka_unit_test(rows_read_their_prompts_at_once),
        cmocka_unit_test(snapshots_know_their_prompt),
    };
    return test_main("both ways", argc, argv, tests);
}
