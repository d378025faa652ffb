// Colours by the names of the sixteen that every terminal has: what a theme makes of each kind of text.
#ifndef PALAVER_APP_THEME_H
#define PALAVER_APP_THEME_H

#include <stdbool.h>

typedef enum ThemePart {
    THEME_HEADING,
    THEME_CODE,
    THEME_KEYWORD,
    THEME_STRING,
    THEME_COMMENT,
    THEME_NUMBER,
    THEME_LINK,
    THEME_FRAME, // rules, marks of lists, lines of tables and quotes
    THEME_NOTICE,
    THEME_WARNING,
    THEME_ERROR,
    THEME_QUESTION, // `> `
    THEME_N_PARTS
} ThemePart;

// Auto: for a light or a dark background as COLORFGBG tells, else what can be read on both.
typedef enum ThemeName { THEME_AUTO, THEME_DARK, THEME_LIGHT, THEME_MONO, THEME_N } ThemeName;

enum { THEME_SGR_ROOM = 32 };

typedef struct Theme {
    char sgr[THEME_N_PARTS][THEME_SGR_ROOM]; // parameters of SGR: "1;34"; "": nothing
} Theme;

// The theme of that name, with what is set by hand in its place: own [THEME_N_PARTS], NULL or "" where nothing is.
void theme_make(ThemeName name, const char *const *own, Theme *theme);

// Whether a text is made of names: bold, dim, italic, underline, reverse, a colour (black, red, green, yellow, blue,
// magenta, cyan, white, each also bright-), or normal alone.
bool theme_accepts(const char *text);
#define THEME_ALLOWED                                                                                        \
    "bold, dim, italic, underline, reverse, normal, black, red, green, yellow, blue, magenta, cyan, white, " \
    "bright-red …; \"\": the theme's"

#endif
