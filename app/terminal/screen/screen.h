// Where output goes. stdout carries the reply's bytes and nothing else; everything else (banner,
// notices, errors, progress) goes to stderr.
//
// What reaches a terminal, and all that goes to stderr, is made harmless: control characters other than \n and \t, C1
// controls, DEL and bidirectional overrides are shown as visible signs (␛, ␇, \u009b, \u202e), bytes that are no
// UTF-8 as U+FFFD. A file or a pipe gets the reply's bytes untouched, for another program may want them.
// Colours are used on a terminal unless NO_COLOR is set, TERM is "dumb", --plain or --color=never.
//
// The caller ignores SIGPIPE; a closed pipe is then a Status like any other.
#ifndef PALAVER_APP_SCREEN_H
#define PALAVER_APP_SCREEN_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app/terminal/theme.h"
#include "kernels/base/status.h"

typedef struct Screen Screen;

typedef enum ScreenColor { SCREEN_COLOR_AUTO, SCREEN_COLOR_ALWAYS, SCREEN_COLOR_NEVER } ScreenColor;

typedef enum ScreenLinks { SCREEN_LINKS_AUTO, SCREEN_LINKS_ALWAYS, SCREEN_LINKS_NEVER } ScreenLinks;

typedef struct ScreenOptions {
    ScreenColor color; // --color
    bool plain;        // --plain: no cursor movement, no escape sequence, progress as rare lines
    bool quiet;        // notices and progress are left out; errors are not
    bool wrap;         // words at a terminal's edge, of replies and of notices
    bool markdown;     // of replies is drawn, where they are wrapped and have colours
    bool space;        // empty lines between what belongs apart (screen_space)
    ScreenLinks links; // as OSC 8: where the terminal knows them, always, never
    Theme theme;
} ScreenOptions;

// What the terminal can do, found once by screen_open.
typedef struct ScreenTraits {
    bool input_terminal;  // stdin is a terminal
    bool reply_terminal;  // stdout is a terminal
    bool notice_terminal; // stderr is a terminal
    bool color;           // colours on stderr
    bool plain;           // asked for, or TERM is "dumb" or unset
    bool utf8;            // the locale's characters are UTF-8
    bool wraps;           // words are wrapped at a terminal's edge
} ScreenTraits;

// The theme. Replies keep the terminal's own colour.
typedef enum ScreenStyle {
    SCREEN_NORMAL, // ends every other style
    SCREEN_DIM,    // notices, statistics
    SCREEN_PROMPT, // `> `
    SCREEN_GAUGE,  // the context gauge below 80%
    SCREEN_FULL,   // the gauge from 80% on; warnings
    SCREEN_ERROR,  // `palaver:` before an error
    SCREEN_N_STYLES
} ScreenStyle;

// Sets LC_CTYPE from the environment (C.UTF-8 where that names no character set, as LANG=C does) and
// finds the traits. STATUS_MEMORY is the only failure.
Status screen_open(const ScreenOptions *options, Screen **screen, Error *error);
void screen_set_options(Screen *screen, const ScreenOptions *options); // others, once they are known
// A flag that a signal sets: who reads a pipe, a reply or a notice, is then waited for no longer, though he be slow.
void screen_watch_interrupt(Screen *screen, const atomic_int *interrupt);
void screen_close(Screen *screen); // NULL is fine; ends progress and reply lines

const ScreenTraits *screen_traits(const Screen *screen);
int screen_width(const Screen *screen); // columns of stderr's terminal now; COLUMNS, else 80, without one

int screen_height(const Screen *screen); // rows of it; 24 without one

// Streams n bytes of a reply to stdout, at once, on a terminal in a style. A character cut between two calls is put
// together again (terminal only). STATUS_FILE: a short write, EPIPE, ENOSPC: stdout takes no more of this
// reply; further calls fail likewise without writing. STATUS_INTERRUPTED: nobody reads it, and is waited for no longer.
Status screen_reply(Screen *screen, ScreenStyle style, const char *text, size_t n, Error *error);
// What is streamed next goes on with a text that was shown in that style before, if it has that style, too: where
// Markdown is drawn, in the block that was open there.
void screen_reply_go_on(Screen *screen, ScreenStyle style, const char *text, size_t n);
// A line below a reply that streams, on a terminal where rows are wrapped: it is gone with the next piece.
void screen_reply_status(Screen *screen, const char *text);
// Ends a reply: what was held back, and a newline unless the reply ended with one (or was empty).
Status screen_reply_end(Screen *screen, Error *error);

// The reply could not be written because its reader has gone (`| head`): no news to anybody.
bool screen_reader_left(const Screen *screen);

// One line (or several) to stderr, each call on a line of its own, also in the middle of a reply when both
// go to the same terminal. A final newline is added. screen_say: as it is (banner, /help, lists);
// screen_notice: dim; screen_warn: in the colour of warnings; screen_error: with `palaver: ` in front.
void screen_say(Screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_notice(Screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_warn(Screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));
void screen_error(Screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The same as screen_say() for n bytes, zero bytes among them.
void screen_say_text(Screen *screen, const char *text, size_t n);
// A question as it stands behind the prompt, where nobody types it: one that was edited, or is told again. Left out
// like a notice.
void screen_asked(Screen *screen, const char *format, ...) __attribute__((format(printf, 2, 3)));

// An empty line on a terminal, where these are wanted and none stands there already.
void screen_space(Screen *screen);
void screen_prompted(Screen *screen); // somebody else has written: no empty line stands there

// Whether a person can be asked for a key between two windows of a long text: at the prompt, with nothing typed ahead.
bool screen_has_reader(const Screen *screen);
// Asks; false: it is enough.
bool screen_ask_more(Screen *screen);

// Hands n bytes to the terminal's clipboard (OSC 52). STATUS_USAGE: no terminal, a plain one, or more than terminals
// take.
Status screen_clipboard(Screen *screen, const char *text, size_t n, Error *error);

// Progress of something measured in bytes: a bar with bytes and rate, drawn at most 20 times a second,
// on a terminal; plain: a line at each quarter; nothing elsewhere. `total` 0: unknown. Ends with
// screen_progress_end, which takes the bar away.
void screen_progress(Screen *screen, const char *what, uint64_t done, uint64_t total);
// The same, counted in tokens.
void screen_progress_tokens(Screen *screen, const char *what, uint64_t done, uint64_t total);
void screen_progress_steps(Screen *screen, const char *what, uint64_t done, uint64_t total); // in steps
void screen_progress_end(Screen *screen);
// How work of no known length stands: a line that is rewritten in place on a terminal, at most 20 times a second, and
// taken away by screen_progress_end; plain or elsewhere a line now and then (half a minute).
void screen_status(Screen *screen, const char *text);

// The escape sequence that switches a style on, "" without colours. For the prompt.
const char *screen_style(const Screen *screen, ScreenStyle style);

// The gauge of the prompt: `[62%] ` from a share (0…1) of one half on, coloured by the theme; "" below.
void screen_gauge(const Screen *screen, double share, char *out, size_t size);

// The harmless form of n bytes, as a terminal would be shown them, for other writers (/view, lists).
// To free(); NULL: no memory.
char *screen_harmless(const Screen *screen, const char *text, size_t n);

#endif
