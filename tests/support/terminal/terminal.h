// What the tests of the terminal share: a small program around the editor and the screen, and how to start it in a
// pseudo-terminal. The program is the test binary itself, run again as `test_x --child …`.
#ifndef PALAVER_TESTS_TERMINAL_H
#define PALAVER_TESTS_TERMINAL_H

#include "tests/support/terminal/pty.h"

// edit [--history FILE] [--plain] [--prompt TEXT] [--prefill TEXT] [--default-signals] [--late]
// [--raw]:
//     reads turns and writes `got[TURN]` (\n as \\n) until the end (0), the second Ctrl-C (130), a SIGTERM or SIGHUP
//     (7; handled unless --default-signals) or a failure (1); says which and whether the terminal is `cooked` or `raw`.
//     --late: begins only when it gets SIGUSR1, says `ready` before. --raw: the terminal is raw outside the editor,
//     too.
// said TEXT…: each is one screen_say(), "-" a screen_space(). --wrap, --markdown, --space before it: as ScreenOptions.
// reply TEXT…: each TEXT (\e, \r, \n, \xNN, \uNNNN made bytes) is one screen_reply. notices, progress, broken: see
// terminal.c.
int terminal_child(int argc, char **argv);

// The main of such a test: the child where it is asked for, else the tests; a folder for files is made and removed.
int terminal_main(int argc, char **argv, int (*run)(int argc, char **argv));
const char *terminal_program(void); // this binary
const char *terminal_folder(void);  // an empty folder of this run

// Starts `--child` with the words that follow, up to NULL.
Pty *terminal_start(const char *first, ...) __attribute__((sentinel));
Pty *terminal_start_with(const PtyOptions *options, const char *first, ...) __attribute__((sentinel));
// `edit`, after its prompt.
Pty *start_editor(void);
Pty *start_editor_in(int rows, int cols);
// Types keys and waits for the turn that comes of them, and the next prompt.
void expect_turn(Pty *pty, const char *keys, const char *turn);
// Ctrl-D: the program ends well, and the terminal is as it was.
void leave(Pty *pty);

#define LEFT "\033[D"
#define RIGHT "\033[C"
#define UP "\033[A"
#define DOWN "\033[B"

#endif
