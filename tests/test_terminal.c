// The prompt's editor and the screen, driven through a pseudo-terminal as a person would.
//
// The program under test is this one again: `test_terminal --child edit|screen …` (see child_main).
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/editor.h"
#include "app/screen.h"
#include "tests/pty.h"
#include "tests/terminal_child.h"

static char folder[] = "/tmp/palaver-test-XXXXXX";
static char history_path[64];
static const char *program = "/proc/self/exe";

// ---- helpers -------------------------------------------------------------------------------------------

static Pty *start_with(const char *const *argv, const char *const *env, int rows, int cols) {
    return pty_start(&(const PtyOptions){.argv = argv, .env = env, .rows = rows, .cols = cols});
}

static Pty *start_editor_in(int rows, int cols) {
    const char *const argv[] = {program, "--child", "edit", NULL};
    Pty *pty = start_with(argv, NULL, rows, cols);
    pty_expect(pty, "> ");
    return pty;
}

static Pty *start_editor(void) {
    return start_editor_in(24, 80);
}

static Pty *start_with_history(void) {
    const char *const argv[] = {program, "--child", "edit", "--history", history_path, NULL};
    Pty *pty = start_with(argv, NULL, 0, 0);
    pty_expect(pty, "> ");
    return pty;
}

// Types keys and waits for the turn that comes of them.
static void expect_turn(Pty *pty, const char *keys, const char *turn) {
    char line[600];
    snprintf(line, sizeof line, "got[%s]\r\n", turn);
    pty_send(pty, keys);
    pty_expect(pty, line);
    pty_expect(pty, "> ");
}

// Ctrl-D, and everything is as it was.
static void leave(Pty *pty) {
    pty_send(pty, "\004");
    pty_expect(pty, "end");
    pty_expect(pty, "cooked");
    pty_expect_exit(pty, 0);
    pty_end(pty);
}

#define LEFT "\033[D"
#define RIGHT "\033[C"
#define UP "\033[A"
#define DOWN "\033[B"

// ---- typing ----------------------------------------------------------------------------------------------

static void lines_and_editing(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "hello\r", "hello");
    expect_turn(pty, "helo" LEFT "l\r", "hello");
    expect_turn(pty, "\001a\005b\r", "ab");
    expect_turn(pty, "bc\001a\033[F!\033[H>\r", ">abc!");
    expect_turn(pty, "abc\177\177x\r", "ax");
    expect_turn(pty, "abc" LEFT LEFT "\033[3~\r", "ac");
    expect_turn(pty, "abc" LEFT LEFT "\004\r", "ac");
    expect_turn(pty, "one two three\027\r", "one two ");
    expect_turn(pty, "one two\0331\033b\013three\r", "one three");
    expect_turn(pty, "one two\025three\r", "three");
    expect_turn(pty, "one two\025\031\r", "one two");
    expect_turn(pty, "one two\033[1;5D>" RIGHT "\033[1;5C!\r", "one >two!");
    expect_turn(pty, "  \r\r\rx\r", "x");
    leave(pty);
}

static void unknown_keys_type_nothing(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty,
                "a\033[5~\033[24~\033[15;2~\033OP\033[[A\033[1;2Q\033[<0;1;1M\033z\026\030\023\021"
                "b\r",
                "ab");
    expect_turn(pty, "a\033\033[D\033OD>\r", ">a");
    pty_send(pty, "a\033\003"); // ESC, Ctrl-C: cleared
    pty_expect(pty, "> ");
    expect_turn(pty, "b\r", "b");
    leave(pty);
}

static void wide_characters(void **state) {
    (void)state;
    Pty *pty = start_editor();
    expect_turn(pty, "日本語" LEFT "\177の\r", "日の語");
    expect_turn(pty, "a😀b" LEFT LEFT "\033[3~\r", "ab");
    expect_turn(pty, "naïve café" LEFT "\177f\r", "naïve café");
    leave(pty);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--child")) return terminal_child(argc - 2, argv + 2);
    static char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) self[n] = 0, program = self;
    if (!mkdtemp(folder)) return 1;
    snprintf(history_path, sizeof history_path, "%s/state/palaver/history", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_editing),
        cmocka_unit_test(unknown_keys_type_nothing),
        cmocka_unit_test(wide_characters),
    };
    (void)start_with_history;
    int status = test_main("terminal", argc, argv, tests);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? status : 1;
}
