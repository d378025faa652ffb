#include "kernels/base/status.h"

#include "kernels/base/text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROOM = sizeof((Error *)NULL)->message };

// A text that was too long for its room ends with the last whole character.
static void end_whole(char *message, size_t size) {
    size_t at = size - 1, length = 1;
    if (strlen(message) < at) return;
    while (at > size - 4 && (message[at - 1] & 0xC0) == 0x80) at--, length++;
    const unsigned char first = (unsigned char)message[at - 1];
    const size_t needed = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
    if (length < needed) message[at - 1] = 0;
}

// Names and texts in messages come from files: nothing that a terminal obeys may reach it through them, no line break, and
// no byte that is of no character, which some terminals obey too. Adds a text behind `at` bytes of a message, spelled as
// names are everywhere, as far as it fits; returns the message's bytes. What is spelled already stays as it is.
static size_t add_spelled(char message[ROOM], size_t at, const char *text) {
    for (size_t left = strlen(text), used, size; left; text += used, left -= used, at += size) {
        char sign[UTF8_SIGN];
        used = utf8_spell(text, left, sign, &size);
        if (at + size >= ROOM) break;
        memcpy(message + at, sign, size);
    }
    message[at] = 0;
    return at;
}

Status(error_set)(Error *error, Status status, const char *format, ...) {
    if (!error) return status;
    char text[ROOM] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_whole(text, sizeof text);
    error->status = status;
    add_spelled(error->message, 0, text);
    return status;
}

Status(error_no_memory)(Error *error, const char *what) {
    return error_set(error, STATUS_MEMORY, "not enough memory for %s", what);
}

Status error_prefix(Error *error, const char *format, ...) {
    if (!error) return STATUS_USAGE; // which failure it was is not known here, only that it was one
    const Error old = *error;
    char text[ROOM] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    end_whole(text, sizeof text);
    add_spelled(error->message, add_spelled(error->message, 0, text), old.message);
    return error->status;
}
