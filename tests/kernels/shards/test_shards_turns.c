// Several cards, of which others want some as well: engines of one process, and other processes (kernels/shards).
#include "engine/engine_internal.h"
#include "kernels/base/clock.h"
#include "kernels/shards/shards_internal.h"
#include "tests/support/kernels/fake_cards.h"
#include "tests/support/kernels/random.h"
#include "tests/support/model/golden_model.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static Error error;
static FakeCards fakes;

typedef struct Talk {
    Engine *engine;
    Session *session;
    Shards *shards;
} Talk;

// One that gives turns away only where they are wanted.
static Talk open_talk(const char *device) {
    const EngineOptions options = {.model = "tests/golden/babbler",
                                   .device_layers = DEVICE_LAYERS_FIT,
                                   .expert_layers = DEVICE_LAYERS_FIT,
                                   .device = device,
                                   .cuda = fake_cards(&fakes),
                                   .n_threads = 1,
                                   .context_size = 96,
                                   .cache = cache_options(DTYPE_F16),
                                   .chunk = 16};
    Talk talk = {0};
    assert_ok(engine_open(&options, &talk.engine, &error), &error);
    assert_ok(session_open(talk.engine, &talk.session, &error), &error);
    talk.shards = (Shards *)talk.engine->backend;
    talk.shards->locks.idle = 1e9;
    return talk;
}

static void close_talk(Talk *talk) {
    session_close(talk->session);
    engine_close(talk->engine);
}

static Status evaluate(const Talk *talk, int n) {
    int32_t ids[40];
    for (int i = 0; i < n; i++) ids[i] = 1 + 7 * i % 50;
    return session_sync(talk->session, ids, n, NULL, &error);
}

static void evaluate_some(const Talk *talk, int n) {
    assert_ok(evaluate(talk, n), &error);
}

// Cards of one backend wait for each other: what shares a card with another begins when that one is done, and only then is
// anybody waited for.
static void engines_take_turns(void **state) {
    (void)state;
    fakes = (FakeCards){0};
    Talk a = open_talk("cuda:0,1");
    evaluate_some(&a, 10);
    assert_int_equal(fakes.n_finished, 0);
    assert_true(a.shards->busy);
    Talk b = open_talk("cuda:1,2");
    assert_false(a.shards->busy);
    assert_int_equal(fakes.n_finished, 2); // the first one's two
    evaluate_some(&b, 10);
    assert_int_equal(fakes.n_finished, 2);
    evaluate_some(&a, 20);
    assert_int_equal(fakes.n_finished, 4);
    evaluate_some(&b, 20);
    assert_int_equal(fakes.n_finished, 6);
    close_talk(&b);
    evaluate_some(&a, 5);
    const int finished = fakes.n_finished;
    b = open_talk("cuda:2,3"); // others
    evaluate_some(&b, 10);
    evaluate_some(&a, 15);
    assert_int_equal(fakes.n_finished, finished);
    assert_true(fakes.n_used > 0);
    close_talk(&a);
    close_talk(&b);
}

// ---- processes ----------------------------------------------------------------------------------------------

static void forget_files(void) {
    for (int card = 0; card < FAKE_CARDS; card++)
        for (int queue = 0; queue < 2; queue++) {
            char id[SHARD_ID], path[SHARD_LOCK_PATH];
            snprintf(id, sizeof id, "test-%ld-%d", (long)getpid(), card);
            shards_lock_path(id, queue ? "queue" : "turn", path);
            unlink(path);
        }
}

// A process that waits for card 1 as another palaver does, tells that it has it, keeps it for a while (0: until it is
// ended), tells when it gives it away, and does.
static pid_t start_other(double keeps, int *told) {
    char id[SHARD_ID], turn[SHARD_LOCK_PATH], queue[SHARD_LOCK_PATH];
    int ends[2];
    snprintf(id, sizeof id, "test-%ld-1", (long)getpid());
    shards_lock_path(id, "turn", turn), shards_lock_path(id, "queue", queue);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    *told = ends[0];
    if (child > 0) {
        close(ends[1]);
        return child;
    }
    const int files[] = {open(turn, O_RDONLY), open(queue, O_RDONLY)};
    while (flock(files[0], LOCK_EX | LOCK_NB)) flock(files[1], LOCK_SH | LOCK_NB), usleep(50);
    flock(files[1], LOCK_UN);
    double now = clock_seconds();
    bool well = write(ends[1], &now, sizeof now) == sizeof now;
    while (keeps <= 0) pause();
    usleep((useconds_t)(keeps * 1e6));
    now = clock_seconds();
    well = well && write(ends[1], &now, sizeof now) == sizeof now;
    flock(files[0], LOCK_UN);
    _exit(well ? 0 : 1);
}

static double told_by(int pipe) {
    double when = -1;
    assert_int_equal(read(pipe, &when, sizeof when), sizeof when);
    return when;
}

static void processes_take_turns(void **state) {
    (void)state;
    fakes = (FakeCards){.locked = true};
    Talk a = open_talk("cuda:2,1");
    assert_int_equal(a.shards->locks.n, 2);
    evaluate_some(&a, 10);
    assert_true(a.shards->locks.held);
    int told, status;
    const pid_t child = start_other(0.1, &told);
    told_by(told); // it got the card
    evaluate_some(&a, 20);
    const double after = clock_seconds();
    assert_true(told_by(told) <= after);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(told);
    // Two of one process have the same files twice.
    Talk b = open_talk("cuda:0,1");
    evaluate_some(&b, 10);
    evaluate_some(&a, 30);
    assert_true(a.shards->locks.held && !b.shards->locks.held);
    close_talk(&b);
    close_talk(&a);
    forget_files();
}

static void nothing_is_kept_for_long(void **state) {
    (void)state;
    fakes = (FakeCards){.locked = true};
    Talk a = open_talk("cuda:0,1");
    a.shards->locks.idle = 0.01;
    evaluate_some(&a, 10);
    const double since = clock_seconds();
    for (bool held = true; held && clock_seconds() - since < 20; held = a.shards->locks.held) {
        shards_offer_turn(a.shards); // nobody wants it: but then the thread's doing is seen
        usleep(1000);
    }
    assert_false(a.shards->locks.held);
    // One that does not give it away is waited for so long, and told.
    int told;
    const pid_t child = start_other(0, &told);
    told_by(told);
    a.shards->locks.patience = 0.05;
    assert_int_equal(evaluate(&a, 20), STATUS_DEVICE);
    assert_non_null(strstr(error.message, "another program has held one of them for 0.05 s"));
    assert_non_null(strstr(error.message, "or one (--device cuda:0)"));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(told);
    evaluate_some(&a, 20); // its locks have ended with it
    close_talk(&a);
    forget_files();
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_take_turns),
        cmocka_unit_test(processes_take_turns),
        cmocka_unit_test(nothing_is_kept_for_long),
    };
    return test_main("shards_turns", argc, argv, tests);
}
