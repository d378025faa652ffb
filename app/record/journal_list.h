// The conversations that are kept: the folder of journals, by name and by age.
#ifndef PALAVER_APP_JOURNAL_LIST_H
#define PALAVER_APP_JOURNAL_LIST_H

#include "kernels/base/path.h"
#include "kernels/base/status.h"
#include "kernels/base/text/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

enum {
    JOURNAL_NAME_ROOM = 256,
    JOURNAL_PATH_ROOM = PATH_ROOM + JOURNAL_NAME_ROOM + 16,
};

typedef struct JournalEntry {
    char *name; // without the folder and .jsonl
    struct timespec changed;
    off_t size;
} JournalEntry;

typedef struct JournalList {
    JournalEntry *entries; // [count] the one written last comes last; owned
    size_t count, capacity;
} JournalList;

// Where journals are.
Status journal_folder(char *folder, Error *error);
// The file of a name, into path [JOURNAL_PATH_ROOM].
Status journal_path(const char *name, char *path, Error *error);

// Of the snapshot of what is cached, which lies beside it; likewise.
#define JOURNAL_SNAPSHOT ".kv"
Status journal_snapshot_path(const char *name, char *path, Error *error);
// Of what stood behind its last whole record; likewise.
Status journal_torn_path(const char *name, char *path, Error *error);

// All that are there; an empty list where there is no folder.
Status journal_list_read(JournalList *list, Error *error);
void journal_list_free(JournalList *list);

// The entry shown as `name` (text_name), or called so, or the only one that begins so; NULL: the one written last.
// STATUS_USAGE: several begin so, or the name is empty. STATUS_FILE: there is none (with the nearest name).
Status journal_list_find(const JournalList *list, const char *name, size_t *index, Error *error);
// The same for a whole name, which has to be there.
Status journal_list_find_whole(const JournalList *list, const char *name, size_t *index, Error *error);

// STATUS_USAGE unless `name` can be the name of a new conversation: no folder, not hidden, not too long, not in use.
Status journal_check_name(const char *name, Error *error);

// The first thing that was said in it, to text_free(); empty if that cannot be read. bytes NULL: out of memory.
Text journal_topic(const char *name);

// What there is in it: nothing, nothing that can be read, what a script has said, or what somebody has. One that cannot be
// opened counts as the last: who reads it says why.
typedef enum JournalState { JOURNAL_EMPTY, JOURNAL_LOST, JOURNAL_SCRIPT, JOURNAL_TALKED } JournalState;
JournalState journal_state(const JournalEntry *entry);
bool journal_is_empty(const JournalEntry *entry);

// The n-th of the names that begin so, into numbered [JOURNAL_NAME_ROOM]: NAME itself, NAME-2, NAME-3, …
void journal_numbered_name(const char *name, int n, char *numbered);
// The name of the copy in which a damaged journal goes on, into mended [JOURNAL_NAME_ROOM]; further ones are numbered.
void journal_mended_name(const char *name, char *mended);
// Whether an entry goes on in such a copy, which was written later: then it is no more than what is left of the damage.
bool journal_is_mended_later(const JournalList *list, size_t index);

// Removes a journal, and its snapshot, for good: an entry's name. STATUS_FILE: there is none, or another palaver has it
// open.
Status journal_delete(const char *name, Error *error);

#endif
