#include "app/commands/argument.h"

#include "app/terminal/text_shown.h"
#include "kernels/base/path.h"
#include "kernels/base/file.h"
#include "kernels/base/text/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYSTEM_LIMIT = 1 << 20 }; // bytes of a system prompt's file

Status argument_none(const char *command, const char *argument, Error *error) {
    return *argument
               ? error_set(error, STATUS_USAGE, "%s takes no argument: not %s", command, quote(argument).text)
               : STATUS_OK;
}

Status argument_number(const char *command, const char *argument, const char *what, int64_t min, int64_t max,
                       int64_t *number, Error *error) {
    char *end;
    errno = 0;
    long long value = strtoll(argument, &end, 10);
    if (end == argument || *end || errno || value < min || value > max) {
        char range[64];
        snprintf(range, sizeof range, min == max ? "at most %" PRId64 : "%" PRId64 " to %" PRId64, min, max);
        return error_set(error, STATUS_USAGE, "%s takes %s, %s: not %s", command, what, range,
                         quote(argument).text);
    }
    *number = value;
    return STATUS_OK;
}

static bool is_mark(char c) {
    return c == '"' || c == '\'';
}

const char *argument_unquote(const char *argument, char *room) {
    size_t n = strlen(argument);
    if (n >= PATH_ROOM) return argument;
    bool quoted = n > 1 && is_mark(argument[0]) && argument[n - 1] == argument[0];
    char *to = room;
    for (size_t i = quoted; i < n - quoted; i++)
        if (quoted || argument[i] != '\\' || (argument[i + 1] != ' ' && !is_mark(argument[i + 1])))
            *to++ = argument[i];
    *to = 0;
    return room;
}

// STATUS_USAGE: a quotation mark at the beginning has no other at the end.
static Status check_marks(const char *argument, Error *error) {
    const char mark = argument[0];
    if (!is_mark(mark)) return STATUS_OK;
    const char *closing = strrchr(argument + 1, mark);
    if (closing && !closing[1]) return STATUS_OK;
    if (closing)
        return error_set(error, STATUS_USAGE, "%s: there is more behind the closing quotation mark %c",
                         quote(argument).text, mark);
    return error_set(
        error, STATUS_USAGE,
        "%s: the closing quotation mark %c is missing (\\%c begins a name that has the mark itself)",
        quote(argument).text, mark, mark);
}

// Whether one of the names in a path is longer than any file's.
static bool has_long_name(const char *path) {
    for (size_t n; *path; path += n + (path[n] == '/'))
        if ((n = strcspn(path, "/")) > NAME_MAX) return true;
    return false;
}

Status argument_path(const char *command, const char *argument, char *path, Error *error) {
    char room[PATH_ROOM];
    if (check_marks(argument, error)) return STATUS_USAGE;
    argument = argument_unquote(argument, room);
    const bool in_home = *argument == '~' && (!argument[1] || argument[1] == '/');
    const char *home = in_home ? path_home(NULL, error) : NULL;
    if (in_home && !home) return STATUS_FILE;
    if (!*argument) return error_set(error, STATUS_USAGE, "%s needs a file", command);
    int length = in_home ? snprintf(path, PATH_ROOM, "%s%s", home, argument + 1)
                         : snprintf(path, PATH_ROOM, "%s", argument);
    if (length < 0 || length >= PATH_ROOM)
        return error_set(error, STATUS_USAGE, "%s: the path is too long", quote(argument).text);
    const char *meant = path_meant(path, room);
    if (meant != path) strcpy(path, meant);
    if (has_long_name(path))
        return error_set(error, STATUS_USAGE, "%s: a file's name has at most %d bytes", quote(argument).text,
                         NAME_MAX);
    return STATUS_OK;
}

Status argument_read_text(const char *path, size_t limit, TextEncoding encoding, char **text, size_t *size,
                          Error *error) {
    Status status = file_read(path, limit, text, size, error);
    if (!status) encoding_drop_mark(*text, size);
    if (!status && (status = encoding_take(path, encoding, text, size, error))) {
        free(*text);
        *text = NULL;
    }
    return status;
}

Status argument_read_system(const char *name, const char *argument, TextEncoding encoding, char **system,
                            Error *error) {
    char path[PATH_ROOM];
    size_t size;
    *system = NULL;
    if (!strcmp(argument, "@")) return error_set(error, STATUS_USAGE, "%s: @ needs a file behind it", name);
    if (*argument == '@') {
        if (argument_path(name, argument + 1, path, error) ||
            argument_read_text(path, SYSTEM_LIMIT, encoding, system, &size, error))
            return error->status;
        while (size && (*system)[size - 1] == '\n') (*system)[--size] = 0;
        return STATUS_OK;
    }
    if (text_check(name, argument, strlen(argument), error)) return error->status = STATUS_USAGE;
    *system = strdup(strcmp(argument, "\"\"") ? argument : "");
    return *system ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
}
