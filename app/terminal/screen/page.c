#include "app/terminal/screen/page.h"

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

// Shows a text window by window, where somebody is there to go on. False: he does not want the rest.
static void show_windows(const char *text, size_t size, Screen *screen) {
    int height = screen_height(screen) - 2, width = screen_width(screen);
    bool more = true;
    const char *const whole = text + size;
    while (text < whole && more) {
        const char *end = text;
        for (int rows = 0; end < whole && rows < height;) {
            const char *line = memchr(end, '\n', (size_t)(whole - end));
            size_t n = (size_t)((line ? line : whole) - end);
            int columns = text_columns(end, n);
            rows += columns > width ? (columns + width - 1) / width : 1;
            if (rows > height && end > text) break;
            end += n + (line != NULL);
        }
        screen_say_text(screen, text, (size_t)(end - text));
        text = end;
        if (text < whole) more = screen_ask_more(screen);
    }
}

void page_show(Page *page, Screen *screen) {
    bool whole = !ferror(page->stream);
    whole = !fclose(page->stream) && whole;
    if (page->size && page->text[page->size - 1] == '\n') page->size--;
    if (page->text && screen_has_reader(screen))
        show_windows(page->text, page->size, screen);
    else if (page->text)
        screen_say_text(screen, page->text, page->size);
    if (!whole) screen_error(screen, "out of memory: this is not all");
    free(page->text);
}

// The columns of a character as a screen shows it, whose harmless form may be longer.
static int columns_of(uint32_t code) {
    char sign[TEXT_SIGN];
    return text_columns(sign, text_harmless(code, true, sign));
}

int page_excerpt(FILE *stream, const char *text, size_t size, int columns) {
    int column = 0;
    while (size && isspace((unsigned char)*text)) text++, size--;
    while (size && isspace((unsigned char)text[size - 1])) size--;
    while (size) {
        uint32_t code;
        size_t n = text_decode(text, size, &code);
        const bool blank = n == 1 && isspace((unsigned char)*text);
        if (blank)
            while (isspace((unsigned char)text[n])) n++;
        const int wide = blank ? 1 : columns_of(code);
        if (!n || column + wide + (n < size) > columns) {
            if (stream) fputs("…", stream);
            return column + 1;
        }
        column += wide;
        if (stream) fwrite(blank ? " " : text, 1, blank ? 1 : n, stream);
        text += n;
        size -= n;
    }
    return column;
}

// The bytes of a character, or of a sign that spells one: half a sign would be read as another name.
static size_t sign_bytes(const char *text, size_t n) {
    uint32_t code;
    const size_t sign = *text != '\\' || n < 2 ? 0 : text[1] == 'x' ? 4 : text[1] == 'u' ? 6 : 0;
    if (sign) return sign < n ? sign : n;
    const size_t used = text_decode(text, n, &code);
    return used ? used : n;
}

void page_middle(FILE *stream, const char *text, int columns) {
    const size_t n = strlen(text);
    const int all = text_columns(text, n), left = columns / 2, right = columns - left - 1;
    if (all <= columns) {
        fputs(text, stream);
        return;
    }
    size_t head = 0, tail = 0;
    for (int column = 0; all - column > right;) {
        const size_t used = sign_bytes(text + tail, n - tail);
        column += text_columns(text + tail, used);
        tail += used;
        if (column <= left) head = tail;
    }
    for (size_t used; tail < n; tail += used) { // marks belong to what is left out
        used = sign_bytes(text + tail, n - tail);
        if (text_columns(text + tail, used) > 0) break;
    }
    fwrite(text, 1, head, stream);
    fputs("…", stream);
    fputs(text + tail, stream);
}
