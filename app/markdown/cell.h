// What is shown, character by character, and the rows of a terminal that hold it.
#ifndef PALAVER_APP_CELL_H
#define PALAVER_APP_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a character is, for its colour.
typedef enum CellInk {
    INK_TEXT,
    INK_HEADING,
    INK_CODE,
    INK_KEYWORD,
    INK_STRING,
    INK_COMMENT,
    INK_NUMBER,
    INK_LINK,
    INK_FRAME, // rules, the lines of tables and quotes, marks of lists
    N_INKS
} CellInk;

enum { LOOK_BOLD = 1, LOOK_ITALIC = 2, LOOK_STRUCK = 4, LOOK_REMOVED = 8 };

typedef struct Cell {
    uint32_t code;
    uint32_t at; // byte of the block's source that it comes from
    uint16_t link;
    uint8_t ink;   // a CellInk
    uint8_t looks; // LOOK_…; LOOK_REMOVED: a mark that is not shown
} Cell;

// All zero is empty. What finds no memory sets `failed`, and is left out.
typedef struct Cells {
    Cell *cells; // [n]
    size_t n, room;
    bool failed;
} Cells;

void cell_add(Cells *cells, Cell cell);
void cell_add_all(Cells *cells, const Cell *more, size_t n);
void cell_add_text(Cells *cells, const char *text, CellInk ink); // UTF-8
void cell_drop_removed(Cells *cells, size_t from);               // from a cell on
// All that comes from before byte `at`, and the blanks and line ends behind that: another row begins there.
void cell_drop_left(Cells *cells, size_t at);
void cell_free(Cells *cells);

// The columns that a character takes at most, in any terminal; a tab's depend on where it stands.
int cell_width(const Cell *cell, int column);
int cell_widths(const Cell *cells, size_t n);
// Whether terminals differ in how wide a character, or the one before it, is.
bool cell_is_uncertain(const Cell *cell);

typedef struct Row {
    size_t begin, end; // of its cells
    bool joined;       // goes on in the next by the terminal's own wrapping: no newline stands between
} Row;

typedef struct Rows {
    Cells of;
    Row *rows; // [n]
    size_t n, room;
} Rows;

// A row begins, and then has what is added to rows->of until row_end().
void row_end(Rows *rows, bool joined);
void row_cut(Rows *rows, size_t n);        // leaves the first n
void row_drop(Rows *rows, size_t n);       // and here all but the first n
void row_copy(Rows *to, const Rows *from); // replaces
void row_free(Rows *rows);

// Puts cells [n] into rows of `width` columns: the first begins with `first`, the others with `rest`. A '\n' ends a
// row; else it ends between two words, or (`whole` is false: a line of code) where it is full.
typedef struct Wrap {
    const Cells *first, *rest;
    int width;
    bool whole;
} Wrap;
void row_wrap(Rows *rows, const Cell *cells, size_t n, const Wrap *wrap);

#endif
