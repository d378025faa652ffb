// What a message quotes of a text that somebody gave: its beginning, an ellipsis where more follows. A line of a user's
// may hold a million characters; what was meant is known by the first.
#ifndef PALAVER_BASE_QUOTE_H
#define PALAVER_BASE_QUOTE_H

#include <stddef.h>

enum { QUOTE_COLUMNS = 80, QUOTE_ROOM = 4 * QUOTE_COLUMNS + 4 };

typedef struct Quote {
    char text[QUOTE_ROOM]; // UTF-8, at most QUOTE_COLUMNS columns
} Quote;

// Whole characters, with the marks that belong to them, spelled as in messages (utf8_spell). To be used where it is made:
// error_set(…, "unknown key \"%s\"", quote(key).text).
Quote quote(const char *text);
Quote quote_bytes(const char *text, size_t n);

#endif
