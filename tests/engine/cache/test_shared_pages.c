// What undo, retry, goto and fork come down to: a session that comes back to where it was evaluates only what is new,
// and sequences share their pages until one of them writes.
#include "tests/support/test.h"
#include "engine/engine_internal.h"
#include "tests/support/model/golden_model.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW = 128, PAGE = 16, N = 100 };

typedef struct Fixture {
    Engine *engine;
    Session *session;
    int vocab;
    int32_t ids[WINDOW], other[WINDOW]; // the same up to 50
} Fixture;

static void *open_fixture(int n_sequences) {
    Fixture *f = calloc(1, sizeof *f);
    Model *model = NULL;
    Error error = {0};
    EngineOptions options = {.device = "cpu",
                             .n_threads = 1,
                             .context_size = WINDOW,
                             .cache = cache_options(DTYPE_F32),
                             .chunk = 32};
    options.cache.paged = true;
    options.cache.page_size = PAGE;
    options.cache.n_sequences = n_sequences;
    if (model_open(GOLDEN_MODELS "/llama", &model, &error) ||
        engine_open_model(model, &options, &f->engine, &error) ||
        session_open(f->engine, &f->session, &error))
        fail_msg("%s", error.message);
    f->vocab = engine_model(f->engine)->shape.vocab_size;
    for (int i = 0; i < WINDOW; i++) f->ids[i] = f->other[i] = (i * 7919 + 13) % f->vocab;
    for (int i = 50; i < WINDOW; i++) f->other[i] = (f->ids[i] + 1 + i % 3) % f->vocab;
    return f;
}

static int set_up(void **state) {
    *state = open_fixture(2);
    return 0;
}

static int set_up_narrow(void **state) {
    *state = open_fixture(1);
    return 0;
}

// Nothing leaks: with its session closed and its branches forgotten, an engine has all its pages.
static int tear_down(void **state) {
    Fixture *f = *state;
    KvCache *cache = &f->engine->cache;
    session_close(f->session);
    while (kv_branch_drop(cache)) continue;
    assert_int_equal(cache->n_free, cache->n_pages);
    engine_close(f->engine);
    free(f);
    return 0;
}

static void sync_costs(Session *session, const int32_t *ids, int64_t n, int64_t evaluated) {
    Error error = {0};
    SyncReport report = {0};
    if (session_sync(session, ids, n, &report, &error)) fail_msg("%s", error.message);
    assert_int_equal(report.evaluated, evaluated);
    assert_int_equal(report.cached, n - evaluated);
    assert_int_equal(session_length(session), n);
    assert_memory_equal(session_tokens(session), ids, (size_t)n * sizeof *ids);
}

// The logits are those of a session that knows no branches.
static void check_logits(const Fixture *f, const int32_t *ids, int64_t n) {
    Error error = {0};
    Fixture *fresh = open_fixture(1);
    size_t vocab = (size_t)f->vocab;
    float *a = malloc(vocab * sizeof *a), *b = malloc(vocab * sizeof *b);
    assert_int_equal(session_logits(f->session, a, &error), STATUS_OK);
    assert_int_equal(session_sync(fresh->session, ids, n, NULL, &error), STATUS_OK);
    assert_int_equal(session_logits(fresh->session, b, &error), STATUS_OK);
    assert_true(golden_distance(a, b, vocab) <= 1e-5);
    free(a);
    free(b);
    void *gone = fresh;
    tear_down(&gone);
}

static void another_way_and_back(void **state) {
    Fixture *f = *state;
    sync_costs(f->session, f->ids, N, N);
    sync_costs(f->session, f->other, N - 10, N - 10 - 50);
    check_logits(f, f->other, N - 10);
    assert_int_equal(f->engine->cache.n_branches, 1);
    sync_costs(f->session, f->ids, N + 5, 5); // all of the old way is still there
    check_logits(f, f->ids, N + 5);
    sync_costs(f->session, f->other, N, 10);
    check_logits(f, f->other, N);
    sync_costs(f->session, f->ids, 70, 1); // in the middle of a branch: the last token's logits
    check_logits(f, f->ids, 70);
}

static void undo_step_by_step_and_redo(void **state) {
    Fixture *f = *state;
    sync_costs(f->session, f->ids, N, N);
    for (int n = N - 20; n >= 20; n -= 20) sync_costs(f->session, f->ids, n, 1);
    assert_in_range(f->engine->cache.n_branches, 1, 2);
    sync_costs(f->session, f->ids, N, 1);
    check_logits(f, f->ids, N);
}

static void a_second_session_shares_the_prefix(void **state) {
    Fixture *f = *state;
    Error error = {0};
    Session *second = NULL;
    KvCache *cache = &f->engine->cache;
    sync_costs(f->session, f->ids, N, N);
    sync_costs(f->session, f->other, 50, 1); // N tokens wait as a branch
    assert_int_equal(session_open(f->engine, &second, &error), STATUS_OK);
    int before = cache->n_free;
    sync_costs(second, f->ids, 90, 1);
    assert_int_equal(before - cache->n_free, 1); // the page in which the last token was evaluated again
    sync_costs(f->session, f->ids, N + 1, 1);
    check_logits(f, f->ids, N + 1);
    session_close(second);
}

static void branches_give_way_to_what_is_needed(void **state) {
    Fixture *f = *state; // room for one sequence: 8 pages
    sync_costs(f->session, f->ids, N, N);
    sync_costs(f->session, f->other, 60, 10);
    assert_int_equal(f->engine->cache.n_branches, 1);
    sync_costs(f->session, f->other, WINDOW, WINDOW - 60); // all pages
    assert_int_equal(f->engine->cache.n_branches, 0);
    assert_int_equal(f->engine->cache.n_free, 0);
    check_logits(f, f->other, WINDOW);
    sync_costs(f->session, f->ids, N, N - 50);
    check_logits(f, f->ids, N);
}

// A branch of before tokens left, and one of after.
static void branches_of_a_ring(void **state) {
    Fixture *f = *state;
    Error error = {0};
    int32_t log[WINDOW];
    sync_costs(f->session, f->ids, WINDOW, WINDOW);
    sync_costs(f->session, f->ids, WINDOW - 20, 1);
    assert_int_equal(session_evict(f->session, 5, 40, OVERFLOW_SHIFT, &error), STATUS_OK);
    memcpy(log, session_tokens(f->session), 68 * sizeof *log);
    assert_memory_equal(log + 5, f->ids + 45, 63 * sizeof *log);
    for (int i = 68; i < WINDOW; i++) log[i] = f->other[i];
    sync_costs(f->session, log, WINDOW - 10,
               WINDOW - 10 - 68); // round the ring, over pages that the branch holds
    float *a = malloc((size_t)f->vocab * sizeof *a), *b = malloc((size_t)f->vocab * sizeof *b);
    assert_int_equal(session_logits(f->session, a, &error), STATUS_OK);
    sync_costs(f->session, f->ids, WINDOW, 1); // the whole text from before
    check_logits(f, f->ids, WINDOW);
    sync_costs(f->session, log, WINDOW - 10, 1); // and after
    assert_int_equal(session_sinks(f->session), 5);
    assert_int_equal(session_logits(f->session, b, &error), STATUS_OK);
    assert_true(golden_distance(b, a, (size_t)f->vocab) <= 1e-5);
    free(a);
    free(b);
}

static void in_place_leaves_branches_alone(void **state) {
    Fixture *f = *state;
    Error error = {0};
    sync_costs(f->session, f->ids, N, N);
    sync_costs(f->session, f->ids, 70, 1);
    assert_int_equal(session_evict(f->session, 5, 20, OVERFLOW_SHIFT_INPLACE, &error), STATUS_OK);
    assert_int_equal(session_cached(f->session), 50);
    sync_costs(f->session, f->ids, N, 1);
    check_logits(f, f->ids, N);
}

static void without_a_page_there_are_figures(void **state) {
    Fixture *f = *state; // room for one sequence
    Error error = {0};
    Session *second = NULL;
    sync_costs(f->session, f->ids, N, N); // 7 of 8 pages
    assert_int_equal(session_open(f->engine, &second, &error), STATUS_OK);
    assert_int_equal(session_sync(second, f->other, 40, NULL, &error), STATUS_CONTEXT);
    assert_non_null(strstr(error.message, "8 pages"));
    sync_costs(second, f->other, 16, 16);
    sync_costs(f->session, f->ids, N + 4, 4);
    check_logits(f, f->ids, N + 4);
    session_close(second);
}

#define unit(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define narrow(f) cmocka_unit_test_setup_teardown(f, set_up_narrow, tear_down)

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        unit(another_way_and_back),
        unit(undo_step_by_step_and_redo),
        unit(a_second_session_shares_the_prefix),
        narrow(branches_give_way_to_what_is_needed),
        unit(branches_of_a_ring),
        unit(in_place_leaves_branches_alone),
        narrow(without_a_page_there_are_figures),
    };
    return test_main("shared_pages", argc, argv, tests);
}
