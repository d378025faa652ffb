#include "kernels/base/status.h"

#include "kernels/base/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// Names and texts in messages come from files: nothing that a terminal obeys may reach it through them, no line break, and
// no byte that is of no character, which some terminals obey too.
static void make_one_line(char *message) {
    uint32_t code;
    for (size_t left = strlen(message); left > 0;) {
        const int n = utf8_next(message, left, &code);
        const size_t length = n > 0 ? (size_t)n : n < 0 ? (size_t)-n : left;
        if (n <= 0)
            memset(message, '?', length);
        else if (utf8_is_obeyed(code))
            memset(message, ' ', length);
        message += length, left -= length;
    }
}

// A message that is too long for its room ends with the last whole character.
static void end_whole(char *message, size_t size) {
    size_t at = size - 1, length = 1;
    if (strlen(message) < at) return;
    while (at > size - 4 && (message[at - 1] & 0xC0) == 0x80) at--, length++;
    const unsigned char first = (unsigned char)message[at - 1];
    const size_t needed = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    if (length < needed) message[at - 1] = 0;
}

Status(error_set)(Error *error, Status status, const char *format, ...) {
    if (!error) return status;
    error->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    end_whole(error->message, sizeof error->message);
    make_one_line(error->message);
    return status;
}

Status(error_no_memory)(Error *error, const char *what) {
    return error_set(error, STATUS_MEMORY, "not enough memory for %s", what);
}

Status error_prefix(Error *error, const char *format, ...) {
    if (!error) return STATUS_USAGE; // which failure it was is not known here, only that it was one
    Error old = *error;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if ((size_t)n < sizeof error->message)
        snprintf(error->message + n, sizeof error->message - (size_t)n, "%s", old.message);
    end_whole(error->message, sizeof error->message);
    make_one_line(error->message);
    return error->status;
}
