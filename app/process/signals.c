#include "app/process/signals.h"

#include <string.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler may write an atomic_int");

static atomic_int interrupt_flag, leave_signal;

static void on_signal(int number) {
    if (number != SIGINT) leave_signal = number;
    interrupt_flag = 1;
}

void signals_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    static const int asking[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        struct sigaction before;
        if (!sigaction(asking[i], NULL, &before) && before.sa_handler != SIG_IGN)
            sigaction(asking[i], &action, NULL);
    }
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

const atomic_int *signals_interrupt(void) {
    return &interrupt_flag;
}

void signals_clear_interrupt(void) {
    interrupt_flag = 0;
    if (leave_signal) interrupt_flag = 1;
}

void signals_raise_interrupt(void) {
    interrupt_flag = 1;
}

int signals_leave(void) {
    return leave_signal;
}
