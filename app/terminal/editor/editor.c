#include "app/terminal/editor/editor.h"

#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "app/terminal/editor/editor_internal.h"
#include "app/terminal/text_shown.h"
#include "app/terminal/tty.h"
#include "app/terminal/typed_ahead.h"

static bool fits_libedit(const Editor *editor) {
    const char *term = getenv("TERM");
    return !editor->options.plain && isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && term && *term &&
           strcmp(term, "dumb") != 0 && !strcmp(nl_langinfo(CODESET), "UTF-8");
}

Status editor_open(const EditorOptions *options, Editor **out, Error *error) {
    *out = NULL;
    if (error) *error = (Error){0};
    Editor *editor = calloc(1, sizeof *editor);
    if (!editor) return error_set(error, STATUS_MEMORY, "no memory for the editor");
    editor->options = *options;
    if (history_open(options->history, &editor->history, error) == STATUS_MEMORY) {
        free(editor);
        return STATUS_MEMORY;
    }
    if (fits_libedit(editor)) line_open(editor);
    *out = editor;
    return STATUS_OK;
}

void editor_close(Editor *editor) {
    if (!editor) return;
    tty_unhush();
    line_close(editor);
    history_close(editor->history);
    free(editor->prefill);
    free(editor);
}

void editor_prefill(Editor *editor, const char *text) {
    free(editor->prefill);
    editor->prefill = text ? text_clean(text, strlen(text), NULL) : NULL; // without memory it is typed again
}

void editor_hold(Editor *editor) {
    editor->hold = true;
}

void editor_answered(Editor *editor) {
    clock_gettime(CLOCK_MONOTONIC, &editor->answered);
}

void editor_tell(const Editor *editor, const char *format, ...) {
    char text[sizeof(Error)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (editor->options.tell) {
        editor->options.tell(editor->options.context, text);
        return;
    }
    tty_write(text);
    tty_write("\n");
}

bool editor_wants_stop(const Editor *editor) {
    return editor->options.stop && editor->options.stop(editor->options.context);
}

// ---- lines without libedit -----------------------------------------------------------------------------

static const char *prompt_of(Editor *editor) {
    const char *prompt = editor->options.prompt ? editor->options.prompt(editor->options.context) : NULL;
    return prompt ? prompt : "> ";
}

// Only where somebody sees it and could type an answer.
static void show_prompt(Editor *editor, bool more) {
    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) tty_write(more ? "... " : prompt_of(editor));
}

static LineEnd read_raw_line(Editor *editor, Text *line) {
    for (;;) {
        unsigned char byte;
        char c;
        if (editor_wants_stop(editor)) return LINE_STOPPED;
        switch (tty_next(&byte)) {
        case TTY_BYTE:
            c = (char)byte;
            if (!text_add(line, &c, 1)) return LINE_LOST;
            if (c == '\n') return LINE_ENTER;
            break;
        case TTY_END:
            if (editor_wants_stop(editor)) return LINE_STOPPED;
            return line->size ? LINE_ENTER : LINE_EOF;
        case TTY_INTERRUPT:
            return LINE_INTERRUPT;
        case TTY_STOP:
            tty_suspend(false);
            break;
        case TTY_SIGNAL:
            if (editor_wants_stop(editor)) return LINE_STOPPED;
            break;
        case TTY_CONTINUE:
        case TTY_RESIZE:
        case TTY_QUIET:
            break;
        }
    }
}

// Lines that were typed before a Ctrl-C cannot come back to be edited: they are shown, to be typed or left.
static void show_held(Editor *editor) {
    editor->hold = false;
    typed_ahead_take(true);
    char *held = typed_ahead_make_draft() ? typed_ahead_drop_draft() : NULL;
    char *shown = held ? text_clean(held, strlen(held), NULL) : NULL;
    if (shown && *shown) {
        editor_tell(editor, "(typed before Ctrl-C, not sent:)");
        tty_write(shown);
        tty_write("\n");
    }
    free(held);
    free(shown);
}

// What was read of a turn, as text. NULL: it is none, which is told, or there is no memory (LINE_LOST).
static char *plain_text(const Editor *editor, const TurnLines *lines, LineEnd *end) {
    Error error;
    if (text_check(NULL, lines->text, lines->size, &error)) {
        editor_tell(editor, "(%s; nothing of it was taken)", error.message);
        return strdup("");
    }
    size_t dropped;
    char *text = text_clean(lines->text, lines->size, &dropped);
    if (!text) *end = LINE_LOST;
    if (dropped) editor_tell(editor, TEXT_DROPPED, dropped, text_plural((int64_t)dropped));
    return text;
}

// One turn, line by line. The terminal's own line discipline edits.
static LineEnd read_plain(Editor *editor, char **text) {
    TurnLines lines = {0};
    Text line = {0};
    LineEnd end;
    *text = NULL;
    if (editor->prefill) { // nothing can be edited here: it is shown, to be typed or left
        tty_write(editor->prefill);
        tty_write("\n");
        editor_prefill(editor, NULL);
    }
    if (editor->hold) show_held(editor);
    do {
        show_prompt(editor, lines.open);
        line.size = 0;
        end = read_raw_line(editor, &line);
        if (end == LINE_ENTER && !turn_add_line(&lines, line.bytes, line.size)) end = LINE_LOST;
    } while (end == LINE_ENTER && lines.open);
    if (end == LINE_EOF && lines.open) end = LINE_ENTER; // the input ended inside a turn: what there is
    if (end == LINE_ENTER) *text = plain_text(editor, &lines, &end);
    if (end == LINE_INTERRUPT && lines.open) editor->interrupted = (struct timespec){0};
    text_free(&line);
    turn_clear(&lines);
    return end;
}

// ---- turns ---------------------------------------------------------------------------------------------

static void drop_final_newlines(char *text) {
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n') n--;
    text[n] = 0;
}

// Whether a moment that was noted lies at most so many seconds back.
static bool is_within(const struct timespec *then, const struct timespec *now, double seconds) {
    double since = (double)(now->tv_sec - then->tv_sec) + 1e-9 * (double)(now->tv_nsec - then->tv_nsec);
    return then->tv_sec != 0 && since <= seconds;
}

// Ctrl-C on an empty line: true when it is the second within a second.
static bool interrupted_again(Editor *editor) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool late = is_within(&editor->answered, &now, editor->options.late);
    bool again = !late && is_within(&editor->interrupted, &now, 1);
    editor->answered = (struct timespec){0};
    editor->interrupted = now;
    if (late) {
        editor->interrupted = (struct timespec){0};
        editor_tell(editor, "(the reply had ended)");
    } else if (!again) {
        editor_tell(editor, "(Ctrl-C again, or Ctrl-D, leaves)");
    }
    return again;
}

static EditorResult lost(Error *error) {
    error_set(error, STATUS_MEMORY, "no memory for the line that was typed");
    return EDITOR_FAILED;
}

static EditorResult read_turn(Editor *editor, char **turn, Error *error) {
    for (;;) {
        char *text = NULL;
        LineEnd end = editor->el ? line_read(editor, &text) : read_plain(editor, &text);
        switch (end) {
        case LINE_LOST:
            return lost(error);
        case LINE_STOPPED:
            return EDITOR_STOPPED;
        case LINE_EOF:
            return EDITOR_END;
        case LINE_INTERRUPT:
            if (!editor->el && isatty(STDERR_FILENO)) tty_write("\n");
            if (interrupted_again(editor)) return EDITOR_QUIT;
            continue;
        case LINE_ENTER:
            break;
        }
        editor->interrupted = editor->answered = (struct timespec){0};
        drop_final_newlines(text);
        if (text_is_blank(text)) {
            free(text);
            continue;
        }
        history_add(editor->history, text);
        *turn = text;
        return EDITOR_TURN;
    }
}

EditorResult editor_read(Editor *editor, char **turn, Error *error) {
    *turn = NULL;
    if (tty_begin(editor->el != NULL, error)) return EDITOR_FAILED;
    EditorResult result = read_turn(editor, turn, error);
    if (result == EDITOR_TURN && editor->options.hush)
        tty_end_hushed(editor->el != NULL);
    else
        tty_end();
    return result;
}
