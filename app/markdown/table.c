#include "app/markdown/table.h"

#include "kernels/base/array.h"

#include <string.h>

enum {               // columns
    GAP = 3,         // between two of a table
    LEAST = 6,       // of a table's column, where there is no room for more
    BAND_INDENT = 2, // before what is left of a line
};

typedef struct Table {
    const TableLayout *layout;
    Links *links;
    int n_columns;
    Rows *cells;  // [n_lines * n_columns] each as one row, later as wrapped
    int *widths;  // [n_columns]
    char *aligns; // [n_columns] 'l', 'r', 'c'
    size_t n_lines;
} Table;

// ---- reading ------------------------------------------------------------------------------------------------------

static void trim(const char **line, size_t *n) {
    while (*n && strchr(" \t", (*line)[*n - 1])) --*n;
    while (*n && strchr(" \t", **line)) ++*line, --*n;
}

// Takes the bars at both ends away.
static void unbar(const char **line, size_t *n) {
    trim(line, n);
    if (*n && **line == '|') ++*line, --*n;
    if (*n && (*line)[*n - 1] == '|' && (*n < 2 || (*line)[*n - 2] != '\\')) --*n;
}

// The length of the cell at the beginning; a bar behind a backslash is in it.
static size_t cell_size(const char *line, size_t n) {
    size_t i = 0;
    while (i < n && line[i] != '|') i += line[i] == '\\' && i + 1 < n ? 2 : 1;
    return i < n ? i : n;
}

int table_cells(const char *line, size_t n) {
    int count = 1;
    unbar(&line, &n);
    for (size_t size; (size = cell_size(line, n)) < n; count++) line += size + 1, n -= size + 1;
    return count;
}

static bool read_align(const char *cell, size_t n, char *align) {
    trim(&cell, &n);
    bool left = n && cell[0] == ':', right = n > (size_t)left && cell[n - 1] == ':';
    size_t dashes = n - left - right;
    *align = left && right ? 'c' : right ? 'r' : 'l';
    return n > (size_t)left + right && strspn(cell + left, "-") >= dashes;
}

int table_columns(const char *line, size_t n) {
    int count = 0;
    bool more = true;
    if (!memchr(line, '|', n) && !memchr(line, ':', n)) return 0;
    for (unbar(&line, &n); more; count++) {
        char align;
        size_t size = cell_size(line, n);
        if (!read_align(line, size, &align)) return 0;
        more = size < n;
        line += size + more;
        n -= size + more;
    }
    return count;
}

// Bars behind backslashes lose these before anything else is read.
static void render_cell(Table *t, const char *cell, size_t n, bool head, Rows *into) {
    Text text = {0};
    trim(&cell, &n);
    for (size_t i = 0; i < n; i++)
        if (cell[i] != '\\' || i + 1 == n || cell[i + 1] != '|') text_add(&text, cell + i, 1);
    const InlineText source = {.text = text.bytes ? text.bytes : "",
                               .n = text.size,
                               .address_too = t->layout->address_too,
                               .code_marked = t->layout->code_marked,
                               .looks = head ? LOOK_BOLD : 0};
    inline_render(&source, t->links, &into->of);
    row_end(into, false);
    text_free(&text);
}

static void read_line(Table *t, const char *line, size_t n, size_t number) {
    unbar(&line, &n);
    for (int column = 0; column < t->n_columns; column++) {
        // Cells that have no column stand in the last one: GitHub leaves them out, a reply loses no word.
        size_t size = column + 1 < t->n_columns ? cell_size(line, n) : n;
        Rows *into = &t->cells[number * (size_t)t->n_columns + (size_t)column];
        render_cell(t, line, size, number == 0, into);
        int width = cell_widths(into->of.cells, into->of.n);
        if (width > t->widths[column]) t->widths[column] = width;
        size_t used = size < n ? size + 1 : n;
        line += used;
        n -= used;
    }
}

static void read_aligns(Table *t, const char *line, size_t n) {
    unbar(&line, &n);
    for (int column = 0; column < t->n_columns; column++) {
        size_t size = cell_size(line, n);
        (void)read_align(line, size, &t->aligns[column]);
        size_t used = size < n ? size + 1 : n;
        line += used;
        n -= used;
    }
}

static void read_all(Table *t, const char *text, size_t n) {
    size_t number = 0;
    for (size_t line = 0; n; line++) {
        const char *end = memchr(text, '\n', n);
        size_t size = end ? (size_t)(end - text) : n;
        if (line == 1)
            read_aligns(t, text, size);
        else if (number < t->n_lines)
            read_line(t, text, size, number++);
        text += size + (end != NULL);
        n -= size + (end != NULL);
    }
}

// ---- drawing ------------------------------------------------------------------------------------------------------

// Columns that stand side by side. A table of more columns than the terminal has room for has several: each of its
// lines shows them one below the other.
typedef struct Band {
    int from, to; // columns of the table, without `to`
    int indent;
} Band;

static int room_of(const Table *t, const Band *band) {
    return t->layout->width - cell_widths(t->layout->rest->cells, t->layout->rest->n) - band->indent;
}

// The band behind another (all zero: the first one); false: that was the last.
static bool next_band(const Table *t, Band *band) {
    *band = (Band){band->to, band->to, band->to ? BAND_INDENT : 0};
    int columns = 0;
    for (; band->to < t->n_columns; band->to++) {
        int width = t->widths[band->to] < LEAST ? t->widths[band->to] : LEAST;
        columns += width + (band->to > band->from ? GAP : 0);
        if (band->to > band->from && columns > room_of(t, band)) break;
    }
    return band->to > band->from;
}

// The widest columns give what there is no room for.
static void fit_columns(Table *t, const Band *band) {
    int room = room_of(t, band) - GAP * (band->to - band->from - 1), sum = 0;
    for (int i = band->from; i < band->to; i++) sum += t->widths[i];
    while (sum > room) {
        int widest = band->from;
        for (int i = band->from + 1; i < band->to; i++)
            if (t->widths[i] > t->widths[widest]) widest = i;
        if (t->widths[widest] <= 1) return;
        t->widths[widest]--;
        sum--;
    }
}

static void put_blanks(Cells *out, int n) {
    for (; n > 0; n--) cell_add(out, (Cell){.code = ' '});
}

// One row of the terminal out of a table's line: row `index` of each of a band's cells.
static void draw_row(const Table *t, const Band *band, const Rows *line, size_t index, Cells *out) {
    static const Cells NONE = {0};
    put_blanks(out, band->indent);
    for (int column = band->from; column < band->to; column++) {
        const Rows *cell = &line[column];
        Cells part = NONE;
        if (index < cell->n)
            part = (Cells){.cells = cell->of.cells + cell->rows[index].begin,
                           .n = cell->rows[index].end - cell->rows[index].begin};
        int left = t->widths[column] - cell_widths(part.cells, part.n);
        int before = left <= 0                  ? 0
                     : t->aligns[column] == 'r' ? left
                     : t->aligns[column] == 'c' ? left / 2
                                                : 0;
        if (column > band->from) cell_add_text(out, " │ ", INK_FRAME);
        put_blanks(out, before);
        cell_add_all(out, part.cells, part.n);
        if (column + 1 < band->to) put_blanks(out, left - before);
    }
}

static void draw_rule(const Table *t, const Band *band, Cells *out) {
    for (int column = band->from; column < band->to; column++) {
        if (column > band->from) cell_add_text(out, "─┼─", INK_FRAME);
        for (int i = 0; i < t->widths[column]; i++) cell_add_text(out, "─", INK_FRAME);
    }
}

static void wrap_cell(Rows *cell, int width) {
    static const Cells NONE = {0};
    Rows wrapped = {0};
    row_wrap(&wrapped, cell->of.cells, cell->of.n,
             &(const Wrap){.first = &NONE, .rest = &NONE, .width = width > 0 ? width : 1, .whole = true});
    row_free(cell);
    *cell = wrapped;
}

static void put_rule(const Table *t, const Band *band, Rows *rows) {
    cell_add_all(&rows->of, t->layout->rest->cells, t->layout->rest->n);
    draw_rule(t, band, &rows->of);
    row_end(rows, false);
}

static void draw_band(const Table *t, const Band *band, Rows *cells, const Cells *before, Rows *rows) {
    size_t height = 1;
    for (int i = band->from; i < band->to; i++) {
        wrap_cell(&cells[i], t->widths[i]);
        if (cells[i].n > height) height = cells[i].n;
    }
    for (size_t i = 0; i < height; i++, before = t->layout->rest) {
        cell_add_all(&rows->of, before->cells, before->n);
        draw_row(t, band, cells, i, &rows->of);
        row_end(rows, false);
    }
}

static void draw(Table *t, Rows *rows) {
    Band first = {0};
    (void)next_band(t, &first);
    for (Band band = {0}; next_band(t, &band);) fit_columns(t, &band);
    for (size_t line = 0; line < t->n_lines; line++) {
        // Where a line has several bands a rule says where the next one begins.
        if (line == 1 || (line && first.to < t->n_columns)) put_rule(t, &first, rows);
        for (Band band = {0}; next_band(t, &band);)
            draw_band(t, &band, &t->cells[line * (size_t)t->n_columns],
                      line || band.from ? t->layout->rest : t->layout->first, rows);
    }
    if (t->n_lines == 1) put_rule(t, &first, rows);
}

void table_render(const char *text, size_t n, const TableLayout *layout, Links *links, Rows *rows) {
    const char *head = memchr(text, '\n', n);
    Table t = {.layout = layout, .links = links};
    t.n_columns = table_cells(text, head ? (size_t)(head - text) : n);
    for (size_t i = 0; i < n; i++) t.n_lines += text[i] == '\n';
    t.cells = calloc(t.n_lines * (size_t)t.n_columns + 1, sizeof *t.cells);
    t.widths = calloc((size_t)t.n_columns, sizeof *t.widths);
    t.aligns = calloc((size_t)t.n_columns, 1);
    if (t.cells && t.widths && t.aligns) {
        read_all(&t, text, n);
        draw(&t, rows);
    } else {
        rows->of.failed = true;
    }
    for (size_t i = 0; t.cells && i < t.n_lines * (size_t)t.n_columns; i++) row_free(&t.cells[i]);
    free(t.cells);
    free(t.widths);
    free(t.aligns);
}
