// How processes come together (kernels/hosts/world.h), each a thread here: who waits says so, who is turned away is named, and
// who has begun to join and does not go on ends it soon.
#include "kernels/base/clock.h"
#include "kernels/hosts/world_internal.h"
#include "tests/support/ranks.h"
#include "tests/support/kernels/random.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOON = 10, ROOM = 1200 };

typedef struct One {
    WorldOptions options;
    unsigned comes_after; // milliseconds
    char told[ROOM];      // line by line
    Status status;
    Error error;
    double seconds; // that world_open() took
    World *world;
} One;

static void tell(void *context, const char *words) {
    One *one = context;
    const size_t n = strlen(one->told);
    snprintf(one->told + n, sizeof one->told - n, "%s\n", words);
}

static One one_of(int size, int rank, const char *address, int seconds) {
    return (One){.options = {.size = size,
                             .rank = rank,
                             .address = address,
                             .key = "a key",
                             .seconds = seconds,
                             .tell = tell}};
}

static void *open_one(void *context) {
    One *one = context;
    usleep(one->comes_after * 1000);
    const double began = clock_seconds();
    one->options.tell_context = one;
    one->status = world_open(&one->options, &one->world, &one->error);
    one->seconds = clock_seconds() - began;
    return NULL;
}

// All of them at once, until each has a world or none.
static void open_all(One *ones, int n) {
    pthread_t threads[WORLD_MOST];
    for (int i = 0; i < n; i++) assert_int_equal(pthread_create(&threads[i], NULL, open_one, &ones[i]), 0);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

static void close_all(One *ones, int n) {
    for (int i = 0; i < n; i++) world_close(ones[i].world);
}

static void expect_told(const One *one, const char *format, const char *address) {
    char expected[ROOM];
    snprintf(expected, sizeof expected, format, address);
    assert_string_equal(one->told, expected);
}

static void who_waits_says_for_whom(void **state) {
    (void)state;
    char addresses[3][64];
    for (int i = 0; i < 3; i++) ranks_address(addresses[i]);
    One ones[] = {one_of(2, 0, addresses[0], 3), one_of(2, 1, addresses[1], 3),
                  one_of(4, 0, addresses[2], 3)};
    open_all(ones, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ones[i].status, STATUS_DEVICE);
    expect_told(&ones[0], "waiting for rank 1 of 2 at %s, at most 3 s\n", addresses[0]);
    expect_told(&ones[1], "waiting for rank 0 at %s, at most 3 s\n", addresses[1]);
    expect_told(&ones[2], "waiting for rank 1 and 2 more of 4 at %s, at most 3 s\n", addresses[2]);
    assert_non_null(strstr(ones[0].error.message, "rank 1 of 2 did not come"));
    assert_non_null(strstr(ones[1].error.message, "rank 0 did not come"));
}

static void who_is_there_at_once_is_not_waited_for(void **state) {
    (void)state;
    char address[64];
    ranks_address(address);
    One ones[] = {one_of(2, 0, address, 3), one_of(2, 1, address, 3)};
    open_all(ones, 2);
    for (int i = 0; i < 2; i++) assert_ok(ones[i].status, &ones[i].error);
    for (int i = 0; i < 2; i++) assert_string_equal(ones[i].told, "");
    close_all(ones, 2);
}

// It comes twice, and is named once.
static void who_has_another_key_is_named(void **state) {
    (void)state;
    char address[64];
    ranks_address(address);
    One ones[] = {one_of(2, 0, address, 3), one_of(2, 1, address, 3), one_of(2, 1, address, 3)};
    ones[1].options.key = ones[2].options.key = "another";
    ones[2].comes_after = 500;
    open_all(ones, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(ones[i].status, STATUS_DEVICE);
    expect_told(&ones[0],
                "rank 1 from 127.0.0.1 was turned away: it has another key (--join-key)\n"
                "waiting for rank 1 of 2 at %s, at most 3 s\n",
                address);
}

// Somebody takes connections, as the system does for a process that is stopped.
static void a_rank_0_that_says_nothing_is_named(void **state) {
    (void)state;
    char address[64];
    int listener;
    Error error;
    ranks_address(address);
    assert_ok(socket_listen(address, &listener, &error), &error);
    One one = one_of(2, 1, address, 60);
    open_all(&one, 1);
    assert_int_equal(one.status, STATUS_DEVICE);
    assert_non_null(strstr(one.error.message, "rank 0 at"));
    assert_true(one.seconds < SOON);
    socket_close(&listener);
}

// One of its two connections is there: then it is stopped (it stays), or has ended.
static void a_rank_that_joins_by_half_is_named(void **state) {
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        char address[64], name[WORLD_NAME_ROOM];
        pthread_t thread;
        Error error;
        int socket = -1;
        ranks_address(address);
        One first = one_of(2, 0, address, 60), other = one_of(2, 1, address, 60);
        World *half = calloc(1, sizeof *half);
        half->options = other.options;
        assert_int_equal(pthread_create(&thread, NULL, open_one, &first), 0);
        while (socket_connect(address, &socket, name, &error)) usleep(20000);
        assert_ok(join_ask(half, JOIN_DATA, socket, &error), &error);
        if (ends) socket_close(&socket);
        pthread_join(thread, NULL);
        assert_int_equal(first.status, STATUS_DEVICE);
        assert_non_null(strstr(first.error.message, "rank 1 (127.0.0.1)"));
        assert_true(first.seconds < SOON);
        socket_close(&socket);
        free(half);
    }
}

// Who has come is not lost because another one takes longer than the pulse's patience.
static void who_has_come_waits_for_the_last(void **state) {
    (void)state;
    char address[64];
    ranks_address(address);
    One ones[] = {one_of(3, 0, address, 60), one_of(3, 1, address, 60), one_of(3, 2, address, 60)};
    ones[2].comes_after = 1000 * (WORLD_PATIENCE + 2);
    open_all(ones, 3);
    for (int i = 0; i < 3; i++) assert_ok(ones[i].status, &ones[i].error);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < WORLD_MOST; j++) assert_false(atomic_load(&ones[i].world->links[j].lost));
    close_all(ones, 3);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_says_for_whom),
        cmocka_unit_test(who_is_there_at_once_is_not_waited_for),
        cmocka_unit_test(who_has_another_key_is_named),
        cmocka_unit_test(a_rank_0_that_says_nothing_is_named),
        cmocka_unit_test(a_rank_that_joins_by_half_is_named),
        cmocka_unit_test(who_has_come_waits_for_the_last),
    };
    return test_main("world", argc, argv, tests);
}
