#include "tests/support/terminal/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "app/terminal/text_shown.h"
#include "kernels/base/clock.h"
#include "tests/support/patience.h"
#include "tests/support/test.h"

enum { SHOWN = 3000 /* bytes of the transcript in a failure */, TIMEOUT = 60 /* seconds */ };

struct Pty {
    int fd;
    pid_t pid;
    int status; // as waitpid gives it; -1 while it runs
    bool closed;
    Text seen;
    size_t matched; // bytes of `seen` that expectations have passed
    Vt vt;
};

static _Noreturn void run_child(const PtyOptions *options) {
    setenv("TERM", "xterm-256color", 1);
    setenv("LANG", "C.UTF-8", 1);
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
    unsetenv("NO_COLOR");
    for (const char *const *env = options->env; env && *env; env++) {
        char *pair = strdup(*env), *value = strchr(pair, '=');
        if (value)
            *value = 0, setenv(pair, value + 1, 1);
        else
            unsetenv(pair);
    }
    if (options->stdout_path) {
        int fd = open(options->stdout_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(126);
        close(fd);
    }
    execvp(options->argv[0], (char *const *)options->argv);
    _exit(127);
}

Pty *pty_start(const PtyOptions *options) {
    setlocale(LC_CTYPE, "C.UTF-8"); // wcwidth in the screen
    Pty *pty = calloc(1, sizeof *pty);
    assert_non_null(pty);
    pty->status = -1;
    struct winsize size = {.ws_row = (unsigned short)(options->rows ? options->rows : 24),
                           .ws_col = (unsigned short)(options->cols ? options->cols : 80)};
    vt_init(&pty->vt, size.ws_row, size.ws_col);
    assert_true(text_add(&pty->seen, "", 0));
    pty->pid = forkpty(&pty->fd, NULL, NULL, &size);
    if (pty->pid == 0) run_child(options);
    assert_true(pty->pid > 0);
    fcntl(pty->fd, F_SETFD, FD_CLOEXEC);
    return pty;
}

// Reads what is there, waiting up to `seconds` for something. False: nothing came, or nothing will.
static bool pump(Pty *pty, double seconds) {
    if (pty->closed) return false;
    struct pollfd wait = {.fd = pty->fd, .events = POLLIN};
    int ready = poll(&wait, 1, (int)(seconds * 1000));
    if (ready < 0 && errno == EINTR) return true;
    if (ready <= 0) return false;
    char bytes[4096];
    ssize_t n = read(pty->fd, bytes, sizeof bytes);
    if (n <= 0) { // EIO: the last one who had the terminal is gone
        pty->closed = true;
        return false;
    }
    assert_true(text_add(&pty->seen, bytes, (size_t)n));
    vt_feed(&pty->vt, bytes, (size_t)n);
    return true;
}

void pty_send_bytes(Pty *pty, const char *bytes, size_t n) {
    while (n) {
        // The kernel's buffer is small: read while writing, else both sides wait.
        struct pollfd wait = {.fd = pty->fd, .events = POLLIN | POLLOUT};
        assert_true(poll(&wait, 1, patience(TIMEOUT) * 1000) > 0);
        if (wait.revents & POLLIN) pump(pty, 0);
        if (!(wait.revents & POLLOUT)) {
            assert_false(pty->closed);
            continue;
        }
        ssize_t wrote = write(pty->fd, bytes, n < 256 ? n : 256);
        assert_true(wrote > 0);
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

void pty_send(Pty *pty, const char *text) {
    pty_send_bytes(pty, text, strlen(text));
}

static _Noreturn void fail_with_screen(Pty *pty, const char *what, const char *text, const char *file,
                                       int line) {
    print_error("%s: \"%s\"%s\nscreen:\n", what, text, pty->closed ? " (the program has ended)" : "");
    for (int row = 0; row < pty->vt.rows; row++) {
        char out[4 * VT_MAX_COLS + 1];
        vt_row(&pty->vt, row, out, sizeof out);
        print_error("%2d|%s\n", row, out);
    }
    print_error("cursor %d,%d; transcript:\n", pty->vt.row, pty->vt.col);
    for (size_t i = pty->seen.size > SHOWN ? pty->seen.size - SHOWN : 0; i < pty->seen.size; i++) {
        unsigned char c = (unsigned char)pty->seen.bytes[i];
        print_error(c == '\n' ? "%c" : c < 0x20 || c == 0x7F ? "\\x%02x" : "%c", c);
    }
    print_error("\n");
    pty_end(pty);
    _fail(file, line);
    abort(); // _fail jumps away
}

// Waits until `holds` is true; false after the time is up, or when the program has ended without it.
static bool wait_until(Pty *pty, bool (*holds)(Pty *, const void *), const void *context) {
    double end = clock_seconds() + patience(TIMEOUT);
    while (!holds(pty, context)) {
        double left = end - clock_seconds();
        if (left <= 0 || (!pump(pty, left) && (pty->closed || clock_seconds() >= end)))
            return holds(pty, context);
    }
    return true;
}

static bool has_text(Pty *pty, const void *text) {
    const char *rest = pty->seen.bytes + pty->matched;
    const char *found = memmem(rest, pty->seen.size - pty->matched, text, strlen(text));
    if (found) pty->matched = (size_t)(found - pty->seen.bytes) + strlen(text);
    return found != NULL;
}

void pty_expect_at(Pty *pty, const char *text, const char *file, int line) {
    if (!wait_until(pty, has_text, text)) fail_with_screen(pty, "never written", text, file, line);
}

static bool shows_text(Pty *pty, const void *text) {
    char out[4 * VT_MAX_COLS + 1];
    for (int row = 0; row < pty->vt.rows; row++) {
        vt_row(&pty->vt, row, out, sizeof out);
        if (strstr(out, text)) return true;
    }
    return false;
}

void pty_expect_screen_at(Pty *pty, const char *text, const char *file, int line) {
    if (!wait_until(pty, shows_text, text)) fail_with_screen(pty, "never seen", text, file, line);
}

typedef struct Place {
    int row, col;
    const char *text;
} Place;

static bool row_is(Pty *pty, const void *context) {
    const Place *place = context;
    char out[4 * VT_MAX_COLS + 1];
    vt_row(&pty->vt, place->row, out, sizeof out);
    return !strcmp(out, place->text);
}

void pty_expect_row_at(Pty *pty, int row, const char *text, const char *file, int line) {
    if (!wait_until(pty, row_is, &(Place){row, 0, text}))
        fail_with_screen(pty, "never in its row", text, file, line);
}

static bool cursor_is(Pty *pty, const void *context) {
    const Place *place = context;
    return pty->vt.row == place->row && pty->vt.col == place->col;
}

void pty_expect_cursor_at(Pty *pty, int row, int col, const char *file, int line) {
    char text[64];
    snprintf(text, sizeof text, "%d,%d", row, col);
    if (!wait_until(pty, cursor_is, &(Place){row, col, NULL}))
        fail_with_screen(pty, "cursor never at", text, file, line);
}

static bool has_ended(Pty *pty, const void *context) {
    (void)context;
    return pty->status != -1 || waitpid(pty->pid, &pty->status, WNOHANG) == pty->pid;
}

void pty_expect_exit_at(Pty *pty, int status, const char *file, int line) {
    double end = clock_seconds() + patience(TIMEOUT);
    while (clock_seconds() < end && pump(pty, end - clock_seconds()))
        continue; // its last words, until it lets the terminal go
    while (!has_ended(pty, NULL) && clock_seconds() < end) poll(NULL, 0, 5);
    if (pty->status == -1) fail_with_screen(pty, "the program did not end", "", file, line);
    int got = WIFEXITED(pty->status) ? WEXITSTATUS(pty->status) : 128 + WTERMSIG(pty->status);
    if (got != status) {
        print_error("exit status %d, expected %d\n", got, status);
        fail_with_screen(pty, "wrong exit status", "", file, line);
    }
}

void pty_resize(Pty *pty, int rows, int cols) {
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};
    while (pump(pty, 0)) continue; // what was written for the old size
    vt_resize(&pty->vt, rows, cols);
    assert_int_equal(ioctl(pty->fd, TIOCSWINSZ, &size), 0);
}

void pty_signal(Pty *pty, int number) {
    assert_int_equal(kill(pty->pid, number), 0);
}

void pty_signal_foreground(Pty *pty, int number) {
    pid_t group = tcgetpgrp(pty->fd);
    assert_true(group > 0);
    assert_int_equal(kill(-group, number), 0);
}

bool pty_is_cooked(Pty *pty) {
    struct termios mode;
    assert_int_equal(tcgetattr(pty->fd, &mode), 0);
    tcflag_t wanted = ICANON | ECHO | ISIG;
    return (mode.c_lflag & wanted) == wanted && (mode.c_iflag & ICRNL) && !pty->vt.paste;
}

const Vt *pty_screen(const Pty *pty) {
    return &pty->vt;
}
const char *pty_transcript(const Pty *pty) {
    return pty->seen.bytes;
}

void pty_end(Pty *pty) {
    close(pty->fd);
    if (pty->status == -1) {
        kill(pty->pid, SIGKILL);
        waitpid(pty->pid, &pty->status, 0);
    }
    text_free(&pty->seen);
    free(pty);
}
