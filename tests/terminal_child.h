// The program that test_terminal.c runs in a pseudo-terminal: the editor or the screen, and nothing else.
#ifndef PALAVER_TESTS_TERMINAL_CHILD_H
#define PALAVER_TESTS_TERMINAL_CHILD_H

// edit [--history FILE] [--plain] [--prompt TEXT] [--no-echo]: reads turns and writes `got[TURN]` (\n as \\n)
// until the
//   end (0), the second Ctrl-C (130), a SIGTERM or SIGHUP (7; handled) or a failure (1). Says `cooked` or
//   `raw` at the end.
// reply, reply-pieces, notices, progress, traits: what the screen makes of a fixed output.
int terminal_child(int argc, char **argv);

#endif
