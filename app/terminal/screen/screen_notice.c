// Notices: lines to stderr, wrapped at a terminal's edge. What says that there is no memory must not need any: nothing
// here asks for some, but for a notice that is longer than its room.
#include "app/terminal/screen/screen_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void flush_notice(Screen *screen) {
    (void)screen_write(screen, STDERR_FILENO, screen->notice, screen->notice_n);
    screen->notice_n = 0;
}

static void add_notice(Screen *screen, const char *bytes, size_t n) {
    while (n) {
        size_t room = NOTICE_ROOM - screen->notice_n, piece = n < room ? n : room;
        memcpy(screen->notice + screen->notice_n, bytes, piece);
        screen->notice_n += piece;
        bytes += piece;
        n -= piece;
        if (screen->notice_n == NOTICE_ROOM) flush_notice(screen);
    }
}

static void add_notice_text(Screen *screen, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        char sign[TEXT_SIGN];
        uint32_t code;
        size_t used = text_decode(text + i, n - i, &code);
        add_notice(screen, sign, text_harmless(code, screen->traits.utf8, sign));
        i += used ? used : n - i;
    }
}

// Ends what stands on the terminal's current line.
static void begin_notice(Screen *screen) {
    screen_progress_end(screen);
    bool shared = screen->traits.reply_terminal && screen->traits.notice_terminal;
    if (!shared) return;
    screen_reply_part(screen);
    if (screen->reply_line_open) add_notice(screen, "\n", 1);
    screen->reply_line_open = false;
}

// ---- lines that are longer than the window's width ------------------------------------------------------------------

// Where the rest of a line begins in the next row: under its second column, if it has one, else under its first word, before
// which there may be a star.
static int indent_of(const char *line, size_t n, int width) {
    const size_t blanks = strspn(line, " "), blank = strncmp(line + blanks, "* ", 2) ? blanks : blanks + 2;
    size_t at = blank, found = blank;
    for (; at + 1 < n; at++)
        if (line[at] == ' ' && line[at + 1] == ' ') {
            found = at + strspn(line + at, " ");
            break;
        }
    int columns = found < n ? text_columns(line, found) : 0;
    if (columns > width / 2) columns = (int)blank;
    return columns > width / 2 ? 0 : columns;
}

// The bytes of a line that a row of so many columns holds, up to a blank where there is one; all of it if it fits.
static size_t row_of(const char *line, size_t n, int columns) {
    size_t end = 0, whole = 0;
    int column = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t used = text_decode(line + i, n - i, &code);
        if (!used) used = n - i;
        if (line[i] == ' ' && i) end = i;
        column += text_columns(line + i, used);
        if (column > columns && line[i] != ' ') return end ? end : whole ? whole : used;
        i += used;
        whole = i;
    }
    return n;
}

// `column`: where the cursor is, behind what the notice begins with.
static void add_wrapped_line(Screen *screen, const char *line, size_t n, int column) {
    const int width = screen_width(screen), indent = indent_of(line, n, width);
    bool first = true;
    do {
        size_t size = row_of(line, n, width - (first ? column : indent));
        for (int i = 0; !first && i < indent; i++) add_notice(screen, " ", 1);
        add_notice_text(screen, line, size);
        line += size;
        n -= size;
        bool blanks = n && *line == ' ';
        while (blanks && n && *line == ' ') line++, n--;
        if (n) add_notice(screen, "\n", 1);
        first = false;
    } while (n);
}

static void add_wrapped(Screen *screen, const char *text, size_t n, int column) {
    for (; n; column = 0) {
        const char *end = memchr(text, '\n', n);
        size_t size = end ? (size_t)(end - text) : n;
        add_wrapped_line(screen, text, size, column);
        if (end) add_notice(screen, "\n", 1);
        text += size + (end != NULL);
        n -= size + (end != NULL);
    }
}

typedef struct Notice {
    ScreenStyle style;
    const char *prefix; // in the style
    bool whole;         // the style covers the text, too
} Notice;

// The text of a notice: in screen->said, or *longer, to be freed, where it does not fit. Without memory for that as
// much of it as fits.
static const char *format_notice(Screen *screen, const char *format, va_list args, char **longer) {
    static const char cut[] = "…";
    va_list again;
    va_copy(again, args);
    *longer = NULL;
    int n = vsnprintf(screen->said, NOTICE_ROOM, format, args);
    if (n >= NOTICE_ROOM && vasprintf(longer, format, again) < 0) {
        *longer = NULL;
        size_t at = NOTICE_ROOM - sizeof cut;
        while (at && ((unsigned char)screen->said[at] & 0xC0) == 0x80) at--; // whole characters
        memcpy(screen->said + at, cut, sizeof cut);
    }
    va_end(again);
    if (n < 0) return format; // better than nothing
    return *longer ? *longer : screen->said;
}

static void say_text(Screen *screen, const Notice *notice, const char *text, size_t size) {
    begin_notice(screen);
    bool styled = notice->style != SCREEN_NORMAL && screen->traits.color;
    const char *on = styled ? screen->styles[notice->style] : "",
               *off = styled ? screen->styles[SCREEN_NORMAL] : "";
    if (size > 0 && text[size - 1] == '\n') size--;
    screen->spaced = size > 0 && text[size - 1] == '\n'; // the last of a window's rows may be empty
    add_notice(screen, on, strlen(on));
    add_notice(screen, notice->prefix, strlen(notice->prefix));
    if (!notice->whole) add_notice(screen, off, strlen(off));
    if (screen->traits.wraps && screen->traits.notice_terminal)
        add_wrapped(screen, text, size, text_columns(notice->prefix, strlen(notice->prefix)));
    else
        add_notice_text(screen, text, size);
    if (notice->whole) add_notice(screen, off, strlen(off));
    add_notice(screen, "\n", 1);
    flush_notice(screen);
}

static void say(Screen *screen, const Notice *notice, const char *format, va_list args) {
    char *longer;
    const char *text = format_notice(screen, format, args, &longer);
    say_text(screen, notice, text, strlen(text));
    free(longer);
}

#define SAY(...)                                                                                             \
    do {                                                                                                     \
        va_list args;                                                                                        \
        va_start(args, format);                                                                              \
        say(screen, &(const Notice){__VA_ARGS__}, format, args);                                             \
        va_end(args);                                                                                        \
    } while (0)

void screen_say(Screen *screen, const char *format, ...) {
    SAY(SCREEN_NORMAL, "", true);
}

void screen_say_text(Screen *screen, const char *text, size_t n) {
    say_text(screen, &(const Notice){SCREEN_NORMAL, "", true}, text, n);
}

void screen_notice(Screen *screen, const char *format, ...) {
    if (!screen->quiet) SAY(SCREEN_DIM, "", true);
}

void screen_warn(Screen *screen, const char *format, ...) {
    SAY(SCREEN_FULL, "", true);
}

void screen_error(Screen *screen, const char *format, ...) {
    SAY(SCREEN_ERROR, "palaver: ", false);
}

void screen_asked(Screen *screen, const char *format, ...) {
    if (!screen->quiet) SAY(SCREEN_PROMPT, "> ", false);
}

void screen_gauge(const Screen *screen, double share, char *out, size_t size) {
    if (!size) return;
    *out = 0;
    if (!(share >= 0.5)) return;
    double percent = share >= 1 ? 100 : share * 100; // rounded as the line of figures rounds it
    snprintf(out, size, "%s[%.0f%%]%s ", screen_style(screen, share >= 0.8 ? SCREEN_FULL : SCREEN_GAUGE),
             percent, screen_style(screen, SCREEN_NORMAL));
}

void screen_space(Screen *screen) {
    if (!screen->spaces || screen->spaced || !screen->traits.notice_terminal || screen->quiet) return;
    begin_notice(screen);
    add_notice(screen, "\n", 1);
    flush_notice(screen);
    screen->spaced = true;
}

void screen_prompted(Screen *screen) {
    screen->spaced = false;
}
