// The prompt's editor in a pseudo-terminal: leaving, signals, history, completion.
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/terminal/terminal.h"

// ---- leaving and clearing --------------------------------------------------------------------------------

static void control_c(void **state) {
    (void)state;
    Pty *pty = start_editor();
    pty_send(pty, "some text\nof two lines" UP "\003");
    pty_expect_row(pty, 2, ">");
    expect_turn(pty, "x\r", "x"); // nothing of it is left
    pty_send(pty, "\003");
    pty_expect(pty, "(Ctrl-C again, or Ctrl-D, leaves)\r\n");
    pty_expect(pty, "> ");
    pty_send(pty, "\003");
    pty_expect(pty, "quit, cooked");
    pty_expect_exit(pty, 130);
    assert_true(pty_is_cooked(pty));
    pty_end(pty);
}

// One that comes when the reply has just ended was meant for that.
static void control_c_behind_a_reply(void **state) {
    (void)state;
    Pty *pty = terminal_start("edit", "--answered", NULL);
    pty_expect(pty, "> ");
    expect_turn(pty, "x\r", "x");
    pty_send(pty, "\003");
    pty_expect(pty, "(the reply had ended)\r\n");
    pty_expect(pty, "> ");
    pty_send(pty, "\003");
    pty_expect(pty, "(Ctrl-C again, or Ctrl-D, leaves)\r\n");
    pty_expect(pty, "> ");
    expect_turn(pty, "x\r", "x");
    pty_send(pty, "typed\003"); // and no other belongs to it, once something was typed
    pty_expect(pty, "> ");
    pty_send(pty, "\003\003");
    pty_expect_exit(pty, 130);
    pty_end(pty);
}

// Only the second in a row counts.
static void control_c_apart(void **state) {
    (void)state;
    Pty *pty = start_editor();
    for (int i = 0; i < 3; i++) {
        pty_send(pty, "\003");
        pty_expect(pty, "leaves)\r\n");
        pty_expect(pty, "> ");
        expect_turn(pty, "x\r", "x");
        pty_send(pty, "\003");
        pty_expect(pty, "leaves)\r\n");
        pty_expect(pty, "> ");
        pty_send(pty, "text\003");
        pty_expect(pty, "> ");
        expect_turn(pty, "y\r", "y");
    }
    leave(pty);
}

static void signals_count_as_keys(void **state) {
    (void)state;
    Pty *pty = start_editor();
    pty_send(pty, "text");
    pty_expect(pty, "text");
    pty_signal(pty, SIGINT);
    pty_expect(pty, "> ");
    expect_turn(pty, "x\r", "x");
    pty_signal(pty, SIGINT);
    pty_expect(pty, "leaves)");
    pty_expect(pty, "> ");
    pty_signal(pty, SIGINT);
    pty_expect_exit(pty, 130);
    pty_end(pty);
}

static void termination(void **state) {
    (void)state;
    const int signals[] = {SIGTERM, SIGHUP};
    for (int i = 0; i < 2; i++) {
        Pty *pty = terminal_start("edit", NULL); // the program has handlers: it is asked
        pty_expect(pty, "> ");
        pty_send(pty, "text");
        pty_expect(pty, "text");
        pty_signal(pty, signals[i]);
        pty_expect(pty, "stopped, cooked");
        pty_expect_exit(pty, 7);
        assert_true(pty_is_cooked(pty));
        pty_end(pty);
        pty = terminal_start("edit", "--default-signals", NULL); // it has none: it dies, the terminal is fine
        pty_expect(pty, "> ");
        assert_false(pty_is_cooked(pty));
        pty_signal(pty, signals[i]);
        pty_expect(pty, "\033[?2004l");
        pty_expect_exit(pty, 128 + signals[i]);
        pty_end(pty);
    }
}

// ---- history ---------------------------------------------------------------------------------------------

static const char *history_path(void) {
    static char path[128];
    snprintf(path, sizeof path, "%s/state/palaver/history", terminal_folder());
    return path;
}

static Pty *start_with_history(void) {
    Pty *pty = terminal_start("edit", "--history", history_path(), NULL);
    pty_expect(pty, "> ");
    return pty;
}

static void assert_mode(const char *path, mode_t mode) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
}

static void history_persists(void **state) {
    (void)state;
    unlink(history_path());
    Pty *pty = start_with_history();
    expect_turn(pty, "first\r", "first");
    expect_turn(pty, "two\nlines \\ and \\n\r", "two\\nlines \\ and \\n");
    expect_turn(pty, "日本\r", "日本");
    expect_turn(pty, "日本\r", "日本"); // kept once
    leave(pty);
    char folder[128];
    snprintf(folder, sizeof folder, "%s/state/palaver", terminal_folder());
    assert_mode(history_path(), 0600);
    assert_mode(folder, 0700);
    assert_int_equal(chmod(history_path(), 0644), 0);
    pty = start_with_history();
    assert_mode(history_path(), 0600);
    expect_turn(pty, UP "\r", "日本");
    expect_turn(pty, UP UP "\r", "two\\nlines \\ and \\n");
    expect_turn(pty, UP UP UP UP UP UP "\r", "first"); // within the two lines, too
    leave(pty);
}

static void arrows_keep_the_draft(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "one\r", "one");
    expect_turn(pty, "two\r", "two");
    pty_send(pty, "draft" UP UP UP);
    pty_expect_screen(pty, "> one");
    expect_turn(pty, DOWN DOWN "!\r", "draft!");
    expect_turn(pty, UP UP UP "\020\016\016\r", "draft!");
    leave(pty);
}

static void searching(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "Tell me about Rome\r", "Tell me about Rome");
    expect_turn(pty, "a poem\nabout rain\r", "a poem\\nabout rain");
    expect_turn(pty, "日本の歴史\r", "日本の歴史");
    pty_send(pty, "draft\022");
    pty_expect_screen(pty, "(search: ) draft");
    pty_send(pty, "abo");
    pty_expect_screen(pty, "(search: abo) a poem");
    pty_expect_screen(pty, "about rain");
    pty_send(pty, "\022");
    pty_expect_screen(pty, "(search: abo) Tell me about Rome");
    pty_send(pty, "ux");
    pty_expect_screen(pty, "(not found: aboux) Tell me about Rome");
    pty_send(pty, "\177");
    expect_turn(pty, "\r", "a poem\\nabout rain");
    expect_turn(pty,
                "\022の歴"
                "\033[F!\r",
                "日本の歴史!"); // found, then edited
    expect_turn(pty, "\022Rom\005?\r", "Tell me about Rome?");
    expect_turn(pty, "draft\022Rom\007!\r", "draft!"); // Ctrl-G gives the draft back
    expect_turn(pty, "\022nowhere\003x\r", "x");
    leave(pty);
}

static void history_that_cannot_be(void **state) {
    (void)state;
    Pty *pty = terminal_start("edit", "--history", "/proc/nothing/history", NULL);
    pty_expect(pty, "note: /proc/nothing/history");
    pty_expect(pty, "> ");
    expect_turn(pty, "one\r", "one");
    expect_turn(pty, UP "\r", "one");
    leave(pty);
    pty = terminal_start("edit", "--history", terminal_folder(), NULL);
    pty_expect(pty, "note: ");
    pty_expect(pty, "> ");
    leave(pty);
}

// ---- Tab -------------------------------------------------------------------------------------------------

static void completion(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "/he\tx\r", "/help x");
    expect_turn(pty, "/co\tf\t\r", "/config ");
    expect_turn(pty, "/gr\t\r", "/größe");
    pty_send(pty, "/con\t");
    pty_expect(pty, "\a");
    pty_send(pty, "\t");
    pty_expect_screen(pty, "/config    /context   /continue");
    expect_turn(pty, "te\tx\r", "/context x");
    pty_send(pty, "/to\t\t"); // a name with a newline keeps to its column
    pty_expect_screen(pty, "/torn?by tab  /torn?name");
    pty_send(pty, "\025/n\t\t"); // numbers by their size
    pty_expect_screen(pty, "/nth2.1   /nth10.1");
    expect_turn(pty, "\025x\r", "x");
    pty_send(pty, "/nothing\t");
    pty_expect(pty, "\a");
    pty_send(pty, "\025plain\t");
    pty_expect(pty, "\a");
    expect_turn(pty, "\r", "plain");
    expect_turn(pty, "/help" LEFT LEFT LEFT "\t\r", "/help elp"); // before the cursor only
    leave(pty);
}

static void listing_below_several_rows(void **state) {
    (void)state;
    Pty *pty = start_editor_in(12, 20);
    pty_send(pty, "/con");
    pty_send(pty, "\nnext" UP "\t\t");
    pty_expect_row(pty, 0, "> /con");
    pty_expect_row(pty, 1, "… next");
    pty_expect_row(pty, 2, "/config");
    pty_expect_row(pty, 3, "/context");
    pty_expect_row(pty, 4, "/continue");
    pty_expect_row(pty, 5, "> /con");
    pty_expect_row(pty, 6, "… next");
    pty_expect_cursor(pty, 5, 6);
    pty_send(pty, "f\t\005!\r");
    pty_expect(pty, "got[/config !\\nnext]");
    pty_expect(pty, "> ");
    leave(pty);
}

static int run(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_c),
        cmocka_unit_test(control_c_behind_a_reply),
        cmocka_unit_test(control_c_apart),
        cmocka_unit_test(signals_count_as_keys),
        cmocka_unit_test(termination),
        cmocka_unit_test(history_persists),
        cmocka_unit_test(arrows_keep_the_draft),
        cmocka_unit_test(searching),
        cmocka_unit_test(history_that_cannot_be),
        cmocka_unit_test(completion),
        cmocka_unit_test(listing_below_several_rows),
    };
    return test_main("editor", argc, argv, tests);
}

int main(int argc, char **argv) {
    return terminal_main(argc, argv, run);
}
