#include "app/terminal/encoding.h"

#include "app/terminal/text_shown.h"
#include "kernels/base/text/utf8.h"

#include <stdlib.h>
#include <string.h>

static Status check_utf8(const char *name, const char *text, size_t size, Error *error) {
    const TextBad bad = {text, text_first_bad(text, size), "UTF-8",
                         "iconv converts other encodings, and encoding = \"latin1\" reads Latin-1"};
    return bad.at < size ? text_refuse(name, &bad, error) : STATUS_OK;
}

static bool is_latin1(char c) {
    unsigned char byte = (unsigned char)c;
    return byte && (byte < 0x80 || byte >= 0xA0);
}

static Status from_latin1(const char *name, char **text, size_t *size, Error *error) {
    char *wide = malloc(*size * 2 + 1), *to = wide;
    TextBad bad = {*text, 0, "Latin-1", "iconv converts other encodings, such as Windows-1252"};
    if (!wide) return error_no_memory(error, "a text in Latin-1");
    for (; bad.at < *size && is_latin1((*text)[bad.at]); bad.at++)
        to += utf8_write((unsigned char)(*text)[bad.at], to);
    if (bad.at < *size) {
        free(wide);
        return text_refuse(name, &bad, error);
    }
    *to = 0;
    free(*text);
    *text = wide;
    *size = (size_t)(to - wide);
    return STATUS_OK;
}

Status encoding_take(const char *name, TextEncoding encoding, char **text, size_t *size, Error *error) {
    return encoding == ENCODING_LATIN1 ? from_latin1(name, text, size, error)
                                       : check_utf8(name, *text, *size, error);
}

void encoding_drop_mark(char *text, size_t *size) {
    const size_t mark = utf8_mark(text, *size);
    if (!mark) return;
    *size -= mark;
    memmove(text, text + mark, *size + 1);
}
