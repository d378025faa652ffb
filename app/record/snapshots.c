#include "app/record/snapshots.h"

#include "app/record/journal_list.h"
#include "kernels/base/array.h"
#include "kernels/base/text/format.h"
#include "kernels/base/text/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    FORGOTTEN = 3600, // seconds after which a file that is being written is one that nobody writes
    // Seconds by which one that stands aside is older than it is: ten years, so that it goes before all others, the
    // oldest of its kind first.
    ASIDE = 315360000,
};

#define LATEST ((time_t)1 << 40) // later than any file

struct SnapshotWriter {
    pthread_t thread;
    Snapshot *snapshot;
    char path[JOURNAL_PATH_ROOM];
    int64_t limit;
    bool aside;
    const atomic_int *stop;
    Status status;
    Error error;
};

// ---- room ---------------------------------------------------------------------------------------------------------

typedef struct Kept {
    char *path;
    struct timespec changed;
    int64_t bytes;
} Kept;

typedef struct KeptList {
    Kept *files;
    size_t count, capacity;
    int64_t bytes;
} KeptList;

static void look_at(KeptList *list, const char *folder, const char *name, const char *own) {
    struct stat facts;
    bool partly = text_has_suffix(name, JOURNAL_SNAPSHOT ".new");
    char *path = partly || text_has_suffix(name, JOURNAL_SNAPSHOT) ? path_join(folder, name) : NULL;
    if (!path || !strcmp(path, own) || lstat(path, &facts) || !S_ISREG(facts.st_mode)) {
        free(path);
        return;
    }
    if (partly) {
        if (facts.st_mtime + FORGOTTEN < time(NULL)) unlink(path);
        free(path);
    } else if (array_reserve(&list->files, sizeof *list->files, list->count, 1, &list->capacity)) {
        list->files[list->count++] = (Kept){path, facts.st_mtim, facts.st_size};
        list->bytes += facts.st_size;
    } else {
        free(path);
    }
}

static int by_age(const void *a, const void *b) {
    const struct timespec *x = &((const Kept *)a)->changed, *y = &((const Kept *)b)->changed;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

// For whom room is made.
typedef struct Claim {
    const char *path; // that file is not looked at
    int64_t bytes, limit;
    time_t before; // only files older than that go
} Claim;

// The oldest go until the others and the claim's bytes are within the limit. Returns the bytes that went; *fits (may be
// NULL): whether that was enough.
static int64_t make_room(const Claim *claim, bool *fits) {
    char folder[PATH_ROOM];
    KeptList list = {0};
    Error ignored;
    DIR *directory = journal_folder(folder, &ignored) ? NULL : opendir(folder);
    if (fits) *fits = directory;
    if (!directory) return 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        look_at(&list, folder, entry->d_name, claim->path);
    closedir(directory);
    if (list.count) qsort(list.files, list.count, sizeof *list.files, by_age);
    const int64_t before = list.bytes;
    for (size_t i = 0; i < list.count; i++) {
        const Kept *kept = &list.files[i];
        bool goes = list.bytes + claim->bytes > claim->limit && kept->changed.tv_sec < claim->before;
        if (goes && !unlink(kept->path)) list.bytes -= kept->bytes;
        free(kept->path);
    }
    free(list.files);
    if (fits) *fits = list.bytes + claim->bytes <= claim->limit;
    return before - list.bytes;
}

int64_t snapshots_trim(int64_t limit) {
    return make_room(&(Claim){"", 0, limit, LATEST}, NULL);
}

// ---- writing ------------------------------------------------------------------------------------------------------

static void *write_it(void *context) {
    SnapshotWriter *w = context;
    const struct timespec now = {.tv_sec = time(NULL) - (w->aside ? ASIDE : 0)};
    const Claim claim = {w->path, snapshot_bytes(w->snapshot), w->limit, w->aside ? now.tv_sec : LATEST};
    bool fits;
    make_room(&claim, &fits);
    if (w->aside && !fits) return NULL;
    w->status = snapshot_write(w->snapshot, w->path, w->stop, &w->error);
    if (w->aside && !w->status) (void)utimensat(AT_FDCWD, w->path, (struct timespec[2]){now, now}, 0);
    return NULL;
}

Status snapshots_end(SnapshotWriter **writer, Error *error) {
    SnapshotWriter *w = *writer;
    if (!w) return STATUS_OK;
    *writer = NULL;
    pthread_join(w->thread, NULL);
    Status status = w->status;
    if (status) error_set(error, status, "%s", w->error.message);
    snapshot_free(w->snapshot);
    free(w);
    return status;
}

Status snapshots_allow(int64_t bytes, int64_t limit, Error *error) {
    char large[FORMAT_ROOM], most[FORMAT_ROOM];
    if (bytes <= limit) return STATUS_OK;
    format_bytes((double)bytes, large);
    format_bytes((double)limit, most);
    return error_set(error, STATUS_FILE, "it would take %s, and [cache] snapshots allows %s", large, most);
}

Status snapshots_begin(SnapshotWriter **writer, Snapshot *snapshot, const SnapshotOrder *order,
                       Error *error) {
    Status status = snapshots_end(writer, error);
    SnapshotWriter *w = status ? NULL : calloc(1, sizeof *w);
    if (!status && !w) status = error_set(error, STATUS_MEMORY, "no memory for a snapshot");
    if (!status) status = journal_snapshot_path(order->name, w->path, error);
    if (!status) status = snapshots_allow(snapshot_bytes(snapshot), order->limit, error);
    if (!status) {
        w->snapshot = snapshot;
        w->limit = order->limit;
        w->aside = order->aside;
        w->stop = order->stop;
        if (pthread_create(&w->thread, NULL, write_it, w))
            status = error_set(error, STATUS_MEMORY, "no thread to write a snapshot");
    }
    if (status) {
        snapshot_free(snapshot);
        free(w);
    } else {
        *writer = w;
    }
    return status;
}

void snapshots_touch(const char *name) {
    char path[JOURNAL_PATH_ROOM];
    Error ignored;
    if (!journal_snapshot_path(name, path, &ignored)) (void)utimensat(AT_FDCWD, path, NULL, 0);
}
