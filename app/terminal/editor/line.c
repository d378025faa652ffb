// libedit: the line's buffer, the loop of keys, the terminal's modes.
//
// Keys are decoded here (keys.h), not by libedit's tables, for these know neither bracketed paste nor how to
// swallow what is unknown. libedit gets one of the C1 codes for every key, all bound to one function of ours
// (binding.c); no text contains them.
#include "app/terminal/editor/editor_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/terminal/tty.h"
#include "app/terminal/typed_ahead.h"

enum { ESCAPE_WAIT = 50, REPORT_WAIT = 300 }; // milliseconds

wchar_t line_key_code(Key key) {
    return (wchar_t)(0x80 + (key - KEY_ENTER));
}

Editor *line_editor(EditLine *el) {
    void *editor = NULL;
    el_wget(el, EL_CLIENTDATA, &editor);
    return editor;
}

// ---- the buffer ------------------------------------------------------------------------------------------

char *line_text(Editor *editor) {
    View view;
    char *text = viewport_view(editor, &view) ? text_from_wide(view.text, view.n) : NULL;
    free(view.owned);
    return text;
}

size_t line_cursor(Editor *editor) {
    View view;
    size_t bytes = 0;
    char out[4];
    if (viewport_view(editor, &view))
        for (size_t i = 0; i < view.cursor; i++) bytes += text_encode((uint32_t)view.text[i], out);
    free(view.owned);
    return bytes;
}

bool line_insert(Editor *editor, const char *text) {
    wchar_t *wide = text_to_wide(text);
    bool ok = wide && (!*wide || el_winsertstr(editor->el, wide) == 0);
    free(wide);
    return ok;
}

bool line_replace(Editor *editor, const char *text) {
    const LineInfoW *line = el_wline(editor->el);
    viewport_reset(editor);
    if (line->cursor != line->lastchar) el_cursor(editor->el, (int)(line->lastchar - line->cursor));
    el_wdeletestr(editor->el, (int)(line->lastchar - line->buffer));
    return line_insert(editor, text);
}

void line_tell(Editor *editor, const char *text) {
    paint_leave(editor);
    editor_tell(editor, "%s", text);
    paint_redraw(editor);
}

void line_suspend(Editor *editor, bool job) {
    paint_leave(editor);
    el_wset(editor->el, EL_PREP_TERM, 0);
    tty_suspend(job);
    el_wset(editor->el, EL_PREP_TERM, 1);
    typed_ahead_take(true);
    editor->width = tty_width();
    paint_redraw(editor);
}

// ---- reading ---------------------------------------------------------------------------------------------

static void tell_bad_byte(Editor *editor) {
    editor->keys.bad = false;
    tty_write("\a");
    if (!editor->told_bad)
        line_tell(editor, "(this terminal sends bytes that are not UTF-8: they are left out)");
    editor->told_bad = true;
}

// A key of the line; what the terminal says, and Ctrl-\, are none: KEY_NONE.
static Key key_of_line(Editor *editor, Key key) {
    if (key == KEY_QUIT)
        kill(0, SIGQUIT);
    else if (key == KEY_REPORT)
        paint_resized(editor, editor->keys.column);
    else
        return key;
    return KEY_NONE;
}

// What has come behind a character: others go with it, up to the first key that is none. A paste into a terminal that does
// not mark it is drawn once for all that was read of it, not once for every character.
static void gather_typed(Editor *editor, wchar_t character) {
    wchar_t *typed = editor->typed_characters;
    unsigned char byte;
    size_t n = 0;
    typed[n++] = character;
    while (n < TYPED_MOST && editor->next_key == KEY_NONE && !editor->keys.bad && typed_ahead_byte(&byte)) {
        const Key key = key_of_line(editor, keys_feed(&editor->keys, byte, &character));
        if (key == KEY_CHAR || key == KEY_NEWLINE)
            typed[n++] = key == KEY_CHAR ? character : L'\n';
        else if (key != KEY_NONE)
            editor->next_key = key;
    }
    typed[n] = 0;
}

// The next key, or how the line ended without one.
static Key read_key(Editor *editor, wchar_t *character) {
    for (;;) {
        unsigned char byte;
        Key key = KEY_NONE;
        if (editor->keys.bad) tell_bad_byte(editor);
        // In a search ESC is a key, if nothing follows that makes another one of it.
        bool wait = !editor->search.on || !keys_wait_behind_escape(&editor->keys);
        if (editor_wants_stop(editor)) { // asked while another program had the terminal
            editor->end = LINE_STOPPED;
            return KEY_COUNT;
        }
        switch (tty_next_within(&byte, !wait ? ESCAPE_WAIT : editor->resized ? REPORT_WAIT : -1)) {
        case TTY_QUIET:
            if (wait) { // a terminal that does not say where its cursor is
                editor->asked = 0;
                paint_resized(editor, -1);
                break;
            }
            keys_escape(&editor->keys);
            editor->search.on = false;
            return KEY_REDRAW;
        case TTY_BYTE:
            key = key_of_line(editor, keys_feed(&editor->keys, byte, character));
            break;
        case TTY_END:
            editor->end = editor_wants_stop(editor) ? LINE_STOPPED : LINE_EOF;
            return KEY_COUNT;
        case TTY_INTERRUPT:
            key = KEY_INTERRUPT;
            break;
        case TTY_STOP:
            line_suspend(editor, false);
            break;
        case TTY_CONTINUE:
            el_wset(editor->el, EL_PREP_TERM, 0);
            el_wset(editor->el, EL_PREP_TERM, 1);
            paint_redraw(editor);
            break;
        case TTY_RESIZE:
            paint_resize(editor);
            break;
        case TTY_SIGNAL:
            if (!editor_wants_stop(editor)) break;
            editor->end = LINE_STOPPED;
            return KEY_COUNT;
        }
        if (key == KEY_NONE) continue;
        paint_resized(editor, -1); // a key does not wait for the terminal's answer
        return key;
    }
}

// What libedit calls for each character: 1 and *out, or 0 for the end.
static int get_character(EditLine *el, wchar_t *out) {
    Editor *editor = line_editor(el);
    wchar_t character = editor->next_char;
    Key key = editor->next_key;
    editor->next_key = KEY_NONE;
    if (key == KEY_NONE) key = read_key(editor, &character);
    if (key == KEY_COUNT) return 0;
    if (key != KEY_TAB) editor->tabs = 0;
    if (editor->search.on && key != KEY_SEARCH) {
        Key left_over = search_key(editor, key, character);
        if (left_over != KEY_REDRAW) editor->next_key = left_over, editor->next_char = character;
        key = KEY_REDRAW;
    }
    if (key == KEY_CHAR) {
        gather_typed(editor, character);
        key = KEY_INSERT;
    }
    *out = line_key_code(key);
    return 1;
}

// libedit has no prompt to draw: see paint.c.
static wchar_t *no_prompt(EditLine *el) {
    static wchar_t empty[1] = L"";
    (void)el;
    return empty;
}

// Without memory the draft goes on in the same line.
static void add_newline(char **text) {
    char *longer;
    if (asprintf(&longer, "%s\n", *text) < 0) return;
    free(*text);
    *text = longer;
}

LineEnd line_read(Editor *editor, char **text) {
    const char *prompt = editor->options.prompt ? editor->options.prompt(editor->options.context) : NULL;
    free(editor->prompt);
    editor->prompt = strdup(prompt ? prompt : "> ");
    *text = NULL;
    if (!editor->prompt) return LINE_LOST;
    recall_reset(editor);
    viewport_reset(editor);
    editor->end = LINE_LOST;
    editor->width = tty_width();
    el_wset(editor->el, EL_PREP_TERM, 1); // before the prompt is seen: what is typed at it is typed raw
    typed_ahead_take(false);
    editor->came_back = editor->prefill != NULL;
    if (editor->came_back) {
        editor->place = editor->prefill;
        editor->prefill = NULL;
        editor->next_key = KEY_PLACE;
    }
    line_replace(editor, ""); // what the last one left
    if (editor->hold && typed_ahead_make_draft() && editor->place) add_newline(&editor->place);
    editor->hold = false;
    paint_redraw(editor);
    el_wgets(editor->el, NULL);
    if (!editor->typed) { // the terminal ended the line, not a key: its row is still open
        paint_leave(editor);
        return editor->end;
    }
    char *typed = editor->typed;
    editor->typed = NULL;
    if (editor->end == LINE_ENTER) {
        turn_unblock(typed);
        *text = typed;
    } else if (editor->end == LINE_INTERRUPT && *typed) { // it is gone, and a new line begins
        *typed = 0;
        *text = typed;
        return LINE_ENTER;
    } else {
        free(typed);
    }
    return editor->end;
}

// ---- opening ---------------------------------------------------------------------------------------------

bool line_open(Editor *editor) {
    // libedit sets a terminal to rights as soon as it sees it; palaver only wants that while it reads.
    struct termios before;
    bool known = tcgetattr(STDIN_FILENO, &before) == 0;
    int fd = dup(STDERR_FILENO);
    editor->out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!editor->out) {
        if (fd >= 0) close(fd);
        return false;
    }
    // libedit's own messages, of a TERM that it does not know: it draws nothing that would need one.
    editor->mute = fopen("/dev/null", "we");
    EditLine *el = editor->el =
        el_init("palaver", stdin, editor->out, editor->mute ? editor->mute : editor->out);
    bool ok =
        el && el_wset(el, EL_CLIENTDATA, editor) == 0 && el_wset(el, EL_EDITOR, L"emacs") == 0 &&
        el_wset(el, EL_SIGNAL, 0) == 0 && el_wset(el, EL_GETCFN, get_character) == 0 &&
        el_wset(el, EL_PROMPT, no_prompt) == 0 && binding_install(el) &&
        // Every key comes as a byte of its own: Enter is not Ctrl-J, Ctrl-C and Ctrl-Z are keys. Also when libedit
        // thinks that it gives the terminal back, between two lines; really back it is given by tty_end.
        el_wset(el, EL_SETTY, L"-d", L"-icrnl", L"-inlcr", L"-isig", L"-ixon", L"-istrip", NULL) == 0 &&
        el_wset(el, EL_SETTY, L"-x", L"-icrnl", L"-inlcr", L"-isig", L"-ixon", L"-icanon", L"-echo",
                L"-iexten", NULL) == 0;
    if (known) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    if (!ok) line_close(editor);
    return ok;
}

void line_close(Editor *editor) {
    recall_reset(editor);
    viewport_reset(editor);
    if (editor->el) {
        // Without this libedit would throw away what was typed ahead for the shell.
        el_wset(editor->el, EL_EDITMODE, 0);
        el_end(editor->el);
    }
    if (editor->out) fclose(editor->out);
    if (editor->mute) fclose(editor->mute);
    editor->mute = NULL;
    editor->el = NULL;
    editor->out = NULL;
    free(editor->prompt);
    free(editor->place);
    free(editor->typed);
    free(editor->killed);
    text_free(&editor->painted);
    editor->prompt = NULL;
    editor->place = NULL;
    editor->typed = NULL;
    editor->killed = NULL;
    keys_free(&editor->keys);
}
