#include "app/terminal/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const int SIGNALS[] = {SIGINT, SIGTSTP, SIGCONT, SIGWINCH, SIGTERM, SIGHUP, SIGQUIT};
enum { N_SIGNALS = sizeof SIGNALS / sizeof *SIGNALS, N_EVENTS = 4 }; // the first four are events of their own
static const TtyEvent EVENTS[N_EVENTS] = {TTY_INTERRUPT, TTY_STOP, TTY_CONTINUE, TTY_RESIZE};

static const char PASTE_ON[] = "\033[?2004h";
static const char PASTE_OFF[] = "\033[?2004l";

static struct {
    volatile sig_atomic_t active;             // between tty_begin and tty_end, the terminal is not lent
    volatile sig_atomic_t pending[N_SIGNALS]; // in the order of SIGNALS
    struct sigaction old[N_SIGNALS];          // the handlers of before
    struct termios saved;                     // the terminal of before
    bool is_terminal;                         // `saved` is filled
    bool paste;                               // bracketed paste is ours to switch off
    int pipe[2];                              // written by handlers; 0 and 0 until made
    unsigned char ahead[4096];                // bytes read and not yet asked for
    size_t ahead_at, ahead_n;
} tty;

void tty_write(const char *bytes) {
    size_t n = bytes ? strlen(bytes) : 0;
    while (n) {
        ssize_t wrote = write(STDERR_FILENO, bytes, n);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno == EAGAIN) { // somebody made the terminal non-blocking
            struct pollfd wait = {.fd = STDERR_FILENO, .events = POLLOUT};
            poll(&wait, 1, -1);
            continue;
        }
        if (wrote <= 0) return;
        bytes += wrote;
        n -= (size_t)wrote;
    }
}

void tty_restore(void) {
    if (!tty.active) return;
    int saved_errno = errno;
    if (tty.is_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &tty.saved);
    if (tty.paste) tty_write(PASTE_OFF);
    errno = saved_errno;
}

// Calls the handler that the program had for a signal before, or lets the signal do what it does by default.
static void pass_on(int i, siginfo_t *info, void *context) {
    const struct sigaction *old = &tty.old[i];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(SIGNALS[i], info, context);
    } else if (old->sa_handler == SIG_DFL) {
        tty_restore();
        sigaction(SIGNALS[i], old, NULL);
        raise(SIGNALS[i]); // delivered when this handler returns
    } else if (old->sa_handler != SIG_IGN) {
        old->sa_handler(SIGNALS[i]);
    }
}

static void on_signal(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    for (int i = 0; i < N_SIGNALS; i++) {
        if (SIGNALS[i] != number) continue;
        tty.pending[i] = 1;
        if (i >= N_EVENTS) pass_on(i, info, context);
    }
    // A full pipe is fine: the reader wakes anyway.
    if (write(tty.pipe[1], "", 1) < 0) errno = 0;
    errno = saved_errno;
}

static void take_signals(void) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    for (int i = 0; i < N_SIGNALS; i++) {
        sigaction(SIGNALS[i], NULL, &tty.old[i]);
        bool ignored = !(tty.old[i].sa_flags & SA_SIGINFO) && tty.old[i].sa_handler == SIG_IGN;
        // What is ignored (nohup, a shell without job control) stays so.
        if (!ignored || SIGNALS[i] == SIGINT) sigaction(SIGNALS[i], &action, NULL);
    }
}

static void give_signals(void) {
    for (int i = 0; i < N_SIGNALS; i++) sigaction(SIGNALS[i], &tty.old[i], NULL);
}

Status tty_begin(bool paste, Error *error) {
    if (tty.pipe[1] == 0 && pipe2(tty.pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        tty.pipe[0] = tty.pipe[1] = 0;
        return error_set(error, STATUS_DEVICE, "the terminal: no pipe for its signals: %s", strerror(errno));
    }
    for (int i = 0; i < N_SIGNALS; i++) tty.pending[i] = 0;
    tty.is_terminal = tcgetattr(STDIN_FILENO, &tty.saved) == 0;
    tty.paste = paste;
    tty.active = 1;
    take_signals();
    if (paste) tty_write(PASTE_ON);
    return STATUS_OK;
}

void tty_lend(void) {
    if (tty.paste) tty_write(PASTE_OFF);
    if (tty.is_terminal) tcsetattr(STDIN_FILENO, TCSADRAIN, &tty.saved);
    tty.active = 0;
    give_signals();
}

void tty_take_back(void) {
    take_signals();
    tty.active = 1;
    if (tty.paste) tty_write(PASTE_ON);
}

void tty_end(void) {
    if (tty.active) tty_lend();
}

void tty_suspend(bool job) {
    tty_lend();
    // The default action, whatever the program has made of the signal: this is the moment it is meant for.
    struct sigaction stop = {.sa_handler = SIG_DFL}, old;
    sigaction(SIGTSTP, &stop, &old);
    if (job)
        kill(0, SIGTSTP);
    else
        raise(SIGTSTP);
    // Here again after SIGCONT (at once where there is no job control).
    sigaction(SIGTSTP, &old, NULL);
    if (tty.is_terminal) tcgetattr(STDIN_FILENO, &tty.saved); // the shell's idea may have changed
    tty_take_back();
    tty.pending[1] = tty.pending[2] = 0;
}

static bool take_pending(TtyEvent *event) {
    for (int i = 0; i < N_SIGNALS; i++) {
        if (!tty.pending[i]) continue;
        tty.pending[i] = 0;
        *event = i < N_EVENTS ? EVENTS[i] : TTY_SIGNAL;
        return true;
    }
    return false;
}

void tty_take_typed_ahead(void) {
    int waiting = 0;
    if (tty.ahead_at < tty.ahead_n || ioctl(STDIN_FILENO, FIONREAD, &waiting) != 0 || waiting <= 0) return;
    ssize_t n = read(STDIN_FILENO, tty.ahead, sizeof tty.ahead);
    if (n <= 0) return; // tty_next meets it again
    tty.ahead_at = 0;
    tty.ahead_n = (size_t)n;
    if (tty.ahead[n - 1] == '\n') tty.ahead[n - 1] = '\r';
    for (ssize_t i = 0; i < n; i++)
        if (!tty.ahead[i]) tty.ahead[i] = 4; // what Linux makes of a Ctrl-D that nobody read as the end
}

TtyEvent tty_next(unsigned char *byte) {
    for (;;) {
        TtyEvent event;
        if (take_pending(&event)) return event;
        if (tty.ahead_at < tty.ahead_n) {
            *byte = tty.ahead[tty.ahead_at++];
            return TTY_BYTE;
        }
        struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = tty.pipe[0], .events = POLLIN}};
        if (poll(wait, 2, -1) < 0) {
            if (errno == EINTR) continue;
            return TTY_END;
        }
        if (wait[1].revents) {
            char drain[64];
            while (read(tty.pipe[0], drain, sizeof drain) > 0) continue;
            continue;
        }
        ssize_t n = read(STDIN_FILENO, tty.ahead, sizeof tty.ahead);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return TTY_END;
        tty.ahead_at = 0;
        tty.ahead_n = (size_t)n;
    }
}

// ---- while a reply is written ----------------------------------------------------------------------------------

static struct {
    volatile sig_atomic_t on;
    struct termios loud;   // the terminal of before
    struct sigaction stop; // what SIGTSTP did before
} hush;

static bool in_foreground(void) {
    return tcgetpgrp(STDIN_FILENO) == getpgrp(); // else asking the terminal would stop us
}

static void silence(void) {
    struct termios quiet = hush.loud;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (in_foreground()) tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
}

static void on_stop(int number) {
    int saved_errno = errno;
    struct sigaction ours;
    sigset_t this_one;
    if (in_foreground()) tcsetattr(STDIN_FILENO, TCSANOW, &hush.loud);
    sigaction(number, &hush.stop, &ours);
    raise(number);
    sigemptyset(&this_one);
    sigaddset(&this_one, number);
    sigprocmask(SIG_UNBLOCK, &this_one, NULL); // here it stops, and goes on
    sigaction(number, &ours, NULL);
    if (hush.on) silence();
    errno = saved_errno;
}

void tty_hush(void) {
    if (hush.on || !in_foreground() || tcgetattr(STDIN_FILENO, &hush.loud) != 0) return;
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTSTP, NULL, &hush.stop);
    if (hush.stop.sa_handler == SIG_DFL) sigaction(SIGTSTP, &action, NULL);
    hush.on = 1;
    silence();
}

void tty_unhush(void) {
    if (!hush.on) return;
    hush.on = 0;
    if (hush.stop.sa_handler == SIG_DFL) sigaction(SIGTSTP, &hush.stop, NULL);
    if (in_foreground()) tcsetattr(STDIN_FILENO, TCSANOW, &hush.loud);
}

// ---- the window ------------------------------------------------------------------------------------------------

int tty_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

int tty_rows(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}
