// Taking a snapshot, and writing it.
#include "engine/session/snapshot_internal.h"

#include "kernels/base/checksum.h"
#include "kernels/base/file.h"
#include "kernels/base/machine/memory.h"
#include "kernels/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

struct Snapshot {
    SnapshotHeader header;
    SnapshotTables tables;
    char *data; // [header.data_bytes]
};

Status snapshot_tables_open(const SnapshotHeader *h, SnapshotTables *t, Error *error) {
    size_t sums = (size_t)snapshot_pieces(h) * sizeof *t->sums, ids = (size_t)h->n_tokens * sizeof *t->ids;
    t->bytes = sums + ids + (size_t)h->n_indexes * sizeof *t->positions;
    t->sums = malloc(t->bytes);
    if (!t->sums) return error_set(error, STATUS_MEMORY, "no memory for a snapshot");
    t->ids = (int32_t *)((char *)t->sums + sums);
    t->positions = (int32_t *)((char *)t->sums + sums + ids);
    return STATUS_OK;
}

// ---- taking -----------------------------------------------------------------------------------------------------

static SnapshotHeader describe(const Session *s) {
    const KvCache *cache = &s->engine->cache;
    const KvSequence *q = &s->sequence;
    const int n = kv_rows_count(cache, q);
    SnapshotHeader h = {.n_tokens = q->length,
                        .n_indexes = n,
                        .data_bytes = kv_rows_bytes(&cache->layout, n),
                        .context_size = cache->context_size,
                        .n_sinks = q->n_sinks,
                        .n_evicted = q->n_evicted,
                        .n_moved = q->n_moved,
                        .rope_set = q->rope_set,
                        .piece = SNAPSHOT_PIECE};
    memcpy(h.magic, SNAPSHOT_MAGIC, sizeof h.magic);
    return h;
}

static Status take_memory(Snapshot *snapshot, Error *error) {
    int64_t total, available, bytes = snapshot->header.data_bytes;
    memory_available("", &total, &available);
    size_t room = ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    if (total == 0 || bytes < available) snapshot->data = aligned_alloc(HUGE_PAGE, room);
    if (!snapshot->data)
        return error_set(error, STATUS_MEMORY, "no memory for a snapshot of %lld bytes", (long long)bytes);
    (void)madvise(snapshot->data, room,
                  MADV_HUGEPAGE); // a fault for each small page takes longer than the copy
    return snapshot_tables_open(&snapshot->header, &snapshot->tables, error);
}

Status snapshot_take(const Session *s, uint64_t words, Snapshot **out, Error *error) {
    *out = NULL;
    if (s->sequence.length < SNAPSHOT_LEAST) return STATUS_OK;
    Snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot) return error_set(error, STATUS_MEMORY, "no memory for a snapshot");
    SnapshotHeader *h = &snapshot->header;
    SnapshotTables *t = &snapshot->tables;
    *h = describe(s);
    const KvRows rows = {&s->engine->cache, &s->sequence, (int)h->n_indexes};
    Status status = snapshot_owner_of(s, h->rope_set, words, &h->owner, error);
    if (!status) status = take_memory(snapshot, error);
    if (!status) status = kv_rows_read_positions(&rows, t->positions, error);
    if (!status) status = kv_rows_read(&rows, 0, h->data_bytes, snapshot->data, error);
    if (status) {
        snapshot_free(snapshot);
        return status;
    }
    memcpy(t->ids, s->log, (size_t)h->n_tokens * sizeof *t->ids);
    h->tokens = snapshot_version(s);
    *out = snapshot;
    return STATUS_OK;
}

void snapshot_free(Snapshot *snapshot) {
    if (!snapshot) return;
    free(snapshot->tables.sums);
    free(snapshot->data);
    free(snapshot);
}

static int64_t file_bytes(const SnapshotHeader *h) {
    return (int64_t)sizeof *h + snapshot_pieces(h) * (int64_t)sizeof(uint64_t) +
           (h->n_tokens + h->n_indexes) * (int64_t)sizeof(int32_t) + h->data_bytes;
}

int64_t snapshot_bytes(const Snapshot *snapshot) {
    return file_bytes(&snapshot->header);
}

int64_t snapshot_foresee(const Session *s) {
    const SnapshotHeader header = describe(s);
    return file_bytes(&header);
}

uint64_t snapshot_version(const Session *s) {
    return checksum_of(s->log, (size_t)s->sequence.length * sizeof *s->log);
}

// ---- writing ----------------------------------------------------------------------------------------------------

static int64_t piece_bytes(const SnapshotHeader *h, int64_t piece) {
    int64_t left = h->data_bytes - piece * SNAPSHOT_PIECE;
    return left < SNAPSHOT_PIECE ? left : SNAPSHOT_PIECE;
}

static bool is_stopped(const atomic_int *stop) {
    return stop && *stop;
}

// The data first, with a hole before it: its checksums are made on the way. False: errno tells why, or it was stopped.
static bool write_all(const Snapshot *snapshot, int file, const atomic_int *stop) {
    SnapshotHeader h = snapshot->header;
    const SnapshotTables *t = &snapshot->tables;
    const char *data = snapshot->data;
    if (lseek(file, (off_t)(sizeof h + t->bytes), SEEK_SET) < 0) return false;
    for (int64_t i = 0; i < snapshot_pieces(&h); i++, data += SNAPSHOT_PIECE) {
        t->sums[i] = checksum_of(data, (size_t)piece_bytes(&h, i));
        if (is_stopped(stop) || !file_write_all(file, data, (size_t)piece_bytes(&h, i))) return false;
    }
    h.tables = checksum_of(t->sums, t->bytes);
    h.header = checksum_of(&h, offsetof(SnapshotHeader, header));
    return lseek(file, 0, SEEK_SET) == 0 && file_write_all(file, (const char *)&h, sizeof h) &&
           file_write_all(file, (const char *)t->sums, t->bytes) && !is_stopped(stop);
}

Status snapshot_write(const Snapshot *snapshot, const char *path, const atomic_int *stop, Error *error) {
    char temporary[PATH_ROOM];
    int n = snprintf(temporary, sizeof temporary, "%s.new", path);
    if (n < 0 || n >= PATH_ROOM) return path_too_long(path, error);
    unlink(temporary); // of one that was killed; it may have been of another mode
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return error_set(error, STATUS_FILE, "%s: %s", temporary, strerror(errno));
    bool ok = write_all(snapshot, file, stop) && !fsync(file);
    int reason = errno;
    if (close(file) && ok) ok = false, reason = errno;
    if (ok && rename(temporary, path)) ok = false, reason = errno;
    if (ok) {
        file_sync_name(path);
        return STATUS_OK;
    }
    unlink(temporary);
    if (is_stopped(stop)) return error_set(error, STATUS_INTERRUPTED, "the snapshot was not finished");
    return error_set(error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(reason));
}
