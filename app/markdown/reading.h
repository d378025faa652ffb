// A line of Markdown, read from left to right: blanks and tabs in columns, and the marks with which blocks begin.
#ifndef PALAVER_APP_READING_H
#define PALAVER_APP_READING_H

#include <stdbool.h>
#include <stddef.h>

enum { READING_LONGEST_NUMBER = 9 }; // digits of an item's

typedef struct Reading {
    const char *text; // [n]
    size_t n, at;
    int column;
    int owed; // columns of a tab at `at` that are still to be taken; 0: all of it
} Reading;

// The mark of a list's item: `-`, `+`, `*`, or what stands behind the number: `.` or `)`.
typedef struct ReadingItem {
    char kind;
    int number, digits;
} ReadingItem;

int reading_indent(const Reading *r);       // columns of blanks before the next character
void reading_skip(Reading *r, int columns); // of blanks, as far as there are
char reading_next(const Reading *r);        // behind the blanks; 0: none
bool reading_is_blank(const Reading *r);
void reading_step(Reading *r, size_t n); // bytes that are no blanks

// What the rest of the line is; the last three want the blanks to be skipped.
bool reading_rule(const Reading *r);                      // `-`, `*` or `_` and blanks, at least three
int reading_underline(const Reading *r);                  // `=` or `-` under a paragraph: its level, or 0
int reading_heading(const Reading *r);                    // `# ` to `###### `: how many, or 0
int reading_fence(const Reading *r);                      // three and more of ` or ~: how many, or 0
size_t reading_item(const Reading *r, ReadingItem *item); // the mark of a list's item: its length, or 0

#endif
