// Tables as GitHub writes them: `| a | b |` over `|---|--:|`.
#ifndef PALAVER_APP_TABLE_H
#define PALAVER_APP_TABLE_H

#include "app/markdown/spans/inline.h"

// How many columns a line of n bytes that stands under a table's head has; 0: it is no such line.
int table_columns(const char *line, size_t n);
// How many cells a line has.
int table_cells(const char *line, size_t n);

typedef struct TableLayout {
    int width;                     // columns of the terminal that there are
    const Cells *first, *rest;     // what stands before the first row, and before the others
    bool address_too, code_marked; // see InlineText
} TableLayout;

// Adds the rows of a table: `text` [n] holds its lines, of which the second is that under the head. Columns are as wide
// as what is in them, and narrower where the terminal is: then what they hold is wrapped. Where it has no room for that
// either, a line's last columns stand below its first ones.
void table_render(const char *text, size_t n, const TableLayout *layout, Links *links, Rows *rows);

#endif
