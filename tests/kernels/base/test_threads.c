// The thread pool: every part exactly once, under any number of threads, asleep or awake; and what the machine
// offers.
#include "kernels/base/machine/memory.h"
#include "kernels/base/machine/threads.h"
#include "tests/support/test.h"

#include <errno.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

// ---- what the machine offers --------------------------------------------------------------------------

static void the_machine_offers_something(void **state) {
    (void)state;
    int64_t total, available;
    memory_available("", &total, &available);
    assert_true(available > 0 && available <= total);
    assert_in_range(threads_available(), 1, MAX_THREADS);
    assert_true(cpu_quota("") >= 0);
}

// Writes a file under root, making its folders.
static void put(const char *root, const char *path, const char *text) {
    char full[512];
    assert_in_range(snprintf(full, sizeof full, "%s%s", root, path), 1, sizeof full - 1);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = 0;
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    fclose(file);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place) {
    (void)status, (void)type, (void)place;
    return remove(path);
}

static void check_machine(const char *root, int64_t total, int64_t available, int cores) {
    int64_t found_total, found_available;
    memory_available(root, &found_total, &found_available);
    assert_int_equal(found_total, total);
    assert_int_equal(found_available, available);
    assert_int_equal(cpu_quota(root), cores);
}

#define MEGABYTE (INT64_C(1) << 20)

static void control_groups_limit(void **state) {
    (void)state;
    char root[] = "/tmp/palaver-cgroup-XXXXXX";
    assert_non_null(mkdtemp(root));
    check_machine(root, 0, 0, 0); // nothing there
    put(root, "/proc/meminfo", "MemTotal:       8388608 kB\nMemFree:  1 kB\nMemAvailable:   4194304 kB\n");
    check_machine(root, 8192 * MEGABYTE, 4096 * MEGABYTE, 0);

    // Version 2: the group has no limit of its own, the one above it has; cached files can be had back.
    put(root, "/proc/self/cgroup", "0::/user/talk\n");
    put(root, "/sys/fs/cgroup/user/talk/memory.max", "max\n");
    put(root, "/sys/fs/cgroup/user/talk/memory.current", "1048576\n");
    put(root, "/sys/fs/cgroup/user/memory.max", "1073741824\n");
    put(root, "/sys/fs/cgroup/user/memory.current", "838860800\n");
    put(root, "/sys/fs/cgroup/user/memory.stat",
        "anon 1\nfile 2\ninactive_file 94371840\nactive_file 10485760\n");
    put(root, "/sys/fs/cgroup/user/talk/cpu.max", "max 100000\n");
    put(root, "/sys/fs/cgroup/user/cpu.max", "150000 100000\n");
    check_machine(root, 1024 * MEGABYTE, 324 * MEGABYTE, 2);

    // Version 1 in a container: the group's path is the host's, only the hierarchy's root is there.
    put(root, "/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    put(root, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "600000000\n");
    put(root, "/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 7\nactive_file 7\ntotal_inactive_file 0\ntotal_active_file 0\n");
    put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n");
    put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check_machine(root, 512 * MEGABYTE, 0, 3);
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); // none
    put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    check_machine(root, 8192 * MEGABYTE, 4096 * MEGABYTE, 0);
    assert_int_equal(nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once),
        cmocka_unit_test(sleeping_workers_wake),
        cmocka_unit_test(rapid_rounds),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(the_machine_offers_something),
        cmocka_unit_test(control_groups_limit),
    };
    return test_main("threads", argc, argv, tests);
}
