// Which of several processes this is: as --world, --rank and --join say, or what mpirun or srun has put into the environment.
#ifndef PALAVER_APP_RANKS_RANKS_H
#define PALAVER_APP_RANKS_RANKS_H

#include "app/settings/settings.h"
#include "app/terminal/screen/screen.h"

// What the pointers of an EngineWorld point to.
typedef struct RanksText {
    char join[300], key[260];
} RanksText;

// world->size 1: alone. STATUS_USAGE: a rank without a world, or one that cannot be; STATUS_FILE: there is no key.
// Whom it waits for is said on the screen.
Status ranks_find(const Settings *settings, Screen *screen, EngineWorld *world, RanksText *text,
                  Error *error);
bool ranks_are_several(const Settings *settings);

#endif
