// What each key does to the line. Moving and deleting is in editor_move.c.
#include "app/editor_private.h"

#include <stdlib.h>

#include "app/tty.h"

static KeyEffect finish(Editor *editor, LineEnd end) {
    const wchar_t code[2] = {line_key_code(KEY_FINISH), 0};
    free(editor->typed);
    editor->typed = line_text(editor);
    editor->end = editor->typed ? end : LINE_LOST;
    el_wpush(editor->el, code);
    return KEY_DONE;
}

static KeyEffect insert_newline(Editor *editor) {
    return el_winsertstr(editor->el, L"\n") == 0 ? KEY_CHANGED : KEY_BELL;
}

static KeyEffect enter(Editor *editor) {
    char *text = line_text(editor);
    TurnEnd end = text ? turn_end(text) : TURN_DONE;
    free(text);
    if (end == TURN_DONE) return finish(editor, LINE_ENTER);
    if (!move_to_end(editor)) return KEY_BELL;
    if (end == TURN_MORE_LINE) { // the newline takes the place of the last `\` and of blanks behind it
        const LineInfoW *line = el_wline(editor->el);
        int n = 1;
        while (n < line->lastchar - line->buffer && line->lastchar[-n] != L'\\') n++;
        el_wdeletestr(editor->el, n);
    }
    return insert_newline(editor);
}

static KeyEffect interrupt(Editor *editor) {
    return finish(editor, LINE_INTERRUPT);
}

static KeyEffect end_of_input(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    if (line->lastchar == line->buffer && !window_is_partial(editor)) return finish(editor, LINE_EOF);
    return delete_right(editor);
}

static KeyEffect paste(Editor *editor) {
    char *text = text_clean(editor->keys.paste.bytes, editor->keys.paste.size);
    bool ok = text && line_insert(editor, text) && !editor->keys.paste_lost;
    free(text);
    text_free(&editor->keys.paste);
    return ok ? KEY_CHANGED : KEY_CHANGED | KEY_BELL;
}

static KeyEffect place(Editor *editor) {
    bool ok = !editor->place || line_insert(editor, editor->place);
    free(editor->place);
    editor->place = NULL;
    return ok ? KEY_CHANGED : KEY_BELL;
}

static KeyEffect compose(Editor *editor) {
    char *text = line_text(editor), *result = NULL;
    Error error = {0};
    if (!text) return KEY_BELL;
    line_leave(editor);
    el_wset(editor->el, EL_PREP_TERM, 0);
    tty_lend();
    if (editor_compose(text, &result, &error) == STATUS_OK) {
        line_replace(editor, result);
    } else {
        tty_write(error.message);
        tty_write("\n");
    }
    tty_take_back();
    el_wset(editor->el, EL_PREP_TERM, 1);
    line_redraw(editor);
    free(text);
    free(result);
    return KEY_DONE;
}

static KeyEffect suspend(Editor *editor) {
    line_suspend(editor, true);
    return KEY_DONE;
}

static KeyEffect redraw(Editor *editor) {
    (void)editor;
    return KEY_CHANGED;
}

static KeyEffect insert_literal(Editor *editor) {
    return el_winsertstr(editor->el, editor->literal) == 0 ? KEY_CHANGED : KEY_BELL;
}

// A key has a function of ours, or the name of one of libedit's.
static const struct {
    KeyEffect (*function)(Editor *);
    const wchar_t *name;
} BINDINGS[KEY_COUNT] = {
    [KEY_ENTER] = {enter, NULL},
    [KEY_NEWLINE] = {insert_newline, NULL},
    [KEY_PASTE] = {paste, NULL},
    [KEY_COMPOSE] = {compose, NULL},
    [KEY_TAB] = {complete_word, NULL},
    [KEY_INTERRUPT] = {interrupt, NULL},
    [KEY_SUSPEND] = {suspend, NULL},
    [KEY_EOF] = {end_of_input, NULL},
    [KEY_UP] = {move_up, NULL},
    [KEY_DOWN] = {move_down, NULL},
    [KEY_LEFT] = {move_left, NULL},
    [KEY_RIGHT] = {move_right, NULL},
    [KEY_HOME] = {move_home, NULL},
    [KEY_END] = {move_line_end, NULL},
    [KEY_WORD_LEFT] = {move_word_left, NULL},
    [KEY_WORD_RIGHT] = {move_word_right, NULL},
    [KEY_BACKSPACE] = {delete_left, NULL},
    [KEY_DELETE] = {delete_right, NULL},
    [KEY_KILL_END] = {kill_line_end, NULL},
    [KEY_KILL_ALL] = {kill_all, NULL},
    [KEY_KILL_WORD_LEFT] = {kill_word_left, NULL},
    [KEY_KILL_WORD_RIGHT] = {kill_word_right, NULL},
    [KEY_YANK] = {yank, NULL},
    [KEY_TRANSPOSE] = {transpose, NULL},
    [KEY_CLEAR] = {NULL, L"ed-clear-screen"},
    [KEY_SEARCH] = {search_step, NULL},
    [KEY_FINISH] = {NULL, L"ed-newline"},
    [KEY_PLACE] = {place, NULL},
    [KEY_REDRAW] = {redraw, NULL},
    [KEY_LITERAL] = {insert_literal, NULL},
};

// libedit's call for each of our keys; `code` is what stands for the key.
static unsigned char on_key(EditLine *el, wint_t code) {
    Editor *editor = line_editor(el);
    KeyEffect effect = BINDINGS[KEY_ENTER + (code - (wint_t)line_key_code(KEY_ENTER))].function(editor);
    if (effect & KEY_BELL) el_beep(el);
    if (effect & KEY_CHANGED) return line_changed(editor);
    return effect & KEY_MOVED ? CC_REFRESH
                              : CC_NORM; // with the text as it was, libedit only moves the cursor
}

bool line_bind_keys(EditLine *el) {
    static const wchar_t NAME[] = L"palaver-key";
    if (el_wset(el, EL_ADDFN, NAME, NAME, on_key) != 0) return false;
    for (Key key = KEY_ENTER; key < KEY_COUNT; key++) {
        const wchar_t code[2] = {line_key_code(key), 0};
        if (el_wset(el, EL_BIND, code, BINDINGS[key].function ? NAME : BINDINGS[key].name, NULL) != 0)
            return false;
    }
    return true;
}
