// A text with more rows than the terminal: libedit would lose the cursor, so it only gets the rows around it.
//
// What lies above and below is kept here. Before each key window_adjust() sees to it that at least one row is left
// on both sides of the cursor, so that keys which move or delete a little need not know of the window.
#include "app/editor_private.h"

#include <stdlib.h>
#include <string.h>

#include "app/tty.h"

static void drop(Part *part) {
    free(part->text);
    *part = (Part){0};
}

static bool set_part(Part *part, const wchar_t *text, size_t n) {
    wchar_t *copy = n ? malloc(n * sizeof *copy) : NULL;
    if (n && !copy) return false;
    if (n) memcpy(copy, text, n * sizeof *copy);
    drop(part);
    *part = (Part){copy, n};
    return true;
}

void window_reset(Editor *editor) {
    drop(&editor->above);
    drop(&editor->below);
}

bool window_is_partial(const Editor *editor) {
    return editor->above.n || editor->below.n;
}

bool window_view(Editor *editor, View *view) {
    const LineInfoW *line = el_wline(editor->el);
    size_t n = (size_t)(line->lastchar - line->buffer);
    *view = (View){line->buffer, n, (size_t)(line->cursor - line->buffer), NULL};
    if (!window_is_partial(editor)) return true;
    view->owned = malloc((editor->above.n + n + editor->below.n) * sizeof *view->owned);
    if (!view->owned) return false;
    if (editor->above.n) memcpy(view->owned, editor->above.text, editor->above.n * sizeof *view->owned);
    memcpy(view->owned + editor->above.n, line->buffer, n * sizeof *view->owned);
    if (editor->below.n)
        memcpy(view->owned + editor->above.n + n, editor->below.text, editor->below.n * sizeof *view->owned);
    view->text = view->owned;
    view->n = editor->above.n + n + editor->below.n;
    view->cursor += editor->above.n;
    return true;
}

// The buffer becomes `n` characters, the cursor behind `cursor` of them.
static bool set_buffer(Editor *editor, const wchar_t *text, size_t n, size_t cursor) {
    wchar_t *copy = malloc((n + 1) * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, text, n * sizeof *copy);
    copy[n] = 0;
    const LineInfoW *line = el_wline(editor->el);
    if (line->cursor != line->lastchar) el_cursor(editor->el, (int)(line->lastchar - line->cursor));
    el_wdeletestr(editor->el, (int)(line->lastchar - line->buffer));
    bool ok = !n || el_winsertstr(editor->el, copy) == 0;
    if (ok && cursor < n) el_cursor(editor->el, -(int)(n - cursor));
    free(copy);
    return ok;
}

// Rows a window may have: one is the prompt's surplus, one is left free.
static int row_limit(void) {
    int rows = tty_rows() - 2;
    return rows < 3 ? 3 : rows;
}

// The first character of a row, counted from the text's beginning as if it began in column 0.
static size_t start_of_row(const wchar_t *text, size_t n, int row, int width) {
    TextPlace place = {0, 0};
    size_t i = 0;
    for (; i < n && place.row < row; i++) {
        TextPlace next = text_place(text + i, 1, place.column, width);
        place = (TextPlace){place.row + next.row, next.column};
    }
    // A mark without a width, or a wide character that was pushed over, belongs to the row before it or its own.
    while (i < n && text[i] != L'\n' && text[i] != L'\t' && wcwidth(text[i]) == 0) i++;
    return i;
}

// Chooses the rows around the view's cursor. False: they are what libedit has already, or there is no memory.
static bool show_around(Editor *editor, const View *view) {
    int width = tty_width(), limit = row_limit();
    int total = text_place(view->text, view->n, 0, width).row + 1;
    int row = text_place(view->text, view->cursor, 0, width).row;
    int top = row - limit / 2;
    if (top > total - limit) top = total - limit;
    if (top < 0) top = 0;
    size_t start = start_of_row(view->text, view->n, top, width);
    size_t end = top + limit >= total ? view->n : start_of_row(view->text, view->n, top + limit, width);
    if (start > view->cursor) start = view->cursor;
    if (end < view->cursor) end = view->cursor;
    const LineInfoW *line = el_wline(editor->el);
    size_t shown = (size_t)(line->lastchar - line->buffer);
    if (start == editor->above.n && end == editor->above.n + shown) return false;
    // The view may be the buffer itself: the parts are copied before the buffer changes.
    wchar_t *copy = malloc((end - start + 1) * sizeof *copy);
    bool ok = copy && set_part(&editor->above, view->text, start) &&
              set_part(&editor->below, view->text + end, view->n - end);
    if (ok) {
        memcpy(copy, view->text + start, (end - start) * sizeof *copy);
        ok = set_buffer(editor, copy, end - start, view->cursor - start);
    }
    free(copy);
    int last = top + limit < total ? top + limit : total;
    swprintf(editor->window_prompt, sizeof editor->window_prompt / sizeof *editor->window_prompt,
             L"(rows %d-%d of %d) ", top + 1, last, total);
    return ok;
}

bool window_move(Editor *editor, View *view, size_t cursor) {
    const LineInfoW *line = el_wline(editor->el);
    size_t n = (size_t)(line->lastchar - line->buffer);
    bool ok = true;
    if (cursor >= editor->above.n && cursor <= editor->above.n + n) {
        int by = (int)((long)(cursor - editor->above.n) - (line->cursor - line->buffer));
        if (by) el_cursor(editor->el, by);
    } else {
        view->cursor = cursor;
        ok = show_around(editor, view);
    }
    return ok;
}

bool window_adjust(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    int width = tty_width(), limit = row_limit();
    int rows = line_place(editor, (size_t)(line->lastchar - line->buffer), width).row + 1;
    int row = line_place(editor, (size_t)(line->cursor - line->buffer), width).row;
    bool too_tall = rows > limit + 1;
    bool partial = window_is_partial(editor);
    bool at_edge = (editor->above.n && row < 1) || (editor->below.n && row >= rows - 1);
    if (!too_tall && !at_edge && !(partial && rows < limit - 1)) return false;
    View view;
    bool ok = window_view(editor, &view) && show_around(editor, &view);
    free(view.owned);
    return ok;
}
