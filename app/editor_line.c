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
    const LineInfoW *line = el_wline(editor->el);
    return text_from_wide(line->buffer, (size_t)(line->lastchar - line->buffer));
}

size_t line_cursor(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    size_t bytes = 0;
    char out[4];
    for (const wchar_t *c = line->buffer; c < line->cursor; c++) bytes += text_encode((uint32_t)*c, out);
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
    el_cursor(editor->el, (int)(line->lastchar - line->cursor));
    el_wdeletestr(editor->el, (int)(line->lastchar - line->buffer));
    return line_insert(editor, text);
}

// ---- drawing ---------------------------------------------------------------------------------------------

// Where the cursor stands after `n` characters of the line, the prompt included.
static TextPlace place_of(Editor *editor, size_t n, int width) {
    int column = 0;
    bool hidden = false;
    for (const wchar_t *c = editor->search.on ? editor->search.prompt : editor->prompt; *c; c++) {
        int w = wcwidth(*c);
        if (*c == 1)
            hidden = !hidden;
        else if (!hidden && w > 0)
            column += w;
    }
    TextPlace start = {column / width, column % width};
    TextPlace place = text_place(el_wline(editor->el)->buffer, n, start.column, width);
    place.row += start.row;
    return place;
}

void line_leave(Editor *editor) {
    const LineInfoW *line = el_wline(editor->el);
    int width = tty_width();
    TextPlace cursor = place_of(editor, (size_t)(line->cursor - line->buffer), width);
    TextPlace end = place_of(editor, (size_t)(line->lastchar - line->buffer), width);
    for (int row = cursor.row; row <= end.row; row++) fputc('\n', editor->out);
    fputc('\r', editor->out);
    fflush(editor->out);
}

void line_redraw(Editor *editor) {
    el_wset(editor->el, EL_REFRESH);
}

// The terminal has another width. Terminals that wrap anew have moved the prompt's row, others not: go up by
// the smaller of both counts, so that nothing that was there before the prompt is ever wiped.
static void resize(Editor *editor, int old_width) {
    const LineInfoW *line = el_wline(editor->el);
    int width = tty_width();
    size_t n = (size_t)(line->cursor - line->buffer);
    int before = place_of(editor, n, old_width).row, now = place_of(editor, n, width).row;
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

// The prompt for libedit: what hides no width, SGR sequences, between \1, everything else wide.
static wchar_t *wide_prompt(const char *prompt) {
    wchar_t *wide = text_to_wide(prompt);
    size_t n = wide ? wcslen(wide) : 0;
    wchar_t *out = wide ? malloc((2 * n + 1) * sizeof *out) : NULL;
    size_t to = 0;
    for (size_t i = 0; out && i < n; i++) {
        size_t end = i;
        if (wide[i] == 0x1B && wide[i + 1] == L'[') end = i + 2 + wcscspn(wide + i + 2, L"m");
        if (end == i) {
            if (!text_is_control((uint32_t)wide[i])) out[to++] = wide[i];
            continue;
        }
        if (end >= n) break;
        // Sequences side by side share their marks: libedit ties a mark to the one character behind it.
        if (to && out[to - 1] == 1)
            to--;
        else
            out[to++] = 1;
        while (i <= end) out[to++] = wide[i++];
        out[to++] = 1;
        i = end;
    }
    if (out) out[to] = 0;
    free(wide);
    return out;
}

static wchar_t *show_prompt(EditLine *el) {
    Editor *editor = line_editor(el);
    return editor->search.on ? editor->search.prompt : editor->prompt;
}

// ---- reading ---------------------------------------------------------------------------------------------

// The next key, or how the line ended without one.
static Key read_key(Editor *editor, wchar_t *character) {
    int width = tty_width();
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
            resize(editor, width);
            break;
        case TTY_SIGNAL:
            if (!editor->options.stop || !editor->options.stop(editor->options.context)) break;
            editor->end = LINE_STOPPED;
            return KEY_COUNT;
        }
        width = tty_width();
        if (key == KEY_QUIT)
            kill(0, SIGQUIT);
        else if (key != KEY_NONE)
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
    // Characters without a width, and Latin-1, which libedit would take for Alt keys, go in as a text.
    if (key == KEY_CHAR && (wcwidth(character) < 1 || (character >= 0xA0 && character < 0x100))) {
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
    editor->end = LINE_LOST;
    if (editor->prefill) {
        editor->place = editor->prefill;
        editor->prefill = NULL;
        editor->next_key = KEY_PLACE;
    }
    int n = 0;
    el_wset(editor->el, EL_PREP_TERM, 1); // before the prompt is seen: what is typed at it is typed raw
    tty_take_typed_ahead();
    const wchar_t *line = el_wgets(editor->el, &n);
    if (n > 0 && line[n - 1] == L'\n') n--;       // KEY_FINISH's own
    if (editor->end == LINE_INTERRUPT && n > 0) { // a text was there: it is gone, and a new line begins
        editor->interrupted = (struct timespec){0};
        *text = strdup("");
        return *text ? LINE_ENTER : LINE_LOST;
    }
    if (editor->end != LINE_ENTER) {
        // The terminal ended the line, not a key: the prompt's row is still open.
        if (!line) fputc('\n', editor->out), fflush(editor->out);
        return editor->end;
    }
    *text = line ? text_from_wide(line, (size_t)n) : NULL;
    if (*text) turn_unblock(*text);
    return *text ? LINE_ENTER : LINE_LOST;
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
    editor->prompt = NULL;
    editor->place = NULL;
    keys_free(&editor->keys);
}
