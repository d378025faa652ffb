#include "kernels/base/text/quote.h"

#include "kernels/base/text/utf8.h"

#include <stdbool.h>
#include <string.h>
#include <wchar.h>

static const char ELLIPSIS[] = "…";

Quote quote_bytes(const char *text, size_t n) {
    Quote q;
    size_t size = 0, whole = 0; // `whole`: bytes behind which the ellipsis has room
    int columns = 0;
    for (size_t at = 0; at < n;) {
        uint32_t code;
        char bytes[4];
        int used = utf8_next(text + at, n - at, &code);
        if (!used) code = UTF8_REPLACEMENT;
        int width = wcwidth((wchar_t)code), length = utf8_write(code, bytes);
        columns += width < 0 ? 1 : width; // the message shows a blank for what cannot be shown
        if (columns > QUOTE_COLUMNS || size + (size_t)length + sizeof ELLIPSIS > sizeof q.text) {
            memcpy(q.text + whole, ELLIPSIS, sizeof ELLIPSIS);
            return q;
        }
        memcpy(q.text + size, bytes, (size_t)length);
        size += (size_t)length;
        if (columns < QUOTE_COLUMNS) whole = size;
        at += used > 0 ? (size_t)used : used < 0 ? (size_t)-used : n - at;
    }
    q.text[size] = 0;
    return q;
}

Quote quote(const char *text) {
    return quote_bytes(text, strlen(text));
}
