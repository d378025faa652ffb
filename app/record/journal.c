#include "app/record/journal.h"

#include "app/record/journal_list.h"
#include "app/record/transcript/transcript_salvage.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
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
    bool made;                    // the file is ours from its beginning
    Text note;
};

Status journal_new(const char *name, Journal **journal, Error *error) {
    *journal = calloc(1, sizeof **journal);
    if (!*journal) return error_set(error, STATUS_MEMORY, "out of memory");
    (*journal)->file = -1;
    if (name) snprintf((*journal)->name, JOURNAL_NAME_ROOM, "%s", name);
    return STATUS_OK;
}

void journal_close(Journal *journal) {
    char path[JOURNAL_PATH_ROOM];
    Error ignored;
    if (!journal) return;
    // What a full disk kept from being written is no conversation.
    if (journal->made && !journal->written && !journal_path(journal->name, path, &ignored)) unlink(path);
    if (journal->file >= 0) close(journal->file); // gives the lock back
    text_free(&journal->note);
    free(journal);
}

const char *journal_note(const Journal *journal) {
    return journal->note.size ? journal->note.bytes : "";
}

// Adds to what is to be told once; "; " stands between. Without memory it is not told.
__attribute__((format(printf, 2, 3))) static void add_note(Journal *journal, const char *format, ...) {
    char *added;
    va_list list;
    va_start(list, format);
    if (vasprintf(&added, format, list) < 0) added = NULL;
    va_end(list);
    if (added && (!journal->note.size || text_add(&journal->note, "; ", 2)))
        (void)text_add(&journal->note, added, strlen(added));
    free(added);
}

const char *journal_name(const Journal *journal) {
    return journal->file < 0 ? "" : journal->name;
}

const char *journal_wished_name(const Journal *journal) {
    return journal->name;
}

// ---- writing ----------------------------------------------------------------------------------------------

static bool is_there(const char *name) {
    char path[JOURNAL_PATH_ROOM];
    struct stat facts;
    Error ignored;
    return !journal_path(name, path, &ignored) && !lstat(path, &facts);
}

// The first of STEM, STEM-2, STEM-3, … that is no journal's name; `before` [JOURNAL_NAME_ROOM] is the last that is, or
// "". False: all are.
static bool find_free_name(const char *stem, char *name, char *before) {
    *before = 0;
    for (int i = 1; i <= TRIES; i++) {
        journal_numbered_name(stem, i, name);
        if (!is_there(name)) return true;
        memcpy(before, name, JOURNAL_NAME_ROOM);
    }
    return false;
}

static Status journal_make(Journal *journal, Error *error) {
    char folder[PATH_ROOM], path[JOURNAL_PATH_ROOM], stem[JOURNAL_NAME_ROOM], name[JOURNAL_NAME_ROOM],
        before[JOURNAL_NAME_ROOM];
    if (journal_folder(folder, error) || path_make_folder(folder, 0700, error)) return error->status;
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local)) memset(&local, 0, sizeof local);
    strftime(stem, sizeof stem, "%Y-%m-%d-%H%M%S", &local);
    if (*journal->name) memcpy(stem, journal->name, sizeof stem);
    bool is_free;
    do { // again where another palaver was faster
        is_free = find_free_name(stem, name, before);
        if (journal_path(name, path, error)) return error->status;
        journal->file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (journal->file < 0 && errno == EEXIST && is_free);
    if (journal->file < 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    memcpy(journal->name, name, sizeof name);
    journal->made = true;
    file_sync_name(path);
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
    struct stat facts;
    if (at == size && !fstat(journal->file, &facts) && (size_t)facts.st_size > size &&
        ftruncate(journal->file, (off_t)size)) // what an earlier failure left
        at = journal->written;
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
                     text_name(journal->name).text, strerror(reason));
}

// What other programs did to the file: a journal that was removed, or replaced, is made again; what was cut off is
// written again.
static Status look_after(Journal *journal, Error *error) {
    struct stat facts;
    if (fstat(journal->file, &facts)) return STATUS_OK; // writing will tell
    if ((size_t)facts.st_size < journal->written) journal->written = 0;
    if (facts.st_nlink) return STATUS_OK;
    int removed = journal->file;
    Status status = journal_make(journal, error);
    if (status) {
        journal->file = removed;
        return status;
    }
    close(removed);
    journal->written = 0;
    return STATUS_OK;
}

// A first question that was taken back leaves nothing.
static Status forget(Journal *journal, Error *error) {
    journal->written = 0;
    return ftruncate(journal->file, 0) ? error_set(error, STATUS_FILE, "the journal %s.jsonl: %s",
                                                   text_name(journal->name).text, strerror(errno))
                                       : STATUS_OK;
}

Status journal_sync(Journal *journal, const Transcript *transcript, Error *error) {
    size_t size;
    const char *log = transcript_log(transcript, &size);
    bool empty = !transcript_tree(transcript)->n && !transcript_asked(transcript);
    if (journal->file < 0 && empty) return STATUS_OK;
    if (journal->made && empty) return forget(journal, error);
    if (journal->file < 0 ? journal_make(journal, error) : look_after(journal, error))
        return error_prefix(error, "no journal of this conversation (--no-save wants none): ");
    return size == journal->written ? STATUS_OK : write_rest(journal, log, size, error);
}

// ---- resuming ---------------------------------------------------------------------------------------------

// Puts what follows the last whole record into NAME.torn, behind what is there.
static Status keep_torn(const Journal *journal, const char *bytes, size_t size, Error *error) {
    char path[JOURNAL_PATH_ROOM];
    if (journal_torn_path(journal->name, path, error)) return error->status;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool ok =
        file >= 0 && write(file, bytes, size) == (ssize_t)size && write(file, "\n", 1) == 1 && !fsync(file);
    int reason = errno;
    if (file >= 0) close(file);
    return ok ? STATUS_OK
              : error_set(error, STATUS_FILE, "%s: cannot be written: %s", path, strerror(reason));
}

static Status cut_torn_end(Journal *journal, const char *path, const char *text, size_t size, Error *error) {
    size_t torn = size - journal->written;
    if (keep_torn(journal, text + journal->written, torn, error))
        return error_prefix(error, "%s: its last record is torn: ", path);
    if (ftruncate(journal->file, (off_t)journal->written))
        return error_set(error, STATUS_FILE, "%s: its torn end cannot be cut off: %s", path, strerror(errno));
    add_note(journal, "the last record of %s was not written whole: its %zu bytes are in %s.torn",
             text_name(journal->name).text, torn, text_name(journal->name).text);
    return STATUS_OK;
}

// The damaged file stays as it is; what was read of it goes into one of its own with the next record.
static void leave_damaged(Journal *journal, const char *note) {
    char mended[JOURNAL_NAME_ROOM], name[JOURNAL_NAME_ROOM], before[JOURNAL_NAME_ROOM];
    journal_mended_name(journal->name, mended);
    (void)find_free_name(mended, name, before); // where all are taken, a later one is found when it is made
    add_note(journal, "%s. It goes on in %s", note, text_name(name).text);
    if (*before)
        add_note(journal, "what was said since it was mended before is in %s (--resume=%s)",
                 text_name(before).text, text_shell_word(text_name(before).text).text);
    else
        add_note(journal, "the file stays as it is");
    close(journal->file);
    journal->file = -1;
    memcpy(journal->name, name, sizeof name);
}

static Status journal_read(Journal *journal, const char *path, Transcript **transcript, Error *error) {
    journal->file = open(path, O_RDWR | O_CLOEXEC);
    if (journal->file < 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    if (flock(journal->file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(
            error, STATUS_FILE,
            "%s: another palaver has this conversation open; --resume=NAME takes one that /list shows", path);
    char *text, note[TRANSCRIPT_NOTE_ROOM];
    size_t size, taken;
    if (file_read(path, READ_LIMIT, &text, &size, error)) return error->status;
    Status status = transcript_recover(path, text, size, transcript, note, error);
    if (!status && *note) {
        leave_damaged(journal, note);
    } else if (!status) {
        transcript_log(*transcript, &taken);
        journal->written = taken < size ? taken : size;
        if (journal->written < size) status = cut_torn_end(journal, path, text, size, error);
        if (status) {
            transcript_free(*transcript);
            *transcript = NULL;
        }
    }
    free(text);
    return status;
}

// What --resume without a name passes over: journals without anything, and those of which nothing can be read.
typedef struct PassedOver {
    int empty, lost;
    const char *name; // of the lost ones the last
} PassedOver;

static bool anything_said(const JournalEntry *entry) {
    Text topic = journal_topic(entry->name);
    const bool said = !topic.bytes || topic.size;
    text_free(&topic);
    return said;
}

// The one that --resume means without a name: the last that somebody has talked in, else the last of all; a damaged one
// that goes on in a mended copy is neither, nor, where there is another, one in which nothing is said.
static size_t find_last(const JournalList *list, PassedOver *passed) {
    size_t last = list->count, unsaid = list->count;
    int n_unsaid = 0; // before one in which something is said
    for (size_t i = list->count; i-- > 0;) {
        const JournalState state = journal_state(&list->entries[i]);
        passed->empty += state == JOURNAL_EMPTY;
        if (state == JOURNAL_LOST && !passed->lost++) passed->name = list->entries[i].name;
        if (state < JOURNAL_SCRIPT || journal_is_mended_later(list, i)) continue;
        if (!anything_said(&list->entries[i])) { // what it was begun with is all that it holds
            n_unsaid += last == list->count;
            if (unsaid == list->count) unsaid = i;
            continue;
        }
        if (last == list->count || state == JOURNAL_TALKED) last = i;
        if (state == JOURNAL_TALKED) break;
    }
    if (last == list->count) return unsaid;
    passed->empty += n_unsaid;
    return last;
}

static Status choose(const JournalList *list, const char *name, size_t *chosen, PassedOver *passed,
                     Error *error) {
    if (name || !list->count) return journal_list_find(list, name, chosen, error);
    *chosen = find_last(list, passed);
    if (*chosen < list->count) return STATUS_OK;
    return error_set(error, STATUS_FILE, "there is no conversation to resume: all that are kept are empty%s",
                     passed->lost ? ", or nothing in them can be read" : "");
}

static void note_passed(Journal *journal, const PassedOver *passed) {
    if (passed->empty)
        add_note(journal, "%d empty journal%s passed over", passed->empty,
                 passed->empty == 1 ? " is" : "s are");
    if (passed->lost == 1)
        add_note(journal, "%s is passed over: nothing in it can be read; /delete removes it",
                 text_name(passed->name).text);
    else if (passed->lost)
        add_note(journal, "%d journals are passed over, %s the last: nothing in them can be read",
                 passed->lost, text_name(passed->name).text);
}

bool journal_is_named(const char *name) {
    JournalList list;
    Error error;
    size_t index;
    if (journal_list_read(&list, &error)) return false;
    Status status = journal_list_find(&list, name, &index, &error);
    journal_list_free(&list);
    return !status || status == STATUS_USAGE;
}

Status journal_resume(const char *name, Journal **journal, Transcript **transcript, Error *error) {
    char path[JOURNAL_PATH_ROOM];
    JournalList list;
    size_t chosen = 0;
    *journal = NULL;
    *transcript = NULL;
    if (journal_list_read(&list, error)) return error->status;
    PassedOver passed = {0};
    Status status = choose(&list, name, &chosen, &passed, error);
    if (!status) status = journal_new(list.entries[chosen].name, journal, error);
    if (!status) note_passed(*journal, &passed);
    if (!status) status = journal_path((*journal)->name, path, error);
    if (!status) status = journal_read(*journal, path, transcript, error);
    journal_list_free(&list);
    if (status) {
        journal_close(*journal);
        *journal = NULL;
    }
    return status;
}
