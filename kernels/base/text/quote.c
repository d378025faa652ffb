#include "kernels/base/text/quote.h"

#include "kernels/base/text/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <wchar.h>

static const char ELLIPSIS[] = "…";

// Of a character as it is spelled; one whose width nobody knows takes one.
static int columns_of(const char *sign, size_t length) {
    uint32_t code;
    if (utf8_next(sign, length, &code) < (int)length) return (int)length; // \xNN
    const int width = wcwidth((wchar_t)code);
    return width < 0 ? 1 : width;
}

Quote quote_bytes(const char *text, size_t n) {
    Quote q;
    size_t size = 0, whole = 0; // `whole`: bytes behind which the ellipsis has room
    int columns = 0;
    for (size_t at = 0, used, length; at < n; at += used) {
        char sign[UTF8_SIGN];
        used = utf8_spell(text + at, n - at, sign, &length);
        columns += columns_of(sign, length);
        if (columns > QUOTE_COLUMNS || size + length + sizeof ELLIPSIS > sizeof q.text) {
            memcpy(q.text + whole, ELLIPSIS, sizeof ELLIPSIS);
            return q;
        }
        memcpy(q.text + size, sign, length);
        size += length;
        if (columns < QUOTE_COLUMNS) whole = size;
    }
    q.text[size] = 0;
    return q;
}

Quote quote(const char *text) {
    return quote_bytes(text, strlen(text));
}
