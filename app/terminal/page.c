#include "app/terminal/page.h"

#include "app/terminal/text_shown.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

Status page_open(Page *page, Error *error) {
    *page = (Page){0};
    page->stream = open_memstream(&page->text, &page->size);
    return page->stream ? STATUS_OK : error_set(error, STATUS_MEMORY, "out of memory");
}

void page_show(Page *page, Screen *screen) {
    bool whole = !ferror(page->stream);
    whole = !fclose(page->stream) && whole;
    if (page->size && page->text[page->size - 1] == '\n') page->text[page->size - 1] = 0;
    if (page->text) screen_say(screen, "%s", page->text);
    if (!whole) screen_error(screen, "out of memory: this is not all");
    free(page->text);
}

void page_excerpt(FILE *stream, const char *text, int columns) {
    size_t size = strlen(text);
    int column = 0;
    while (size && isspace((unsigned char)*text)) text++, size--;
    while (size) {
        uint32_t code;
        size_t n = text_decode(text, size, &code);
        bool blank = n == 1 && isspace((unsigned char)*text);
        if (blank)
            while (n < size && isspace((unsigned char)text[n])) n++;
        if (blank && n == size) return; // trailing
        int width = blank ? 1 : wcwidth((wchar_t)code);
        column += width > 0 ? width : 0;
        if (!n || column >= columns) {
            fputs("…", stream);
            return;
        }
        fwrite(blank ? " " : text, 1, blank ? 1 : n, stream);
        text += n;
        size -= n;
    }
}
