#include "app/markdown/live.h"

#include <stdio.h>
#include <string.h>

typedef struct Painter {
    const Rows *rows;
    const LiveTheme *theme;
    const Links *links;
    Text *out;
    Cell style; // of what was written last: its ink, looks and link
} Painter;

static bool same_style(const Cell *a, const Cell *b) {
    return a->ink == b->ink && a->looks == b->looks && a->link == b->link;
}

static bool same_cell(const Cell *a, const Cell *b) {
    return a->code == b->code && same_style(a, b);
}

static void put(Text *out, const char *text) {
    (void)text_add(out, text, strlen(text));
}

// ---- styles -------------------------------------------------------------------------------------------------------

static void add_sgr(char *sgr, size_t size, const char *more) {
    size_t n = strlen(sgr);
    if (*more) snprintf(sgr + n, size - n, "%s%s", n ? ";" : "", more);
}

static void select_style(Painter *p, const Cell *cell) {
    char sgr[96] = "";
    add_sgr(sgr, sizeof sgr, p->theme->base);
    add_sgr(sgr, sizeof sgr, p->theme->inks[cell->ink]);
    if (cell->looks & LOOK_BOLD) add_sgr(sgr, sizeof sgr, "1");
    if (cell->looks & LOOK_ITALIC) add_sgr(sgr, sizeof sgr, "3");
    if (cell->looks & LOOK_STRUCK) add_sgr(sgr, sizeof sgr, "9");
    put(p->out, "\033[0");
    if (*sgr) put(p->out, ";");
    put(p->out, sgr);
    put(p->out, "m");
}

// An address as it may stand in a control sequence: no blank, no control character, nothing but ASCII.
static void put_link(Painter *p, uint16_t link) {
    put(p->out, "\033]8;;");
    const char *address = link && link <= p->links->n ? p->links->text[link - 1] : "";
    for (; *address; address++) {
        char code[4];
        unsigned char c = (unsigned char)*address;
        snprintf(code, sizeof code, c > ' ' && c < 127 ? "%c" : "%%%02X", c);
        put(p->out, code);
    }
    put(p->out, "\033\\");
}

static void follow_style(Painter *p, const Cell *cell) {
    bool differs = cell->ink != p->style.ink || cell->looks != p->style.looks;
    if (differs && p->theme->color) select_style(p, cell);
    if (cell->link != p->style.link && p->theme->links) put_link(p, cell->link);
    p->style = *cell;
}

// ---- rows ---------------------------------------------------------------------------------------------------------

static size_t size_of(const Rows *rows, size_t row) {
    return rows->rows[row].end - rows->rows[row].begin;
}

static const Cell *cells_of(const Rows *rows, size_t row) {
    return rows->of.cells + rows->rows[row].begin;
}

static size_t same_cells(const Rows *a, const Rows *b, size_t row) {
    size_t n = size_of(a, row) < size_of(b, row) ? size_of(a, row) : size_of(b, row), i = 0;
    while (i < n && same_cell(&cells_of(a, row)[i], &cells_of(b, row)[i])) i++;
    return i;
}

static void put_cells(Painter *p, size_t row, size_t from) {
    const Cell *cells = cells_of(p->rows, row);
    for (size_t i = from; i < size_of(p->rows, row); i++) {
        if (!same_style(&cells[i], &p->style)) follow_style(p, &cells[i]);
        (void)text_add_code(p->out, cells[i].code);
    }
}

static void end_style(Painter *p) {
    static const Cell PLAIN = {0};
    bool styled = p->style.ink || p->style.looks || *p->theme->base;
    if (p->style.link && p->theme->links) put_link(p, 0);
    if (styled && p->theme->color) put(p->out, "\033[0m");
    p->style = PLAIN;
}

// From the end of what is shown to a cell of it; everything from there on is wiped.
static void go_back(Painter *p, const Live *live, size_t row, size_t cell) {
    char move[32];
    size_t up = live->shown.n - 1 - row;
    int column = cell_widths(cells_of(&live->shown, row), cell);
    if (up) snprintf(move, sizeof move, "\033[%zuA", up), put(p->out, move);
    put(p->out, "\r");
    if (column) snprintf(move, sizeof move, "\033[%dC", column), put(p->out, move);
    put(p->out, "\033[J");
}

// Where terminals may differ in a row's columns it is drawn from its beginning.
static size_t safe_cell(const Rows *rows, size_t row, size_t cell) {
    const Cell *cells = cells_of(rows, row);
    for (size_t i = 0; i < cell; i++)
        if (cell_is_uncertain(&cells[i])) return 0;
    // A mark belongs to the character before it.
    while (cell > 0 && cell < size_of(rows, row) && cell_width(&cells[cell], 0) == 0) cell--;
    return cell;
}

// The first cell that differs; false: nothing does.
static bool find_difference(const Live *live, const Rows *rows, size_t *row, size_t *cell) {
    const Rows *shown = &live->shown;
    for (*row = 0; *row < shown->n && *row < rows->n; ++*row) {
        *cell = same_cells(shown, rows, *row);
        bool same = *cell == size_of(shown, *row) && *cell == size_of(rows, *row);
        if (!same) return true;
    }
    if (shown->n == rows->n) return false;
    --*row;
    *cell = size_of(shown, *row);
    return true;
}

// The first row of what is shown that can still be reached.
static size_t first_row(const Live *live) {
    size_t visible = live->height > 1 ? (size_t)live->height - 1 : 1;
    return live->shown.n > visible ? live->shown.n - visible : 0;
}

void live_paint(Live *live, const Rows *rows, const LiveTheme *theme, const Links *links, Text *out) {
    Painter p = {rows, theme, links, out, {0}};
    size_t row = 0, cell = 0;
    if (!rows->n && live->shown.n) {
        go_back(&p, live, first_row(live), 0);
        live_forget(live);
    }
    if (!rows->n) return;
    if (live->shown.n && !find_difference(live, rows, &row, &cell)) return;
    // Only what follows: the cursor is where it goes on.
    bool follows = !live->shown.n || (row + 1 == live->shown.n && cell == size_of(&live->shown, row));
    if (!follows) {
        if (row < first_row(live)) row = first_row(live), cell = 0;
        if (row >= rows->n) row = rows->n - 1, cell = size_of(rows, row);
        if (cell > size_of(&live->shown, row)) cell = size_of(&live->shown, row);
        cell = safe_cell(&live->shown, row, cell);
        go_back(&p, live, row, cell);
    }
    if (*theme->base && theme->color) select_style(&p, &p.style);
    for (; row < rows->n; row++, cell = 0) {
        put_cells(&p, row, cell);
        if (row + 1 == rows->n) break;
        end_style(&p);
        if (!rows->rows[row].joined) put(out, "\n");
        if (*theme->base && theme->color) select_style(&p, &p.style);
    }
    end_style(&p);
    row_copy(&live->shown, rows);
}

void live_forget(Live *live) {
    row_cut(&live->shown, 0);
}
