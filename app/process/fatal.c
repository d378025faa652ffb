#include "app/process/fatal.h"

#include "app/terminal/tty.h"
#include "engine/files/mapped.h"
#include "kernels/base/cxx_memory.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct sigaction before;
static atomic_flag told = ATOMIC_FLAG_INIT;

// Only what is allowed in a handler is called: the thread may have held any lock.
static void on_bus_error(int number, siginfo_t *info, void *context) {
    (void)context;
    bool sent = info->si_code <= 0; // by kill()
    const char *path = sent ? NULL : mapped_path(info->si_addr);
    if (!path) {
        sigaction(number, &before, NULL);
        if (sent) raise(number); // else it happens again when this returns
        return;
    }
    while (atomic_flag_test_and_set(&told)) pause(); // another thread is speaking
    struct termios unused;
    tty_restore();
    if (!tcgetattr(STDERR_FILENO, &unused)) tty_write("\n"); // the line may have begun with a reply
    tty_write("palaver: ");
    tty_write(path);
    tty_write(": a part of this file is gone: another program has changed it, or its disk fails; what was "
              "finished before is kept; fetch the file again\n");
    _exit(EXIT_FAILURE);
}

void fatal(const char *words) {
    tty_restore();
    tty_write(words);
    _exit(EXIT_FAILURE);
}

static void end_without_memory(void) {
    fatal("palaver: out of memory; what was finished before is kept\n");
}

void fatal_install(void) {
    cxx_memory_guard(end_without_memory);
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}
