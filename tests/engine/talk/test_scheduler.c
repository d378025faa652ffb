// Many conversations at once: each is answered once, and as if it were alone, whatever the rows, the order, the memory.
#include "engine/engine_internal.h"
#include "engine/talk/scheduler/item_queue.h"
#include "tests/support/ahead.h"
#include "tests/support/talk/items.h"
#include "tests/support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 49, CONTEXT = 256 };

static const OverflowSettings ROOMY = {.keep = OVERFLOW_KEEP_SYSTEM, .reserve = 16, .low_water = 0.5};

typedef struct Run {
    Engine *engine;
    ChatTemplate *chat_template;
    Scheduler *scheduler;
    int most;    // rows that were ever at work together
    int renewed; // rows that came to wait for memory between two turns, though nobody else was there
} Run;

// Whether the device begins steps before their tokens are known: all tests run both ways.
static bool steps_ahead;
static int n_ahead; // such steps

static Run run_open_with(Engine *engine, int budget) {
    Error error = {0};
    if (steps_ahead) ahead_install(engine, true);
    Run run = {engine, items_template(), NULL, 0, 0};
    SchedulerOptions options = {.budget = budget};
    if (scheduler_open(run.engine, run.chat_template, &options, &run.scheduler, &error))
        fail_msg("%s", error.message);
    return run;
}

static Run run_open(int n_rows, int n_windows, int context_size, int budget) {
    return run_open_with(items_engine(n_rows, n_windows, context_size, DTYPE_F16), budget);
}

static void run_close(Run *run) {
    if (steps_ahead) n_ahead += ahead_counts().ahead;
    scheduler_close(run->scheduler);
    chat_template_close(run->chat_template);
    engine_close(run->engine);
}

static TestItem *of(SchedulerItem *item) {
    return (TestItem *)((char *)item - offsetof(TestItem, item));
}

static void step(Run *run) {
    Error error = {0};
    int running = scheduler_running(run->scheduler), at_work = running - scheduler_waiting(run->scheduler);
    if (at_work > run->most) run->most = at_work;
    if (scheduler_step(run->scheduler, &error)) fail_msg("%s", error.message);
    run->renewed += running == 1 && at_work == 1 && scheduler_waiting(run->scheduler) == 1;
    for (SchedulerItem *item; (item = scheduler_finished(run->scheduler));) of(item)->n_finished++;
}

// Gives the items in the order of `order` (NULL: as they are), a few at a time so that rows free up in between.
static void answer_all(Run *run, TestItem *items, int n, const int *order) {
    int given = 0;
    while (given < n || scheduler_running(run->scheduler) > 0) {
        while (given < n && scheduler_wants(run->scheduler)) {
            scheduler_give(run->scheduler, &items[order ? order[given] : given].item);
            given++;
        }
        step(run);
    }
    items_check(items, n);
}

// A4, A6, A8: the same ids with any number of rows, in any order, however prompts are cut.
static void results_depend_on_nothing_but_the_item(void **state) {
    (void)state;
    static const int ROWS[] = {1, 2, 7, 32};
    TestItem *items = items_make(N, &ROOMY, CONTEXT, DTYPE_F16);
    int order[N];
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < N; i++) order[i] = (i * 27 + k) % N; // 27 and 49 have no common divisor
        Run run = run_open(ROWS[k], ROWS[k], CONTEXT, k == 1 ? 5 : k == 2 ? 40 : 0);
        answer_all(&run, items, N, k ? order : NULL);
        items_reset(items, N);
        run_close(&run);
    }
    items_free(items, N);
}

// Shared pages of quantised caches are copied with their scales.
static void quantised_caches(void **state) {
    (void)state;
    static const DType TYPES[] = {DTYPE_INT8, DTYPE_INT4};
    for (int k = 0; k < 2; k++) {
        TestItem *items = items_make(16, &ROOMY, CONTEXT, TYPES[k]);
        Run run = run_open_with(items_engine(5, 5, CONTEXT, TYPES[k]), 30);
        answer_all(&run, items, 16, NULL);
        run_close(&run);
        items_free(items, 16);
    }
}

// A2: what nobody wrote is never read. The rest of the cache holds NaN.
static void nothing_is_read_that_was_not_written(void **state) {
    (void)state;
    TestItem *items = items_make(20, &ROOMY, CONTEXT, DTYPE_F16);
    Run run = run_open(5, 5, CONTEXT, 0);
    const KvCache *cache = &run.engine->cache;
    memset(cache->memory, 0xff, (size_t)kv_layout_bytes(&cache->layout));
    answer_all(&run, items, 20, NULL);
    run_close(&run);
    items_free(items, 20);
}

// Memory for two windows and ten rows: who may need more than is left waits, and nothing fails in the middle.
static void waits_for_memory(void **state) {
    (void)state;
    TestItem *items = items_make(40, &ROOMY, 256, DTYPE_F16);
    Run run = run_open(10, 2, 256, 0);
    assert_int_equal(engine_full_sessions(run.engine), 2);
    answer_all(&run, items, 40, NULL);
    assert_in_range(run.most, 3, 9); // more than two of short ones, never all ten
    run_close(&run);
    items_free(items, 40);
}

// Talks of two turns, each of which needs a good third of a window at most: two windows hold five of them or more, not
// only two. Some replies take more tokens as text than they were made of, and what was promised does not do.
static void talks_wait_for_what_they_may_need(void **state) {
    (void)state;
    enum { TALKS = 20 };
    TestItem *items = items_make(5 * TALKS, &ROOMY, 256, DTYPE_F16), talks[TALKS];
    for (int i = 0; i < TALKS; i++) {
        talks[i] = items[5 * i];
        assert_int_equal(talks[i].item.n_turns, 2);
    }
    Run run = run_open(10, 2, 256, 0);
    answer_all(&run, talks, TALKS, NULL);
    assert_in_range(run.most, 5, 9);
    run_close(&run);
    items_reset(talks, TALKS);
    run = run_open(1, 1, 256, 0);
    answer_all(&run, talks, TALKS, NULL);
    assert_in_range(run.renewed, 1, TALKS - 1);
    run_close(&run);
    items_reset(talks, TALKS);
    items_free(items, 5 * TALKS);
}

// Small windows, which some prompts and most conversations of two turns leave: by each policy the same as alone.
static void windows_that_overflow(void **state) {
    (void)state;
    static const OverflowPolicy POLICIES[] = {OVERFLOW_REEVALUATE, OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE,
                                              OVERFLOW_STOP};
    for (int p = 0; p < 4; p++) {
        OverflowSettings tight = {
            .policy = POLICIES[p], .keep = OVERFLOW_KEEP_SYSTEM, .reserve = 8, .low_water = 0.5};
        TestItem *items = items_make(30, &tight, 64, DTYPE_F16);
        int n_refused = 0, n_full = 0;
        for (int i = 0; i < 30; i++)
            n_refused += items[i].alone.status == STATUS_CONTEXT,
                n_full += items[i].alone.finish == FINISH_CONTEXT;
        assert_in_range(n_refused, 1, 25);
        if (POLICIES[p] == OVERFLOW_STOP) assert_true(n_full + n_refused > 2);
        Run run = run_open(6, 6, 64, 0);
        answer_all(&run, items, 30, NULL);
        run_close(&run);
        items_free(items, 30);
    }
}

// Talks that go round their windows: prompts are read into rings, whose slots are in no order any more, behind what was
// shifted. The same as alone, however they are cut.
static void prompts_behind_what_was_shifted(void **state) {
    (void)state;
    enum { TALKS = 3, TURNS = 9 };
    static const OverflowPolicy POLICIES[] = {OVERFLOW_SHIFT, OVERFLOW_SHIFT_INPLACE};
    static const int BUDGETS[] = {0, 1, 7, 16};
    const char *turns[TURNS];
    for (int i = 0; i < TURNS; i++)
        turns[i] = i % 2 ? "And of those who sail, near and far?" : "What do you think of the sea?";
    for (int p = 0; p < 2; p++) {
        SchedulerItem items[TALKS] = {0}, alone[TALKS] = {0};
        Engine *engine = items_engine(0, 1, 128, DTYPE_F16);
        ChatTemplate *chat_template = items_template();
        for (int i = 0; i < TALKS; i++) {
            items[i] = (SchedulerItem){
                .turns = turns + i,
                .n_turns = TURNS - i,
                .settings = {.sampler = sampler_default_settings(),
                             .seed = 42,
                             .stream = (uint64_t)i,
                             .max_tokens = 10 + i,
                             .overflow = {.policy = POLICIES[p], .reserve = 8, .low_water = 0.7}}};
            items_answer_alone(engine, chat_template, &items[i], &alone[i]);
        }
        chat_template_close(chat_template);
        engine_close(engine);
        for (int k = 0; k < 4; k++) {
            Run run = run_open(TALKS, k % 2 ? 2 : TALKS, 128, BUDGETS[k]); // also one after the other
            Error error = {0};
            for (int i = 0; i < TALKS; i++) scheduler_give(run.scheduler, &items[i]);
            while (scheduler_running(run.scheduler) > 0) {
                if (scheduler_step(run.scheduler, &error)) fail_msg("%s", error.message);
                while (scheduler_finished(run.scheduler)) continue;
            }
            run_close(&run);
            for (int i = 0; i < TALKS; i++) {
                items_check_one(i, &items[i], &alone[i]);
                scheduler_item_clear(&items[i]);
                items[i].n_reply = 0;
            }
        }
        for (int i = 0; i < TALKS; i++) scheduler_item_clear(&alone[i]);
    }
}

// A system prompt is read in once; who shares it gets what it would have read in itself.
static void common_prefixes_are_read_once(void **state) {
    (void)state;
    TestItem *items = items_make(20, &ROOMY, CONTEXT, DTYPE_F16);
    Run run = run_open(4, 4, CONTEXT, 0);
    answer_all(&run, items, 20, NULL);
    assert_int_equal(items[0].item.n_turns, 2);
    assert_true(items[0].item.n_cached > 0 &&
                items[0].item.n_cached < items[0].item.n_prompt);              // its own first turn
    for (int i = 3; i < 20; i += 3) assert_true(items[i].item.n_cached >= 40); // the system prompt
    assert_true(items[1].item.n_cached < 16 && items[2].item.n_cached < 16);
    run_close(&run);
    items_free(items, 20);
}

// What is one item's own fault: nothing left to draw from; settings out of range.
static void one_fails_and_the_others_go_on(void **state) {
    (void)state;
    TestItem *items = items_make(12, &ROOMY, CONTEXT, DTYPE_F16);
    Run run = run_open(4, 4, CONTEXT, 0);
    SamplerBias none[384];
    for (int i = 0; i < 384; i++) none[i] = (SamplerBias){i, -INFINITY};
    items[5].item.settings.sampler.logit_bias = none;
    items[5].item.settings.sampler.n_logit_bias = 384;
    items[7].item.settings.sampler.top_p = 7;
    for (int i = 5; i < 8; i += 2) {
        scheduler_item_clear(&items[i].alone);
        items[i].alone = (SchedulerItem){.status = i == 5 ? STATUS_DEVICE : STATUS_USAGE, .n_reply = 0};
    }
    answer_all(&run, items, 12, NULL);
    assert_non_null(strstr(items[5].item.error.message, "no token is left to choose from"));
    assert_non_null(strstr(items[7].item.error.message, "top_p"));
    run_close(&run);
    items_free(items, 12);
}

static void an_interrupt_ends_everything(void **state) {
    (void)state;
    Error error = {0};
    atomic_int flag = 0;
    TestItem *items = items_make(8, &ROOMY, CONTEXT, DTYPE_F16);
    Run run = run_open(4, 4, CONTEXT, 0);
    scheduler_close(run.scheduler);
    SchedulerOptions options = {.interrupt = &flag};
    assert_int_equal(scheduler_open(run.engine, run.chat_template, &options, &run.scheduler, &error),
                     STATUS_OK);
    for (int i = 0; i < 4; i++) scheduler_give(run.scheduler, &items[i].item);
    assert_false(scheduler_wants(run.scheduler));
    step(&run);
    flag = 1;
    assert_int_equal(scheduler_step(run.scheduler, &error), STATUS_INTERRUPTED);
    assert_null(scheduler_finished(run.scheduler));
    run_close(&run); // in the middle of replies
    items_free(items, 8);
}

// ---- with a producer ------------------------------------------------------------------------------------------------

typedef struct Producer {
    ItemQueue *queue;
    TestItem *items;
    int n, pause; // microseconds between items
} Producer;

static void *produce(void *context) {
    Producer *p = context;
    for (int i = 0; i < p->n; i++) {
        if (p->pause) usleep((useconds_t)p->pause);
        if (!item_queue_put(p->queue, &p->items[i].item)) break;
    }
    item_queue_end(p->queue);
    return NULL;
}

// A5, A7: through the queue, from a thread that is faster than the decoder, or slower.
static void answer_produced(TestItem *items, int n, int n_rows, int pause) {
    Error error = {0};
    Run run = run_open(n_rows, n_rows, CONTEXT, 0);
    Producer producer = {.items = items, .n = n, .pause = pause};
    pthread_t thread;
    assert_int_equal(item_queue_open(8, &producer.queue, &error), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, produce, &producer), 0);
    for (bool ended = false; !ended || scheduler_running(run.scheduler) > 0;) {
        while (!ended && scheduler_wants(run.scheduler)) {
            void *item;
            QueueState got =
                item_queue_take(producer.queue, scheduler_running(run.scheduler) ? 0 : 1000, &item);
            ended = got == QUEUE_ENDED;
            if (got != QUEUE_ITEM) break;
            scheduler_give(run.scheduler, item);
        }
        step(&run);
    }
    pthread_join(thread, NULL);
    item_queue_close(producer.queue);
    items_check(items, n);
    run_close(&run);
}

static void a_thousand_through_sixteen_rows(void **state) {
    (void)state;
    TestItem *items = items_make(1000, &ROOMY, CONTEXT, DTYPE_F16);
    answer_produced(items, 1000, 16, 0);
    items_reset(items, 1000);
    answer_produced(items, 60, 16, 3000); // slower than the rows
    items_free(items, 1000);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_depend_on_nothing_but_the_item),
        cmocka_unit_test(quantised_caches),
        cmocka_unit_test(nothing_is_read_that_was_not_written),
        cmocka_unit_test(waits_for_memory),
        cmocka_unit_test(talks_wait_for_what_they_may_need),
        cmocka_unit_test(windows_that_overflow),
        cmocka_unit_test(prompts_behind_what_was_shifted),
        cmocka_unit_test(common_prefixes_are_read_once),
        cmocka_unit_test(one_fails_and_the_others_go_on),
        cmocka_unit_test(an_interrupt_ends_everything),
        cmocka_unit_test(a_thousand_through_sixteen_rows),
    };
    int failed = test_main("scheduler", argc, argv, tests);
    steps_ahead = true;
    failed += test_main("scheduler, steps ahead", argc, argv, tests);
    print_message("%d steps began before their tokens were known\n", n_ahead);
    return failed || (argc < 2 && n_ahead < 1000);
}
