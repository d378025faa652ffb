#include "app/modes/line_reader.h"
#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

struct LineReader {
    LineReaderOptions to;
    pthread_t thread;
    int wake[2]; // a byte in this pipe ends the reading
    char *text;  // [capacity] of the line in hand
    size_t capacity;
    Line line;     // in hand
    Status status; // what ended the reading; read when the thread has ended
    Error error;
};

// The line in hand is complete. False: the reading ends.
static bool end_line(LineReader *r) {
    Line line = r->line;
    line.text = r->text;
    line.number++;
    const size_t mark = line.number == 1 ? utf8_mark(line.text, line.size) : 0;
    line.text += mark, line.size -= mark;
    if (line.too_long) line.size = 0;
    r->status = r->to.line(r->to.context, &line, &r->error);
    r->line = (Line){.number = line.number};
    return !r->status;
}

static bool add_bytes(LineReader *r, const char *bytes, size_t n) {
    Line *line = &r->line;
    line->too_long = line->too_long || line->size + n > LINE_LIMIT;
    if (line->too_long || n == 0) return true;
    if (!array_reserve(&r->text, 1, line->size, n, &r->capacity)) {
        r->status =
            error_set(&r->error, STATUS_MEMORY, "%s:%lld: out of memory", r->to.name, line->number + 1);
        return false;
    }
    memcpy(r->text + line->size, bytes, n);
    line->size += n;
    return true;
}

static bool take_block(LineReader *r, const char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t length = end ? (size_t)(end - bytes) - at : n - at;
        if (!add_bytes(r, bytes + at, length)) return false;
        at += length + (end != NULL);
        if (end && !end_line(r)) return false;
    }
    return true;
}

// The end of the input, where a line may lack its newline.
static void end_input(LineReader *r) {
    if ((r->line.size > 0 || r->line.too_long) && !end_line(r)) return;
    if (r->to.end) r->status = r->to.end(r->to.context, &r->error);
}

static void *read_all(void *context) {
    LineReader *r = context;
    char block[BLOCK];
    while (!r->to.on_demand || item_queue_wanted(r->to.queue)) {
        struct pollfd files[2] = {{r->to.file, POLLIN, 0}, {r->wake[0], POLLIN, 0}};
        if (poll(files, 2, -1) < 0 && errno == EINTR) continue;
        if (files[1].revents) break;
        ssize_t n = read(r->to.file, block, sizeof block);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) r->status = error_set(&r->error, STATUS_FILE, "%s: %s", r->to.name, strerror(errno));
        if (n == 0) end_input(r);
        if (n <= 0 || !take_block(r, block, (size_t)n)) break;
    }
    item_queue_end(r->to.queue);
    return NULL;
}

static void be_woken(int number) {
    (void)number;
}

// Signals are the main thread's, which polls their flags; but a process that reads from its terminal in the background
// has to stop, not to fail, and SIGURG is how join() wakes the thread.
static int start(LineReader *r) {
    sigset_t most, before;
    sigfillset(&most);
    sigdelset(&most, SIGTTIN);
    sigdelset(&most, SIGURG);
    struct sigaction wake = {.sa_handler = be_woken}; // without SA_RESTART
    sigemptyset(&wake.sa_mask);
    sigaction(SIGURG, &wake, NULL);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    int failed = pthread_create(&r->thread, NULL, read_all, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

// Another process that reads the same pipe or terminal may have taken what poll() had seen: then the thread waits
// within read(), where no byte in our pipe wakes it.
static void join(LineReader *r) {
    struct timespec until;
    do {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 10 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) until.tv_sec++, until.tv_nsec -= 1000 * 1000 * 1000;
    } while (pthread_timedjoin_np(r->thread, NULL, &until) && !pthread_kill(r->thread, SIGURG));
}

Status line_reader_open(const LineReaderOptions *options, LineReader **out, Error *error) {
    *out = NULL;
    LineReader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "out of memory");
    r->to = *options;
    if (pipe2(r->wake, O_CLOEXEC)) {
        free(r);
        return error_set(error, STATUS_MEMORY, "a pipe: %s", strerror(errno));
    }
    int failed = start(r);
    if (failed) {
        close(r->wake[0]), close(r->wake[1]);
        free(r);
        return error_set(error, STATUS_MEMORY, "a thread for %s: %s", options->name, strerror(failed));
    }
    *out = r;
    return STATUS_OK;
}

Status line_reader_close(LineReader *r, Error *error) {
    if (!r) return STATUS_OK;
    item_queue_end(r->to.queue);
    ssize_t wrote = write(r->wake[1], "", 1);
    (void)wrote; // an empty pipe takes a byte
    join(r);
    close(r->wake[0]), close(r->wake[1]);
    bool failed = r->status && r->status != STATUS_INTERRUPTED;
    Status status = failed ? error_set(error, r->status, "%s", r->error.message) : STATUS_OK;
    free(r->text);
    free(r);
    return status;
}
