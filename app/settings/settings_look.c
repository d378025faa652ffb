#include "app/settings/settings_look.h"

void settings_look(const Settings *settings, bool plain, Screen *screen) {
    ScreenOptions options = {.color = settings->ui.color,
                             .plain = plain,
                             .wrap = settings->ui.wrap,
                             .markdown = settings->ui.markdown,
                             .space = settings->ui.space,
                             .links = settings->ui.links};
    theme_make(settings->ui.theme, (const char *const *)settings->colors, &options.theme);
    screen_set_options(screen, &options);
}
