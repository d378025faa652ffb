// Runs of `*`, `_` and `~~`, and which of them belong together: CommonMark's "process emphasis" (6.2 and the appendix). A
// `*` between two letters or digits is one, as `_` is there: in a reply it multiplies.
#ifndef PALAVER_APP_EMPHASIS_H
#define PALAVER_APP_EMPHASIS_H

#include "app/markdown/cell.h"

typedef struct EmphasisMark {
    char c;
    size_t cell, n; // its first cell that is still a mark, and how many are
    size_t length;  // of the whole run
    bool opens, closes;
    bool unshown; // counts to the end, where it finds no partner
} EmphasisMark;

// All zero is empty.
typedef struct Emphasis {
    EmphasisMark *marks; // [n] in the order of the text
    size_t n, room;
} Emphasis;

// A run of n marks at byte `at` of a text [size], whose cells begin at `cell`.
typedef struct EmphasisRun {
    const char *text;
    size_t size, at, n, cell;
    bool unshown;
} EmphasisRun;
void emphasis_add(Emphasis *emphasis, const EmphasisRun *run);

// Gives the cells between partners their look and takes the partners away; marks from `from` on, which are used up.
void emphasis_settle(Emphasis *emphasis, Cells *cells, size_t from);
// Openers without a partner get one behind the last cell: all of them (`all`), or those that are unshown.
void emphasis_suppose(Emphasis *emphasis, Cells *cells, bool all);
void emphasis_free(Emphasis *emphasis);

#endif
