// A snapshot's file back into the cache: one thread, with helpers, reads and checks while the caller hands what is
// whole to the backend.
#include "engine/session/snapshot_internal.h"

#include "kernels/base/checksum.h"
#include "kernels/base/file.h"
#include "kernels/base/machine/threads.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WINDOW = 8,       // pieces that are read and checked at once
    WINDOWS = 2,      // one is read while the other is handed on
    MOST_THREADS = 8, // that read
};

static Status damaged(Error *error) {
    return error_set(error, STATUS_FILE, "it is damaged");
}

static bool read_at(int file, void *bytes, size_t size, int64_t at) {
    while (size) {
        ssize_t n = pread(file, bytes, size, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        bytes = (char *)bytes + n, at += n, size -= (size_t)n;
    }
    return true;
}

// ---- header and tables ------------------------------------------------------------------------------------------

static Status read_header(int file, int64_t size, SnapshotHeader *h, Error *error) {
    if (size < (int64_t)sizeof *h || !read_at(file, h, sizeof *h, 0) ||
        checksum_of(h, offsetof(SnapshotHeader, header)) != h->header)
        return damaged(error);
    if (memcmp(h->magic, SNAPSHOT_MAGIC, sizeof h->magic))
        return error_set(error, STATUS_FILE, "it is of another version of palaver");
    if (h->piece != SNAPSHOT_PIECE || h->n_tokens < 1 || h->n_tokens > INT32_MAX || h->n_indexes < 1 ||
        h->n_indexes > INT32_MAX || h->data_bytes < 1 || h->data_bytes > size)
        return damaged(error);
    return STATUS_OK;
}

// What would not be understood here, in a few words.
static Status check_owner(const Session *s, const SnapshotHeader *h, uint64_t words, Error *error) {
    SnapshotOwner ours;
    Status status = snapshot_owner_of(s, h->rope_set, words, &ours, error);
    if (status) return status;
    const SnapshotOwner *theirs = &h->owner;
    const char *other = theirs->model != ours.model           ? "model, type of weights, or device"
                        : theirs->tokenizer != ours.tokenizer ? "tokenizer"
                        : theirs->words != ours.words         ? "chat template"
                        : theirs->cache != ours.cache         ? "type or layout of cache"
                        : theirs->rope != ours.rope           ? "rotary frequencies"
                                                              : NULL;
    return other ? error_set(error, STATUS_FILE, "it is of another %s", other) : STATUS_OK;
}

// How the sequence lay; a ring is as large as the context.
static Status check_shape(const Session *s, const SnapshotHeader *h, int64_t size, Error *error) {
    const KvCache *cache = &s->engine->cache;
    bool ring = h->n_evicted > 0;
    if ((ring && h->context_size != cache->context_size) || h->n_tokens > cache->context_size)
        return error_set(error, STATUS_FILE, "it is of a context of %d tokens", h->context_size);
    const KvSequence q = {.length = h->n_tokens, .n_evicted = h->n_evicted};
    int64_t tables = snapshot_pieces(h) * 8 + (h->n_tokens + h->n_indexes) * 4;
    if (h->n_evicted < 0 || h->n_moved < 0 || h->n_moved > h->n_evicted || h->n_sinks < 0 ||
        (ring ? h->n_sinks >= h->n_tokens : h->n_moved != 0) || kv_rows_count(cache, &q) != h->n_indexes ||
        kv_rows_bytes(&cache->layout, h->n_indexes) != h->data_bytes ||
        size != (int64_t)sizeof *h + tables + h->data_bytes)
        return damaged(error);
    return STATUS_OK;
}

static Status read_tables(int file, const SnapshotHeader *h, int vocab, SnapshotTables *t, Error *error) {
    Status status = snapshot_tables_open(h, t, error);
    if (status) return status;
    if (!read_at(file, t->sums, t->bytes, sizeof *h) || checksum_of(t->sums, t->bytes) != h->tables ||
        checksum_of(t->ids, (size_t)h->n_tokens * sizeof *t->ids) != h->tokens)
        return damaged(error);
    for (int64_t i = 0; i < h->n_tokens; i++)
        if (t->ids[i] < 0 || t->ids[i] >= vocab) return damaged(error);
    for (int64_t i = 0; i < h->n_indexes && h->n_evicted == 0; i++) // what StepSequence.in_order will say
        if (t->positions[i] != i) return damaged(error);
    return STATUS_OK;
}

// ---- data -------------------------------------------------------------------------------------------------------

typedef struct Reading {
    int file;
    int64_t begin, total, n_pieces; // of the data in the file
    const uint64_t *sums;
    char *buffers[WINDOWS];
    int64_t window; // being read
    Threads *threads;
    sem_t empty, full;  // windows
    atomic_bool failed; // a piece is damaged, or the caller wants no more
} Reading;

static int64_t window_bytes(const Reading *r, int64_t window) {
    int64_t left = r->total - window * WINDOW * SNAPSHOT_PIECE;
    return left < (int64_t)WINDOW * SNAPSHOT_PIECE ? left : (int64_t)WINDOW * SNAPSHOT_PIECE;
}

static int64_t n_windows(const Reading *r) {
    return (r->n_pieces + WINDOW - 1) / WINDOW;
}

static void read_piece(void *context, int64_t part, int thread) {
    (void)thread;
    Reading *r = context;
    const int64_t piece = r->window * WINDOW + part, at = piece * SNAPSHOT_PIECE;
    const size_t size = (size_t)(r->total - at < SNAPSHOT_PIECE ? r->total - at : SNAPSHOT_PIECE);
    char *bytes = r->buffers[r->window % WINDOWS] + part * SNAPSHOT_PIECE;
    if (!read_at(r->file, bytes, size, r->begin + at) || checksum_of(bytes, size) != r->sums[piece])
        r->failed = true;
}

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) && errno == EINTR) continue;
}

static void *read_windows(void *context) {
    Reading *r = context;
    for (int64_t w = 0; w < n_windows(r); w++) {
        wait_for(&r->empty);
        r->window = w;
        int64_t left = r->n_pieces - w * WINDOW;
        if (!r->failed) threads_run(r->threads, left < WINDOW ? left : WINDOW, read_piece, r);
        sem_post(&r->full);
    }
    return NULL;
}

// Hands the windows on as they come. The reader ends in any case.
static Status hand_on(Reading *r, const KvRows *rows, Error *error) {
    Status status = STATUS_OK;
    for (int64_t w = 0; w < n_windows(r); w++) {
        wait_for(&r->full);
        if (!status && r->failed) status = damaged(error);
        if (!status)
            status = kv_rows_write(rows, w * WINDOW * SNAPSHOT_PIECE, window_bytes(r, w),
                                   r->buffers[w % WINDOWS], error);
        if (status) r->failed = true;
        sem_post(&r->empty);
    }
    return status;
}

static Status run_reading(Reading *r, const KvRows *rows, Error *error) {
    pthread_t reader;
    if (sem_init(&r->empty, 0, WINDOWS) || sem_init(&r->full, 0, 0) ||
        pthread_create(&reader, NULL, read_windows, r))
        return error_set(error, STATUS_MEMORY, "no thread to read a snapshot with");
    Status status = hand_on(r, rows, error);
    pthread_join(reader, NULL);
    sem_destroy(&r->empty);
    sem_destroy(&r->full);
    return status;
}

static Status read_data(int file, const SnapshotHeader *h, const SnapshotTables *t, const KvRows *rows,
                        Error *error) {
    Reading r = {.file = file,
                 .begin = (int64_t)(sizeof *h + t->bytes),
                 .total = h->data_bytes,
                 .n_pieces = snapshot_pieces(h),
                 .sums = t->sums};
    int threads = threads_available();
    if (threads > r.n_pieces) threads = (int)r.n_pieces;
    Status status = threads_open(threads < MOST_THREADS ? threads : MOST_THREADS, &r.threads, error);
    for (int i = 0; i < WINDOWS && !status; i++)
        if (!(r.buffers[i] = malloc((size_t)window_bytes(&r, 0))))
            status = error_set(error, STATUS_MEMORY, "no memory to read a snapshot");
    if (!status) status = run_reading(&r, rows, error);
    for (int i = 0; i < WINDOWS; i++) free(r.buffers[i]);
    threads_close(r.threads);
    return status;
}

// ---- the session ------------------------------------------------------------------------------------------------

// Pages for the file's indexes, then what they hold.
static Status fill_sequence(Session *s, int file, const SnapshotHeader *h, const SnapshotTables *t,
                            Error *error) {
    KvCache *cache = &s->engine->cache;
    KvSequence q = {.rope_set = h->rope_set,
                    .n_prefix = (int32_t)model_prefix(s->engine->model, t->ids, h->n_tokens)};
    int32_t *places = malloc(2 * (size_t)h->n_indexes * sizeof *places);
    if (!places) return error_set(error, STATUS_MEMORY, "no memory to read a snapshot");
    Status status = kv_sequence_extend(cache, &q, (int)h->n_indexes, places, places + h->n_indexes, error);
    free(places);
    const KvRows rows = {cache, &q, (int)h->n_indexes};
    if (!status) status = read_data(file, h, t, &rows, error);
    if (!status) status = kv_rows_write_positions(&rows, t->positions, error);
    if (status) {
        kv_sequence_free(cache, &q);
        return status;
    }
    q.length = h->n_tokens, q.n_sinks = h->n_sinks, q.n_evicted = h->n_evicted, q.n_moved = h->n_moved;
    session_take_over(s, t->ids, &q);
    return STATUS_OK;
}

static Status restore(Session *s, uint64_t words, int file, int64_t size, SnapshotRestored *restored,
                      Error *error) {
    SnapshotHeader h;
    SnapshotTables t = {0};
    Status status = read_header(file, size, &h, error);
    if (!status) status = check_owner(s, &h, words, error);
    if (!status) status = check_shape(s, &h, size, error);
    if (!status) status = read_tables(file, &h, s->engine->model->shape.vocab_size, &t, error);
    bool known = !status && h.n_evicted == 0 && session_known(s, t.ids, h.n_tokens) == h.n_tokens;
    if (!status && !known) {
        session_put_aside(s);
        status = fill_sequence(s, file, &h, &t, error);
    }
    if (!status) *restored = (SnapshotRestored){h.n_tokens, h.tokens};
    free(t.sums);
    return status;
}

Status snapshot_restore(Session *s, uint64_t words, const char *path, SnapshotRestored *restored,
                        Error *error) {
    int file;
    int64_t size;
    bool missing;
    *restored = (SnapshotRestored){0};
    Status status = file_open_regular(path, &file, &size, &missing, error);
    if (status || missing) return status;
    status = restore(s, words, file, size, restored, error);
    close(file);
    return status;
}
