// Ctrl-C, and the end of the terminal, as flags that are polled: the only state of the program that is
// global, for a signal handler has no other way to speak.
//
// Ctrl-C in a reply: the flag is set here; engine/talk/reply_loop.c sees it before the next token, and engine/forward.c
// between the layers of a prompt. A reply ends as FINISH_INTERRUPTED with what was said so far, which chat/chat_turn.c
// keeps as a turn and chat/report.c tells of; where the prompt was still read, the turn is taken back. modes/repl.c
// clears the flag before the next turn. At the prompt no signal comes: there Ctrl-C is a key
// (terminal/editor/binding.c).
#ifndef PALAVER_APP_PROCESS_SIGNALS_H
#define PALAVER_APP_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdatomic.h>

// SIGINT asks to stop what is being done; SIGTERM and SIGHUP to save and leave as well. System calls return
// with EINTR. What is ignored at the start (nohup, a job in the background of a script) stays ignored. SIGPIPE and
// SIGXFSZ are ignored: a closed pipe and a full disk are errors like any other.
void signals_install(void);

// Nonzero from a signal on: for session_set_interrupt(). Any thread may take the signal, and any may look.
const atomic_int *signals_interrupt(void);
// Before new work. A signal that asked to leave stays.
void signals_clear_interrupt(void);
// As SIGINT would: to stop the work in hand from within.
void signals_raise_interrupt(void);

// The signal that asked to leave (SIGTERM, SIGHUP), 0: none.
int signals_leave(void);

#endif
