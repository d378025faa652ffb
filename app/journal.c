#include "app/journal.h"

#include "app/paths.h"
#include "config/nearest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUFFIX ".jsonl"

enum {
    NAME_ROOM = 256,
    FILE_ROOM = PATH_ROOM + NAME_ROOM + 16, // bytes of a journal's path
    TRIES = 1000,                           // names that begin in the same second
    READ_LIMIT = 1 << 30,                   // bytes of a journal
};

struct Journal {
    int file; // -1: not made yet
    char name[NAME_ROOM];
    size_t written; // bytes of the log in the file
};

static Status journal_folder(char *folder, Error *error) {
    return path_state("conversations", folder, error);
}

static Status journal_alloc(Journal **journal, Error *error) {
    *journal = calloc(1, sizeof **journal);
    if (!*journal) return error_set(error, STATUS_MEMORY, "out of memory");
    (*journal)->file = -1;
    return STATUS_OK;
}

Status journal_new(Journal **journal, Error *error) {
    return journal_alloc(journal, error);
}

void journal_close(Journal *journal) {
    if (!journal) return;
    if (journal->file >= 0) close(journal->file); // gives the lock back
    free(journal);
}

const char *journal_name(const Journal *journal) {
    return journal->name;
}

// ---- writing ----------------------------------------------------------------------------------------------

static Status journal_make(Journal *journal, Error *error) {
    char folder[PATH_ROOM], path[FILE_ROOM], stem[64];
    if (journal_folder(folder, error) || path_make_folder(folder, 0700, error)) return error->status;
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local)) memset(&local, 0, sizeof local);
    strftime(stem, sizeof stem, "%Y-%m-%d-%H%M%S", &local);
    for (int i = 1; i <= TRIES; i++) {
        if (i == 1)
            snprintf(journal->name, sizeof journal->name, "%s", stem);
        else
            snprintf(journal->name, sizeof journal->name, "%s-%d", stem, i);
        snprintf(path, sizeof path, "%s/%s%s", folder, journal->name, SUFFIX);
        journal->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (journal->file >= 0 || errno != EEXIST) break;
    }
    if (journal->file < 0) {
        journal->name[0] = 0;
        return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    }
    path_sync_name(path);
    (void)flock(journal->file,
                LOCK_EX | LOCK_NB); // nobody else can have it; a file system without locks is fine
    return STATUS_OK;
}

static Status write_rest(Journal *journal, const char *log, size_t size, Error *error) {
    size_t at = journal->written;
    while (at < size) {
        ssize_t n = pwrite(journal->file, log + at, size - at, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        at += (size_t)n;
    }
    while (at == size && fdatasync(journal->file)) {
        if (errno == EINTR) continue;
        at = journal->written;
    }
    if (at == size) {
        journal->written = size;
        return STATUS_OK;
    }
    int reason = errno;
    while (ftruncate(journal->file, (off_t)journal->written) && errno == EINTR) {
    }
    return error_set(error, STATUS_FILE,
                     "the journal %s%s cannot be written: %s: make room; until then this "
                     "conversation is only in memory (/save FILE)",
                     journal->name, SUFFIX, strerror(reason));
}

Status journal_sync(Journal *journal, const Transcript *transcript, Error *error) {
    size_t size;
    const char *log = transcript_log(transcript, &size);
    if (journal->file < 0) {
        if (!transcript_tree(transcript)->n) return STATUS_OK;
        Status status = journal_make(journal, error);
        if (status) return error_prefix(error, "no journal of this conversation: ");
    }
    return size == journal->written ? STATUS_OK : write_rest(journal, log, size, error);
}

// ---- resuming ---------------------------------------------------------------------------------------------

typedef struct JournalList {
    char **names; // [count] without the suffix
    struct timespec *times;
    size_t count;
} JournalList;

static void list_free(JournalList *list) {
    for (size_t i = 0; i < list->count; i++) free(list->names[i]);
    free(list->names);
    free(list->times);
}

static bool list_add(JournalList *list, const char *folder, const char *file) {
    char path[FILE_ROOM];
    struct stat facts;
    size_t length = strlen(file);
    if (file[0] == '.' || length <= strlen(SUFFIX) || length >= NAME_ROOM) return true;
    if (strcmp(file + length - strlen(SUFFIX), SUFFIX)) return true;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (stat(path, &facts) || !S_ISREG(facts.st_mode)) return true;
    char **names = realloc(list->names, (list->count + 1) * sizeof *names);
    if (names) list->names = names;
    struct timespec *times = realloc(list->times, (list->count + 1) * sizeof *times);
    if (times) list->times = times;
    char *name = strndup(file, length - strlen(SUFFIX));
    if (!names || !times || !name) {
        free(name);
        return false;
    }
    list->names[list->count] = name;
    list->times[list->count++] = facts.st_mtim;
    return true;
}

static Status list_read(const char *folder, JournalList *list, Error *error) {
    *list = (JournalList){0};
    DIR *directory = opendir(folder);
    if (!directory) {
        if (errno == ENOENT) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s: %s", folder, strerror(errno));
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(directory));)
        ok = list_add(list, folder, entry->d_name);
    closedir(directory);
    if (ok) return STATUS_OK;
    list_free(list);
    return error_set(error, STATUS_MEMORY, "out of memory");
}

static bool is_later(struct timespec a, struct timespec b) {
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

// Index of the journal that is meant.
static Status list_choose(const JournalList *list, const char *folder, const char *name, size_t *chosen,
                          Error *error) {
    if (!list->count)
        return error_set(error, STATUS_FILE, "there is no conversation to resume in %s", folder);
    *chosen = 0;
    if (!name) {
        for (size_t i = 1; i < list->count; i++)
            if (is_later(list->times[i], list->times[*chosen]) ||
                (!is_later(list->times[*chosen], list->times[i]) &&
                 strcmp(list->names[i], list->names[*chosen]) > 0))
                *chosen = i;
        return STATUS_OK;
    }
    size_t n_begin = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!strcmp(list->names[i], name)) {
            *chosen = i;
            return STATUS_OK;
        }
        if (!strncmp(list->names[i], name, strlen(name))) *chosen = i, n_begin++;
    }
    if (n_begin == 1) return STATUS_OK;
    if (n_begin)
        return error_set(error, STATUS_USAGE, "--resume=%s: %zu conversations begin so", name, n_begin);
    int nearest = nearest_name(name, (const char *const *)list->names, list->count);
    if (nearest >= 0)
        return error_set(error, STATUS_FILE, "there is no conversation %s: did you mean %s?", name,
                         list->names[nearest]);
    return error_set(error, STATUS_FILE, "there is no conversation %s in %s", name, folder);
}

static Status journal_read(Journal *journal, const char *path, Transcript **transcript, Error *error) {
    journal->file = open(path, O_RDWR | O_CLOEXEC);
    if (journal->file < 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    if (flock(journal->file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(error, STATUS_FILE, "%s: another palaver has this conversation open", path);
    char *text;
    size_t size, taken;
    if (path_read_file(path, READ_LIMIT, &text, &size, error)) return error->status;
    Status status = transcript_parse(path, text, size, transcript, error);
    free(text);
    if (status) return status;
    transcript_log(*transcript, &taken);
    journal->written = taken < size ? taken : size;
    if (journal->written < size && ftruncate(journal->file, (off_t)journal->written))
        status =
            error_set(error, STATUS_FILE, "%s: its torn end cannot be cut off: %s", path, strerror(errno));
    if (status) {
        transcript_free(*transcript);
        *transcript = NULL;
    }
    return status;
}

Status journal_resume(const char *name, Journal **journal, Transcript **transcript, Error *error) {
    char folder[PATH_ROOM], path[FILE_ROOM];
    JournalList list;
    size_t chosen = 0;
    *journal = NULL;
    *transcript = NULL;
    if (journal_folder(folder, error) || list_read(folder, &list, error)) return error->status;
    Status status = list_choose(&list, folder, name, &chosen, error);
    if (status == STATUS_OK) status = journal_alloc(journal, error);
    if (status == STATUS_OK) {
        snprintf((*journal)->name, NAME_ROOM, "%s", list.names[chosen]);
        snprintf(path, sizeof path, "%s/%s%s", folder, (*journal)->name, SUFFIX);
        status = journal_read(*journal, path, transcript, error);
    }
    list_free(&list);
    if (status) {
        journal_close(*journal);
        *journal = NULL;
    }
    return status;
}
