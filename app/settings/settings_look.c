#include "app/settings/settings_look.h"

void settings_look(const Settings *settings, SettingsLook look, Screen *screen) {
    ScreenOptions options = {.color = settings->ui.color,
                             .plain = look.plain,
                             .wrap = settings->ui.wrap && !look.bytes,
                             .markdown = settings->ui.markdown,
                             .space = settings->ui.space,
                             .links = settings->ui.links};
    theme_make(settings->ui.theme, (const char *const *)settings->colors, &options.theme);
    screen_set_options(screen, &options);
}
