// The thread that reads lines ahead: every line once and in order, whoever is faster; only on demand where that is
// asked for; ended wherever it is. Built with the thread sanitizer besides (make check).
#include "app/modes/line_reader.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PATIENCE = 20000 }; // milliseconds

// One line as it went through the queue.
typedef struct Item {
    long long number;
    size_t size;
    char text[1]; // [size]
} Item;

typedef struct Reading {
    LineReader *reader;
    ItemQueue *queue;
    int input;          // the writing end of the pipe that is read
    int file;           // the reading end
    long long fails_at; // a line that `take` fails for
    bool ended;         // the end of the input was seen; read when the thread has ended
} Reading;

static Status take(void *context, const Line *line, Error *error) {
    Reading *r = context;
    if (line->number == r->fails_at) return error_set(error, STATUS_USAGE, "this one is wrong");
    Item *item = calloc(1, sizeof *item + line->size);
    item->number = line->number;
    item->size = line->size;
    if (line->size > 0) memcpy(item->text, line->text, line->size);
    if (item_queue_put(r->queue, item)) return STATUS_OK;
    free(item);
    return STATUS_INTERRUPTED;
}

static Status take_end(void *context, Error *error) {
    Reading *r = context;
    (void)error;
    r->ended = true;
    return STATUS_OK;
}

// Begins to read a pipe.
static void begin(Reading *r, int capacity, bool on_demand) {
    int ends[2];
    Error error = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    r->file = ends[0], r->input = ends[1];
    assert_int_equal(item_queue_open(capacity, &r->queue, &error), STATUS_OK);
    LineReaderOptions options = {.file = r->file,
                                 .name = "the pipe",
                                 .queue = r->queue,
                                 .on_demand = on_demand,
                                 .line = take,
                                 .end = take_end,
                                 .context = r};
    assert_int_equal(line_reader_open(&options, &r->reader, &error), STATUS_OK);
}

static Status end(Reading *r, Error *error) {
    Status status = line_reader_close(r->reader, error);
    for (void *item; item_queue_take(r->queue, 0, &item) == QUEUE_ITEM;) free(item);
    item_queue_close(r->queue);
    if (r->input >= 0) close(r->input);
    close(r->file);
    return status;
}

static void give(const Reading *r, const char *text, size_t size) {
    for (size_t n = 0; n < size;) {
        struct pollfd file = {r->input, POLLOUT, 0};
        assert_int_equal(poll(&file, 1, PATIENCE), 1);
        size_t piece = size - n < 4096 ? size - n : 4096; // for which poll() promises room
        ssize_t wrote = write(r->input, text + n, piece);
        assert_true(wrote > 0);
        n += (size_t)wrote;
    }
}

static void end_input(Reading *r) {
    close(r->input);
    r->input = -1;
}

static void expect_line(const Reading *r, long long number, const char *text, size_t size) {
    void *taken;
    assert_int_equal(item_queue_take(r->queue, PATIENCE, &taken), QUEUE_ITEM);
    Item *item = taken;
    assert_int_equal(item->number, number);
    assert_int_equal(item->size, size);
    assert_memory_equal(item->text, text, size);
    free(item);
}

static void expect_end(Reading *r) {
    Error error = {0};
    void *none;
    assert_int_equal(item_queue_take(r->queue, PATIENCE, &none), QUEUE_ENDED);
    assert_int_equal(end(r, &error), STATUS_OK);
    assert_true(r->ended);
}

static void lines_of_all_kinds(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbfone\n\n\xef\xbb\xbfthree\r\na\0b\n\nlast";
    Reading r = {0};
    begin(&r, 16, false);
    give(&r, text, sizeof text - 1);
    end_input(&r);
    expect_line(&r, 1, "one", 3);
    expect_line(&r, 2, "", 0);
    expect_line(&r, 3, "\xef\xbb\xbfthree\r", 9);
    expect_line(&r, 4, "a\0b", 3);
    expect_line(&r, 5, "", 0);
    expect_line(&r, 6, "last", 4);
    expect_end(&r);
    r = (Reading){0};
    begin(&r, 1, false);
    end_input(&r);
    expect_end(&r);
}

typedef struct Writer {
    const Reading *reading;
    int n, pause, piece; // lines; microseconds after each piece of so many bytes, 0: none
} Writer;

static size_t line_text(int i, char text[64]) {
    return (size_t)sprintf(text, "%d%.*s\n", i, i % 37, "abcdefghijklmnopqrstuvwxyz0123456789.");
}

static void *write_lines(void *context) {
    const Writer *w = context;
    char text[64];
    for (int i = 0; i < w->n; i++) {
        size_t size = line_text(i, text);
        for (size_t at = 0; at < size; at += (size_t)w->piece) {
            size_t rest = size - at;
            give(w->reading, text + at, rest < (size_t)w->piece ? rest : (size_t)w->piece);
            if (w->pause) usleep((useconds_t)w->pause);
        }
    }
    return NULL;
}

// The producer faster and slower than who takes the lines.
static void all_come_once_and_in_order(void **state) {
    (void)state;
    static const struct {
        int n, pause, piece, taker;
    } CASES[] = {{20000, 0, 64, 0}, {3000, 0, 64, 50}, {60, 1000, 5, 0}};
    for (int k = 0; k < 3; k++) {
        Reading r = {0};
        Writer writer = {&r, CASES[k].n, CASES[k].pause, CASES[k].piece};
        pthread_t thread;
        begin(&r, 8, k == 2); // a slow one also on demand
        assert_int_equal(pthread_create(&thread, NULL, write_lines, &writer), 0);
        for (int i = 0; i < CASES[k].n; i++) {
            char text[64];
            size_t size = line_text(i, text);
            if (CASES[k].taker && i % 8 == 0) usleep((useconds_t)CASES[k].taker);
            expect_line(&r, i + 1, text, size - 1);
        }
        pthread_join(thread, NULL);
        end_input(&r);
        expect_end(&r);
    }
}

// More than a pipe holds, while nobody takes any of it.
static void it_reads_ahead(void **state) {
    (void)state;
    enum { LINES = 300, SIZE = 1000 };
    char line[SIZE];
    Reading r = {0};
    memset(line, 'x', SIZE - 1);
    line[SIZE - 1] = '\n';
    begin(&r, LINES, false);
    for (int i = 0; i < LINES; i++) give(&r, line, SIZE);
    for (int i = 0; i < LINES; i++) expect_line(&r, i + 1, line, SIZE - 1);
    end_input(&r);
    expect_end(&r);
}

static int unread(const Reading *r) {
    int n = -1;
    usleep(20000);
    assert_int_equal(ioctl(r->file, FIONREAD, &n), 0);
    return n;
}

static void on_demand_it_leaves_the_rest_alone(void **state) {
    (void)state;
    Reading r = {0};
    void *none;
    begin(&r, 8, true);
    give(&r, "one\n", 4);
    assert_int_equal(unread(&r), 4);
    assert_int_equal(item_queue_take(r.queue, 0, &none), QUEUE_EMPTY); // that is no waiting
    assert_int_equal(unread(&r), 4);
    expect_line(&r, 1, "one", 3);
    give(&r, "two\nthree\n", 10);
    assert_int_equal(unread(&r), 10);
    expect_line(&r, 2, "two", 3); // both are there now
    give(&r, "four\n", 5);
    expect_line(&r, 3, "three", 5);
    assert_int_equal(unread(&r), 5);
    end_input(&r);
    expect_line(&r, 4, "four", 4);
    expect_end(&r);
}

// While it waits for input, for room in the queue, for a demand.
static void it_ends_wherever_it_is(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        Error error = {0};
        Reading r = {0};
        begin(&r, 1, k == 2);
        if (k == 1) give(&r, "a\nb\nc\nd\n", 8);
        if (k == 2) give(&r, "a\n", 2);
        usleep(10000);
        assert_int_equal(end(&r, &error), STATUS_OK);
        assert_false(r.ended);
    }
}

// The same pipe, opened once more: whoever reads it there never waits.
static int open_again(int file) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const int again = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(again >= 0);
    return again;
}

// Reads until there are no more writers.
static void *steal(void *context) {
    const int file = *(const int *)context;
    char byte;
    ssize_t n;
    do n = read(file, &byte, 1);
    while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
    close(file);
    return NULL;
}

// Somebody else takes what poll() had seen, so that read() waits.
static void it_ends_although_others_read(void **state) {
    (void)state;
    for (int k = 0; k < 20; k++) {
        Error error = {0};
        Reading r = {0};
        begin(&r, 1000, false);
        pthread_t thief; // who may begin when all is over, and r.file closed
        int again = open_again(r.file);
        assert_int_equal(pthread_create(&thief, NULL, steal, &again), 0);
        for (int i = 0; i < 500; i++) {
            give(&r, "\n", 1);
            usleep(20);
        }
        int input = r.input;
        r.input = -1;
        assert_int_equal(end(&r, &error), STATUS_OK);
        close(input);
        pthread_join(thief, NULL);
    }
}

static void failures_are_told(void **state) {
    (void)state;
    Error error = {0};
    Reading r = {.fails_at = 2};
    begin(&r, 8, false);
    give(&r, "a\nb\nc\n", 6);
    expect_line(&r, 1, "a", 1);
    void *none;
    assert_int_equal(item_queue_take(r.queue, PATIENCE, &none), QUEUE_ENDED);
    assert_int_equal(end(&r, &error), STATUS_USAGE);
    assert_string_equal(error.message, "this one is wrong");

    r = (Reading){.input = -1, .file = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    assert_int_equal(item_queue_open(1, &r.queue, &error), STATUS_OK);
    LineReaderOptions options = {
        .file = r.file, .name = "the folder", .queue = r.queue, .line = take, .context = &r};
    assert_int_equal(line_reader_open(&options, &r.reader, &error), STATUS_OK);
    assert_int_equal(item_queue_take(r.queue, PATIENCE, &none), QUEUE_ENDED);
    assert_int_equal(end(&r, &error), STATUS_FILE);
    assert_string_equal(error.message, "the folder: Is a directory");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_all_kinds),     cmocka_unit_test(all_come_once_and_in_order),
        cmocka_unit_test(it_reads_ahead),         cmocka_unit_test(on_demand_it_leaves_the_rest_alone),
        cmocka_unit_test(it_ends_wherever_it_is), cmocka_unit_test(it_ends_although_others_read),
        cmocka_unit_test(failures_are_told),
    };
    return test_main("line_reader", argc, argv, tests);
}
