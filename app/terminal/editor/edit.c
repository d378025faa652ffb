// Deleting from the line and putting back, by what is seen as one character, by words and by lines.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>

// Deletes what lies between the cursor and the target, as far as it is in libedit's buffer; `keep`: for Ctrl-Y.
static KeyEffect delete_to(Editor *editor, PlaceFunction *target, bool keep) {
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

KeyEffect edit_delete_left(Editor *editor) {
    return delete_to(editor, place_character_left, false);
}

KeyEffect edit_delete_right(Editor *editor) {
    return delete_to(editor, place_character_right, false);
}

KeyEffect edit_kill_word_left(Editor *editor) {
    return delete_to(editor, place_word_left, true);
}

KeyEffect edit_kill_word_right(Editor *editor) {
    return delete_to(editor, place_word_right, true);
}

KeyEffect edit_kill_line_end(Editor *editor) {
    KeyEffect effect = delete_to(editor, place_line_end, true);
    return effect == KEY_BELL ? delete_to(editor, place_character_right, true) : effect; // the newline
}

KeyEffect edit_kill_all(Editor *editor) {
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

KeyEffect edit_yank(Editor *editor) {
    return editor->killed && line_insert(editor, editor->killed) ? KEY_CHANGED : KEY_BELL;
}

// The two characters at the cursor, or at the end the two before it, change places.
KeyEffect edit_transpose(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    if (line->cursor == line->buffer || line->lastchar - line->buffer < 2) return KEY_BELL;
    if (line->cursor < line->lastchar) el_cursor(editor->el, 1);
    line = el_wline(editor->el);
    const wchar_t swapped[3] = {line->cursor[-1], line->cursor[-2], 0};
    el_wdeletestr(editor->el, 2);
    return el_winsertstr(editor->el, swapped) == 0 ? KEY_CHANGED : KEY_BELL;
}
