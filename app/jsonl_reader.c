#include "app/jsonl_reader.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 16 };

struct JsonlReader {
    pthread_t thread;
    int file, wake[2]; // a byte in the pipe `wake` ends the reading
    ItemQueue *queue;
    const Config *config;
    const char *system;
    char *text; // [size] of the line in hand, of `capacity`
    size_t size, capacity;
    bool too_long; // the rest of the line in hand is skipped
    long long line, number;
    Status status; // what ended the reading; read when the thread has ended
    Error error;
};

static bool is_blank(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

// The line in hand is complete. False: nobody takes lines any more, or there is no memory.
static bool end_line(JsonlReader *r) {
    Error error;
    if (r->line++ == 0 && r->size >= 3 && !memcmp(r->text, "\xef\xbb\xbf", 3)) // a byte order mark
        memmove(r->text, r->text + 3, r->size -= 3);
    if (!r->too_long && is_blank(r->text, r->size)) return true;
    JsonlLine *line;
    if (r->too_long) {
        error_set(&error, STATUS_FILE, "the line is longer than %d MB", JSONL_LINE_LIMIT >> 20);
        line = jsonl_line_wrong(&error);
    } else {
        line = jsonl_line_read(r->text, r->size, r->config, r->system);
    }
    if (!line) {
        r->status = error_set(&r->error, STATUS_MEMORY, "stdin:%lld: out of memory", r->line);
        return false;
    }
    line->line = r->line;
    line->number = r->number++;
    if (item_queue_put(r->queue, line)) return true;
    jsonl_line_free(line);
    return false;
}

static bool add_bytes(JsonlReader *r, const char *bytes, size_t n) {
    if (r->too_long) return true;
    if (r->size + n > JSONL_LINE_LIMIT) {
        r->too_long = true;
        return true;
    }
    if (r->size + n > r->capacity) {
        size_t capacity = 2 * (r->size + n);
        char *longer = realloc(r->text, capacity);
        if (!longer) {
            r->status = error_set(&r->error, STATUS_MEMORY, "stdin:%lld: out of memory", r->line + 1);
            return false;
        }
        r->text = longer;
        r->capacity = capacity;
    }
    memcpy(r->text + r->size, bytes, n);
    r->size += n;
    return true;
}

static bool take_block(JsonlReader *r, const char *bytes, size_t n) {
    for (size_t at = 0; at < n;) {
        const char *end = memchr(bytes + at, '\n', n - at);
        size_t length = end ? (size_t)(end - bytes) - at : n - at;
        if (!add_bytes(r, bytes + at, length)) return false;
        at += length + (end != NULL);
        if (!end) return true;
        if (!end_line(r)) return false;
        r->size = 0;
        r->too_long = false;
    }
    return true;
}

static void *read_all(void *context) {
    JsonlReader *r = context;
    char block[BLOCK];
    for (;;) {
        struct pollfd files[2] = {{r->file, POLLIN, 0}, {r->wake[0], POLLIN, 0}};
        if (poll(files, 2, -1) < 0 && errno == EINTR) continue;
        if (files[1].revents) break;
        ssize_t n = read(r->file, block, sizeof block);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) r->status = error_set(&r->error, STATUS_FILE, "stdin: %s", strerror(errno));
        if (n == 0 && (r->size > 0 || r->too_long)) (void)end_line(r); // without a newline
        if (n <= 0 || !take_block(r, block, (size_t)n)) break;
    }
    item_queue_end(r->queue);
    return NULL;
}

// Signals are the main thread's: it polls their flags.
static int start(JsonlReader *r) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&r->thread, NULL, read_all, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

Status jsonl_reader_open(int file, ItemQueue *queue, const Config *config, const char *system,
                         JsonlReader **out, Error *error) {
    *out = NULL;
    JsonlReader *r = calloc(1, sizeof *r);
    if (!r) return error_set(error, STATUS_MEMORY, "out of memory");
    r->file = file;
    r->queue = queue;
    r->config = config;
    r->system = system;
    json_object_seed(0); // once, before two threads use JSON
    if (pipe(r->wake)) {
        free(r);
        return error_set(error, STATUS_MEMORY, "a pipe: %s", strerror(errno));
    }
    int failed = start(r);
    if (failed) {
        close(r->wake[0]), close(r->wake[1]);
        free(r);
        return error_set(error, STATUS_MEMORY, "a thread for stdin: %s", strerror(failed));
    }
    *out = r;
    return STATUS_OK;
}

Status jsonl_reader_close(JsonlReader *r, Error *error) {
    if (!r) return STATUS_OK;
    item_queue_end(r->queue);
    ssize_t wrote = write(r->wake[1], "", 1);
    (void)wrote; // an empty pipe takes a byte
    pthread_join(r->thread, NULL);
    close(r->wake[0]), close(r->wake[1]);
    Status status = r->status ? error_set(error, r->status, "%s", r->error.message) : STATUS_OK;
    free(r->text);
    free(r);
    return status;
}
