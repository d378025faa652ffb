#include "app/record/journal.h"

#include "app/record/journal_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TRIES = 1000,         // names that begin in the same second
    READ_LIMIT = 1 << 30, // bytes of a journal
};

struct Journal {
    int file;                     // -1: not made yet
    char name[JOURNAL_NAME_ROOM]; // before the file is made: what was asked for, or ""
    size_t written;               // bytes of the log in the file
};

Status journal_new(const char *name, Journal **journal, Error *error) {
    *journal = calloc(1, sizeof **journal);
    if (!*journal) return error_set(error, STATUS_MEMORY, "out of memory");
    (*journal)->file = -1;
    if (name) snprintf((*journal)->name, JOURNAL_NAME_ROOM, "%s", name);
    return STATUS_OK;
}

void journal_close(Journal *journal) {
    if (!journal) return;
    if (journal->file >= 0) close(journal->file); // gives the lock back
    free(journal);
}

const char *journal_name(const Journal *journal) {
    return journal->file < 0 ? "" : journal->name;
}

// ---- writing ----------------------------------------------------------------------------------------------

static Status journal_make(Journal *journal, Error *error) {
    char folder[PATH_ROOM], path[JOURNAL_PATH_ROOM], stem[JOURNAL_NAME_ROOM - 8];
    if (journal_folder(folder, error) || path_make_folder(folder, 0700, error)) return error->status;
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local)) memset(&local, 0, sizeof local);
    strftime(stem, sizeof stem, "%Y-%m-%d-%H%M%S", &local);
    if (*journal->name) snprintf(stem, sizeof stem, "%.*s", (int)sizeof stem - 1, journal->name);
    for (int i = 1; i <= TRIES; i++) {
        char name[JOURNAL_NAME_ROOM], number[8] = "";
        if (i > 1) snprintf(number, sizeof number, "-%d", i);
        snprintf(name, sizeof name, "%s%s", stem, number);
        if (journal_path(name, path, error)) return error->status;
        journal->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (journal->file >= 0) memcpy(journal->name, name, sizeof name);
        if (journal->file >= 0 || errno != EEXIST) break;
    }
    if (journal->file < 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
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
                     "the journal %s.jsonl cannot be written: %s: make room; until then this "
                     "conversation is only in memory (/save FILE)",
                     journal->name, strerror(reason));
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
    char path[JOURNAL_PATH_ROOM];
    JournalList list;
    size_t chosen = 0;
    *journal = NULL;
    *transcript = NULL;
    if (journal_list_read(&list, error)) return error->status;
    Status status = journal_list_find(&list, name, &chosen, error);
    if (status == STATUS_OK) status = journal_new(list.entries[chosen].name, journal, error);
    if (status == STATUS_OK) status = journal_path((*journal)->name, path, error);
    if (status == STATUS_OK) status = journal_read(*journal, path, transcript, error);
    journal_list_free(&list);
    if (status) {
        journal_close(*journal);
        *journal = NULL;
    }
    return status;
}
