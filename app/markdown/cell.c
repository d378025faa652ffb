#include "app/markdown/cell.h"

#include "kernels/base/array.h"
#include "kernels/base/text/utf8.h"

#include <wchar.h>

enum { TAB = 8, JOINER = 0x200D, EMOJI_SELECTOR = 0xFE0F };

void cell_add(Cells *cells, Cell cell) {
    cell_add_all(cells, &cell, 1);
}

void cell_add_all(Cells *cells, const Cell *more, size_t n) {
    if (!n || cells->failed) return;
    if (!array_reserve(&cells->cells, sizeof *cells->cells, cells->n, n, &cells->room)) {
        cells->failed = true;
        return;
    }
    memcpy(cells->cells + cells->n, more, n * sizeof *more);
    cells->n += n;
}

void cell_add_text(Cells *cells, const char *text, CellInk ink) {
    for (size_t n = strlen(text); n;) {
        uint32_t code;
        int used = utf8_next(text, n, &code);
        size_t size = used > 0 ? (size_t)used : used < 0 ? (size_t)-used : n;
        cell_add(cells, (Cell){.code = code, .ink = (uint8_t)ink});
        text += size;
        n -= size;
    }
}

void cell_drop_removed(Cells *cells, size_t from) {
    size_t kept = from;
    for (size_t i = from; i < cells->n; i++)
        if (!(cells->cells[i].looks & LOOK_REMOVED)) cells->cells[kept++] = cells->cells[i];
    cells->n = kept;
}

void cell_drop_left(Cells *cells, size_t at) {
    size_t first = 0;
    if (!at) return;
    while (first < cells->n && cells->cells[first].at < at) first++;
    while (first < cells->n && (cells->cells[first].code == ' ' || cells->cells[first].code == '\n')) first++;
    cells->n -= first;
    if (first) memmove(cells->cells, cells->cells + first, cells->n * sizeof *cells->cells);
}

void cell_free(Cells *cells) {
    free(cells->cells);
    *cells = (Cells){0};
}

// A selector makes an emoji of a narrow sign, which some terminals draw wider.
int cell_width(const Cell *cell, int column) {
    if (cell->code == '\t') return TAB - column % TAB;
    if (cell->code == EMOJI_SELECTOR) return 1;
    int width = wcwidth((wchar_t)cell->code);
    return width < 0 ? 1 : width;
}

int cell_widths(const Cell *cells, size_t n) {
    int width = 0;
    for (size_t i = 0; i < n; i++) width += cell_width(&cells[i], width);
    return width;
}

bool cell_is_uncertain(const Cell *cell) {
    return cell->code >= 0x300 && (cell->code == JOINER || cell->code == EMOJI_SELECTOR ||
                                   cell->code >= 0x1F000 || wcwidth((wchar_t)cell->code) <= 0);
}

// ---- rows -----------------------------------------------------------------------------------------------------

void row_end(Rows *rows, bool joined) {
    if (!array_reserve(&rows->rows, sizeof *rows->rows, rows->n, 1, &rows->room)) {
        rows->of.failed = true;
        return;
    }
    size_t begin = rows->n ? rows->rows[rows->n - 1].end : 0;
    rows->rows[rows->n++] = (Row){begin, rows->of.n, joined};
}

void row_cut(Rows *rows, size_t n) {
    rows->n = n;
    rows->of.n = n ? rows->rows[n - 1].end : 0;
}

void row_drop(Rows *rows, size_t n) {
    size_t cells = n ? rows->rows[n - 1].end : 0;
    if (!n) return;
    if (cells) memmove(rows->of.cells, rows->of.cells + cells, (rows->of.n - cells) * sizeof(Cell));
    memmove(rows->rows, rows->rows + n, (rows->n - n) * sizeof(Row));
    rows->of.n -= cells;
    rows->n -= n;
    for (size_t i = 0; i < rows->n; i++) rows->rows[i].begin -= cells, rows->rows[i].end -= cells;
}

void row_copy(Rows *to, const Rows *from) {
    row_cut(to, 0);
    to->of.failed = false;
    cell_add_all(&to->of, from->of.cells, from->of.n);
    if (to->of.failed || !array_reserve(&to->rows, sizeof *to->rows, 0, from->n, &to->room)) {
        to->of.failed = true;
        return;
    }
    if (from->n) memcpy(to->rows, from->rows, from->n * sizeof(Row));
    to->n = from->n;
}

void row_free(Rows *rows) {
    cell_free(&rows->of);
    free(rows->rows);
    *rows = (Rows){0};
}

// ---- wrapping -------------------------------------------------------------------------------------------------

static bool is_wide(const Cell *cell) {
    return cell->code >= 0x1100 && wcwidth((wchar_t)cell->code) == 2;
}

// Whether a row may end before cells[i]: behind a space, or beside a wide character.
static bool may_end(const Cell *cells, size_t i) {
    if (cells[i].code == ' ') return false;
    if (cells[i - 1].code == ' ') return true;
    if (cells[i - 1].code == JOINER || cells[i].code == JOINER || cell_width(&cells[i], 0) == 0) return false;
    return is_wide(&cells[i]) && cells[i].code < 0x1F000 && is_wide(&cells[i - 1]) &&
           !wcschr(L"、。，．！？：；）」』】”’", (wchar_t)cells[i].code);
}

// Where the row that begins at `from`, in column `column`, ends: *next is where the one after it begins.
static size_t row_of(const Cell *cells, size_t n, size_t from, int column, const Wrap *wrap, size_t *next,
                     bool *joined) {
    size_t end = from;
    int start = column;
    bool uncertain = false, found = false, word = false;
    *joined = false;
    for (size_t i = from; i < n; i++) {
        if (cells[i].code == '\n') {
            *next = i + 1;
            return i;
        }
        if (wrap->whole && word && may_end(cells, i)) end = i, found = true;
        word = word || cells[i].code != ' ';
        int width = cell_width(&cells[i], column);
        if (cells[i].code == '\t' && column + width > wrap->width) width = wrap->width - column;
        bool fits = column + width <= wrap->width || (i == from && column <= start);
        // Spaces behind the last word of a row are not shown, and no other row begins with them.
        if (!fits && wrap->whole && cells[i].code == ' ') {
            size_t after = i;
            while (after < n && cells[after].code == ' ') after++;
            *next = after < n ? after + (cells[after].code == '\n') : n + 1;
            return i;
        }
        if (!fits && found) {
            *next = end;
            return end;
        }
        if (!fits) {
            *next = i;
            *joined = !uncertain;
            return i;
        }
        uncertain = uncertain || cell_is_uncertain(&cells[i]);
        column += width;
    }
    *next = n + 1;
    return n;
}

void row_wrap(Rows *rows, const Cell *cells, size_t n, const Wrap *wrap) {
    const Cells *before = wrap->first;
    for (size_t from = 0; from <= n;) {
        size_t next;
        bool joined;
        size_t end = row_of(cells, n, from, cell_widths(before->cells, before->n), wrap, &next, &joined);
        cell_add_all(&rows->of, before->cells, before->n);
        size_t shown = end;
        while (wrap->whole && next <= n && end < n && cells[end].code != '\n' && shown > from &&
               cells[shown - 1].code == ' ')
            shown--;
        cell_add_all(&rows->of, cells + from, shown - from);
        row_end(rows, joined && next <= n && !wrap->rest->n);
        if (rows->of.failed) return;
        before = wrap->rest;
        from = next;
    }
}
