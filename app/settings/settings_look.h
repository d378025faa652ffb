// From the settings to the screen.
#ifndef PALAVER_APP_SETTINGS_LOOK_H
#define PALAVER_APP_SETTINGS_LOOK_H

#include "app/settings/settings.h"

typedef struct SettingsLook {
    bool plain; // --plain
    bool bytes; // replies are for programs, also at a terminal: neither wrapped nor drawn
} SettingsLook;

// How things are shown: [ui] and [colors].
void settings_look(const Settings *settings, SettingsLook look, Screen *screen);

#endif
