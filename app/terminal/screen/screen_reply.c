// Replies: bytes to a pipe or a file, what a person can read to a terminal.
#include "app/terminal/screen/screen_internal.h"
#include "app/terminal/tty.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static Status not_written(const Screen *screen, Error *error) {
    if (screen->reply_error == EINTR) return error_set(error, STATUS_INTERRUPTED, "interrupted");
    return error_set(error, STATUS_FILE, "stdout: %s", strerror(screen->reply_error));
}

static Status write_reply(Screen *screen, const char *bytes, size_t n, Error *error) {
    if (screen->reply_error) return not_written(screen, error);
    if (!n) return STATUS_OK;
    screen->spaced = false;
    if (!screen_write(screen, STDOUT_FILENO, bytes, n)) {
        screen->reply_error = errno;
        screen->reader_left = errno == EPIPE;
        return not_written(screen, error);
    }
    screen->reply_line_open = bytes[n - 1] != '\n';
    return STATUS_OK;
}

// A \r counts only where no \n follows: then it would take the cursor back over the text.
static bool show_character(Screen *screen, uint32_t code) {
    bool ok = true;
    if (screen->held_return && code != '\n') ok = text_add_harmless(&screen->out, '\r', screen->traits.utf8);
    screen->held_return = code == '\r';
    return ok && (code == '\r' || text_add_harmless(&screen->out, code, screen->traits.utf8));
}

// Adds the visible form of what is complete to screen->out; the beginning of a character waits in `held`.
static bool show_reply(Screen *screen, const char *text, size_t n) {
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        uint32_t code;
        size_t used;
        screen->held[screen->held_n++] = text[i];
        while (ok && (used = text_decode(screen->held, screen->held_n, &code)) != 0) {
            ok = show_character(screen, code);
            screen->held_n -= used;
            memmove(screen->held, screen->held + used, screen->held_n);
        }
    }
    return ok;
}

// ---- wrapped, and its Markdown drawn --------------------------------------------------------------------------------

static Status write_painted(Screen *screen, Error *error) {
    Status status = write_reply(screen, screen->painted.bytes, screen->painted.size, error);
    screen->reply_line_open = screen->drawn && markdown_line_is_open(screen->drawn);
    screen->painted.size = 0;
    return status;
}

// What stands below the reply is wiped with the next write.
static void wipe_below(Screen *screen) {
    if (screen->below) (void)text_add(&screen->painted, "\033[J", 3);
    screen->below = false;
}

static MarkdownOptions drawing_options(const Screen *screen, ScreenStyle style) {
    static const ThemePart parts[N_INKS] = {
        [INK_HEADING] = THEME_HEADING, [INK_CODE] = THEME_CODE,       [INK_KEYWORD] = THEME_KEYWORD,
        [INK_STRING] = THEME_STRING,   [INK_COMMENT] = THEME_COMMENT, [INK_NUMBER] = THEME_NUMBER,
        [INK_LINK] = THEME_LINK,       [INK_FRAME] = THEME_FRAME};
    bool color = screen->traits.color;
    MarkdownOptions options = {.width = screen_width(screen),
                               .height = screen_height(screen),
                               .raw = !screen->markdown || !color || !screen->traits.utf8 ||
                                      style == SCREEN_PROMPT, // what is asked is no Markdown
                               .theme = {.base = style == SCREEN_DIM      ? screen->theme.sgr[THEME_NOTICE]
                                                 : style == SCREEN_PROMPT ? screen->theme.sgr[THEME_QUESTION]
                                                                          : "",
                                         .color = color,
                                         .links = screen->links && color}};
    for (int ink = 0; ink < N_INKS; ink++)
        options.theme.inks[ink] = ink == INK_TEXT ? "" : screen->theme.sgr[parts[ink]];
    return options;
}

static void begin_drawing(Screen *screen, ScreenStyle style) {
    MarkdownOptions options = drawing_options(screen, style);
    screen->drawn = markdown_open(&options);
    screen->drawn_style = style;
}

static Status end_drawing(Screen *screen, Error *error) {
    if (!screen->drawn) return STATUS_OK;
    wipe_below(screen);
    bool ok = markdown_end(screen->drawn, &screen->painted);
    Status status = write_painted(screen, error);
    markdown_close(screen->drawn);
    screen->drawn = NULL;
    screen->reply_line_open = false;
    return status || ok ? status : error_set(error, STATUS_MEMORY, "no memory for the reply's text");
}

// The shell has written behind the reply: what stands there is left alone, and the reply goes on in a row of its own.
// In which column the cursor was left is not known: a row's worth of blanks ends in the same row only from the first.
static void leave_alone(Screen *screen) {
    screen->below = false;
    (void)markdown_part(screen->drawn, &screen->painted);
    screen->painted.size = 0;
    for (int i = screen_width(screen); i > 0; i--) (void)text_add(&screen->painted, " ", 1);
    (void)text_add(&screen->painted, "\r", 1);
}

// What is in screen->out is drawn; without memory for that it is written as it is.
static Status draw_reply(Screen *screen, ScreenStyle style, Error *error) {
    Status status = STATUS_OK;
    if (screen->drawn && screen->drawn_style != style) { // thoughts end, or begin
        status = end_drawing(screen, error);
        if (!status && screen->out.size && screen->out.bytes[0] != '\n')
            status = write_reply(screen, "\n", 1, error);
    }
    if (!screen->drawn) begin_drawing(screen, style);
    if (status || !screen->drawn)
        return status ? status : write_reply(screen, screen->out.bytes, screen->out.size, error);
    if (tty_was_continued()) leave_alone(screen);
    wipe_below(screen);
    markdown_resize(screen->drawn, screen_width(screen), screen_height(screen), &screen->painted);
    bool ok = markdown_push(screen->drawn, screen->out.bytes, screen->out.size, &screen->painted);
    status = write_painted(screen, error);
    return status || ok ? status : error_set(error, STATUS_MEMORY, "no memory for the reply's text");
}

void screen_reply_status(Screen *screen, const char *text) {
    int width = screen_width(screen), column = screen->drawn ? markdown_column(screen->drawn) : width;
    if (column >= width || !screen->traits.notice_terminal || screen->quiet) return;
    char back[32] = "", line[128];
    int room = width - 1 < (int)sizeof line - 1 ? width - 1 : (int)sizeof line - 1;
    snprintf(line, sizeof line, "%.*s", room, text);
    if (column) snprintf(back, sizeof back, "\033[%dC", column);
    wipe_below(screen);
    const char *parts[] = {
        "\n", screen_style(screen, SCREEN_DIM), line, screen_style(screen, SCREEN_NORMAL), "\033[A\r", back};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        (void)text_add(&screen->painted, parts[i], strlen(parts[i]));
    (void)write_painted(screen, NULL);
    screen->below = true;
}

void screen_reply_part(Screen *screen) {
    if (!screen->drawn) return;
    wipe_below(screen);
    (void)markdown_part(screen->drawn, &screen->painted);
    (void)write_painted(screen, NULL);
}

// ---- any reply ------------------------------------------------------------------------------------------------------

Status screen_reply(Screen *screen, ScreenStyle style, const char *text, size_t n, Error *error) {
    if (!screen->traits.reply_terminal) return write_reply(screen, text, n, error);
    screen_progress_end(screen);
    screen->out.size = 0;
    if (!show_reply(screen, text, n))
        return error_set(error, STATUS_MEMORY, "no memory for the reply's text");
    if (screen->traits.wraps && !screen->reply_error) return draw_reply(screen, style, error);
    const char *on = screen->styles[style], *off = screen->styles[SCREEN_NORMAL];
    bool styled = style != SCREEN_NORMAL && screen->traits.color && screen->out.size && !screen->reply_error;
    if (styled && !screen_write(screen, STDOUT_FILENO, on, strlen(on))) screen->reply_error = errno;
    Status status = write_reply(screen, screen->out.bytes, screen->out.size, error);
    if (styled && !screen_write(screen, STDOUT_FILENO, off, strlen(off))) screen->reply_error = errno;
    return status;
}

// Without memory what comes is drawn as a reply of its own.
void screen_reply_go_on(Screen *screen, ScreenStyle style, const char *text, size_t n) {
    if (!screen->traits.reply_terminal || !screen->traits.wraps || screen->drawn) return;
    screen->out.size = 0;
    if (!show_reply(screen, text, n)) return;
    begin_drawing(screen, style);
    if (!screen->drawn || markdown_go_on(screen->drawn, screen->out.bytes, screen->out.size)) return;
    markdown_close(screen->drawn);
    screen->drawn = NULL;
}

bool screen_reader_left(const Screen *screen) {
    return screen->reader_left;
}

Status screen_reply_end(Screen *screen, Error *error) {
    Status status = STATUS_OK;
    screen->out.size = 0;
    bool ok = !screen->held_n || show_character(screen, TEXT_REPLACEMENT);
    if (ok && screen->held_return) ok = text_add_harmless(&screen->out, '\r', screen->traits.utf8);
    if (ok && screen->drawn && screen->out.size)
        status = draw_reply(screen, screen->drawn_style, error);
    else if (ok)
        status = write_reply(screen, screen->out.bytes, screen->out.size, error);
    screen->held_n = 0;
    screen->held_return = false;
    Status drawn = end_drawing(screen, status ? NULL : error);
    if (!status) status = drawn;
    if (!status && screen->reply_line_open) status = write_reply(screen, "\n", 1, error);
    screen->reply_line_open = false;
    screen->reply_error = 0;
    return status;
}
