// Moving in the line, by what is seen as one character, by words and by lines.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>

// The cursor to where `target` says; false: it says there is no such place.
static bool move_to(Editor *editor, PlaceFunction *target) {
    View view;
    size_t at = 0;
    bool ok = viewport_view(editor, &view) && target(&view, &at) && viewport_move(editor, &view, at);
    free(view.owned);
    return ok;
}

// A move may choose another window of a tall text; then the text that is drawn changes, too.
static KeyEffect move(Editor *editor, PlaceFunction *target) {
    size_t above = editor->above.n, below = editor->below.n;
    if (!move_to(editor, target)) return KEY_BELL;
    return editor->above.n == above && editor->below.n == below ? KEY_MOVED : KEY_CHANGED;
}

bool move_to_end(Editor *editor) {
    return move_to(editor, place_text_end);
}

KeyEffect move_left(Editor *editor) {
    return move(editor, place_character_left);
}

KeyEffect move_right(Editor *editor) {
    return move(editor, place_character_right);
}

KeyEffect move_home(Editor *editor) {
    return move(editor, place_line_start);
}

KeyEffect move_line_end(Editor *editor) {
    return move(editor, place_line_end);
}

KeyEffect move_word_left(Editor *editor) {
    return move(editor, place_word_left);
}

KeyEffect move_word_right(Editor *editor) {
    return move(editor, place_word_right);
}

KeyEffect move_up(Editor *editor) {
    KeyEffect effect = move(editor, place_line_above);
    return effect == KEY_BELL ? recall_older(editor) : effect;
}

KeyEffect move_down(Editor *editor) {
    KeyEffect effect = move(editor, place_line_below);
    return effect == KEY_BELL ? recall_newer(editor) : effect;
}
