#include "app/models/fetch.h"

#include "kernels/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PART = 8 << 20, WORKERS = 6, BLOCK = 1 << 20 };

// A file while it is fetched.
typedef struct Fetching {
    Fetch *fetch;
    const FetchFile *file;
    char path[PATH_ROOM], parts_path[PATH_ROOM];
    int data, parts; // files
    char *is_there;  // [n_parts] 1: it is
    int64_t n_parts;
    pthread_mutex_t lock; // of what follows
    int64_t next;         // part that nobody has taken yet
    int running;
    Status status; // of the first that failed
    Error error;
} Fetching;

static int64_t part_end(const FetchFile *file, int64_t part) {
    int64_t end = (part + 1) * PART;
    return end < file->size ? end : file->size;
}

static int64_t count_parts(const FetchFile *file) {
    return (file->size + PART - 1) / PART;
}

static bool name_files(const FetchFile *file, char *path, char *parts) {
    int n = snprintf(path, PATH_ROOM, "%s.palaver", file->path);
    int m = snprintf(parts, PATH_ROOM, "%s.palaver-parts", file->path);
    return n > 0 && n < PATH_ROOM && m > 0 && m < PATH_ROOM;
}

// ---- what is there ------------------------------------------------------------------------------------------------

static bool is_there(const FetchFile *file) {
    struct stat facts;
    return !stat(file->path, &facts) && S_ISREG(facts.st_mode) && facts.st_size == file->size;
}

// Which parts are there; all zeros where that is not known. malloc'ed.
static char *read_parts(const FetchFile *file, int parts) {
    const size_t n = (size_t)count_parts(file);
    char *is_there = calloc(n + 1, 1);
    if (is_there && (pread(parts, is_there, n + 1, 0) != (ssize_t)n)) memset(is_there, 0, n + 1);
    return is_there;
}

int64_t fetch_left(const FetchFile *file) {
    char path[PATH_ROOM], parts_path[PATH_ROOM];
    int64_t left = file->size;
    if (is_there(file)) return 0;
    int parts = name_files(file, path, parts_path) ? open(parts_path, O_RDONLY | O_CLOEXEC) : -1;
    char *is_there = parts >= 0 && !access(path, F_OK) ? read_parts(file, parts) : NULL;
    for (int64_t i = 0; is_there && i < count_parts(file); i++)
        if (is_there[i] == 1) left -= part_end(file, i) - i * PART;
    free(is_there);
    if (parts >= 0) close(parts);
    return left;
}

static Status failed(const char *path, Error *error) {
    return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
}

static Status open_files(Fetching *f, Error *error) {
    const FetchFile *file = f->file;
    if (!name_files(file, f->path, f->parts_path)) return path_too_long(file->path, error);
    f->data = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->data < 0) return failed(f->path, error);
    if (flock(f->data, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(error, STATUS_FILE, "%s: another palaver is fetching it", file->what);
    struct stat facts;
    bool begun = !fstat(f->data, &facts) && facts.st_size == file->size;
    f->parts = open(f->parts_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (begun ? 0 : O_TRUNC), 0666);
    if (f->parts < 0) return failed(f->parts_path, error);
    if (ftruncate(f->data, (off_t)file->size)) return failed(f->path, error);
    f->n_parts = count_parts(file);
    f->is_there = read_parts(file, f->parts);
    if (!f->is_there) return error_set(error, STATUS_MEMORY, "no memory to fetch %s", file->what);
    if (pwrite(f->parts, f->is_there, (size_t)f->n_parts, 0) != (ssize_t)f->n_parts)
        return failed(f->parts_path, error);
    return STATUS_OK;
}

// ---- fetching -----------------------------------------------------------------------------------------------------

static bool take(void *user, int64_t at, const char *bytes, size_t size) {
    Fetching *f = user;
    for (size_t n = size; n > 0;) {
        ssize_t written = pwrite(f->data, bytes, n, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written, at += written, n -= (size_t)written;
    }
    f->fetch->done += (int64_t)size;
    return true;
}

// Part i, or where the server has it so all parts.
static Status fetch_part(Fetching *f, HttpLine *line, int64_t i, bool alone, Error *error) {
    const HttpRange range = {.url = f->file->url,
                             .what = f->file->what,
                             .from = i * PART,
                             .to = part_end(f->file, i),
                             .size = f->file->size,
                             .may_be_whole = alone,
                             .take = take,
                             .user = f};
    bool whole = false;
    int64_t before = f->fetch->done;
    Status status = http_range(line, &range, &whole, error);
    if (status) f->fetch->done = alone ? before : f->fetch->done;
    if (status) return status;
    const int64_t from = whole ? 0 : i, to = whole ? f->n_parts : i + 1;
    memset(f->is_there + from, 1, (size_t)(to - from));
    if (pwrite(f->parts, f->is_there + from, (size_t)(to - from), (off_t)from) != (ssize_t)(to - from))
        return failed(f->parts_path, error);
    return STATUS_OK;
}

// The next part that is not there; -1: none, or something has failed.
static int64_t next_part(Fetching *f) {
    pthread_mutex_lock(&f->lock);
    while (f->next < f->n_parts && f->is_there[f->next] == 1) f->next++;
    int64_t part = f->status || f->next == f->n_parts ? -1 : f->next++;
    pthread_mutex_unlock(&f->lock);
    return part;
}

static void note_end(Fetching *f, Status status, const Error *error) {
    pthread_mutex_lock(&f->lock);
    if (status && !f->status) f->status = status, f->error = *error;
    f->running--;
    pthread_mutex_unlock(&f->lock);
}

static void *work(void *context) {
    Fetching *f = context;
    Error error = {0};
    HttpLine *line;
    Status status = http_line_open(f->fetch->http, &line, &error);
    for (int64_t part; !status && (part = next_part(f)) >= 0;)
        status = fetch_part(f, line, part, false, &error);
    http_line_close(line);
    note_end(f, status, &error);
    return NULL;
}

static void *work_alone(void *context) {
    Fetching *f = context;
    Error error = {0};
    HttpLine *line;
    Status status = http_line_open(f->fetch->http, &line, &error);
    int64_t part = status ? -1 : next_part(f);
    if (part >= 0) status = fetch_part(f, line, part, true, &error);
    http_line_close(line);
    note_end(f, status, &error);
    return NULL;
}

// Runs `n` workers, and shows how far they are until all have come to their end.
static Status run_workers(Fetching *f, void *(*worker)(void *), int n, Error *error) {
    pthread_t threads[WORKERS];
    int started = 0;
    f->running = n;
    while (started < n && !pthread_create(&threads[started], NULL, worker, f)) started++;
    pthread_mutex_lock(&f->lock);
    f->running -= n - started;
    if (!started) f->status = error_set(&f->error, STATUS_MEMORY, "no thread to fetch with");
    bool runs = f->running > 0;
    pthread_mutex_unlock(&f->lock);
    while (runs) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        bool go_on = f->fetch->step(f->fetch->user, "fetching", f->fetch->done);
        pthread_mutex_lock(&f->lock);
        if (!go_on && !f->status) f->status = error_set(&f->error, STATUS_INTERRUPTED, "stopped");
        runs = f->running > 0;
        pthread_mutex_unlock(&f->lock);
    }
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    return f->status ? error_set(error, f->status, "%s", f->error.message) : STATUS_OK;
}

static int64_t count_missing(const Fetching *f) {
    int64_t n = 0;
    for (int64_t i = 0; i < f->n_parts; i++) n += f->is_there[i] != 1;
    return n;
}

// ---- the digest ---------------------------------------------------------------------------------------------------

// Of a file's bytes [size] as they are on the disk, whoever wrote them there.
static Status take_digest(const Fetch *fetch, const FetchFile *file, int data, char hex[DIGEST_HEX],
                          Error *error) {
    char head[40], *block = malloc(BLOCK);
    Digest digest;
    if (!block) return error_set(error, STATUS_MEMORY, "no memory to check %s", file->what);
    digest_begin(&digest, file->is_sha256 ? DIGEST_SHA256 : DIGEST_SHA1);
    if (!file->is_sha256) // as git has it
        digest_add(&digest, head,
                   (size_t)snprintf(head, sizeof head, "blob %lld", (long long)file->size) + 1);
    Status status = STATUS_OK;
    int64_t at = 0;
    for (ssize_t n; at < file->size && !status; at += n) {
        n = pread(data, block, BLOCK, (off_t)at);
        if (n <= 0) {
            status = error_set(error, STATUS_FILE, "%s: %s", file->path,
                               n ? strerror(errno) : "it became shorter");
            break;
        }
        digest_add(&digest, block, (size_t)n);
        if (!fetch->step(fetch->user, "checking", fetch->done))
            status = error_set(error, STATUS_INTERRUPTED, "stopped");
    }
    free(block);
    digest_end(&digest, hex);
    return status;
}

static Status check_digest(Fetching *f, Error *error) {
    const FetchFile *file = f->file;
    char hex[DIGEST_HEX];
    Status status = take_digest(f->fetch, file, f->data, hex, error);
    if (status || !strcmp(hex, file->digest)) return status;
    unlink(f->path);
    unlink(f->parts_path);
    return error_set(error, STATUS_FILE,
                     "%s: it came damaged (its digest is %.12s…, the hub says %.12s…): fetch it again",
                     file->what, hex, file->digest);
}

// A file of the right size may have been damaged since it came. Nobody should read on in such a one, so that it goes
// before another one is there.
static Status check_there(Fetch *fetch, const FetchFile *file, bool *fine, Error *error) {
    char hex[DIGEST_HEX];
    int data = open(file->path, O_RDONLY | O_CLOEXEC);
    if (data < 0) return failed(file->path, error);
    Status status = take_digest(fetch, file, data, hex, error);
    close(data);
    *fine = !status && !strcmp(hex, file->digest);
    if (status || *fine) return status;
    if (unlink(file->path)) return failed(file->path, error);
    fetch->done -= file->size;
    fetch->damaged(fetch->user, file->what);
    return STATUS_OK;
}

static Status finish(Fetching *f, Error *error) {
    Status status = check_digest(f, error);
    if (status) return status;
    if (fsync(f->data) || rename(f->path, f->file->path)) return failed(f->file->path, error);
    unlink(f->parts_path);
    return STATUS_OK;
}

Status fetch_file(Fetch *fetch, const FetchFile *file, Error *error) {
    Fetching f = {.fetch = fetch, .file = file, .data = -1, .parts = -1};
    bool fine = false;
    if (is_there(file)) {
        Status checked = check_there(fetch, file, &fine, error);
        if (checked || fine) return checked;
    }
    pthread_mutex_init(&f.lock, NULL);
    Status status = open_files(&f, error);
    // Whether the server knows parts is seen by the first of them.
    if (!status && count_missing(&f) > 0) status = run_workers(&f, work_alone, 1, error);
    int64_t missing = status ? 0 : count_missing(&f);
    f.next = 0;
    if (missing > 0) status = run_workers(&f, work, missing < WORKERS ? (int)missing : WORKERS, error);
    if (!status) status = finish(&f, error);
    if (f.data >= 0) close(f.data);
    if (f.parts >= 0) close(f.parts);
    free(f.is_there);
    pthread_mutex_destroy(&f.lock);
    return status;
}
