#include "app/process/output.h"

#include "app/process/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Through an opening of our own.
static void let_output_wait(void) {
    struct stat facts;
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK) || fstat(STDOUT_FILENO, &facts) || !S_ISFIFO(facts.st_mode))
        return;
    const int own = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK);
    if (own < 0) return;
    if (!fcntl(own, F_SETFL, 0)) (void)dup2(own, STDOUT_FILENO);
    close(own);
}

// Whether a reader of stdout, if it is a pipe, has left.
static bool reader_left(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

// As stdio writes, but it keeps why the first piece failed: stdio forgets that where a later one does not.
static ssize_t write_piece(void *cookie, const char *bytes, size_t size) {
    int *why = cookie;
    size_t done = 0;
    while (done < size) {
        const ssize_t n = write(STDOUT_FILENO, bytes + done, size - done);
        if (n < 0 && errno == EINTR && !*signals_interrupt()) continue;
        if (n < 0 && !*why) *why = errno;
        if (n < 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

void output_open(int *why) {
    let_output_wait();
    FILE *file = fopencookie(why, "w", (cookie_io_functions_t){.write = write_piece});
    if (!file) return; // without memory: the stdout that there is
    (void)setvbuf(file, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = file;
}

Status output_close(const int *why, Error *error) {
    errno = 0;
    const bool failed = ferror(stdout), flushed = !fclose(stdout);
    if (flushed && !failed) return STATUS_OK;
    const int reason = *why ? *why : errno;
    if (reason == EPIPE || reason == EINTR || reader_left()) return STATUS_INTERRUPTED;
    return error_set(error, STATUS_FILE, "stdout: %s",
                     reason ? strerror(reason) : "it could not be written to the end");
}
