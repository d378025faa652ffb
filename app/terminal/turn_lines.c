#include "app/terminal/turn_lines.h"

#include "kernels/base/array.h"

#include <stdlib.h>
#include <string.h>

static const char MARK[] = "\"\"\"";
static const size_t MARK_SIZE = sizeof MARK - 1;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

// The length of a line without its trailing blanks.
static size_t trimmed(const char *line, size_t n) {
    while (n && is_blank(line[n - 1])) n--;
    return n;
}

static bool begins_with_mark(const char *text, size_t n) {
    return n >= MARK_SIZE && !memcmp(text, MARK, MARK_SIZE);
}

static bool ends_with_mark(const char *line, size_t n) {
    n = trimmed(line, n);
    return n >= MARK_SIZE && !memcmp(line + n - MARK_SIZE, MARK, MARK_SIZE);
}

static bool ends_with_backslash(const char *line, size_t n) {
    n = trimmed(line, n);
    size_t count = 0;
    while (count < n && line[n - 1 - count] == '\\') count++;
    return count % 2 == 1;
}

static bool append(TurnLines *lines, const char *bytes, size_t n) {
    if (!array_reserve(&lines->text, 1, lines->size, n + 1, &lines->capacity)) return false;
    memcpy(lines->text + lines->size, bytes, n);
    lines->size += n;
    lines->text[lines->size] = 0;
    return true;
}

bool turn_add_line(TurnLines *lines, const char *line, size_t n) {
    if (n && line[n - 1] == '\n') n--;
    if (n && line[n - 1] == '\r') n--;
    if (!lines->open) turn_clear(lines);
    bool begins = !lines->open && begins_with_mark(line, n);
    bool block = lines->block || begins;
    bool more = !block && ends_with_backslash(line, n);
    size_t before = lines->size;
    if (lines->open && !append(lines, "\n", 1)) return false;
    if (!append(lines, line, more ? trimmed(line, n) - 1 : n)) {
        if (lines->text) lines->text[lines->size = before] = 0;
        return false;
    }
    size_t skip = begins ? MARK_SIZE : 0;
    if (block && ends_with_mark(line + skip, n - skip)) {
        turn_unblock(lines->text);
        lines->size = strlen(lines->text);
        block = false;
    }
    lines->block = block;
    lines->open = block || more;
    return true;
}

void turn_clear(TurnLines *lines) {
    free(lines->text);
    *lines = (TurnLines){0};
}

// The end of the first line that ends a block which begins at `text`; NULL: it is still open.
static const char *block_end(const char *text) {
    for (const char *line = text + MARK_SIZE;; line++) {
        size_t n = strcspn(line, "\n");
        if (ends_with_mark(line, n)) return line + n;
        line += n;
        if (!*line) return NULL;
    }
}

TurnEnd turn_end(const char *text) {
    if (begins_with_mark(text, strlen(text)) && !block_end(text)) return TURN_MORE_BLOCK;
    const char *last = strrchr(text, '\n');
    last = last ? last + 1 : text;
    return ends_with_backslash(last, strlen(last)) ? TURN_MORE_LINE : TURN_DONE;
}

void turn_unblock(char *text) {
    if (!begins_with_mark(text, strlen(text))) return;
    const char *end = block_end(text);
    if (!end || end[strspn(end, " \t\r\n")]) return; // open, or followed by more: no block
    char *from = text + MARK_SIZE;
    size_t n = trimmed(from, (size_t)(end - from)) - MARK_SIZE;
    // The newlines next to the marks belong to them.
    size_t blanks = strspn(from, " \t\r");
    if (blanks < n && from[blanks] == '\n') from += blanks + 1, n -= blanks + 1;
    size_t kept = trimmed(from, n);
    if (kept && from[kept - 1] == '\n')
        n = kept - 1;
    else if (kept == 0)
        n = 0;
    memmove(text, from, n);
    text[n] = 0;
}
