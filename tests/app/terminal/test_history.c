// The file of turns that were typed earlier, whatever others made of it.
#include "app/terminal/editor/history.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder, path[300];

static int set_up(void **state) {
    (void)state;
    folder = folder_new();
    snprintf(path, sizeof path, "%s/history", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    folder_remove(folder);
    return 0;
}

static TurnHistory *open_history(void) {
    TurnHistory *history;
    Error error;
    if (history_open(path, &history, &error)) fail_msg("%s", error.message);
    return history;
}

static void expect_entries(const TurnHistory *history, const char *const *entries, size_t n) {
    assert_int_equal(history_count(history), n);
    for (size_t i = 0; i < n; i++) assert_string_equal(history_entry(history, i), entries[i]);
}

static void turns_come_back(void **state) {
    static const char *const turns[] = {"one", "two\nlines \\n", "  blanks  "};
    (void)state;
    TurnHistory *history = open_history();
    for (int i = 0; i < 3; i++) assert_true(history_add(history, turns[i]));
    history_close(history);
    history = open_history();
    expect_entries(history, turns, 3);
    history_close(history);
}

// Somebody was stopped while writing: what follows is a turn of its own.
static void a_torn_line_takes_no_other(void **state) {
    static const char *const turns[] = {"one", "tw", "three", "four"};
    (void)state;
    folder_write_text(folder, "history", "one\ntw");
    TurnHistory *history = open_history();
    expect_entries(history, turns, 2);
    assert_true(history_add(history, turns[2]) && history_add(history, turns[3]));
    history_close(history);
    history = open_history();
    expect_entries(history, turns, 4);
    history_close(history);
}

// Ten gigabytes of nothing, a line of a megabyte: neither is read into memory, and what is behind them is there.
static void what_is_no_history_is_left_out(void **state) {
    static const char *const turns[] = {"after"};
    (void)state;
    Bytes bytes = {0};
    for (int i = 0; i < 1 << 20; i++) bytes_text(&bytes, "x");
    bytes_text(&bytes, "\nafter\n");
    folder_write(folder, "history", bytes.data, bytes.size);
    TurnHistory *history = open_history();
    expect_entries(history, turns, 1);
    history_close(history);
    int file = open(path, O_WRONLY | O_TRUNC);
    assert_int_equal(ftruncate(file, (off_t)10 << 30), 0);
    assert_int_equal(pwrite(file, "\nafter\n", 7, (off_t)10 << 30), 7);
    close(file);
    history = open_history();
    expect_entries(history, turns, 1);
    history_close(history);
    bytes_free(&bytes);
}

int main(int argc, char **argv) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {WITH_FOLDER(turns_come_back), WITH_FOLDER(a_torn_line_takes_no_other),
                                       WITH_FOLDER(what_is_no_history_is_left_out)};
    return test_main("history", argc, argv, tests);
}
