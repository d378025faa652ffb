// The thread pool: every part exactly once, under any number of threads, asleep or awake; and what the machine
// offers.
#include "kernels/cpu/memory.h"
#include "kernels/cpu/threads.h"
#include "tests/test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PARTS = 3000 };

typedef struct Count {
    int n_threads;
    atomic_int runs[MAX_PARTS];
    atomic_int strangers; // parts run by a thread that does not exist
} Count;

static void count_part(void *context, int64_t part, int thread) {
    Count *count = context;
    atomic_fetch_add(&count->runs[part], 1);
    if (thread < 0 || thread >= count->n_threads) atomic_fetch_add(&count->strangers, 1);
}

static void run_and_check(Threads *threads, Count *count, int n_parts) {
    memset(count->runs, 0, sizeof count->runs);
    threads_run(threads, n_parts, count_part, count);
    for (int i = 0; i < MAX_PARTS; i++)
        if (count->runs[i] != (i < n_parts))
            fail_msg("part %d of %d ran %d times", i, n_parts, count->runs[i]);
    assert_int_equal(count->strangers, 0);
}

static void every_part_runs_once(void **state) {
    (void)state;
    static const int N_PARTS[] = {0, 1, 2, 3, 7, 64, MAX_PARTS};
    Count *count = calloc(1, sizeof *count);
    for (int n = 1; n <= 5; n++) {
        Threads *threads;
        Error error;
        assert_int_equal(threads_open(n, &threads, &error), STATUS_OK);
        assert_int_equal(threads_count(threads), n);
        count->n_threads = n;
        for (int round = 0; round < 20; round++)
            for (size_t i = 0; i < sizeof N_PARTS / sizeof *N_PARTS; i++)
                run_and_check(threads, count, N_PARTS[i]);
        threads_close(threads);
    }
    free(count);
}

// Longer pauses than a worker spins for: it must be woken.
static void sleeping_workers_wake(void **state) {
    (void)state;
    Count *count = calloc(1, sizeof *count);
    Threads *threads;
    Error error;
    assert_int_equal(threads_open(3, &threads, &error), STATUS_OK);
    count->n_threads = 3;
    for (int round = 0; round < 20; round++) {
        run_and_check(threads, count, 50);
        usleep(round % 2 ? 1000 : 180);
    }
    threads_close(threads);
    free(count);
}

// Many short loops after each other: a worker that comes late must not take part in the wrong one.
static void rapid_rounds(void **state) {
    (void)state;
    Count *count = calloc(1, sizeof *count), *other = calloc(1, sizeof *other);
    Threads *threads;
    Error error;
    assert_int_equal(threads_open(4, &threads, &error), STATUS_OK);
    count->n_threads = other->n_threads = 4;
    for (int round = 0; round < 20000; round++)
        threads_run(threads, 2 + round % 3, count_part, round % 2 ? count : other);
    threads_close(threads);
    int sums[2] = {0, 0};
    for (int i = 0; i < MAX_PARTS; i++) sums[0] += other->runs[i], sums[1] += count->runs[i];
    int expected[2] = {0, 0};
    for (int round = 0; round < 20000; round++) expected[round % 2] += 2 + round % 3;
    assert_int_equal(sums[0], expected[0]);
    assert_int_equal(sums[1], expected[1]);
    free(count), free(other);
}

static void impossible_numbers_are_refused(void **state) {
    (void)state;
    Threads *threads;
    Error error;
    assert_int_equal(threads_open(0, &threads, &error), STATUS_USAGE);
    assert_int_equal(threads_open(MAX_THREADS + 1, &threads, &error), STATUS_USAGE);
    threads_close(NULL);
}

static void the_machine_offers_something(void **state) {
    (void)state;
    int64_t total, available;
    memory_available(&total, &available);
    assert_true(available > 0 && available <= total);
    assert_in_range(threads_available(), 1, MAX_THREADS);
    assert_true(cpu_quota() >= 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once),
        cmocka_unit_test(sleeping_workers_wake),
        cmocka_unit_test(rapid_rounds),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(the_machine_offers_something),
    };
    return test_main("threads", argc, argv, tests);
}
