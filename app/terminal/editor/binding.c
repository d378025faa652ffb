// What each key does to the line. Moving is in move.c, deleting in edit.c.
#include "app/terminal/editor/editor_internal.h"

#include <stdlib.h>

#include "app/terminal/editor/compose.h"
#include "app/terminal/tty.h"

static KeyEffect finish(Editor *editor, LineEnd end) {
    free(editor->typed);
    editor->typed = line_text(editor);
    editor->end = editor->typed ? end : LINE_LOST;
    // A text taller than the window stays in what can be scrolled back to.
    if (end != LINE_ENTER || !viewport_is_partial(editor) || !paint_whole(editor)) paint_leave(editor);
    return KEY_FINISHED;
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
    if (line->lastchar == line->buffer && !viewport_is_partial(editor)) return finish(editor, LINE_EOF);
    return edit_delete_right(editor);
}

static KeyEffect paste(Editor *editor) {
    const Text *bytes = &editor->keys.paste;
    char told[sizeof(Error)] = "", *text = NULL;
    size_t dropped = 0;
    Error error;
    if (bytes->size && text_check("the paste", bytes->bytes, bytes->size, &error))
        snprintf(told, sizeof told, "(%.200s; nothing of it was taken)", error.message);
    else
        text = text_clean(bytes->size ? bytes->bytes : "", bytes->size, &dropped);
    if (dropped) snprintf(told, sizeof told, TEXT_DROPPED, dropped, text_plural((int64_t)dropped));
    if (editor->keys.paste_lost) snprintf(told, sizeof told, "(the paste was too long: its end is lost)");
    if (*told) line_tell(editor, told); // while the line is still what is on the screen
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
    paint_leave(editor);
    el_wset(editor->el, EL_PREP_TERM, 0);
    tty_lend();
    if (!compose_text(text, &result, &error)) line_replace(editor, result);
    if (*error.message) editor_tell(editor, "%s", error.message);
    tty_take_back();
    el_wset(editor->el, EL_PREP_TERM, 1);
    paint_redraw(editor);
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

static KeyEffect insert(Editor *editor) {
    const wchar_t *typed = editor->typed_characters;
    if (el_winsertstr(editor->el, typed) != 0) return KEY_BELL;
    if (typed[1]) return KEY_CHANGED;
    paint_typed(editor, typed[0]);
    return KEY_DONE;
}

static KeyEffect clear_screen(Editor *editor) {
    paint_clear_screen(editor);
    return KEY_DONE;
}

static KeyEffect (*const FUNCTIONS[KEY_COUNT])(Editor *) = {
    [KEY_ENTER] = enter,
    [KEY_NEWLINE] = insert_newline,
    [KEY_PASTE] = paste,
    [KEY_COMPOSE] = compose,
    [KEY_TAB] = completion_tab,
    [KEY_INTERRUPT] = interrupt,
    [KEY_SUSPEND] = suspend,
    [KEY_EOF] = end_of_input,
    [KEY_UP] = move_up,
    [KEY_DOWN] = move_down,
    [KEY_LEFT] = move_left,
    [KEY_RIGHT] = move_right,
    [KEY_HOME] = move_home,
    [KEY_END] = move_line_end,
    [KEY_WORD_LEFT] = move_word_left,
    [KEY_WORD_RIGHT] = move_word_right,
    [KEY_BACKSPACE] = edit_delete_left,
    [KEY_DELETE] = edit_delete_right,
    [KEY_KILL_END] = edit_kill_line_end,
    [KEY_KILL_ALL] = edit_kill_all,
    [KEY_KILL_WORD_LEFT] = edit_kill_word_left,
    [KEY_KILL_WORD_RIGHT] = edit_kill_word_right,
    [KEY_YANK] = edit_yank,
    [KEY_TRANSPOSE] = edit_transpose,
    [KEY_CLEAR] = clear_screen,
    [KEY_SEARCH] = search_step,
    [KEY_PLACE] = place,
    [KEY_REDRAW] = redraw,
    [KEY_INSERT] = insert,
};

// libedit's call for each of our keys; `code` is what stands for the key. What is returned makes it draw nothing.
static unsigned char on_key(EditLine *el, wint_t code) {
    Editor *editor = line_editor(el);
    KeyEffect effect = FUNCTIONS[KEY_ENTER + (code - (wint_t)line_key_code(KEY_ENTER))](editor);
    if (effect & KEY_BELL) tty_write("\a");
    if (effect & KEY_CHANGED) paint_line(editor);
    if (effect & KEY_MOVED) paint_cursor(editor);
    return effect & KEY_FINISHED ? CC_NEWLINE : CC_NORM;
}

bool binding_install(EditLine *el) {
    static const wchar_t NAME[] = L"palaver-key";
    if (el_wset(el, EL_ADDFN, NAME, NAME, on_key) != 0) return false;
    for (Key key = KEY_ENTER; key < KEY_COUNT; key++) {
        const wchar_t code[2] = {line_key_code(key), 0};
        if (el_wset(el, EL_BIND, code, NAME, NULL) != 0) return false;
    }
    return true;
}
