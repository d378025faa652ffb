// What each key does to the line.
#include "app/editor_private.h"

#include <stdlib.h>

#include "app/tty.h"

static unsigned char finish(EditLine *el, LineEnd end) {
    Editor *editor = line_editor(el);
    const wchar_t code[2] = {line_key_code(KEY_FINISH), 0};
    free(editor->typed);
    editor->typed = line_text(editor);
    editor->end = editor->typed ? end : LINE_LOST;
    el_wpush(el, code);
    return CC_NORM;
}

static unsigned char insert_newline(EditLine *el, wint_t c) {
    (void)c;
    return el_winsertstr(el, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

// The cursor to the text's character `at`; false: no memory.
static bool move_to(EditLine *el, bool (*target)(const View *, size_t *)) {
    Editor *editor = line_editor(el);
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

static unsigned char enter(EditLine *el, wint_t c) {
    char *text = line_text(line_editor(el));
    TurnEnd end = text ? turn_end(text) : TURN_DONE;
    free(text);
    if (end == TURN_DONE) return finish(el, LINE_ENTER);
    if (!move_to(el, text_end)) return CC_ERROR;
    if (end == TURN_MORE_LINE) { // the newline takes the place of the last `\` and of blanks behind it
        const LineInfoW *line = el_wline(el);
        int n = 1;
        while (n < line->lastchar - line->buffer && line->lastchar[-n] != L'\\') n++;
        el_wdeletestr(el, n);
    }
    return insert_newline(el, c);
}

static unsigned char interrupt(EditLine *el, wint_t c) {
    (void)c;
    return finish(el, LINE_INTERRUPT);
}

static unsigned char end_of_input(EditLine *el, wint_t c) {
    (void)c;
    const LineInfoW *line = el_wline(el);
    if (line->lastchar == line->buffer && !window_is_partial(line_editor(el))) return finish(el, LINE_EOF);
    if (line->cursor == line->lastchar) return CC_ERROR;
    const wchar_t code[2] = {line_key_code(KEY_DELETE), 0};
    el_wpush(el, code);
    return CC_NORM;
}

static unsigned char paste(EditLine *el, wint_t c) {
    (void)c;
    Editor *editor = line_editor(el);
    char *text = text_clean(editor->keys.paste.bytes, editor->keys.paste.size);
    bool ok = text && line_insert(editor, text) && !editor->keys.paste_lost;
    free(text);
    text_free(&editor->keys.paste);
    return ok ? CC_REFRESH : CC_REFRESH_BEEP;
}

static unsigned char place(EditLine *el, wint_t c) {
    (void)c;
    Editor *editor = line_editor(el);
    bool ok = true;
    if (editor->place) ok = line_insert(editor, editor->place);
    free(editor->place);
    editor->place = NULL;
    return ok ? CC_REFRESH : CC_REFRESH_BEEP;
}

static unsigned char compose(EditLine *el, wint_t c) {
    (void)c;
    Editor *editor = line_editor(el);
    char *text = line_text(editor), *result = NULL;
    Error error = {0};
    if (!text) return CC_ERROR;
    line_leave(editor);
    el_wset(el, EL_PREP_TERM, 0);
    tty_lend();
    if (editor_compose(text, &result, &error) == STATUS_OK) {
        line_replace(editor, result);
    } else {
        tty_write(error.message);
        tty_write("\n");
    }
    tty_take_back();
    el_wset(el, EL_PREP_TERM, 1);
    line_redraw(editor);
    free(text);
    free(result);
    return CC_NORM;
}

static unsigned char suspend_job(EditLine *el, wint_t c) {
    (void)c;
    line_suspend(line_editor(el), true);
    return CC_NORM;
}

// ---- moving and deleting by what is seen as one character
// ---------------------------------------------------

// Marks without a width belong to the character before them, and ZWJ ties the next one as well.
static int step_left(EditLine *el) {
    const LineInfoW *line = el_wline(el);
    const wchar_t *at = line->cursor;
    while (at > line->buffer) {
        at--;
        bool mark = *at != L'\n' && *at != L'\t' && wcwidth(*at) == 0;
        if (!mark && (at == line->buffer || at[-1] != 0x200D)) break;
    }
    return (int)(line->cursor - at);
}

static int step_right(EditLine *el) {
    const LineInfoW *line = el_wline(el);
    const wchar_t *at = line->cursor;
    while (at < line->lastchar) {
        wchar_t last = *at++;
        if (at == line->lastchar) break;
        bool mark = *at != L'\n' && *at != L'\t' && wcwidth(*at) == 0;
        if (!mark && last != 0x200D) break;
    }
    return (int)(at - line->cursor);
}

static unsigned char left(EditLine *el, wint_t c) {
    (void)c;
    int n = step_left(el);
    if (n) el_cursor(el, -n);
    return CC_CURSOR;
}

static unsigned char right(EditLine *el, wint_t c) {
    (void)c;
    int n = step_right(el);
    if (n) el_cursor(el, n);
    return CC_CURSOR;
}

static unsigned char backspace(EditLine *el, wint_t c) {
    (void)c;
    int n = step_left(el);
    if (!n) return CC_ERROR;
    el_wdeletestr(el, n);
    return CC_REFRESH;
}

static unsigned char delete (EditLine *el, wint_t c) {
    (void)c;
    int n = step_right(el);
    if (!n) return CC_ERROR;
    el_cursor(el, n);
    el_wdeletestr(el, n);
    return CC_REFRESH;
}

static bool start_of_line(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at && view->text[*at - 1] != L'\n') --*at;
    return true;
}

static bool end_of_line(const View *view, size_t *at) {
    *at = view->cursor;
    while (*at < view->n && view->text[*at] != L'\n') ++*at;
    return true;
}

static unsigned char home(EditLine *el, wint_t c) {
    (void)c;
    return move_to(el, start_of_line) ? CC_REFRESH : CC_ERROR;
}

static unsigned char line_end(EditLine *el, wint_t c) {
    (void)c;
    return move_to(el, end_of_line) ? CC_REFRESH : CC_ERROR;
}

// The line above or below, the same column.
static bool line_above(const View *view, size_t *at) {
    size_t start;
    start_of_line(view, &start);
    if (!start) return false;
    View above = {view->text, view->n, start - 1, NULL};
    size_t column = view->cursor - start;
    start_of_line(&above, at);
    *at = column < above.cursor - *at ? *at + column : above.cursor;
    return true;
}

static bool line_below(const View *view, size_t *at) {
    size_t start, end, last;
    start_of_line(view, &start);
    end_of_line(view, &end);
    if (end == view->n) return false;
    View below = {view->text, view->n, end + 1, NULL};
    end_of_line(&below, &last);
    *at = view->cursor - start < last - below.cursor ? below.cursor + (view->cursor - start) : last;
    return true;
}

static unsigned char up(EditLine *el, wint_t c) {
    (void)c;
    return move_to(el, line_above) ? CC_REFRESH : recall_older(line_editor(el));
}

static unsigned char down(EditLine *el, wint_t c) {
    (void)c;
    return move_to(el, line_below) ? CC_REFRESH : recall_newer(line_editor(el));
}

static unsigned char redraw(EditLine *el, wint_t c) {
    (void)el;
    (void)c;
    return CC_REFRESH;
}

static unsigned char insert_literal(EditLine *el, wint_t c) {
    (void)c;
    return el_winsertstr(el, line_editor(el)->literal) == 0 ? CC_REFRESH : CC_ERROR;
}

// Each key's function, ours or libedit's by name.
static const struct {
    Key key;
    unsigned char (*function)(EditLine *, wint_t);
    const wchar_t *name;
} BINDINGS[] = {
    {KEY_ENTER, enter, L"palaver-enter"},
    {KEY_NEWLINE, insert_newline, L"palaver-newline"},
    {KEY_PASTE, paste, L"palaver-paste"},
    {KEY_COMPOSE, compose, L"palaver-compose"},
    {KEY_TAB, complete_word, L"palaver-complete"},
    {KEY_INTERRUPT, interrupt, L"palaver-interrupt"},
    {KEY_SUSPEND, suspend_job, L"palaver-suspend"},
    {KEY_EOF, end_of_input, L"palaver-eof"},
    {KEY_UP, up, L"palaver-up"},
    {KEY_DOWN, down, L"palaver-down"},
    {KEY_LEFT, left, L"palaver-left"},
    {KEY_RIGHT, right, L"palaver-right"},
    {KEY_HOME, home, L"palaver-home"},
    {KEY_END, line_end, L"palaver-end"},
    {KEY_WORD_LEFT, NULL, L"ed-prev-word"},
    {KEY_WORD_RIGHT, NULL, L"em-next-word"},
    {KEY_BACKSPACE, backspace, L"palaver-backspace"},
    {KEY_DELETE, delete, L"palaver-delete"},
    {KEY_KILL_END, NULL, L"ed-kill-line"},
    {KEY_KILL_ALL, NULL, L"em-kill-line"},
    {KEY_KILL_WORD_LEFT, NULL, L"ed-delete-prev-word"},
    {KEY_KILL_WORD_RIGHT, NULL, L"em-delete-next-word"},
    {KEY_YANK, NULL, L"em-yank"},
    {KEY_TRANSPOSE, NULL, L"ed-transpose-chars"},
    {KEY_CLEAR, NULL, L"ed-clear-screen"},
    {KEY_SEARCH, search_step, L"palaver-search"},
    {KEY_FINISH, NULL, L"ed-newline"},
    {KEY_PLACE, place, L"palaver-place"},
    {KEY_REDRAW, redraw, L"palaver-redraw"},
    {KEY_LITERAL, insert_literal, L"palaver-literal"},
};

bool line_bind_keys(EditLine *el) {
    for (size_t i = 0; i < sizeof BINDINGS / sizeof *BINDINGS; i++) {
        const wchar_t code[2] = {line_key_code(BINDINGS[i].key), 0};
        if (BINDINGS[i].function &&
            el_wset(el, EL_ADDFN, BINDINGS[i].name, BINDINGS[i].name, BINDINGS[i].function) != 0)
            return false;
        if (el_wset(el, EL_BIND, code, BINDINGS[i].name, NULL) != 0) return false;
    }
    return true;
}
