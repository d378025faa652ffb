// The ways to talk: at a terminal, through a script, with one question, with many conversations at once. Each returns palaver's exit
// status.
#ifndef PALAVER_APP_MODES_H
#define PALAVER_APP_MODES_H

#include "app/chat/chat.h"

enum {
    EXIT_WELL = 0,
    EXIT_RUNTIME = 1,
    EXIT_USAGE = 2,
    EXIT_MODEL = 3,
    EXIT_CONTEXT = 4,
    EXIT_SCRIPT = 5,
    EXIT_INTERRUPTED = 130,
    EXIT_SIGNAL = 128, // + the signal's number
};

// repl.c: prompt, turn, prompt, …
int repl_run(Chat *chat);

// script.c: turns and commands, one after the other, from the file `input`, which is read ahead (script_reader.h). `name`
// stands for it in messages.
int script_run(Chat *chat, int input, const char *name);
// The reason to leave that does not lie in what was said (a signal, a reader that left), or EXIT_WELL.
int script_outer_reason(const Chat *chat);
// With --echo: what is asked, on stdout.
void script_echo(Chat *chat, const char *turn);

// ask.c: one question, and behind it what is on stdin: a pipe, or a file from its beginning (see --stdin).
int ask_run(Chat *chat, const char *question);

// jsonl.c: conversations from stdin, one a line, answered many at once by an engine that was opened for rows.
int jsonl_run(const Options *options, Settings *settings, Screen *screen, Engine *engine);

// What a failing turn means for the exit status.
int exit_of_turn(Status status);

#endif
