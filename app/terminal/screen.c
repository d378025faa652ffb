#include "app/terminal/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/terminal/screen_internal.h"
#include "kernels/base/file.h"

static const char *const STYLES[SCREEN_N_STYLES] = {
    [SCREEN_NORMAL] = "\033[0m", [SCREEN_DIM] = "\033[2m",   [SCREEN_PROMPT] = "\033[1m",
    [SCREEN_GAUGE] = "\033[2m",  [SCREEN_FULL] = "\033[33m", [SCREEN_ERROR] = "\033[1;31m",
};

// ---- opening -------------------------------------------------------------------------------------------

static bool choose_locale(void) {
    setlocale(LC_CTYPE, "");
    if (!strcmp(nl_langinfo(CODESET), "ANSI_X3.4-1968")) { // LANG=C or nothing: the names of no character set
        if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "en_US.UTF-8");
    }
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

Status screen_open(const ScreenOptions *options, Screen **out, Error *error) {
    *out = NULL;
    Screen *screen = calloc(1, sizeof *screen);
    if (!screen) return error_set(error, STATUS_MEMORY, "no memory for the screen");
    ScreenTraits *traits = &screen->traits;
    traits->utf8 = choose_locale();
    traits->input_terminal = isatty(STDIN_FILENO);
    traits->reply_terminal = isatty(STDOUT_FILENO);
    traits->notice_terminal = isatty(STDERR_FILENO);
    screen_set_options(screen, options);
    *out = screen;
    return STATUS_OK;
}

void screen_set_options(Screen *screen, const ScreenOptions *options) {
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    ScreenTraits *traits = &screen->traits;
    screen->quiet = options->quiet;
    traits->plain = options->plain || !term || !*term || !strcmp(term, "dumb");
    bool wanted =
        options->color == SCREEN_COLOR_ALWAYS ||
        (options->color == SCREEN_COLOR_AUTO && traits->notice_terminal && !(no_color && *no_color));
    traits->color = wanted && !traits->plain;
}

void screen_close(Screen *screen) {
    if (!screen) return;
    screen_progress_end(screen);
    screen_reply_end(screen, NULL);
    text_free(&screen->out);
    free(screen);
}

const ScreenTraits *screen_traits(const Screen *screen) {
    return &screen->traits;
}

int screen_width(const Screen *screen) {
    struct winsize size;
    if (screen->traits.notice_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 1 && width < 10000 ? (int)width : 80;
}

// ---- writing -------------------------------------------------------------------------------------------

char *screen_harmless(const Screen *screen, const char *text, size_t n) {
    Text out = {0};
    if (text_add_shown(&out, text, n, screen->traits.utf8)) return out.bytes;
    text_free(&out);
    return NULL;
}

// ---- the reply
// ---------------------------------------------------------------------------------------------

static Status write_reply(Screen *screen, const char *bytes, size_t n, Error *error) {
    if (screen->reply_error)
        return error_set(error, STATUS_FILE, "stdout: %s", strerror(screen->reply_error));
    if (!n) return STATUS_OK;
    if (!file_write_all(STDOUT_FILENO, bytes, n)) {
        screen->reply_error = errno;
        screen->reader_left = errno == EPIPE;
        return error_set(error, STATUS_FILE, "stdout: %s", strerror(screen->reply_error));
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

Status screen_reply(Screen *screen, ScreenStyle style, const char *text, size_t n, Error *error) {
    if (!screen->traits.reply_terminal) return write_reply(screen, text, n, error);
    screen_progress_end(screen);
    screen->out.size = 0;
    if (!show_reply(screen, text, n))
        return error_set(error, STATUS_MEMORY, "no memory for the reply's text");
    bool styled = style != SCREEN_NORMAL && screen->traits.color && screen->out.size && !screen->reply_error;
    if (styled && !file_write_all(STDOUT_FILENO, STYLES[style], strlen(STYLES[style])))
        screen->reply_error = errno;
    Status status = write_reply(screen, screen->out.bytes, screen->out.size, error);
    if (styled && !file_write_all(STDOUT_FILENO, STYLES[SCREEN_NORMAL], strlen(STYLES[SCREEN_NORMAL])))
        screen->reply_error = errno;
    return status;
}

bool screen_reader_left(const Screen *screen) {
    return screen->reader_left;
}

Status screen_reply_end(Screen *screen, Error *error) {
    Status status = STATUS_OK;
    screen->out.size = 0;
    bool ok = !screen->held_n || show_character(screen, TEXT_REPLACEMENT);
    if (ok && screen->held_return) ok = text_add_harmless(&screen->out, '\r', screen->traits.utf8);
    if (ok) status = write_reply(screen, screen->out.bytes, screen->out.size, error);
    screen->held_n = 0;
    screen->held_return = false;
    if (!status && screen->reply_line_open) status = write_reply(screen, "\n", 1, error);
    screen->reply_line_open = false;
    screen->reply_error = 0;
    return status;
}

// ---- notices ---------------------------------------------------------------------------------------

const char *screen_style(const Screen *screen, ScreenStyle style) {
    return screen->traits.color ? STYLES[style] : "";
}

static void flush_notice(Screen *screen) {
    (void)file_write_all(STDERR_FILENO, screen->notice, screen->notice_n);
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
    if (screen->reply_line_open) add_notice(screen, "\n", 1);
    screen->reply_line_open = false;
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

static void say(Screen *screen, const Notice *notice, const char *format, va_list args) {
    char *longer;
    const char *text = format_notice(screen, format, args, &longer);
    begin_notice(screen);
    bool styled = notice->style != SCREEN_NORMAL && screen->traits.color;
    const char *on = styled ? STYLES[notice->style] : "", *off = styled ? STYLES[SCREEN_NORMAL] : "";
    size_t size = strlen(text);
    if (size > 0 && text[size - 1] == '\n') size--;
    add_notice(screen, on, strlen(on));
    add_notice(screen, notice->prefix, strlen(notice->prefix));
    if (!notice->whole) add_notice(screen, off, strlen(off));
    add_notice_text(screen, text, size);
    if (notice->whole) add_notice(screen, off, strlen(off));
    add_notice(screen, "\n", 1);
    flush_notice(screen);
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

void screen_notice(Screen *screen, const char *format, ...) {
    if (!screen->quiet) SAY(SCREEN_DIM, "", true);
}

void screen_warn(Screen *screen, const char *format, ...) {
    SAY(SCREEN_FULL, "", true);
}

void screen_error(Screen *screen, const char *format, ...) {
    SAY(SCREEN_ERROR, "palaver: ", false);
}

void screen_gauge(const Screen *screen, double share, char *out, size_t size) {
    if (!size) return;
    *out = 0;
    if (!(share >= 0.5)) return;
    int percent = share >= 1 ? 100 : (int)(share * 100);
    snprintf(out, size, "%s[%d%%]%s ", screen_style(screen, share >= 0.8 ? SCREEN_FULL : SCREEN_GAUGE),
             percent, screen_style(screen, SCREEN_NORMAL));
}
