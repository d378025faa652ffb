// The program itself at a terminal: started, asked, left.
#ifndef PALAVER_TESTS_PROMPT_H
#define PALAVER_TESTS_PROMPT_H

#include "tests/support/program.h"
#include "tests/support/terminal/pty.h"

// Starts $PALAVER with `arguments`, words separated by '|', in a terminal as `options` say, whose argv is not looked at
// (NULL: without colours, 40 × 100).
Pty *prompt_start(const char *arguments, const PtyOptions *options);
// The same with NULL, up to the first prompt.
Pty *prompt_open(const char *arguments);

// An editor in the folder `home`, a script of the shell whose "$1" is the file. Returns NAME=path for an environment
// (name: EDITOR or VISUAL); to free.
char *prompt_make_editor(const char *home, const char *name, const char *script);

// Types a line and waits for a part of what comes of it, and for the prompt after that.
void prompt_say(Pty *pty, const char *line, const char *answer);
// Waits for the line of figures after a reply, which begins with `turn`, to its end, and the
// prompt behind it: what is typed before is the terminal's to edit, not the editor's.
void prompt_expect_turn(Pty *pty, const char *turn);
// Types a turn and waits for these.
void prompt_ask(Pty *pty, const char *line, const char *turn);
// Waits until a reply has begun: whatever it says, it says a word.
void prompt_await_reply(Pty *pty);
// Ctrl-D: the program ends well, and the terminal is as it was.
void prompt_leave(Pty *pty);

#endif
