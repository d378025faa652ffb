// Text for people that is gathered line by line and shown as a whole (on stderr, made harmless by the screen).
#ifndef PALAVER_APP_PAGE_H
#define PALAVER_APP_PAGE_H

#include "app/terminal/screen/screen.h"

#include <stdio.h>

typedef struct Page {
    char *text;
    size_t size;
    FILE *stream; // to write to
} Page;

Status page_open(Page *page, Error *error);
void page_show(Page *page, Screen *screen); // and closes it

// The beginning of `text` [size] (UTF-8), on one line of at most `columns` columns; an ellipsis where it goes on.
// Returns how many columns it takes; `stream` NULL: nothing is written.
int page_excerpt(FILE *stream, const char *text, size_t size, int columns);

// A name, spelled as it is shown, that takes more columns than these loses its middle, of which "…" tells.
void page_middle(FILE *stream, const char *text, int columns);

#endif
