// How processes come together (kernels/hosts/world/world.h), each a thread here: who waits says so, who is turned away is named, and
// who has begun to join and does not go on ends it soon.
#include "kernels/base/clock.h"
#include "kernels/hosts/world/world_internal.h"
#include "tests/support/ranks/ranks.h"
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

// Waits for a line of the one that waits.
static void await_told(const One *one, const char *words) {
    const double until = clock_seconds() + SOON;
    while (!strstr(one->told, words)) {
        if (clock_seconds() > until) fail_msg("not told within %d s: %s\n%s", SOON, words, one->told);
        usleep(5000);
    }
}

// One of its two connections is there: then it is stopped (it stays), or has ended. It is told of, and waited for again.
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
        const double begun = clock_seconds();
        if (ends) socket_close(&socket);
        await_told(&first,
                   ends ? "rank 1 (127.0.0.1) has come and gone again; waiting for rank 1 again, at most"
                        : "rank 1 (127.0.0.1) has begun to join, and has not been heard of");
        assert_true(clock_seconds() - begun < (ends ? 1 : SOON));
        open_all(&other, 1);
        pthread_join(thread, NULL);
        assert_ok(first.status, &first.error);
        assert_ok(other.status, &other.error);
        assert_true(first.seconds < SOON);
        socket_close(&socket);
        world_close(first.world), world_close(other.world);
        free(half);
    }
}

// Started again, it is taken, though the first one had come whole.
static void a_rank_that_has_come_and_ends_may_come_again(void **state) {
    (void)state;
    char address[64];
    pthread_t thread;
    ranks_address(address);
    One first = one_of(3, 0, address, 60), ones[] = {one_of(3, 1, address, 60), one_of(3, 2, address, 60)};
    One ended = one_of(3, 1, address, 60);
    assert_int_equal(pthread_create(&thread, NULL, open_one, &first), 0);
    open_all(&ended, 1);
    assert_ok(ended.status, &ended.error);
    world_close(ended.world);
    await_told(&first, "rank 1 (127.0.0.1) has come and gone again; waiting for rank 1 again, at most");
    open_all(ones, 2);
    pthread_join(thread, NULL);
    assert_ok(first.status, &first.error);
    close_all(ones, 2);
    world_close(first.world);
}

// Connections to rank 0 that never say a word, or end in the middle of one.
typedef struct Crowd {
    const char *address;
    int sockets[2 * LOBBY_MOST], n;
} Crowd;

static void crowd_come(Crowd *crowd, const char *address, int n, const char *say) {
    char name[WORLD_NAME_ROOM];
    Error error;
    *crowd = (Crowd){.address = address};
    while (crowd->n < n) {
        if (socket_connect(address, &crowd->sockets[crowd->n], name, &error)) {
            usleep(20000);
            continue;
        }
        if (*say) assert_true(socket_write(crowd->sockets[crowd->n], say, strlen(say)));
        crowd->n++;
    }
}

static void crowd_go(Crowd *crowd) {
    while (crowd->n > 0) socket_close(&crowd->sockets[--crowd->n]);
}

// Also where they are more than are heard at once.
static void who_says_nothing_keeps_nobody_waiting(void **state) {
    (void)state;
    static const int N[] = {8, LOBBY_MOST + 20};
    static const char *const SAY[] = {"", "pal"};
    for (int i = 0; i < 2; i++) {
        char address[64];
        pthread_t thread;
        Crowd crowd;
        ranks_address(address);
        One first = one_of(2, 0, address, 60), other = one_of(2, 1, address, 60);
        assert_int_equal(pthread_create(&thread, NULL, open_one, &first), 0);
        crowd_come(&crowd, address, N[i], SAY[i]);
        open_all(&other, 1);
        pthread_join(thread, NULL);
        assert_ok(first.status, &first.error);
        assert_ok(other.status, &other.error);
        if (other.seconds > 1)
            fail_msg("behind %d idle connections joining took %.1f s", N[i], other.seconds);
        crowd_go(&crowd);
        world_close(first.world), world_close(other.world);
    }
}

// A letter at a time; it is turned away once its time is over, and by name.
static void who_says_nothing_is_turned_away(void **state) {
    (void)state;
    char address[64], name[WORLD_NAME_ROOM], byte;
    pthread_t thread;
    Error error;
    int slow = -1, stranger = -1;
    ranks_address(address);
    One first = one_of(2, 0, address, 9);
    assert_int_equal(pthread_create(&thread, NULL, open_one, &first), 0);
    while (socket_connect(address, &slow, name, &error)) usleep(20000);
    assert_ok(socket_connect(address, &stranger, name, &error), &error);
    assert_true(socket_write(stranger, "GET / HTTP/1.1\r\n", 16));
    assert_false(socket_read(stranger, &byte, 1)); // at once
    const double begun = clock_seconds();
    for (int i = 0; i < 7 && socket_write(slow, &"palaver"[i], 1); i++) usleep(300000);
    assert_false(socket_read(slow, &byte, 1));
    assert_true(clock_seconds() - begun < LOBBY_SECONDS + 1);
    pthread_join(thread, NULL);
    assert_non_null(strstr(first.told, "a caller from 127.0.0.1 was turned away: it is not palaver"));
    assert_non_null(strstr(first.told, "a caller from 127.0.0.1 was turned away: it did not say who it is"));
    socket_close(&slow), socket_close(&stranger);
}

// The same --rank twice: the second one is named, while others are awaited, and when all are there.
static void who_comes_twice_is_refused(void **state) {
    (void)state;
    char address[64];
    pthread_t thread;
    ranks_address(address);
    One first = one_of(3, 0, address, 60), ones[] = {one_of(3, 1, address, 60), one_of(3, 2, address, 60)};
    One twice = one_of(3, 1, address, 60), late = one_of(3, 2, address, 60);
    assert_int_equal(pthread_create(&thread, NULL, open_one, &first), 0);
    open_all(&ones[0], 1);
    open_all(&twice, 1);
    assert_int_equal(twice.status, STATUS_USAGE);
    assert_non_null(strstr(twice.error.message, "rank 1 is there already, at 127.0.0.1"));
    await_told(&first, "rank 1 from 127.0.0.1 was turned away: rank 1 is there already");
    open_all(&ones[1], 1);
    pthread_join(thread, NULL);
    assert_ok(first.status, &first.error);
    open_all(&late, 1);
    assert_int_equal(late.status, STATUS_USAGE);
    assert_non_null(strstr(late.error.message, "rank 2 is there already, at 127.0.0.1"));
    assert_true(late.seconds < 1);
    for (int i = 1; i < 3; i++) assert_false(atomic_load(&first.world->links[i].lost));
    close_all(ones, 2);
    world_close(first.world);
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
        cmocka_unit_test(a_rank_that_has_come_and_ends_may_come_again),
        cmocka_unit_test(who_says_nothing_keeps_nobody_waiting),
        cmocka_unit_test(who_says_nothing_is_turned_away),
        cmocka_unit_test(who_comes_twice_is_refused),
        cmocka_unit_test(who_has_come_waits_for_the_last),
    };
    return test_main("world", argc, argv, tests);
}
