#include "app/terminal/tty.h"

#include "app/terminal/typed_ahead.h"
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const int SIGNALS[] = {SIGINT, SIGTSTP, SIGCONT, SIGWINCH, SIGTERM, SIGHUP, SIGQUIT};
enum {
    N_SIGNALS = sizeof SIGNALS / sizeof *SIGNALS,
    N_EVENTS = 4,
    RESIZED = 3,
    KEY_ROOM = 4096,
    LOOK_EVERY = 100, // milliseconds
};                    // the first four are events of their own
static const TtyEvent EVENTS[N_EVENTS] = {TTY_INTERRUPT, TTY_STOP, TTY_CONTINUE, TTY_RESIZE};

static const char PASTE_ON[] = "\033[?2004h";
static const char PASTE_OFF[] = "\033[?2004l";

static struct {
    atomic_int active;               // between tty_begin and tty_end, the terminal is not lent
    atomic_int pending[N_SIGNALS];   // in the order of SIGNALS
    struct sigaction old[N_SIGNALS]; // the handlers of before
    struct termios saved;            // the terminal of before
    bool is_terminal;                // `saved` is filled
    bool paste;                      // bracketed paste is ours to switch off
    int pipe[2];                     // written by handlers; 0 and 0 until made
    const atomic_int *interrupt;     // NULL: none is watched
} tty;

// Between two prompts.
static struct {
    atomic_int on;
    atomic_int continued;               // the process was stopped, others have written, and it goes on
    bool raw;                           // keys wait as bytes, not as lines
    struct termios loud;                // the terminal of before
    struct sigaction stop, quit, go_on; // what SIGTSTP, SIGQUIT and SIGCONT did before
} hush;

void tty_write(const char *bytes) {
    if (bytes)
        (void)file_write_all(STDERR_FILENO, bytes, strlen(bytes)); // somebody may have made it non-blocking
}

static bool in_foreground(void) {
    return tcgetpgrp(STDIN_FILENO) == getpgrp(); // else asking the terminal would stop us
}

// Ends what silence() began.
static void speak_up(void) {
    if (!in_foreground()) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &hush.loud);
    if (hush.raw && tty.paste) tty_write(PASTE_OFF);
}

void tty_restore(void) {
    int saved_errno = errno;
    if (tty.active && tty.is_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &tty.saved);
    if (tty.active && tty.paste) tty_write(PASTE_OFF);
    if (hush.on) speak_up();
    errno = saved_errno;
}

// A shell says where it likes that a program was quit, but that one was stopped in a row of its own.
static void end_row(int number) {
    if (number == SIGQUIT && in_foreground()) tty_write("\n");
}

// Calls the handler that the program had for a signal before, or lets the signal do what it does by default.
static void pass_on(int i, siginfo_t *info, void *context) {
    const struct sigaction *old = &tty.old[i];
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(SIGNALS[i], info, context);
    } else if (old->sa_handler == SIG_DFL) {
        tty_restore();
        end_row(SIGNALS[i]);
        sigaction(SIGNALS[i], old, NULL);
        raise(SIGNALS[i]); // delivered when this handler returns
    } else if (old->sa_handler != SIG_IGN) {
        old->sa_handler(SIGNALS[i]);
    }
}

// Of a SIGCONT: whether the shell sent it, which has written its own in the meantime, or somebody else is in front. A
// `kill -CONT` from another terminal leaves the cursor where it was.
static bool somebody_wrote(const siginfo_t *info) {
    bool by_process = info->si_code == SI_USER || info->si_code == SI_QUEUE;
    return !in_foreground() || !by_process || getsid(info->si_pid) == getsid(0);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    for (int i = 0; i < N_SIGNALS; i++) {
        if (SIGNALS[i] != number) continue;
        bool drawn_over = number != SIGCONT || somebody_wrote(info);
        tty.pending[drawn_over ? i : RESIZED] = 1; // else it is enough to draw in place
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

// ---- between two prompts ---------------------------------------------------------------------------------------

// No echo, and a Ctrl-C throws nothing away that was typed before it.
static void silence(void) {
    struct termios quiet = hush.loud;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    quiet.c_lflag |= NOFLSH;
    if (hush.raw) {
        quiet.c_lflag &= ~(tcflag_t)(ICANON | IEXTEN);
        quiet.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IXON | ISTRIP);
        quiet.c_cc[VMIN] = 1;
        quiet.c_cc[VTIME] = 0;
    }
    if (!in_foreground()) return;
    tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    if (hush.raw && tty.paste) tty_write(PASTE_ON);
}

// Ctrl-Z and Ctrl-\ do what they do by default, to a terminal as it was.
static void on_leaving(int number) {
    int saved_errno = errno;
    struct sigaction ours;
    sigset_t this_one;
    speak_up();
    end_row(number);
    sigaction(number, number == SIGTSTP ? &hush.stop : &hush.quit, &ours);
    raise(number);
    sigemptyset(&this_one);
    sigaddset(&this_one, number);
    sigprocmask(SIG_UNBLOCK, &this_one, NULL); // here it stops, and goes on
    sigaction(number, &ours, NULL);
    if (hush.on) silence();
    errno = saved_errno;
}

// After a stop that could not be caught, the shell has the terminal as it likes it.
static void on_going_on(int number, siginfo_t *info, void *context) {
    int saved_errno = errno;
    (void)number, (void)context;
    if (somebody_wrote(info)) hush.continued = 1;
    if (hush.on) silence();
    errno = saved_errno;
}

static void begin_hush(void) {
    struct sigaction leave = {.sa_handler = on_leaving, .sa_flags = SA_RESTART},
                     go_on = {.sa_sigaction = on_going_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigemptyset(&leave.sa_mask);
    sigemptyset(&go_on.sa_mask);
    sigaction(SIGTSTP, NULL, &hush.stop);
    sigaction(SIGQUIT, NULL, &hush.quit);
    if (hush.stop.sa_handler == SIG_DFL) sigaction(SIGTSTP, &leave, NULL);
    if (hush.quit.sa_handler == SIG_DFL) sigaction(SIGQUIT, &leave, NULL);
    sigaction(SIGCONT, &go_on, &hush.go_on);
    hush.on = 1;
}

static void end_hush(void) {
    hush.on = 0;
    if (hush.stop.sa_handler == SIG_DFL) sigaction(SIGTSTP, &hush.stop, NULL);
    if (hush.quit.sa_handler == SIG_DFL) sigaction(SIGQUIT, &hush.quit, NULL);
    sigaction(SIGCONT, &hush.go_on, NULL);
}

void tty_unhush(void) {
    if (!hush.on) return;
    end_hush();
    speak_up();
}

bool tty_lend_hushed(void) {
    if (!hush.on) return false;
    typed_ahead_in_lines(!hush.raw);
    if (hush.raw) typed_ahead_take(true); // else who borrows the terminal would get it
    tty_unhush();
    return true;
}

void tty_hush_again(void) {
    if (!in_foreground() || tcgetattr(STDIN_FILENO, &hush.loud) != 0) return;
    begin_hush();
    silence();
}

// ---- from one prompt to its end --------------------------------------------------------------------------------

Status tty_begin(bool paste, Error *error) {
    if (tty.pipe[1] == 0 && pipe2(tty.pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        tty.pipe[0] = tty.pipe[1] = 0;
        return error_set(error, STATUS_DEVICE, "the terminal: no pipe for its signals: %s", strerror(errno));
    }
    for (int i = 0; i < N_SIGNALS; i++) tty.pending[i] = 0;
    bool was_raw = hush.on && hush.raw;
    if (hush.on) {
        end_hush();
        tty.saved = hush.loud;
        if (!was_raw) tcsetattr(STDIN_FILENO, TCSANOW, &tty.saved);
    } else {
        tty.is_terminal = tcgetattr(STDIN_FILENO, &tty.saved) == 0;
    }
    typed_ahead_in_lines(!was_raw);
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

void tty_end_hushed(bool raw) {
    if (!tty.active || !tty.is_terminal || !in_foreground()) {
        tty_end();
        return;
    }
    tty.active = 0;
    give_signals();
    hush.raw = raw;
    hush.loud = tty.saved;
    begin_hush();
    silence();
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
    typed_ahead_in_lines(true);
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

TtyEvent tty_next(unsigned char *byte) {
    return tty_next_within(byte, -1);
}

TtyEvent tty_next_within(unsigned char *byte, int milliseconds) {
    for (;;) {
        TtyEvent event;
        if (take_pending(&event)) return event;
        if (typed_ahead_byte(byte)) return TTY_BYTE;
        struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = tty.pipe[0], .events = POLLIN}};
        int ready = poll(wait, 2, milliseconds);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return ready ? TTY_END : TTY_QUIET;
        if (wait[1].revents) {
            char drain[64];
            while (read(tty.pipe[0], drain, sizeof drain) > 0) continue;
            continue;
        }
        const ssize_t n = typed_ahead_read();
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return TTY_END;
    }
}

bool tty_was_continued(void) {
    bool was = hush.continued;
    hush.continued = 0;
    return was;
}

// ---- a key between two prompts -----------------------------------------------------------------------------------

void tty_watch_interrupt(const atomic_int *interrupt) {
    tty.interrupt = interrupt;
}

bool tty_can_ask(void) {
    int waiting;
    return hush.on && hush.raw && in_foreground() && !typed_ahead_any() &&
           ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting == 0;
}

char tty_ask_key(const char *keys) {
    static const char paste[] = "\033[200~";
    char key[KEY_ROOM];
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = 0;
    // Whichever thread takes the signal: the flag is looked at now and then.
    while (ready == 0 && !(tty.interrupt && *tty.interrupt)) ready = poll(&wait, 1, LOOK_EVERY);
    if (ready <= 0 || read(STDIN_FILENO, key, 1) != 1) return 'q';
    // What an arrow sends is one key; what else has been typed waits for the prompt.
    ssize_t n = *key == '\033' && poll(&wait, 1, 0) > 0 ? read(STDIN_FILENO, key + 1, sizeof key - 1) : 0;
    bool pasted = n >= (ssize_t)sizeof paste - 2 && !memcmp(key, paste, sizeof paste - 1);
    bool typed = (unsigned char)*key >= ' ' && *key != 127 && !strchr(keys, *key);
    if (pasted || typed) typed_ahead_keep(key, 1 + (size_t)n);
    return pasted || typed || n < 0 ? 'q' : *key;
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
