// The process's one terminal while the editor reads from it: bytes, signals as events, and the way back.
//
// Signal handlers can only find what is static, so this file keeps a static state: what the terminal was like, and which
// signals came. Beside it there is only what was typed ahead on the same terminal (typed_ahead.h). A handler does no more than note the signal and write
// to a pipe on which tty_next waits; whichever thread takes the signal, the reader wakes.
#ifndef PALAVER_APP_TTY_H
#define PALAVER_APP_TTY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kernels/base/status.h"

typedef enum TtyEvent {
    TTY_BYTE,      // *byte was read
    TTY_END,       // end of input, or the terminal is gone
    TTY_INTERRUPT, // SIGINT
    TTY_STOP,      // SIGTSTP from elsewhere: tty_suspend(false)
    TTY_CONTINUE,  // SIGCONT: the shell may have changed the terminal
    TTY_RESIZE,    // SIGWINCH
    TTY_QUIET,     // nothing has come in time
    TTY_SIGNAL,    // another signal that the caller handles: ask it whether to stop
} TtyEvent;

// Remembers the terminal on stdin (if it is one) and takes over SIGINT, SIGTSTP, SIGCONT and SIGWINCH;
// SIGTERM, SIGHUP and SIGQUIT still reach the handlers of before, or, where there are none, end the program
// after the terminal was given back. `paste`: bracketed paste is switched on (stderr). Not to be nested.
Status tty_begin(bool paste, Error *error);
// Everything as it was before tty_begin. Input that was read ahead is kept for the next tty_begin.
void tty_end(void);

TtyEvent tty_next(unsigned char *byte); // waits for the next event; signals go before bytes
// The same, but after so many milliseconds TTY_QUIET. -1: as tty_next().
TtyEvent tty_next_within(unsigned char *byte, int milliseconds);

// Gives the terminal back, stops the process (the whole job: `job`, as Ctrl-Z does), and when it goes on
// takes bracketed paste and the handlers again. The caller puts its own terminal mode back.
void tty_suspend(bool job);
// The terminal as it was before, for a child (an editor) that needs it, and back.
void tty_lend(void);
void tty_take_back(void);

// As tty_end(), but until the next tty_begin() keys are not echoed and wait as they are, bracketed pastes among them
// (without `raw` as lines of the terminal's own), also those before a Ctrl-C; signals come as before, and a stopped
// process leaves the terminal as it was. Where stdin is no terminal, or one whose foreground is somebody else's, it is
// tty_end().
void tty_end_hushed(bool raw);
// Ends that: the terminal is as it was before tty_begin().
void tty_unhush(void);
// The same for a child that needs the terminal: what was typed by then is kept from it. False: nothing was hushed. Then
// back.
bool tty_lend_hushed(void);
void tty_hush_again(void);

// A flag that a Ctrl-C between two prompts sets: who waits for a key below waits no longer. It outlives the program's
// use of the terminal.
void tty_watch_interrupt(const atomic_int *interrupt);
// Whether keys come raw between two prompts, and none has come yet: then tty_ask_key() waits for one. A signal, or the
// end of the terminal, is 'q'; of what comes with the key (an arrow's sequence) nothing is left. A character that is
// none of `keys`, and a paste, are no answer but the beginning of the next turn: 'q', and the prompt has them.
bool tty_can_ask(void);
char tty_ask_key(const char *keys);

// Whether the process was stopped and goes on, since this was asked last, and the shell has written to the terminal.
bool tty_was_continued(void);

void tty_write(const char *bytes); // to stderr, as far as it goes; NULL is nothing
// For the editor; what is printed asks screen_width().
int tty_width(void); // columns of stderr's terminal, 80 where it does not say
int tty_rows(void);  // its rows, 24 where it does not say
// Gives the terminal back as it was before tty_begin(). Async-signal-safe: for a handler of a deadly signal. Does
// nothing where nobody has it.
void tty_restore(void);

#endif
