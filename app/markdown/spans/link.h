// Where a link leads: what stands behind its text, and addresses in angle brackets (CommonMark 6.3, 6.5).
#ifndef PALAVER_APP_LINK_H
#define PALAVER_APP_LINK_H

#include "kernels/base/text/text.h"

typedef struct LinkEnd {
    size_t used; // bytes of `(address "title")`; 0: it is none
    bool unsure; // it may become one
} LinkEnd;

// Reads n bytes that stand behind a `]`; adds the address, without escapes.
LinkEnd link_read(const char *text, size_t n, Text *address);

// The length of `<scheme:…>` or `<name@host>`; 0: it is none.
size_t link_read_auto(const char *text, size_t n);

#endif
