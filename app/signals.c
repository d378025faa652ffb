#include "app/signals.h"

#include <string.h>

static volatile sig_atomic_t interrupt_flag, leave_signal;

static void on_signal(int number) {
    if (number != SIGINT) leave_signal = number;
    interrupt_flag = 1;
}

void signals_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

const volatile sig_atomic_t *signals_interrupt(void) {
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
