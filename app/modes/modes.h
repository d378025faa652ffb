// The ways to talk: at a terminal, through a script, with one question, with many conversations at once. Each returns
// palaver's exit status.
#ifndef PALAVER_APP_MODES_H
#define PALAVER_APP_MODES_H

#include "app/chat/chat.h"
#include "app/program.h"

// talk.c: a chat, in one of the modes below.
int talk_main(Program *program);

// repl.c: prompt, turn, prompt, …
int repl_run(Chat *chat);

// script.c: turns and commands, one after the other, from the file `input`, which is read ahead (script_reader.h).
// `name` stands for it in messages.
int script_run(Chat *chat, int input, const char *name);
// The reason to leave that does not lie in what was said (a signal, a reader that left), or EXIT_WELL.
int script_outer_reason(const Chat *chat);
// With --echo: what is asked, on stdout.
void script_echo(Chat *chat, const char *turn);

// ask.c: one question, and behind it what is on stdin: a pipe, or a file from its beginning (see --stdin).
int ask_run(Chat *chat, const char *question);

// jsonl.c: conversations from stdin, one a line, answered many at once.
int jsonl_main(Program *program);

#endif
