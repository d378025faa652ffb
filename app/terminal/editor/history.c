#include "app/terminal/editor/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/terminal/text_shown.h"
#include "kernels/base/file.h"

enum {
    LINE_ROOM = 2 * HISTORY_MAX_ENTRY + 1, // bytes of a line: each of a turn's may be escaped
    FILE_LIMIT = 64 << 20,                 // bytes of the file that are read, from its end
};

struct TurnHistory {
    char *path; // NULL: in memory only
    bool torn;  // the file's last line has no end: its writer was stopped
    char *entries[HISTORY_MAX];
    size_t count;
};

// Takes ownership of `turn`.
static void push(TurnHistory *history, char *turn) {
    if (history->count == HISTORY_MAX) {
        free(history->entries[0]);
        memmove(history->entries, history->entries + 1, (HISTORY_MAX - 1) * sizeof *history->entries);
        history->count--;
    }
    history->entries[history->count++] = turn;
}

static bool add_escaped(Text *out, const char *turn) {
    bool ok = true;
    for (; ok && *turn; turn++) {
        if (*turn == '\n')
            ok = text_add(out, "\\n", 2);
        else if (*turn == '\\')
            ok = text_add(out, "\\\\", 2);
        else
            ok = text_add(out, turn, 1);
    }
    return ok && text_add(out, "\n", 1);
}

// In place.
static void unescape(char *line) {
    char *to = line;
    for (; *line; line++) {
        if (line[0] == '\\' && line[1])
            *to++ = *++line == 'n' ? '\n' : *line;
        else
            *to++ = *line;
    }
    *to = 0;
}

// Makes the folders above `path`, as the XDG specification asks: mode 700.
static bool make_folders(const char *path) {
    char *folder = strdup(path);
    if (!folder) return false;
    bool ok = true;
    for (char *slash = strchr(folder + 1, '/'); ok && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        ok = mkdir(folder, 0700) == 0 || errno == EEXIST;
        *slash = '/';
    }
    free(folder);
    return ok;
}

// Takes a line [n] of the file, which is changed. False: out of memory.
static bool take_line(TurnHistory *history, char *line, size_t n) {
    line[n] = 0;
    unescape(line);
    char *turn = *line ? text_clean(line, strlen(line), NULL) : NULL;
    if (turn) push(history, turn);
    return turn || !*line;
}

// Lines that are longer than any that is written here are somebody else's and left out, as is all but the end of a file
// that is larger than a history.
static Status read_file(TurnHistory *history, FILE *file, off_t size, size_t *lines, Error *error) {
    char *line = malloc(LINE_ROOM);
    bool ok = line != NULL, skip = size > FILE_LIMIT; // the first line is not whole
    size_t n = 0;
    if (skip && fseeko(file, size - FILE_LIMIT, SEEK_SET)) skip = false;
    for (int c; ok && (c = getc_unlocked(file)) != EOF;) {
        history->torn = c != '\n';
        if (history->torn) {
            skip = skip || n == LINE_ROOM - 1;
            if (!skip) line[n++] = (char)c;
            continue;
        }
        ok = skip || take_line(history, line, n);
        ++*lines;
        n = 0;
        skip = false;
    }
    int reason = errno;
    if (ok && n) ok = skip || take_line(history, line, n);
    free(line);
    if (!ok) return error_set(error, STATUS_FILE, "%s: no memory to read it", history->path);
    if (ferror(file)) return error_set(error, STATUS_FILE, "%s: %s", history->path, strerror(reason));
    return STATUS_OK;
}

// Writes what is kept to a file of its own and puts it in the place of the old one.
static void shorten(const TurnHistory *history) {
    Text out = {0};
    bool ok = text_add(&out, history->path, strlen(history->path)) && text_add(&out, ".XXXXXX", 7);
    char *name = out.bytes;
    out = (Text){0};
    int fd = ok ? mkostemp(name, O_CLOEXEC) : -1; // mode 600
    for (size_t i = 0; ok && i < history->count; i++)
        if (strlen(history->entries[i]) <= HISTORY_MAX_ENTRY) ok = add_escaped(&out, history->entries[i]);
    if (fd >= 0) {
        ok = ok && file_write_all(fd, out.bytes ? out.bytes : "", out.size) && !fsync(fd);
        ok = close(fd) == 0 && ok && rename(name, history->path) == 0;
        if (!ok) unlink(name); // the longer file stays: nothing is lost
    }
    text_free(&out);
    free(name);
}

static Status load(TurnHistory *history, Error *error) {
    if (!make_folders(history->path))
        return error_set(error, STATUS_FILE, "%s: its folder cannot be made: %s", history->path,
                         strerror(errno));
    int fd = open(history->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0) return error_set(error, STATUS_FILE, "%s: %s", history->path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return error_set(error, STATUS_FILE, "%s: not a regular file", history->path);
    }
    // What was said is nobody else's business, also where an older file was readable.
    if (info.st_mode & 077) (void)fchmod(fd, 0600);
    FILE *file = fdopen(fd, "r");
    if (!file) {
        close(fd);
        return error_set(error, STATUS_MEMORY, "%s: no memory to read it", history->path);
    }
    size_t lines = 0;
    Status status = read_file(history, file, info.st_size, &lines, error);
    fclose(file);
    if (!status && lines > 2 * HISTORY_MAX) shorten(history);
    return status;
}

Status history_open(const char *path, TurnHistory **out, Error *error) {
    *out = NULL;
    TurnHistory *history = calloc(1, sizeof *history);
    if (!history) return error_set(error, STATUS_MEMORY, "no memory for the history");
    *out = history;
    if (!path) return STATUS_OK;
    history->path = strdup(path);
    Status status =
        history->path ? load(history, error) : error_set(error, STATUS_FILE, "%s: no memory", path);
    if (status) {
        free(history->path);
        history->path = NULL;
    }
    return status;
}

void history_close(TurnHistory *history) {
    if (!history) return;
    for (size_t i = 0; i < history->count; i++) free(history->entries[i]);
    free(history->path);
    free(history);
}

static bool append(TurnHistory *history, const char *turn) {
    Text out = {0};
    bool ok = (!history->torn || text_add(&out, "\n", 1)) && add_escaped(&out, turn);
    int fd = ok ? open(history->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600) : -1;
    if (fd >= 0) {
        ok = file_write_all(fd, out.bytes, out.size); // one write: whole lines, also beside another palaver
        ok = close(fd) == 0 && ok;
        if (ok) history->torn = false;
    }
    text_free(&out);
    return ok && fd >= 0;
}

bool history_add(TurnHistory *history, const char *turn) {
    if (history->count && !strcmp(history->entries[history->count - 1], turn)) return true;
    char *copy = strdup(turn);
    if (!copy) return false;
    push(history, copy);
    return !history->path || strlen(turn) > HISTORY_MAX_ENTRY || append(history, turn);
}

size_t history_count(const TurnHistory *history) {
    return history->count;
}
const char *history_entry(const TurnHistory *history, size_t i) {
    return history->entries[i];
}

size_t history_find(const TurnHistory *history, const char *pattern, size_t before, size_t *at) {
    bool exact = pattern[strcspn(pattern, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] != 0;
    for (size_t i = before < history->count ? before : history->count; i-- > 0;) {
        const char *entry = history->entries[i];
        const char *found = exact ? strstr(entry, pattern) : strcasestr(entry, pattern);
        if (!found) continue;
        *at = (size_t)(found - entry);
        return i;
    }
    return history->count;
}
