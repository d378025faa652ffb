// What the files of the screen share: screen.c (what the terminal can do), screen_reply.c, screen_notice.c,
// screen_progress.c, screen_clipboard.c.
#ifndef PALAVER_APP_SCREEN_INTERNAL_H
#define PALAVER_APP_SCREEN_INTERNAL_H

#include "app/markdown/markdown.h"
#include "app/terminal/screen/screen.h"
#include "app/terminal/text_shown.h"

typedef struct Progress {
    bool on;
    bool drawn;       // a bar stands on the terminal's line
    const char *unit; // NULL: bytes
    double started;   // seconds of the monotonic clock
    double last;      // when it was drawn
    int quarter;      // plain: the last one said
} Progress;

enum { NOTICE_ROOM = 8192, SCREEN_STYLE_ROOM = THEME_SGR_ROOM + 4 };

struct Screen {
    ScreenTraits traits;
    bool quiet;
    bool markdown, links; // asked for; known by the terminal
    bool spaces;          // empty lines are wanted
    bool spaced;          // one stands there, and nothing behind it
    Theme theme;
    char styles[SCREEN_N_STYLES][SCREEN_STYLE_ROOM];
    Markdown *drawn; // the reply in hand, where rows are wrapped; NULL: nothing has come
    ScreenStyle drawn_style;
    bool below;   // a line is drawn below the reply
    Text painted; // what is to be sent for it
    Text out;     // what the next write of a reply or of progress says
    // A notice, as it is formatted and as it is written: what says that there is no memory must not need any.
    char said[NOTICE_ROOM], notice[NOTICE_ROOM];
    size_t notice_n; // bytes in `notice`
    char held[8];
    size_t held_n;               // bytes of the reply that wait for the rest of their character
    bool held_return;            // and a \r that a \n may follow
    int reply_error;             // errno of a failed write
    const atomic_int *interrupt; // NULL: nobody interrupts
    bool reply_line_open;        // the reply's last byte was no newline
    bool reader_left;            // a write of a reply found nobody
    double last_line;            // when screen_status() last left a line
    Progress progress;
};

// To stdout or stderr, whole; false, and errno: that cannot be.
bool screen_write(const Screen *screen, int file, const char *bytes, size_t n);

// Something else is about to be written where the reply is.
void screen_reply_part(Screen *screen);

#endif
