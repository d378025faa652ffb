// One stream of tokens over its cache: what is kept, what is evaluated again, roll-back, and that how the tokens came
// in makes no difference.
#include "tests/support/engine/sessions.h"
#include "tests/support/test.h"
#include "engine/engine.h"
#include "engine/session/session_step.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 384, CONTEXT = 256, N = 100 };

typedef struct Fixture {
    Engine *engine;
    Session *session;
    int32_t ids[CONTEXT + 1];
} Fixture;

static Engine *open_engine(int context, int chunk, DType cache) {
    Error error = {0};
    Engine *engine = NULL;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .n_threads = 2,
                             .context_size = context,
                             .cache = cache_options(cache),
                             .chunk = chunk};
    options.cache.n_sequences = 2;
    if (engine_open(&options, &engine, &error)) fail_msg("%s", error.message);
    return engine;
}

static int set_up(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    f->engine = open_engine(CONTEXT, 32, DTYPE_F32);
    f->session = sessions_open(f->engine);
    for (int i = 0; i <= CONTEXT; i++) f->ids[i] = (i * 7919 + 13) % VOCAB;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    Fixture *f = *state;
    session_close(f->session);
    engine_close(f->engine);
    free(f);
    return 0;
}

static SyncReport sync_ok(Session *session, const int32_t *ids, int64_t n) {
    Error error = {0};
    SyncReport report = {0};
    if (session_sync(session, ids, n, &report, &error)) fail_msg("%s", error.message);
    assert_int_equal(session_length(session), n);
    assert_int_equal(session_cached(session), n);
    assert_memory_equal(session_tokens(session), ids, (size_t)n * sizeof *ids);
    return report;
}

// Relative to the largest: NaN fails.
static void assert_close(const float *a, const float *b, double tolerance) {
    double worst = 0, scale = 0;
    for (int i = 0; i < VOCAB; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst)) worst = d;
        if (fabs((double)b[i]) > scale) scale = fabs((double)b[i]);
    }
    if (!(worst <= tolerance * scale)) fail_msg("logits differ by %g of %g", worst, scale);
}

static void keeps_the_longest_common_prefix(void **state) {
    Fixture *f = *state;
    SyncReport r = sync_ok(f->session, f->ids, 40);
    assert_int_equal(r.cached, 0);
    assert_int_equal(r.evaluated, 40);
    r = sync_ok(f->session, f->ids, 60); // a follow-up turn costs the new tokens only
    assert_int_equal(r.cached, 40);
    assert_int_equal(r.evaluated, 20);
    r = sync_ok(f->session, f->ids, 60); // nothing new: nothing evaluated
    assert_int_equal(r.cached, 60);
    assert_int_equal(r.evaluated, 0);
    f->ids[50] ^= 1;
    r = sync_ok(f->session, f->ids, 60); // differs in the middle
    assert_int_equal(r.cached, 50);
    assert_int_equal(r.evaluated, 10);
    r = sync_ok(f->session, f->ids, 30); // shorter: the last token's logits are made again
    assert_int_equal(r.cached, 29);
    assert_int_equal(r.evaluated, 1);
}

static void a_cached_prefix_changes_no_logits(void **state) {
    Fixture *f = *state;
    float whole[VOCAB], parts[VOCAB];
    sync_ok(f->session, f->ids, N);
    sessions_logits(f->session, whole);
    Session *other = sessions_open(f->engine);
    for (int n = 1; n <= N; n += 11) sync_ok(other, f->ids, n);
    for (int n = N - 3; n <= N; n++) sync_ok(other, f->ids, n); // one by one, as decoding does
    sessions_logits(other, parts);
    assert_close(parts, whole, 1e-5);
    session_close(other);
}

static void chunks_change_no_logits(void **state) {
    Fixture *f = *state;
    float at_once[VOCAB], chunked[VOCAB];
    sync_ok(f->session, f->ids, N);
    sessions_logits(f->session, at_once);
    for (int chunk = 1; chunk <= 64; chunk = 3 * chunk + 1) {
        Engine *engine = open_engine(CONTEXT, chunk, DTYPE_F32);
        Session *session = sessions_open(engine);
        sync_ok(session, f->ids, N);
        sessions_logits(session, chunked);
        assert_close(chunked, at_once, 1e-5);
        session_close(session);
        engine_close(engine);
    }
}

static void roll_back_and_another_way(void **state) {
    Fixture *f = *state;
    float fresh[VOCAB], rolled[VOCAB];
    sync_ok(f->session, f->ids, 90);
    int32_t other[80];
    memcpy(other, f->ids, sizeof other);
    for (int i = 70; i < 80; i++) other[i] = (f->ids[i] + 5) % VOCAB;
    sync_ok(f->session, other, 80);
    sync_ok(f->session, f->ids, 80); // and back
    sessions_logits(f->session, rolled);
    Session *session = sessions_open(f->engine);
    sync_ok(session, f->ids, 80);
    sessions_logits(session, fresh);
    assert_close(rolled, fresh, 1e-5);
    session_close(session);
}

static void two_sessions_do_not_disturb_each_other(void **state) {
    Fixture *f = *state;
    float before[VOCAB], after[VOCAB];
    sync_ok(f->session, f->ids, 20);
    sessions_logits(f->session, before);
    Session *other = sessions_open(f->engine);
    sync_ok(other, f->ids + 30, 25);
    sessions_logits(f->session, after); // the engine's logits were the other's in between
    assert_close(after, before, 1e-6);
    session_close(other);
}

static void samples_until_the_context_is_full(void **state) {
    Fixture *f = *state;
    Error error = {0};
    SampleParams greedy = {.temperature = 0, .top_p = 1, .typical_p = 1};
    sync_ok(f->session, f->ids, CONTEXT - 3);
    int32_t id = -1;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(session_sample(f->session, &greedy, &id, &error), STATUS_OK);
        assert_in_range(id, 0, VOCAB - 1);
    }
    assert_int_equal(session_length(f->session), CONTEXT + 1);
    assert_int_equal(session_sample(f->session, &greedy, &id, &error), STATUS_CONTEXT);
    assert_int_equal(session_sync(f->session, f->ids, CONTEXT + 1, NULL, &error), STATUS_CONTEXT);
    assert_non_null(strstr(error.message, "256"));
    sync_ok(f->session, f->ids, CONTEXT); // and it goes on
}

static void sampled_tokens_are_what_reading_them_gives(void **state) {
    Fixture *f = *state;
    Error error = {0};
    SampleParams greedy = {.temperature = 0, .top_p = 1, .typical_p = 1};
    sync_ok(f->session, f->ids, 10);
    int32_t id;
    for (int i = 0; i < 30; i++)
        assert_int_equal(session_sample(f->session, &greedy, &id, &error), STATUS_OK);
    float sampled[VOCAB], read[VOCAB];
    sessions_logits(f->session, sampled);
    Session *other = sessions_open(f->engine);
    sync_ok(other, session_tokens(f->session), session_length(f->session));
    sessions_logits(other, read);
    assert_close(sampled, read, 1e-5);
    session_close(other);
}

static void logits_of_every_position(void **state) {
    Fixture *f = *state;
    Error error = {0};
    float *all = malloc((N - 5) * VOCAB * sizeof *all), one[VOCAB];
    sync_ok(f->session, f->ids, 20);
    assert_int_equal(session_logits_of(f->session, f->ids, N, 5, all, &error), STATUS_OK);
    Session *other = sessions_open(f->engine);
    for (int n = 6; n <= N; n += 13) {
        sync_ok(other, f->ids, n);
        sessions_logits(other, one);
        assert_close(all + (n - 6) * VOCAB, one, 1e-5);
    }
    assert_int_equal(session_logits_of(f->session, f->ids, N, N, all, &error), STATUS_USAGE);
    session_close(other);
    free(all);
}

static atomic_int interrupt_flag;

static bool interrupt_soon(void *user, const char *what, int64_t done, int64_t total) {
    (void)what, (void)total;
    if (done >= 64) *(atomic_int *)user = 1;
    return true;
}

typedef struct Heard {
    int64_t done, total;
    int within; // times that it stood within the first piece
} Heard;

static bool hear(void *user, const char *what, int64_t done, int64_t total) {
    Heard *heard = user;
    assert_string_equal(what, "reading");
    assert_true(done >= heard->done && done <= total);
    heard->done = done;
    heard->total = total;
    heard->within += done > 0 && done < 64;
    return true;
}

// How far it is is told within a piece, too, from its first layer on; of one token nothing is.
static void reading_is_told(void **state) {
    Fixture *f = *state;
    Heard heard = {0};
    session_clear(f->session);
    session_set_progress(f->session, (Progress){hear, &heard});
    sync_ok(f->session, f->ids, 48);
    assert_int_equal(heard.done, 48);
    assert_int_equal(heard.total, 48);
    assert_true(heard.within > 0);
    heard = (Heard){0};
    sync_ok(f->session, f->ids, 49);
    assert_int_equal(heard.total, 0);
    session_clear(f->session);
    sync_ok(f->session, f->ids, 200);
    assert_int_equal(heard.done, 200);
    session_set_progress(f->session, (Progress){0});
}

static void an_interrupt_keeps_what_was_read(void **state) {
    Fixture *f = *state;
    Error error = {0};
    interrupt_flag = 0;
    session_set_interrupt(f->session, &interrupt_flag);
    session_set_progress(f->session, (Progress){interrupt_soon, (void *)&interrupt_flag});
    assert_int_equal(session_sync(f->session, f->ids, 200, NULL, &error), STATUS_INTERRUPTED);
    assert_int_equal(session_length(f->session), session_cached(f->session));
    assert_in_range(session_cached(f->session), 64, 199);
    interrupt_flag = 0;
    session_set_progress(f->session, (Progress){0});
    SyncReport r = sync_ok(f->session, f->ids, 200);
    assert_in_range(r.cached, 64, 199);
    session_set_interrupt(f->session, NULL);
}

static void empty_and_wrong_input(void **state) {
    Fixture *f = *state;
    Error error = {0};
    int32_t id = 0, outside[] = {1, VOCAB, 2};
    float logits[VOCAB];
    SampleParams greedy = {.temperature = 0, .top_p = 1, .typical_p = 1};
    assert_int_equal(session_sample(f->session, &greedy, &id, &error), STATUS_USAGE);
    assert_int_equal(session_logits(f->session, logits, &error), STATUS_USAGE);
    assert_int_equal(session_sync(f->session, f->ids, 0, NULL, &error), STATUS_USAGE);
    assert_int_not_equal(session_sync(f->session, outside, 3, NULL, &error), STATUS_OK);
    sync_ok(f->session, f->ids, 10);
}

static void half_precision_cache_is_close(void **state) {
    Fixture *f = *state;
    float full[VOCAB], half[VOCAB];
    sync_ok(f->session, f->ids, N);
    sessions_logits(f->session, full);
    Engine *engine = open_engine(CONTEXT, 32, DTYPE_F16);
    Session *session = sessions_open(engine);
    sync_ok(session, f->ids, N);
    sessions_logits(session, half);
    assert_close(half, full, 2e-2);
    assert_memory_not_equal(half, full, sizeof half);
    session_close(session);
    engine_close(engine);
}

static void memory_is_compared_before_it_is_taken(void **state) {
    (void)state;
    Error error = {0};
    Engine *engine = (Engine *)1;
    EngineOptions options = {.model = "tests/golden/babbler",
                             .device = "cpu",
                             .context_size = 1 << 24,
                             .cache = cache_options(DTYPE_F32)};
    // 16 M tokens of 2·2·2·16 floats: 8.6 GB, and what is free decides.
    Status status = engine_open(&options, &engine, &error);
    if (status == STATUS_OK) {
        assert_true(engine_memory(engine).cache + engine_memory(engine).weights <=
                    engine_memory(engine).available);
        engine_close(engine);
    } else {
        assert_int_equal(status, STATUS_MEMORY);
        assert_null(engine);
        assert_non_null(strstr(error.message, "--context"));
    }
    options =
        (EngineOptions){.model = "tests/golden/nowhere", .device = "cpu", .cache = cache_options(DTYPE_F16)};
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_FILE);
    options.model = "tests/golden/babbler";
    options.device = "tpu";
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_USAGE);
    options.device = "cpu";
    options.cache = cache_options(DTYPE_Q4_0);
    assert_int_equal(engine_open(&options, &engine, &error), STATUS_USAGE);
}

#define unit(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        unit(keeps_the_longest_common_prefix),
        unit(a_cached_prefix_changes_no_logits),
        unit(chunks_change_no_logits),
        unit(roll_back_and_another_way),
        unit(two_sessions_do_not_disturb_each_other),
        unit(samples_until_the_context_is_full),
        unit(sampled_tokens_are_what_reading_them_gives),
        unit(logits_of_every_position),
        unit(reading_is_told),
        unit(an_interrupt_keeps_what_was_read),
        unit(empty_and_wrong_input),
        unit(half_precision_cache_is_close),
        cmocka_unit_test(memory_is_compared_before_it_is_taken),
    };
    return test_main("session", argc, argv, tests);
}
