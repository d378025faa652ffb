// Stop strings against a search of the whole text, cut in every way.
#include "tests/support/test.h"
#include "engine/talk/stop.h"
#include "kernels/philox.h"

#include <stdbool.h>
#include <string.h>

static uint64_t random_position;
static int random_below(int n) {
    return (int)((uint64_t)philox_bits(20261121, 2, random_position++) * (uint64_t)n >> 32);
}

typedef struct Shown {
    char text[256];
    size_t size;
} Shown;

static void show(Shown *shown, StopText text) {
    assert_true(shown->size + text.n_held + text.n_fresh <= sizeof shown->text);
    if (text.n_held) memcpy(shown->text + shown->size, text.held, text.n_held);
    shown->size += text.n_held;
    if (text.n_fresh) memcpy(shown->text + shown->size, text.fresh, text.n_fresh);
    shown->size += text.n_fresh;
}

// Where the reply ends and whether a stop string ended it: the first place where one ends, less the longest there.
static size_t search(const char *text, size_t size, const char *const *stops, int n, bool *stopped) {
    for (size_t end = 1; end <= size; end++) {
        size_t longest = 0;
        for (int i = 0; i < n; i++) {
            size_t k = strlen(stops[i]);
            if (k <= end && k > longest && memcmp(text + end - k, stops[i], k) == 0) longest = k;
        }
        if (longest) {
            *stopped = true;
            return end - longest;
        }
    }
    *stopped = false;
    return size;
}

// The most that may be shown of a text that is not stopped: all but the longest end that begins a stop string.
static size_t sure(const char *text, size_t size, const char *const *stops, int n) {
    for (size_t from = 0; from < size; from++)
        for (int i = 0; i < n; i++)
            if (strlen(stops[i]) > size - from && memcmp(stops[i], text + from, size - from) == 0)
                return from;
    return size;
}

static void feed_in_pieces(const char *text, size_t size, const char *const *stops, int n) {
    Shown shown = {.size = 0};
    bool stopped = false, want_stopped;
    size_t want = search(text, size, stops, n, &want_stopped), fed = 0;
    StopMatcher *m;
    Error error;
    assert_int_equal(stop_open(stops, n, &m, &error), STATUS_OK);
    while (fed < size) {
        size_t piece = (size_t)random_below(4);
        if (piece > size - fed) piece = size - fed;
        char copy[4]; // pieces live no longer than the call
        memcpy(copy, text + fed, piece);
        StopText now = stop_feed(m, copy, piece);
        fed += piece;
        assert_true(!stopped || (now.stopped && now.n_held + now.n_fresh == 0));
        show(&shown, now);
        stopped = now.stopped;
        bool here;
        size_t end = search(text, fed, stops, n, &here);
        assert_int_equal(stopped, here);
        assert_int_equal(shown.size, stopped ? end : sure(text, fed, stops, n));
    }
    show(&shown, stop_flush(m));
    assert_int_equal(stopped, want_stopped);
    assert_int_equal(shown.size, want);
    assert_memory_equal(shown.text, text, want);
    stop_close(m);
}

static void stops_as_a_search_of_the_text(void **state) {
    (void)state;
    random_position = 0;
    for (int round = 0; round < 3000; round++) {
        char words[4][8], text[200];
        const char *stops[4];
        int n = 1 + random_below(4), letters = 2 + random_below(2);
        for (int i = 0; i < n; i++) {
            int k = 1 + random_below(7);
            for (int j = 0; j < k; j++) words[i][j] = (char)('a' + random_below(letters));
            words[i][k] = 0;
            stops[i] = words[i];
        }
        size_t size = (size_t)random_below(sizeof text);
        for (size_t i = 0; i < size; i++) text[i] = (char)('a' + random_below(letters + round % 3));
        for (int i = 0; i < 3; i++) feed_in_pieces(text, size, stops, n);
    }
}

static void stops_by_hand(void **state) {
    (void)state;
    static const char *const stops[] = {"\nUser:", "<|end|>", "é"};
    StopMatcher *m;
    Error error;
    assert_int_equal(stop_open(stops, 3, &m, &error), STATUS_OK);
    StopText t = stop_feed(m, "Hello\nUs", 8);
    assert_int_equal(t.n_fresh, 5);
    t = stop_feed(m, "ually <|", 8); // what was held back comes out, something else is held
    assert_int_equal(t.n_held, 3);
    assert_memory_equal(t.held, "\nUs", 3);
    assert_int_equal(t.n_fresh, 6);
    t = stop_flush(m);
    assert_int_equal(t.n_held, 2);
    assert_memory_equal(t.held, "<|", 2);
    t = stop_feed(m, "end|>", 5); // a new stream: the old one is over
    assert_true(!t.stopped && t.n_fresh == 5);
    t = stop_feed(m, "caf\xc3", 4);
    assert_int_equal(t.n_fresh, 3);
    t = stop_feed(m, "\xa9 and", 5);
    assert_true(t.stopped && t.n_held == 0 && t.n_fresh == 0);
    t = stop_flush(m);
    assert_true(t.stopped && t.n_held == 0);
    stop_close(m);
    stop_close(NULL);
}

static void no_stop_strings_hold_nothing(void **state) {
    (void)state;
    StopMatcher *m;
    Error error;
    assert_int_equal(stop_open(NULL, 0, &m, &error), STATUS_OK);
    StopText t = stop_feed(m, "abc", 3);
    assert_true(!t.stopped && t.n_held == 0 && t.n_fresh == 3);
    assert_int_equal(stop_flush(m).n_held, 0);
    stop_close(m);
    static const char *const empty[] = {"a", ""};
    assert_int_equal(stop_open(empty, 2, &m, &error), STATUS_USAGE);
    assert_null(m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_as_a_search_of_the_text),
        cmocka_unit_test(stops_by_hand),
        cmocka_unit_test(no_stop_strings_hold_nothing),
    };
    return test_main("stop", argc, argv, tests);
}
