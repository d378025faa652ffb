#include "app/process/exit_status.h"

#include "app/process/signals.h"

int exit_status_of_turn(Status status) {
    switch (status) {
    case STATUS_OK:
        return EXIT_WELL;
    case STATUS_CONTEXT:
        return EXIT_CONTEXT;
    case STATUS_INTERRUPTED:
        return EXIT_INTERRUPTED;
    default:
        return EXIT_RUNTIME;
    }
}

int exit_status_of_interrupt(void) {
    return signals_leave() ? EXIT_SIGNAL + signals_leave() : EXIT_INTERRUPTED;
}
