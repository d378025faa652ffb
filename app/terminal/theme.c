#include "app/terminal/theme.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const themes[THEME_N][THEME_N_PARTS] = {
    // heading, code, keyword, string, comment, number, link, frame, notice, warning, error, question
    [THEME_AUTO] = {"magenta", "cyan", "bold magenta", "green", "dim", "cyan", "underline", "dim", "dim",
                    "yellow", "bold red", "bold"},
    [THEME_DARK] = {"bright-magenta", "bright-cyan", "bright-magenta", "bright-green", "bright-black",
                    "bright-yellow", "underline bright-blue", "bright-black", "bright-black", "bright-yellow",
                    "bold bright-red", "bold bright-blue"},
    [THEME_LIGHT] = {"magenta", "blue", "magenta", "green", "dim", "red", "underline blue", "dim", "dim",
                     "red", "bold red", "bold blue"},
    [THEME_MONO] = {"", "", "bold", "", "dim", "", "underline", "dim", "dim", "bold", "bold", "bold"},
};

static const struct {
    const char *name, *sgr;
} words[] = {
    {"bold", "1"},  {"dim", "2"},      {"italic", "3"}, {"underline", "4"}, {"reverse", "7"},
    {"normal", ""}, {"black", "30"},   {"red", "31"},   {"green", "32"},    {"yellow", "33"},
    {"blue", "34"}, {"magenta", "35"}, {"cyan", "36"},  {"white", "37"},
};

// The SGR parameter that n bytes name, into sgr [4]; false: none.
static bool find_word(const char *text, size_t n, char sgr[4]) {
    static const char bright[] = "bright-";
    const bool is_bright = n > sizeof bright - 1 && !memcmp(text, bright, sizeof bright - 1);
    if (is_bright) text += sizeof bright - 1, n -= sizeof bright - 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].name) != n || memcmp(words[i].name, text, n) != 0) continue;
        if (is_bright && words[i].sgr[0] != '3') return false;
        snprintf(sgr, 4, "%s", words[i].sgr);
        if (is_bright && strlen(words[i].sgr) != 2) return false; // bright italics
        if (is_bright) sgr[0] = '9';
        return true;
    }
    return false;
}

// Writes the parameters that a text names; false: it names something else.
static bool read_words(const char *text, char sgr[THEME_SGR_ROOM]) {
    *sgr = 0;
    for (;;) {
        char one[4];
        text += strspn(text, " ,+");
        size_t n = strcspn(text, " ,+"), used = strlen(sgr);
        if (!n) return true;
        if (!find_word(text, n, one) || used + strlen(one) + 2 > THEME_SGR_ROOM) return false;
        if (*one) snprintf(sgr + used, THEME_SGR_ROOM - used, "%s%s", used ? ";" : "", one);
        text += n;
    }
}

bool theme_accepts(const char *text) {
    char sgr[THEME_SGR_ROOM];
    return read_words(text, sgr);
}

// COLORFGBG is "15;0" where rxvt, Konsole and others set it: the background is the last number.
static ThemeName find_background(void) {
    const char *colours = getenv("COLORFGBG"), *last = colours ? strrchr(colours, ';') : NULL;
    if (!last || !last[1]) return THEME_AUTO;
    long background = strtol(last + 1, NULL, 10);
    return background == 7 || background == 15 ? THEME_LIGHT : THEME_DARK;
}

void theme_make(ThemeName name, const char *const *own, Theme *theme) {
    if (name == THEME_AUTO) name = find_background();
    for (int part = 0; part < THEME_N_PARTS; part++) {
        bool set = own && own[part] && *own[part];
        if (!read_words(set ? own[part] : themes[name][part], theme->sgr[part])) theme->sgr[part][0] = 0;
    }
}
