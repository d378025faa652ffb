// What palaver says where it cannot go on, and nobody could be told otherwise.
#ifndef PALAVER_APP_PROCESS_FATAL_H
#define PALAVER_APP_PROCESS_FATAL_H

// Gives the terminal back, says `words` (whole lines) on stderr without allocating, and ends the process with status 1
// and without exit handlers, which may want memory. Also from a signal handler.
_Noreturn void fatal(const char *words);

// From here on these give the terminal back, say on stderr what happened, and end the process with status 1; journals
// are on disk by then, each up to its last finished turn:
// - a SIGBUS within a mapped file, in whatever thread: the file is named. Any other SIGBUS does what it did before;
// - a want of memory in a C++ library, where it cannot be caught.
void fatal_install(void);

#endif
