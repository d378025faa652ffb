#include "app/process/output.h"

#include "app/process/signals.h"
#include "kernels/base/file.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Whether a reader of stdout, if it is a pipe, has left.
static bool reader_left(void) {
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR);
}

// As stdio writes, but it keeps why the first piece failed: stdio forgets that where a later one does not.
static ssize_t write_piece(void *cookie, const char *bytes, size_t size) {
    int *why = cookie;
    if (file_write_until(STDOUT_FILENO, bytes, size, signals_interrupt())) return (ssize_t)size;
    if (!*why) *why = errno;
    return 0;
}

void output_open(int *why) {
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
