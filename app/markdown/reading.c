#include "app/markdown/reading.h"

#include <ctype.h>
#include <string.h>

enum { TAB = 4 };

static int tab_columns(int column) {
    return TAB - column % TAB;
}

// Columns of blanks before the next character.
int reading_indent(const Reading *r) {
    int column = r->column;
    for (size_t i = r->at; i < r->n && (r->text[i] == ' ' || r->text[i] == '\t'); i++) {
        int width = r->text[i] == ' ' ? 1 : i == r->at && r->owed ? r->owed : tab_columns(column);
        column += width;
    }
    return column - r->column;
}

void reading_skip(Reading *r, int columns) {
    while (columns > 0 && r->at < r->n && (r->text[r->at] == ' ' || r->text[r->at] == '\t')) {
        int width = r->text[r->at] == ' ' ? 1 : r->owed ? r->owed : tab_columns(r->column);
        int taken = width < columns ? width : columns;
        r->column += taken;
        columns -= taken;
        r->owed = width - taken;
        if (!r->owed) r->at++;
    }
}

char reading_next(const Reading *r) {
    size_t at = r->at;
    while (at < r->n && (r->text[at] == ' ' || r->text[at] == '\t')) at++;
    return at < r->n ? r->text[at] : 0;
}

bool reading_is_blank(const Reading *r) {
    return reading_next(r) == 0;
}

void reading_step(Reading *r, size_t n) {
    r->at += n;
    r->column += (int)n;
}

// ---- what begins a block --------------------------------------------------------------------------------------------

// A line of `-`, `*` or `_` and blanks, at least three.
bool reading_rule(const Reading *r) {
    char c = reading_next(r);
    int n = 0;
    if (!c || !strchr("-*_", c)) return false;
    for (size_t i = r->at; i < r->n; i++) {
        if (r->text[i] == c)
            n++;
        else if (r->text[i] != ' ' && r->text[i] != '\t')
            return false;
    }
    return n >= 3;
}

// A line of `=` or `-` under a paragraph: its level, or 0.
int reading_underline(const Reading *r) {
    char c = reading_next(r);
    size_t at = r->at + strspn(r->text + r->at, " \t");
    if (c != '=' && c != '-') return 0;
    while (at < r->n && r->text[at] == c) at++;
    while (at < r->n && strchr(" \t", r->text[at])) at++;
    return at < r->n ? 0 : c == '=' ? 1 : 2;
}

// `# ` to `###### `: how many, or 0.
int reading_heading(const Reading *r) {
    size_t n = 0;
    while (r->at + n < r->n && r->text[r->at + n] == '#') n++;
    bool ends = r->at + n == r->n || strchr(" \t", r->text[r->at + n]);
    return n <= 6 && ends ? (int)n : 0;
}

// Three and more of ` or ~: how many, or 0.
int reading_fence(const Reading *r) {
    char c = r->at < r->n ? r->text[r->at] : 0;
    size_t n = 0;
    if (c != '`' && c != '~') return 0;
    while (r->at + n < r->n && r->text[r->at + n] == c) n++;
    bool code_span = c == '`' && memchr(r->text + r->at + n, '`', r->n - r->at - n);
    return n >= 3 && !code_span ? (int)n : 0;
}

// The mark of a list's item behind the blanks: its length, or 0.
size_t reading_item(const Reading *r, ReadingItem *item) {
    const char *text = r->text + r->at;
    size_t left = r->n - r->at, n = 0;
    int number = 0;
    *item = (ReadingItem){0};
    if (left && strchr("-+*", text[0])) {
        n = 1;
    } else {
        while (n < left && n < READING_LONGEST_NUMBER && isdigit((unsigned char)text[n]))
            number = number * 10 + text[n++] - '0';
        if (!n || n == left || (text[n] != '.' && text[n] != ')')) return 0;
        n++;
    }
    if (n < left && text[n] != ' ' && text[n] != '\t') return 0;
    item->kind = text[n - 1];
    item->number = number;
    item->digits = (int)n - 1;
    return n;
}
