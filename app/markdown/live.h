// Rows at the end of what a terminal shows, which may still change: only what differs is drawn anew.
#ifndef PALAVER_APP_LIVE_H
#define PALAVER_APP_LIVE_H

#include "app/markdown/spans/inline.h"

// How it looks: parameters of SGR ("1;34"), "" for nothing.
typedef struct LiveTheme {
    const char *inks[N_INKS];
    const char *base; // of all of it: "2" is dim
    bool color;       // false: no SGR at all
    bool links;       // the terminal knows OSC 8
} LiveTheme;

typedef struct Live {
    Rows shown; // on the terminal, the cursor behind the last
    int width, height;
} Live;

// Draws `rows` in the place of those that are shown: adds to `out` what the terminal is to be sent. What has scrolled
// off stays as it is.
void live_paint(Live *live, const Rows *rows, const LiveTheme *theme, const Links *links, Text *out);
void live_forget(Live *live); // what is shown stays; the next rows begin where the cursor is, in column 0

#endif
