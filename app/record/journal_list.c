#include "app/record/journal_list.h"

#include "app/record/transcript/transcript_salvage.h"
#include "app/terminal/text_shown.h"
#include "kernels/base/array.h"
#include "kernels/base/text/nearest.h"
#include "kernels/base/text/quote.h"
#include "kernels/base/text/utf8.h"
#include "kernels/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".jsonl"
#define MENDED "-mended"

enum {
    NAME_LIMIT = 100, // bytes of a name that a person chooses
    TOPIC_LINES = 20, // of a journal's beginning, among which its first turn is looked for
    NUMBERED_STEM = JOURNAL_NAME_ROOM - 13, // bytes of a name that numbered ones keep
    MENDED_STEM = NUMBERED_STEM - 7,        // and its mended copy's
};

Status journal_folder(char *folder, Error *error) {
    return path_state("conversations", folder, error);
}

static Status path_beside(const char *name, const char *suffix, char *path, Error *error) {
    char folder[PATH_ROOM];
    if (journal_folder(folder, error)) return error->status;
    snprintf(path, JOURNAL_PATH_ROOM, "%s/%.*s%s", folder, JOURNAL_NAME_ROOM, name, suffix);
    return STATUS_OK;
}

Status journal_path(const char *name, char *path, Error *error) {
    return path_beside(name, SUFFIX, path, error);
}

Status journal_snapshot_path(const char *name, char *path, Error *error) {
    return path_beside(name, JOURNAL_SNAPSHOT, path, error);
}
Status journal_torn_path(const char *name, char *path, Error *error) {
    return path_beside(name, ".torn", path, error);
}

// ---- reading the folder -----------------------------------------------------------------------------------

void journal_list_free(JournalList *list) {
    for (size_t i = 0; i < list->count; i++) free(list->entries[i].name);
    free(list->entries);
    *list = (JournalList){0};
}

static bool add_file(JournalList *list, const char *folder, const char *file) {
    char path[JOURNAL_PATH_ROOM];
    struct stat facts;
    size_t length = strlen(file);
    if (file[0] == '.' || length <= strlen(SUFFIX) || length >= JOURNAL_NAME_ROOM) return true;
    if (strcmp(file + length - strlen(SUFFIX), SUFFIX)) return true;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (stat(path, &facts) || !S_ISREG(facts.st_mode)) return true;
    if (!array_reserve(&list->entries, sizeof *list->entries, list->count, 1, &list->capacity)) return false;
    char *name = strndup(file, length - strlen(SUFFIX));
    if (!name) return false;
    list->entries[list->count++] = (JournalEntry){name, facts.st_mtim, facts.st_size};
    return true;
}

static int by_time(const void *a, const void *b) {
    const JournalEntry *x = a, *y = b;
    if (x->changed.tv_sec != y->changed.tv_sec) return x->changed.tv_sec < y->changed.tv_sec ? -1 : 1;
    if (x->changed.tv_nsec != y->changed.tv_nsec) return x->changed.tv_nsec < y->changed.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

Status journal_list_read(JournalList *list, Error *error) {
    char folder[PATH_ROOM];
    *list = (JournalList){0};
    if (journal_folder(folder, error)) return error->status;
    DIR *directory = opendir(folder);
    if (!directory) {
        if (errno == ENOENT) return STATUS_OK;
        return error_set(error, STATUS_FILE, "%s: %s", folder, strerror(errno));
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(directory));)
        ok = add_file(list, folder, entry->d_name);
    closedir(directory);
    if (list->count) qsort(list->entries, list->count, sizeof *list->entries, by_time);
    if (ok) return STATUS_OK;
    journal_list_free(list);
    return error_set(error, STATUS_MEMORY, "out of memory");
}

// ---- names ------------------------------------------------------------------------------------------------

// The entry shown so, or called exactly so, or NULL.
static const JournalEntry *entry_called(const JournalList *list, const char *name) {
    const JournalEntry *called = NULL;
    for (size_t i = 0; i < list->count; i++) {
        const JournalEntry *entry = &list->entries[i];
        if (!strcmp(text_name(entry->name).text, name)) return entry;
        if (!strcmp(entry->name, name)) called = entry;
    }
    return called;
}

static bool begins_so(const JournalEntry *entry, const char *name) {
    const size_t n = strlen(name);
    return !strncmp(text_name(entry->name).text, name, n) || !strncmp(entry->name, name, n);
}

// The entry that is shown most like `name`; -1: none is, or there is no memory to look.
static int nearest_shown(const JournalList *list, const char *name) {
    char **names = calloc(list->count + 1, sizeof *names);
    bool all = names;
    for (size_t i = 0; all && i < list->count; i++)
        all = (names[i] = strdup(text_name(list->entries[i].name).text)) != NULL;
    const int nearest = all ? nearest_name(name, (const char *const *)names, list->count) : -1;
    for (size_t i = 0; names && i < list->count; i++) free(names[i]);
    free(names);
    return nearest;
}

static Status not_there(const JournalList *list, const char *name, Error *error) {
    const int nearest = nearest_shown(list, name);
    if (nearest >= 0 && (size_t)nearest < list->count)
        return error_set(error, STATUS_FILE, "there is no conversation %s: did you mean %s?",
                         quote(name).text, text_name(list->entries[nearest].name).text);
    char folder[PATH_ROOM];
    if (journal_folder(folder, error)) return error->status;
    return error_set(error, STATUS_FILE, "there is no conversation %s in %s", quote(name).text, folder);
}

Status journal_list_find_whole(const JournalList *list, const char *name, size_t *index, Error *error) {
    const JournalEntry *entry = entry_called(list, name);
    if (!entry) return not_there(list, name, error);
    *index = (size_t)(entry - list->entries);
    return STATUS_OK;
}

Status journal_list_find(const JournalList *list, const char *name, size_t *index, Error *error) {
    char folder[PATH_ROOM];
    *index = 0;
    if (name && !*name) return error_set(error, STATUS_USAGE, "a name is missing: which conversation?");
    if (!list->count) {
        if (journal_folder(folder, error)) return error->status;
        return error_set(error, STATUS_FILE, "there is no conversation to resume in %s", folder);
    }
    if (!name) {
        *index = list->count - 1;
        return STATUS_OK;
    }
    const JournalEntry *exact = entry_called(list, name);
    if (exact) {
        *index = (size_t)(exact - list->entries);
        return STATUS_OK;
    }
    size_t n_begin = 0;
    for (size_t i = 0; i < list->count; i++)
        if (begins_so(&list->entries[i], name)) *index = i, n_begin++;
    if (n_begin > 1)
        return error_set(error, STATUS_USAGE, "%s: %zu conversations begin so; give more of the name",
                         quote(name).text, n_begin);
    return n_begin ? STATUS_OK : not_there(list, name, error);
}

Status journal_check_name(const char *name, Error *error) {
    size_t size = strlen(name);
    if (!name[strspn(name, "\"'")]) // "" is how one writes an empty name
        return error_set(error, STATUS_USAGE, "a name is missing: what is the conversation to be called?");
    bool ok = size <= NAME_LIMIT && *name != '.' && *name != '-' && utf8_valid_run(name, size) == size;
    for (size_t i = 0; i < size; i++) ok = ok && name[i] != '/' && (unsigned char)name[i] >= ' ';
    if (!ok)
        return error_set(error, STATUS_USAGE,
                         "%s: a name has 1 to %d bytes, none of them /, and begins with no . or -",
                         quote(name).text, NAME_LIMIT);
    JournalList list;
    Status status = journal_list_read(&list, error);
    const JournalEntry *entry = status ? NULL : entry_called(&list, name);
    if (entry)
        status = error_set(error, STATUS_USAGE, "there is a conversation %s already: /switch %s",
                           text_name(entry->name).text, text_name(entry->name).text);
    journal_list_free(&list);
    return status;
}

// ---- single journals --------------------------------------------------------------------------------------

// Takes what was said in a line of a journal: of a turn, which is true, or a question whose answer may still come, or
// never does.
static bool take_said(const char *line, size_t size, Text *said) {
    json_t *record = json_loadb(line, size, JSON_ALLOW_NUL, NULL);
    const char *kind = json_string_value(json_object_get(record, "record"));
    bool asked = kind && !strcmp(kind, "asked"), turn = kind && !strcmp(kind, "turn");
    const json_t *text = json_object_get(record, asked ? "text" : "user");
    if (turn && !json_is_string(text)) text = json_object_get(record, "reply"); // nobody asked: /say
    const bool found = turn && json_is_string(text);
    if (asked || found) text_free(said);
    if ((asked && json_is_string(text)) || found)
        (void)text_add(said, json_string_value(text), json_string_length(text));
    json_decref(record);
    return found;
}

Text journal_topic(const char *name) {
    char path[JOURNAL_PATH_ROOM], *line = NULL;
    Text topic = {0};
    size_t capacity = 0;
    Error ignored;
    FILE *file = journal_path(name, path, &ignored) ? NULL : fopen(path, "re");
    ssize_t n;
    for (int i = 0; file && i < TOPIC_LINES && (n = getline(&line, &capacity, file)) > 0; i++)
        if (take_said(line, (size_t)n, &topic)) break;
    free(line);
    if (file) fclose(file);
    (void)text_add(&topic, "", 0);
    return topic;
}

bool journal_is_empty(const JournalEntry *entry) {
    return entry->size == 0;
}

// Who began a journal is said by its first record that can be read, mended or not: a damaged journal counts as what it
// becomes when it is resumed. Only a script's journal is read beyond that.
JournalState journal_state(const JournalEntry *entry) {
    static const char TALKED[] = "{\"record\":\"talked\"";
    if (journal_is_empty(entry)) return JOURNAL_EMPTY;
    char path[JOURNAL_PATH_ROOM], *line = NULL;
    size_t capacity = 0;
    Error ignored;
    FILE *file = journal_path(entry->name, path, &ignored) ? NULL : fopen(path, "re");
    json_t *header = NULL;
    bool whole;
    for (ssize_t n; file && !header && (n = getline(&line, &capacity, file)) > 0;)
        header = transcript_salvage_record(line, (size_t)n, &whole);
    const char *by = json_string_value(json_object_get(header, "by"));
    const bool lost = file && !header;
    bool talked = !by || strcmp(by, "script") != 0;
    while (!talked && getline(&line, &capacity, file) > 0) talked = !strncmp(line, TALKED, sizeof TALKED - 1);
    json_decref(header);
    free(line);
    if (file) fclose(file);
    return lost ? JOURNAL_LOST : talked ? JOURNAL_TALKED : JOURNAL_SCRIPT;
}

// The bytes of a name that is cut to so many; no character is cut.
static int stem_of(const char *name, size_t most) {
    size_t n = strlen(name);
    if (n > most)
        for (n = most; n > most - 3 && utf8_continues(name[n]);) n--;
    return (int)n;
}

void journal_numbered_name(const char *name, int n, char *numbered) {
    if (n == 1)
        snprintf(numbered, JOURNAL_NAME_ROOM, "%s", name);
    else
        snprintf(numbered, JOURNAL_NAME_ROOM, "%.*s-%d", stem_of(name, NUMBERED_STEM), name, n);
}

void journal_mended_name(const char *name, char *mended) {
    snprintf(mended, JOURNAL_NAME_ROOM, "%.*s" MENDED, stem_of(name, MENDED_STEM), name);
}

// NAME-mended, or NAME-mended-2 and so on where that name was in use.
static bool is_mended_from(const char *name, const char *mended) {
    char stem[JOURNAL_NAME_ROOM];
    journal_mended_name(name, stem);
    size_t n = strlen(stem);
    if (strncmp(mended, stem, n) != 0) return false;
    return !mended[n] ||
           (mended[n] == '-' && mended[n + 1] && !mended[n + 1 + strspn(mended + n + 1, "0123456789")]);
}

bool journal_is_mended_later(const JournalList *list, size_t index) {
    for (size_t i = index + 1; i < list->count; i++)
        if (!journal_is_empty(&list->entries[i]) &&
            is_mended_from(list->entries[index].name, list->entries[i].name))
            return true;
    return false;
}

Status journal_delete(const char *name, Error *error) {
    char path[JOURNAL_PATH_ROOM], snapshot[JOURNAL_PATH_ROOM], torn[JOURNAL_PATH_ROOM];
    Status status = journal_path(name, path, error);
    if (!status) status = journal_snapshot_path(name, snapshot, error);
    if (!status) status = journal_torn_path(name, torn, error);
    if (status) return status;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    if (flock(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        status = error_set(error, STATUS_FILE, "%s: another palaver has this conversation open",
                           text_name(name).text);
    else if (unlink(path))
        status = error_set(error, STATUS_FILE, "%s: %s", path, strerror(errno));
    else
        (void)unlink(snapshot), (void)unlink(torn), file_sync_name(path);
    close(file);
    return status;
}
