// libedit: the line's buffer, its drawing, and how it is read.
//
// Keys are decoded here (keys.h), not by libedit's tables, for these know neither bracketed paste nor how to
// swallow what is unknown. libedit gets plain characters, and for every key one of the C1 codes, to
// which a function is bound; no text contains them.
#include "app/editor_private.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/tty.h"

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
    char *text = window_view(editor, &view) ? text_from_wide(view.text, view.n) : NULL;
    free(view.owned);
    return text;
}

size_t line_cursor(Editor *editor) {
    View view;
    size_t bytes = 0;
    char out[4];
    if (window_view(editor, &view))
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
    window_reset(editor);
    if (line->cursor != line->lastchar) el_cursor(editor->el, (int)(line->lastchar - line->cursor));
    el_wdeletestr(editor->el, (int)(line->lastchar - line->buffer));
    return line_insert(editor, text);
}

// ---- drawing ---------------------------------------------------------------------------------------------

static wchar_t *current_prompt(Editor *editor) {
    if (editor->search.on) return editor->search.prompt;
    return window_is_partial(editor) ? editor->window_prompt : editor->prompt;
}

TextPlace line_place(Editor *editor, size_t n, int width) {
    int column = 0;
    bool hidden = false;
    for (const wchar_t *c = current_prompt(editor); *c; c++) {
        int w = wcwidth(*c);
        if (*c == 1)
            hidden = !hidden;
        else if (!hidden && w > 0)
            column += w;
    }
    TextPlace start = {column / width, column % width};
    const LineInfoW *line = el_wline(editor->el);
    TextPlace place = text_place(line->buffer, n, start.column, width);
    place.row += start.row;
    // A wide character that does not fit is drawn in the next row, and the cursor on it.
    bool pushed =
        line->buffer + n < line->lastchar && wcwidth(line->buffer[n]) == 2 && place.column + 2 > width;
    if (pushed) place = (TextPlace){place.row + 1, 0};
    return place;
}

void line_leave(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    int width = tty_width();
    TextPlace cursor = line_place(editor, (size_t)(line->cursor - line->buffer), width);
    TextPlace end = line_place(editor, (size_t)(line->lastchar - line->buffer), width);
    for (int row = cursor.row; row <= end.row; row++) fputc('\n', editor->out);
    fputc('\r', editor->out);
    fflush(editor->out);
}

void line_redraw(Editor *editor) {
    el_wset(editor->el, EL_REFRESH);
}

// Is there a character of a width other than 1 in what is drawn?
static bool is_wide(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    for (const wchar_t *c = current_prompt(editor); *c; c++)
        if (*c > 0x7F && wcwidth(*c) != 1) return true;
    for (const wchar_t *c = line->buffer; c < line->lastchar; c++)
        if (*c != L'\n' && *c != L'\t' && wcwidth(*c) != 1) return true;
    return false;
}

// libedit draws by changes, and miscounts where a wide character takes another's place: such a line is wiped and
// drawn anew.
unsigned char line_changed(Editor *editor) {
    if (!editor->drawn_wide && !is_wide(editor)) return CC_REFRESH;
    if (editor->drawn_row > 0) fprintf(editor->out, "\033[%dA", editor->drawn_row);
    fputs("\r\033[J", editor->out);
    line_redraw(editor);
    return CC_NORM;
}

// The terminal has another width. Terminals that wrap anew have moved the prompt's row, others not: go up by
// the smaller of both counts, so that nothing that was there before the prompt is ever wiped.
static void resize(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    int old_width = editor->width, width = editor->width = tty_width();
    size_t n = (size_t)(line->cursor - line->buffer);
    int before = line_place(editor, n, old_width).row, now = line_place(editor, n, width).row;
    int up = before < now ? before : now;
    if (up > 0) fprintf(editor->out, "\033[%dA", up);
    fputs("\r\033[J", editor->out);
    fflush(editor->out);
    el_resize(editor->el);
    line_redraw(editor);
}

void line_suspend(Editor *editor, bool job) {
    line_leave(editor);
    el_wset(editor->el, EL_PREP_TERM, 0);
    tty_suspend(job);
    el_wset(editor->el, EL_PREP_TERM, 1);
    el_resize(editor->el);
    line_redraw(editor);
}

// The length of the SGR sequence that begins here; 0: none does.
static size_t sgr_size(const wchar_t *text) {
    if (text[0] != 0x1B || text[1] != L'[') return 0;
    size_t n = 2 + wcscspn(text + 2, L"m");
    return text[n] ? n + 1 : 0;
}

// libedit drops a sequence that no character follows: the last character goes behind what ends the prompt.
static void last_character_last(wchar_t *prompt) {
    size_t n = wcslen(prompt), last = n;
    for (size_t i = 0; i < n;) {
        size_t sgr = sgr_size(prompt + i);
        if (!sgr) last = i;
        i += sgr ? sgr : 1;
    }
    if (last == n) return;
    wchar_t character = prompt[last];
    wmemmove(prompt + last, prompt + last + 1, n - last - 1);
    prompt[n - 1] = character;
}

// The prompt for libedit: SGR sequences, which take no width, between \1; no other control characters.
static wchar_t *wide_prompt(const char *prompt) {
    wchar_t *wide = text_to_wide(prompt);
    wchar_t *out = wide ? malloc((2 * wcslen(wide) + 1) * sizeof *out) : NULL;
    if (out) last_character_last(wide);
    size_t to = 0;
    for (const wchar_t *c = wide; out && *c;) {
        size_t sgr = sgr_size(c);
        if (!sgr) {
            if (!text_is_control((uint32_t)*c)) out[to++] = *c;
            c++;
            continue;
        }
        // Sequences side by side share their marks, for libedit ties a mark to the character behind it.
        if (to && out[to - 1] == 1)
            to--;
        else
            out[to++] = 1;
        for (; sgr; sgr--) out[to++] = *c++;
        out[to++] = 1;
    }
    if (out) out[to] = 0;
    free(wide);
    return out;
}

static wchar_t *show_prompt(EditLine *el) {
    return current_prompt(line_editor(el));
}

// ---- reading ---------------------------------------------------------------------------------------------

// The next key, or how the line ended without one.
static Key read_key(Editor *editor, wchar_t *character) {
    for (;;) {
        unsigned char byte;
        Key key = KEY_NONE;
        switch (tty_next(&byte)) {
        case TTY_BYTE:
            key = keys_feed(&editor->keys, byte, character);
            break;
        case TTY_END:
            editor->end = LINE_EOF;
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
            line_redraw(editor);
            break;
        case TTY_RESIZE:
            resize(editor);
            return KEY_REDRAW; // the text may have become taller than the terminal
        case TTY_SIGNAL:
            if (!editor->options.stop || !editor->options.stop(editor->options.context)) break;
            editor->end = LINE_STOPPED;
            return KEY_COUNT;
        }
        if (key == KEY_QUIT)
            kill(0, SIGQUIT);
        else if (key != KEY_NONE)
            return key;
    }
}

// What libedit calls for each character: 1 and *out, or 0 for the end.
static int get_character(EditLine *el, wchar_t *out) {
    Editor *editor = line_editor(el);
    const LineInfoW *line = el_wline(el);
    editor->drawn_row = line_place(editor, (size_t)(line->cursor - line->buffer), editor->width).row;
    editor->drawn_wide = is_wide(editor);
    if (window_adjust(editor)) {
        *out = line_key_code(KEY_REDRAW);
        return 1;
    }
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
    // libedit's own way is quick and right for characters that are added at the end. Those without a width, and
    // Latin-1, which it might take for Alt keys, go in as a text, too.
    bool at_end = line->cursor == line->lastchar;
    if (key == KEY_CHAR && (!at_end || wcwidth(character) < 1 || (character >= 0xA0 && character < 0x100))) {
        editor->literal[0] = character;
        key = KEY_LITERAL;
    }
    *out = key == KEY_CHAR ? character : line_key_code(key);
    return 1;
}

LineEnd line_read(Editor *editor, char **text) {
    const char *prompt = editor->options.prompt ? editor->options.prompt(editor->options.context) : NULL;
    free(editor->prompt);
    editor->prompt = wide_prompt(prompt ? prompt : "> ");
    *text = NULL;
    if (!editor->prompt) return LINE_LOST;
    recall_reset(editor);
    window_reset(editor);
    editor->end = LINE_LOST;
    if (editor->prefill) {
        editor->place = editor->prefill;
        editor->prefill = NULL;
        editor->next_key = KEY_PLACE;
    }
    int n = 0;
    editor->width = tty_width();
    el_wset(editor->el, EL_PREP_TERM, 1); // before the prompt is seen: what is typed at it is typed raw
    tty_take_typed_ahead();
    const wchar_t *line = el_wgets(editor->el, &n);
    if (!line) { // the terminal ended the line, not a key: the prompt's row is still open
        fputc('\n', editor->out);
        fflush(editor->out);
        return editor->end;
    }
    char *typed = editor->typed;
    editor->typed = NULL;
    if (editor->end == LINE_ENTER) {
        turn_unblock(typed);
        *text = typed;
    } else if (editor->end == LINE_INTERRUPT && *typed) { // it is gone, and a new line begins
        editor->interrupted = (struct timespec){0};
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
    setvbuf(editor->out, NULL, _IOFBF, 4096); // a redraw is one write
    EditLine *el = editor->el = el_init("palaver", stdin, editor->out, editor->out);
    bool ok = el && el_wset(el, EL_CLIENTDATA, editor) == 0 && el_wset(el, EL_EDITOR, L"emacs") == 0 &&
              el_wset(el, EL_SIGNAL, 0) == 0 && el_wset(el, EL_GETCFN, get_character) == 0 &&
              el_wset(el, EL_PROMPT_ESC, show_prompt, 1) == 0 && line_bind_keys(el) &&
              // Every key comes as a byte of its own: Enter is not Ctrl-J, Ctrl-C and Ctrl-Z are keys.
              el_wset(el, EL_SETTY, L"-d", L"-icrnl", L"-inlcr", L"-isig", L"-ixon", L"-istrip", NULL) == 0;
    if (known) tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    if (!ok) line_close(editor);
    return ok;
}

void line_close(Editor *editor) {
    recall_reset(editor);
    window_reset(editor);
    if (editor->el) {
        // Without this libedit would throw away what was typed ahead for the shell.
        el_wset(editor->el, EL_EDITMODE, 0);
        el_end(editor->el);
    }
    if (editor->out) fclose(editor->out);
    editor->el = NULL;
    editor->out = NULL;
    free(editor->prompt);
    free(editor->place);
    free(editor->typed);
    free(editor->killed);
    editor->prompt = NULL;
    editor->place = NULL;
    editor->typed = NULL;
    editor->killed = NULL;
    keys_free(&editor->keys);
}
