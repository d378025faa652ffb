// Prompts of several sessions in one step: each gives what it gives alone, whatever room there is, and what would change
// the others' kernels is not beside them.
#include "engine/batch.h"
#include "engine/engine_internal.h"
#include "engine/session/session_step.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <string.h>

enum { VOCAB = 384, CONTEXT = 96, CHUNK = 32, N = 4 };

static Error error;

typedef struct Fixture {
    Engine *engine;
    Batch *batch;
    Session *sessions[N];
    SampleParams params[N];
} Fixture;

static void open_fixture(Fixture *f) {
    *f = (Fixture){0};
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 1,
                             .context_size = CONTEXT,
                             .cache = cache_options(DTYPE_F16),
                             .n_rows = N,
                             .chunk = CHUNK};
    options.cache.paged = true, options.cache.page_size = 8, options.cache.n_sequences = N;
    assert_ok(engine_open(&options, &f->engine, &error), &error);
    assert_ok(batch_open(f->engine, NULL, &f->batch, &error), &error);
    for (int i = 0; i < N; i++) {
        assert_ok(session_open(f->engine, &f->sessions[i], &error), &error);
        session_set_independent(f->sessions[i]);
        f->params[i] = (SampleParams){
            .temperature = 1, .top_p = 1, .typical_p = 1, .seed = 3, .conversation = (uint64_t)i};
    }
}

static void close_fixture(Fixture *f) {
    batch_close(f->batch);
    for (int i = 0; i < N; i++) session_close(f->sessions[i]);
    engine_close(f->engine);
}

static void set(Fixture *f, int i, int n) {
    int32_t ids[CONTEXT];
    for (int t = 0; t < n; t++) ids[t] = (i * 31 + t * 7919) % VOCAB;
    session_clear(f->sessions[i]);
    assert_ok(session_set(f->sessions[i], ids, n, &error), &error);
}

static int32_t draw_alone(Fixture *f, int i, int n) {
    int32_t id;
    int64_t read;
    set(f, i, n);
    while (session_pending(f->sessions[i]) > 0)
        assert_ok(batch_read(f->batch, f->sessions[i], 5, &read, &error), &error);
    assert_ok(batch_draw(f->batch, &f->params[i], &id, &error), &error);
    return id;
}

// All of them, as often as it takes; the tokens drawn, and in how many steps.
static int draw_together(Fixture *f, int32_t ids[N]) {
    bool drawn[N] = {false};
    for (int steps = 0, left = N;; steps++) {
        BatchPiece pieces[N];
        SampleParams params[N];
        int which[N], n = 0, n_ended = 0;
        int32_t own[N];
        if (left == 0) return steps;
        for (int i = 0; i < N; i++)
            if (!drawn[i]) {
                which[n] = i;
                pieces[n] = (BatchPiece){.session = f->sessions[i], .n = CONTEXT};
                n++;
            }
        assert_ok(batch_read_pieces(f->batch, pieces, n, &error), &error);
        for (int k = 0; k < n; k++)
            if (pieces[k].ended) params[n_ended] = f->params[which[k]], which[n_ended++] = which[k];
        if (n_ended > 0) assert_ok(batch_draw_pieces(f->batch, n_ended, params, own, &error), &error);
        for (int k = 0; k < n_ended; k++) ids[which[k]] = own[k], drawn[which[k]] = true, left--;
    }
}

static void together_as_alone(void **state) {
    (void)state;
    static const struct {
        int lengths[N], steps;
    } CASES[] = {{{7, 8, 9, 8}, 1},
                 {{7, 8, 9, 10}, 2},
                 {{1, 1, 1, 1}, 1},
                 {{40, 5, 33, 12}, 5}}; // from the 33rd token on alone
    Fixture f;
    open_fixture(&f);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        int32_t alone[N], together[N];
        for (int i = 0; i < N; i++) alone[i] = draw_alone(&f, i, CASES[c].lengths[i]);
        for (int i = 0; i < N; i++) set(&f, i, CASES[c].lengths[i]);
        const int steps = draw_together(&f, together);
        assert_memory_equal(alone, together, sizeof alone);
        assert_int_equal(steps, CASES[c].steps);
    }
    close_fixture(&f);
}

// A session of which something was evicted is read alone, and those behind it wait.
static void an_evicted_one_is_not_beside_others(void **state) {
    (void)state;
    Fixture f;
    open_fixture(&f);
    const OverflowSettings shift = {.policy = OVERFLOW_SHIFT, .keep = 4, .by_token = true};
    int32_t ids[CONTEXT];
    int64_t n;
    for (int t = 0; t < CONTEXT; t++) ids[t] = t * 7919 % VOCAB;
    assert_ok(session_set(f.sessions[1], ids, CONTEXT, &error), &error);
    while (session_pending(f.sessions[1]) > 0)
        assert_ok(batch_read(f.batch, f.sessions[1], CONTEXT, &n, &error), &error);
    assert_ok(session_make_room(f.sessions[1], &shift, 8, &error), &error);
    for (int t = 0; t < 3; t++) session_push(f.sessions[1], t + 5);
    set(&f, 0, 6), set(&f, 2, 6);
    BatchPiece pieces[3];
    for (int i = 0; i < 3; i++) pieces[i] = (BatchPiece){.session = f.sessions[i], .n = CONTEXT};
    assert_ok(batch_read_pieces(f.batch, pieces, 3, &error), &error);
    assert_true(pieces[0].ended && pieces[0].n == 6);
    assert_true(!pieces[1].ended && pieces[1].n == 0 && session_pending(f.sessions[1]) == 3);
    assert_true(!pieces[2].ended && pieces[2].n == 0);
    for (int i = 0; i < 2; i++) pieces[i] = (BatchPiece){.session = f.sessions[i + 1], .n = CONTEXT};
    assert_ok(batch_read_pieces(f.batch, pieces, 2, &error), &error);
    assert_true(pieces[0].ended && pieces[0].n == 3 && pieces[1].n == 0);
    close_fixture(&f);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together_as_alone),
        cmocka_unit_test(an_evicted_one_is_not_beside_others),
    };
    return test_main("batch", argc, argv, tests);
}
