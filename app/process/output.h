// What is printed on stdout by stdio: whether all of it arrived, and if not, why.
#ifndef PALAVER_APP_PROCESS_OUTPUT_H
#define PALAVER_APP_PROCESS_OUTPUT_H

#include "kernels/base/status.h"

// Before anything is printed. What is printed waits for a reader that is slow, also where whoever made the pipe has it
// refuse instead, until a signal asks to stop. *why, 0 at first, lives until output_close().
void output_open(int *why);

// At the end; nothing is printed behind it. STATUS_FILE: not all of it arrived, and why; STATUS_INTERRUPTED: a reader has
// left, as `| head` does, or a signal has ended the waiting for one, and there is nothing to say of it.
Status output_close(const int *why, Error *error);

#endif
