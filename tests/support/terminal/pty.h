// Programs in a real pseudo-terminal: what a person types goes in, what a person sees is waited for.
//
// Nothing here sleeps to be in step with the program: every expectation waits for its text, generously (60 seconds, or
// longer: see patience.h), and fails with the screen and the end of the transcript.
#ifndef PALAVER_TESTS_PTY_H
#define PALAVER_TESTS_PTY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tests/support/terminal/vt.h"

typedef struct PtyOptions {
    const char *const *argv; // NULL-terminated; argv[0] is found in PATH
    const char *const *env;  // "NAME=VALUE" sets, "NAME" unsets; NULL-terminated; NULL: nothing changes.
                             // TERM is xterm-256color and LANG C.UTF-8 unless named here.
    const char *stdout_path; // stdout goes to this file instead of the terminal; NULL: terminal
    int rows, cols;          // 0: 24 × 80
} PtyOptions;

typedef struct Pty Pty;

Pty *pty_start(const PtyOptions *options); // fails the test if it cannot
void pty_send(Pty *pty, const char *text);
void pty_send_bytes(Pty *pty, const char *bytes, size_t n);

// Waits until the raw output after the last match holds `text`, and goes on behind it.
#define pty_expect(pty, text) pty_expect_at(pty, text, __FILE__, __LINE__)
void pty_expect_at(Pty *pty, const char *text, const char *file, int line);
// Waits until a row of the screen holds `text`; pty_expect_row: until that row (0 is the top) is `text`.
#define pty_expect_screen(pty, text) pty_expect_screen_at(pty, text, __FILE__, __LINE__)
void pty_expect_screen_at(Pty *pty, const char *text, const char *file, int line);
#define pty_expect_row(pty, row, text) pty_expect_row_at(pty, row, text, __FILE__, __LINE__)
void pty_expect_row_at(Pty *pty, int row, const char *text, const char *file, int line);
// Waits until the cursor is there.
#define pty_expect_cursor(pty, row, col) pty_expect_cursor_at(pty, row, col, __FILE__, __LINE__)
void pty_expect_cursor_at(Pty *pty, int row, int col, const char *file, int line);
// Waits for the end of the program: its exit status, or 128 + the signal that ended it.
#define pty_expect_exit(pty, status) pty_expect_exit_at(pty, status, __FILE__, __LINE__)
void pty_expect_exit_at(Pty *pty, int status, const char *file, int line);

void pty_resize(Pty *pty, int rows, int cols);    // the program gets SIGWINCH
void pty_signal(Pty *pty, int number);            // to the program itself
void pty_signal_foreground(Pty *pty, int number); // to the job in the foreground of the terminal
bool pty_is_cooked(Pty *pty);         // the terminal edits lines and echoes, as a shell wants to find it
const Vt *pty_screen(const Pty *pty); // as of the last expectation
const char *pty_transcript(const Pty *pty); // every byte seen so far, NUL-terminated
void pty_end(Pty *pty);                     // kills what is still running; frees

#endif
