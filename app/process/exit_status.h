// What palaver's exit status says.
#ifndef PALAVER_APP_PROCESS_EXIT_STATUS_H
#define PALAVER_APP_PROCESS_EXIT_STATUS_H

#include "kernels/base/status.h"

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

// What a failing turn means for it.
int exit_status_of_turn(Status status);
// What a work means that was interrupted: by the signal that asked to leave, or by Ctrl-C.
int exit_status_of_interrupt(void);

#endif
