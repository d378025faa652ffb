#include "app/terminal/screen/screen.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/terminal/screen/screen_internal.h"
#include "kernels/base/file.h"

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

// Each style of notices as the sequence that switches it on.
static void make_styles(Screen *screen) {
    static const struct {
        ScreenStyle style;
        ThemePart part;
    } parts[] = {{SCREEN_DIM, THEME_NOTICE},
                 {SCREEN_PROMPT, THEME_QUESTION},
                 {SCREEN_GAUGE, THEME_NOTICE},
                 {SCREEN_FULL, THEME_WARNING},
                 {SCREEN_ERROR, THEME_ERROR}};
    snprintf(screen->styles[SCREEN_NORMAL], SCREEN_STYLE_ROOM, "\033[0m");
    strcpy(screen->styles[SCREEN_NORMAL], "\033[0m");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *sgr = screen->theme.sgr[parts[i].part];
        char *style = screen->styles[parts[i].style];
        strcpy(style, "\033[");
        strcat(style, sgr);
        strcat(style, "m");
    }
}

// Terminals that are known to make links of OSC 8; others may show its bytes.
static bool knows_links(void) {
    static const char *const signs[] = {"WT_SESSION",    "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WEZTERM_PANE",
                                        "ALACRITTY_LOG", "GHOSTTY_BIN_DIR", "DOMTERM"};
    static const char *const programs[] = {"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio"};
    static const char *const terms[] = {"xterm-kitty",   "alacritty", "foot",
                                        "xterm-ghostty", "wezterm",   "contour"};
    const char *vte = getenv("VTE_VERSION"), *program = getenv("TERM_PROGRAM"), *term = getenv("TERM");
    if (vte && strtol(vte, NULL, 10) >= 5000) return true;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (getenv(signs[i])) return true;
    for (size_t i = 0; program && i < sizeof programs / sizeof *programs; i++)
        if (!strcmp(program, programs[i])) return true;
    for (size_t i = 0; term && i < sizeof terms / sizeof *terms; i++)
        if (!strncmp(term, terms[i], strlen(terms[i]))) return true;
    return false;
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
    traits->wraps = options->wrap && !traits->plain;
    screen->markdown = options->markdown;
    screen->spaces = options->space && traits->wraps;
    screen->links =
        options->links == SCREEN_LINKS_AUTO ? knows_links() : options->links == SCREEN_LINKS_ALWAYS;
    screen->theme = options->theme;
    if (!*screen->theme.sgr[THEME_ERROR]) theme_make(THEME_AUTO, NULL, &screen->theme);
    make_styles(screen);
}

void screen_watch_interrupt(Screen *screen, const atomic_int *interrupt) {
    screen->interrupt = interrupt;
}

bool screen_write(const Screen *screen, int file, const char *bytes, size_t n) {
    const bool terminal =
        file == STDOUT_FILENO ? screen->traits.reply_terminal : screen->traits.notice_terminal;
    return file_write_until(file, bytes, n, terminal ? NULL : screen->interrupt);
}

void screen_close(Screen *screen) {
    if (!screen) return;
    screen_progress_end(screen);
    screen_reply_end(screen, NULL);
    text_free(&screen->out);
    text_free(&screen->painted);
    free(screen);
}

const ScreenTraits *screen_traits(const Screen *screen) {
    return &screen->traits;
}

int screen_height(const Screen *screen) {
    struct winsize size;
    bool known =
        screen->traits.notice_terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
    return known ? size.ws_row : 24;
}

int screen_width(const Screen *screen) {
    struct winsize size;
    const ScreenTraits *traits = &screen->traits;
    int file = traits->notice_terminal ? STDERR_FILENO : STDOUT_FILENO;
    bool terminal = traits->notice_terminal || traits->reply_terminal;
    if (terminal && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) return size.ws_col;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 1 && width < 10000 ? (int)width : 80;
}

char *screen_harmless(const Screen *screen, const char *text, size_t n) {
    Text out = {0};
    if (text_add_shown(&out, text, n, screen->traits.utf8)) return out.bytes;
    text_free(&out);
    return NULL;
}

const char *screen_style(const Screen *screen, ScreenStyle style) {
    return screen->traits.color ? screen->styles[style] : "";
}
