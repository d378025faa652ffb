// A text with more rows than the terminal: libedit's buffer only gets the rows around the cursor.
//
// What lies above and below is kept here. Before each key viewport_adjust() sees to it that at least one row is left
// on both sides of the cursor, so that keys which move or delete a little need not know of the window.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>
#include <string.h>

#include "app/terminal/tty.h"

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

void viewport_reset(Editor *editor) {
    drop(&editor->above);
    drop(&editor->below);
}

bool viewport_is_partial(const Editor *editor) {
    return editor->above.n || editor->below.n;
}

bool viewport_view(Editor *editor, View *view) {
    const LineInfoW *line = el_wline(editor->el);
    size_t n = (size_t)(line->lastchar - line->buffer);
    *view = (View){line->buffer, n, (size_t)(line->cursor - line->buffer), NULL};
    if (!viewport_is_partial(editor)) return true;
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

// Rows a window may have: one is the prompt's surplus, one is left free. Above a text that comes back stands why.
static int row_limit(const Editor *editor) {
    int rows = editor->came_back ? tty_rows() / 2 : tty_rows() - 2;
    return rows < 3 ? 3 : rows;
}

// The first character of a row of the whole text, whose rows are counted without a prompt.
static size_t start_of_row(const View *view, int row, TextLayout layout) {
    TextPlace place = {0, 0};
    for (size_t i = 0; i < view->n; i++) {
        TextPlace next = text_place(view->text + i, 1, place, layout);
        if ((view->text[i] == L'\n' ? place.row : next.row) >= row) return i;
        place = next;
    }
    return view->n;
}

// Chooses the rows around the view's cursor. False: they are what libedit has already, or there is no memory.
static bool show_around(Editor *editor, const View *view) {
    TextLayout layout = paint_layout(editor);
    int limit = row_limit(editor);
    int total = text_place(view->text, view->n, (TextPlace){0, 0}, layout).row + 1;
    int row = text_place(view->text, view->cursor, (TextPlace){0, 0}, layout).row;
    int top = row - limit / 2;
    if (top > total - limit) top = total - limit;
    if (top < 0) top = 0;
    size_t start = start_of_row(view, top, layout);
    size_t end = top + limit >= total ? view->n : start_of_row(view, top + limit, layout);
    // A newline that ends the window would show an empty row where there is a text.
    if (end < view->n && end > view->cursor && view->text[end - 1] == L'\n') end--;
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
    return ok;
}

// Which rows of the whole the buffer holds.
static void set_label(Editor *editor) {
    View view;
    if (!viewport_view(editor, &view)) return; // the label stays as it was
    TextLayout layout = paint_layout(editor);
    const LineInfoW *line = el_wline(editor->el);
    size_t last = editor->above.n + (size_t)(line->lastchar - line->buffer);
    int from = text_place(view.text, editor->above.n, (TextPlace){0, 0}, layout).row + 1;
    int to = text_place(view.text, last, (TextPlace){0, 0}, layout).row + 1;
    int total = text_place(view.text, view.n, (TextPlace){0, 0}, layout).row + 1;
    snprintf(editor->viewport_prompt, sizeof editor->viewport_prompt,
             editor->width < 20   ? ""
             : editor->width < 40 ? "(%d-%d/%d) "
                                  : "(rows %d-%d of %d) ",
             from, to, total);
    free(view.owned);
}

bool viewport_move(Editor *editor, View *view, size_t cursor) {
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

static bool adjust_once(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    int limit = row_limit(editor);
    int rows = paint_place(editor, (size_t)(line->lastchar - line->buffer)).row + 1;
    int row = paint_place(editor, (size_t)(line->cursor - line->buffer)).row;
    bool too_tall = rows > limit + 1;
    bool at_edge = (editor->above.n && row < 1) || (editor->below.n && row >= rows - 1);
    bool too_low = viewport_is_partial(editor) && rows < limit - 1;
    if (!too_tall && !at_edge && !too_low) return false;
    View view;
    bool ok = viewport_view(editor, &view) && show_around(editor, &view);
    free(view.owned);
    return ok;
}

bool viewport_adjust(Editor *editor) {
    bool changed = false;
    // The label is part of the first row: another window may need another one.
    for (int tries = 0; tries < 4 && adjust_once(editor); tries++) {
        changed = true;
        if (viewport_is_partial(editor)) set_label(editor);
    }
    if (!changed && viewport_is_partial(editor)) set_label(editor);
    return changed;
}
