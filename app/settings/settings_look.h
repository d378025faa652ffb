// From the settings to the screen.
#ifndef PALAVER_APP_SETTINGS_LOOK_H
#define PALAVER_APP_SETTINGS_LOOK_H

#include "app/settings/settings.h"

// How things are shown: [ui] and [colors]; `plain` is --plain.
void settings_look(const Settings *settings, bool plain, Screen *screen);

#endif
