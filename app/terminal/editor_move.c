// Moving in the line and deleting from it, by what is seen as one character, by words and by lines.
#include "app/terminal/editor_internal.h"

#include <stdlib.h>
#include <string.h>
#include <wctype.h>

// ---- places ----------------------------------------------------------------------------------------------

// The cursor to where `target` says; false: it says there is no such place.
static bool move_to(Editor *editor, bool (*target)(const View *, size_t *)) {
    View view;
    size_t at = 0;
    bool ok = window_view(editor, &view) && target(&view, &at) && window_move(editor, &view, at);
    free(view.owned);
    return ok;
}

static bool text_end(const View *view, size_t *at) {
    *at = view->n;
    return true;
}

static bool line_start(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at && view->text[*at - 1] != L'\n') --*at;
    return true;
}

static bool line_end(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n && view->text[*at] != L'\n') ++*at;
    return true;
}

// The line above or below, the same column.
static bool line_above(const View *view, size_t *at) {
    size_t start;
    line_start(view, &start);
    if (!start) return false;
    View above = {view->text, view->n, start - 1, NULL};
    size_t column = view->cursor - start;
    line_start(&above, at);
    *at = column < above.cursor - *at ? *at + column : above.cursor;
    return true;
}

static bool line_below(const View *view, size_t *at) {
    size_t start, end, last;
    line_start(view, &start);
    line_end(view, &end);
    if (end == view->n) return false;
    View below = {view->text, view->n, end + 1, NULL};
    line_end(&below, &last);
    *at = view->cursor - start < last - below.cursor ? below.cursor + (view->cursor - start) : last;
    return true;
}

// Marks without a width belong to the character before them, and a joiner (ZWJ) ties the next one as well.
static bool is_mark(wchar_t c) {
    return c != L'\n' && c != L'\t' && wcwidth(c) == 0;
}

static bool character_left(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at) {
        --*at;
        if (!is_mark(view->text[*at]) && (!*at || view->text[*at - 1] != 0x200D)) break;
    }
    return *at != view->cursor;
}

static bool character_right(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n) {
        wchar_t last = view->text[(*at)++];
        if (*at == view->n || (!is_mark(view->text[*at]) && last != 0x200D)) break;
    }
    return *at != view->cursor;
}

static bool is_word(wchar_t c) {
    return iswalnum((wint_t)c) || c == L'_' || is_mark(c);
}

static bool word_left(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at && !is_word(view->text[*at - 1])) --*at;
    while (*at && is_word(view->text[*at - 1])) --*at;
    return *at != view->cursor;
}

static bool word_right(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n && !is_word(view->text[*at])) ++*at;
    while (*at < view->n && is_word(view->text[*at])) ++*at;
    return *at != view->cursor;
}

// ---- moving ----------------------------------------------------------------------------------------------

// A move may choose another window of a tall text; then the text that is drawn changes, too.
static KeyEffect move(Editor *editor, bool (*target)(const View *, size_t *)) {
    size_t above = editor->above.n, below = editor->below.n;
    if (!move_to(editor, target)) return KEY_BELL;
    return editor->above.n == above && editor->below.n == below ? KEY_MOVED : KEY_CHANGED;
}

bool move_to_end(Editor *editor) {
    return move_to(editor, text_end);
}

KeyEffect move_left(Editor *editor) {
    return move(editor, character_left);
}

KeyEffect move_right(Editor *editor) {
    return move(editor, character_right);
}

KeyEffect move_home(Editor *editor) {
    return move(editor, line_start);
}

KeyEffect move_line_end(Editor *editor) {
    return move(editor, line_end);
}

KeyEffect move_word_left(Editor *editor) {
    return move(editor, word_left);
}

KeyEffect move_word_right(Editor *editor) {
    return move(editor, word_right);
}

KeyEffect move_up(Editor *editor) {
    KeyEffect effect = move(editor, line_above);
    return effect == KEY_BELL ? recall_older(editor) : effect;
}

KeyEffect move_down(Editor *editor) {
    KeyEffect effect = move(editor, line_below);
    return effect == KEY_BELL ? recall_newer(editor) : effect;
}

// ---- deleting --------------------------------------------------------------------------------------------

// Deletes what lies between the cursor and the target, as far as it is in libedit's buffer; `keep`: for Ctrl-Y.
static KeyEffect delete_to(Editor *editor, bool (*target)(const View *, size_t *), bool keep) {
    const LineInfoW *line = el_wline(editor->el);
    View view = {line->buffer, (size_t)(line->lastchar - line->buffer), (size_t)(line->cursor - line->buffer),
                 NULL};
    size_t at;
    if (!target(&view, &at) || at == view.cursor) return KEY_BELL;
    size_t from = at < view.cursor ? at : view.cursor,
           n = at < view.cursor ? view.cursor - at : at - view.cursor;
    if (keep) {
        char *killed = text_from_wide(view.text + from, n);
        if (!killed) return KEY_BELL;
        free(editor->killed);
        editor->killed = killed;
    }
    if (at > view.cursor) el_cursor(editor->el, (int)n);
    el_wdeletestr(editor->el, (int)n);
    return KEY_CHANGED;
}

KeyEffect delete_left(Editor *editor) {
    return delete_to(editor, character_left, false);
}

KeyEffect delete_right(Editor *editor) {
    return delete_to(editor, character_right, false);
}

KeyEffect kill_word_left(Editor *editor) {
    return delete_to(editor, word_left, true);
}

KeyEffect kill_word_right(Editor *editor) {
    return delete_to(editor, word_right, true);
}

KeyEffect kill_line_end(Editor *editor) {
    KeyEffect effect = delete_to(editor, line_end, true);
    return effect == KEY_BELL ? delete_to(editor, character_right, true) : effect; // the newline
}

KeyEffect kill_all(Editor *editor) {
    char *killed = line_text(editor);
    if (!killed) return KEY_BELL;
    if (*killed) {
        free(editor->killed);
        editor->killed = killed;
    } else {
        free(killed);
    }
    return line_replace(editor, "") ? KEY_CHANGED : KEY_BELL;
}

KeyEffect yank(Editor *editor) {
    return editor->killed && line_insert(editor, editor->killed) ? KEY_CHANGED : KEY_BELL;
}

// The two characters at the cursor, or at the end the two before it, change places.
KeyEffect transpose(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    if (line->cursor == line->buffer || line->lastchar - line->buffer < 2) return KEY_BELL;
    if (line->cursor < line->lastchar) el_cursor(editor->el, 1);
    line = el_wline(editor->el);
    const wchar_t swapped[3] = {line->cursor[-1], line->cursor[-2], 0};
    el_wdeletestr(editor->el, 2);
    return el_winsertstr(editor->el, swapped) == 0 ? KEY_CHANGED : KEY_BELL;
}
